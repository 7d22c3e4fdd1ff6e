// ResNetV2 (He et al. 2016) as timm builds it with batch norm: each bottleneck begins with its norm and ends with the sum.
// Layer names are timm's parameter names: 'stages.0.blocks.0.downsample.conv', 'head.fc'.
import {
  batchNorm,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  identity,
  maxPool,
  type Net,
  network,
  relu,
  repeat,
  residual,
  type Seq,
  seq,
} from '../dsl'

const conv = <N extends string, O extends number, K extends 1 | 3 | 7, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => conv2d(name, out, kernel, { stride, bias: false, init: 'fan-in-normal' })

const before = seq(batchNorm('norm1'), relu())
// biome-ignore format: one convolution a line
const convs = <M extends number, O extends number, S extends number = 1>(mid: M, out: O, stride?: S) => seq(
  conv('conv1', mid, 1),
  batchNorm('norm2'), relu(), conv('conv2', mid, 3, stride),
  batchNorm('norm3'), relu(), conv('conv3', out, 1),
)
/** Its shortcut reads the normed input. */
const down = <M extends number, O extends number, S extends number>(mid: M, out: O, stride: S) =>
  seq(before, residual(convs(mid, out, stride), conv('downsample.conv', out, 1, stride)))
const keeping = <M extends number, O extends number>(mid: M, out: O) => residual(seq(before, convs(mid, out)), identity)

// biome-ignore format: one stage a line
const bodies = <B extends number, C extends number>(b: B, c: C) => seq(
  conv('stem.conv', 64, 7, 2), maxPool('stem.pool', 3, { stride: 2, pad: 1 }),
  block('stages',
    blocks('0.blocks', down(64, 256, 1), repeat(2, keeping(64, 256))),
    blocks('1.blocks', down(128, 512, 2), repeat(b, keeping(128, 512))),
    blocks('2.blocks', down(256, 1024, 2), repeat(c, keeping(256, 1024))),
    blocks('3.blocks', down(512, 2048, 2), repeat(2, keeping(512, 2048))),
  ),
  batchNorm('norm'), relu(),
)

export const resnetv250Body = bodies(3, 5)
export const resnetv2101Body = bodies(3, 22)

/** The head for a number of classes. */
export const resnetv2Head = <C extends number>(classes: C) =>
  seq(globalAvgPool('head.global_pool'), conv2d('head.fc', classes, 1, { init: 0.01 }))

/** A ResNetV2, for a number of classes. */
export type Resnetv2Of<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof resnetv2Head<C>>]>
/** A ResNetV2; called with other classes, the same body with a head for them. */
export interface Resnetv2<Body extends Net> extends Resnetv2Of<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): Resnetv2Of<Body, N>
}
const resnetv2 = <Body extends Net>(body: Body): Resnetv2<Body> => classifier(1000, (classes) => seq(body, resnetv2Head(classes)))

export const resnetv250 = resnetv2(resnetv250Body)
export const resnetv2101 = resnetv2(resnetv2101Body)

export default {
  'resnetv2-50': network(resnetv250, 224, crossEntropy),
  'resnetv2-101': network(resnetv2101, 224, crossEntropy),
} satisfies Family
