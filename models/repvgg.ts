// RepVGG (Ding et al. 2021) as timm builds it for training: in each block, the sum of a 3x3 convolution, a 1x1 convolution and a norm of the input.
// Layer names are timm's parameter names: 'stem.conv_kxk.conv', 'stages.0.1.identity', 'head.fc'.
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
  linear,
  type Net,
  network,
  relu,
  repeat,
  residual,
  type Seq,
  seq,
} from '../dsl'

const unit = <N extends string, O extends number, K extends 1 | 3, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => block(name, conv2d('conv', out, kernel, { stride, bias: false, init: 'fan-out-normal' }), batchNorm('bn'))

const convs = <O extends number, S extends number = 1>(out: O, stride?: S) =>
  residual(unit('conv_1x1', out, 1, stride), unit('conv_kxk', out, 3, stride))
const down = <O extends number>(out: O) => seq(convs(out, 2), relu())
const keeping = <O extends number>(out: O) => seq(residual(convs(out), batchNorm('identity')), relu())

/** The channels of each stage, and the blocks of the middle stages behind their first. */
// biome-ignore format: one stage a line
const bodies = <
  S extends number, C1 extends number, C2 extends number, C3 extends number, C4 extends number, A extends number, B extends number, C extends number,
>(stem: S, channels1: C1, channels2: C2, channels3: C3, channels4: C4, a: A, b: B, c: C) => seq(
  block('stem', down(stem)),
  block('stages',
    blocks('0', down(channels1), repeat(a, keeping(channels1))),
    blocks('1', down(channels2), repeat(b, keeping(channels2))),
    blocks('2', down(channels3), repeat(c, keeping(channels3))),
    blocks('3', down(channels4)),
  ),
)

export const repvggA0Body = bodies(48, 48, 96, 192, 1280, 1, 3, 13)
export const repvggA1Body = bodies(64, 64, 128, 256, 1280, 1, 3, 13)
export const repvggA2Body = bodies(64, 96, 192, 384, 1408, 1, 3, 13)
export const repvggB0Body = bodies(64, 64, 128, 256, 1280, 3, 5, 15)
export const repvggB1Body = bodies(64, 128, 256, 512, 2048, 3, 5, 15)

/** The head for a number of classes. */
export const repvggHead = <C extends number>(classes: C) =>
  seq(globalAvgPool('head.global_pool'), linear('head.fc', classes, { init: 0.01 }))

/** A RepVGG, for a number of classes. */
export type RepvggOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof repvggHead<C>>]>
/** A RepVGG; called with other classes, the same body with a head for them. */
export interface Repvgg<Body extends Net> extends RepvggOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): RepvggOf<Body, N>
}
const repvgg = <Body extends Net>(body: Body): Repvgg<Body> => classifier(1000, (classes) => seq(body, repvggHead(classes)))

export const repvggA0 = repvgg(repvggA0Body)
export const repvggA1 = repvgg(repvggA1Body)
export const repvggA2 = repvgg(repvggA2Body)
export const repvggB0 = repvgg(repvggB0Body)
export const repvggB1 = repvgg(repvggB1Body)

export default {
  'repvgg-a0': network(repvggA0, 224, crossEntropy),
  'repvgg-a1': network(repvggA1, 224, crossEntropy),
  'repvgg-a2': network(repvggA2, 224, crossEntropy),
  'repvgg-b0': network(repvggB0, 224, crossEntropy),
  'repvgg-b1': network(repvggB1, 224, crossEntropy),
} satisfies Family
