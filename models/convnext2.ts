// ConvNeXt V2 (Woo et al. 2023) as timm builds it: ConvNeXt's blocks with a global response norm instead of the layer scale.
// Layer names are timm's parameter names: 'stages.0.blocks.0.conv_dw', 'stages.0.blocks.0.mlp.grn', 'head.fc'.
import {
  block,
  blocks,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  gelu,
  globalAvgPool,
  globalResponseNorm,
  identity,
  layerNorm,
  linear,
  type Net,
  network,
  pixelLinear,
  repeat,
  residual,
  type Seq,
  seq,
} from '../dsl'

const norm = <N extends string>(name: N) => layerNorm(name, { eps: 1e-6 })

/** `wide` is four times the channels. */
// biome-ignore format: one layer a line
const keeping = <C extends number, W extends number>(channels: C, wide: W) => residual(seq(
  conv2d('conv_dw', channels, 7, { groups: channels, init: 0.02 }),
  norm('norm'),
  pixelLinear('mlp.fc1', wide, { init: 0.02 }), gelu(),
  globalResponseNorm('mlp.grn'),
  pixelLinear('mlp.fc2', channels, { init: 0.02 }),
), identity)

const stem = <O extends number>(out: O) => block('stem', conv2d('0', out, 4, { stride: 4, pad: 0, init: 0.02 }), norm('1'))
const stage = <N extends string, T extends number, C extends number, W extends number>(n: N, times: T, channels: C, wide: W) =>
  blocks(`${n}.blocks`, repeat(times, keeping(channels, wide)))
const halving = <N extends string, O extends number>(n: N, out: O) =>
  block(`${n}.downsample`, norm('0'), conv2d('1', out, 2, { stride: 2, pad: 0, init: 0.02 }))

// biome-ignore format: one stage a line
export const convnextv2TinyBody = seq(stem(96), block('stages',
  stage('0', 3, 96, 384),
  halving('1', 192), stage('1', 3, 192, 768),
  halving('2', 384), stage('2', 9, 384, 1536),
  halving('3', 768), stage('3', 3, 768, 3072),
))
// biome-ignore format: one stage a line
export const convnextv2BaseBody = seq(stem(128), block('stages',
  stage('0', 3, 128, 512),
  halving('1', 256), stage('1', 3, 256, 1024),
  halving('2', 512), stage('2', 27, 512, 2048),
  halving('3', 1024), stage('3', 3, 1024, 4096),
))

/** The head for a number of classes. */
export const convnextv2Head = <C extends number>(classes: C) =>
  seq(globalAvgPool('head.global_pool'), norm('head.norm'), linear('head.fc', classes, { init: 0.02 }))

/** ConvNeXt V2, for a number of classes. */
export type Convnextv2Of<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof convnextv2Head<C>>]>
/** ConvNeXt V2; called with other classes, the same body with a head for them. */
export interface Convnextv2<Body extends Net> extends Convnextv2Of<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): Convnextv2Of<Body, N>
}
const convnextv2 = <Body extends Net>(body: Body): Convnextv2<Body> =>
  classifier(1000, (classes) => seq(body, convnextv2Head(classes)))

export const convnextv2Tiny = convnextv2(convnextv2TinyBody)
export const convnextv2Base = convnextv2(convnextv2BaseBody)

export default {
  'convnextv2-tiny': network(convnextv2Tiny, 224, crossEntropy),
  'convnextv2-base': network(convnextv2Base, 224, crossEntropy),
} satisfies Family
