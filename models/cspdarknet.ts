// CSPDarknet-53 (Wang et al. 2020) as timm builds it: stages of Darknet-53, whose blocks see half of the channels.
// Layer names are timm's parameter names: 'stages.0.conv_down.conv', 'stages.0.blocks.0.conv1.conv', 'head.fc'.
import {
  batchNorm,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  identity,
  leakyRelu,
  linear,
  type Net,
  network,
  repeat,
  residual,
  type Seq,
  seq,
  sliceChannels,
} from '../dsl'

const unit = <N extends string, O extends number, K extends 1 | 3, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => block(name, conv2d('conv', out, kernel, { stride, bias: false, init: 'fan-in-normal' }), batchNorm('bn'), leakyRelu(0.01))

const dark = <M extends number, O extends number>(mid: M, out: O) =>
  residual(seq(unit('conv1', mid, 1), unit('conv2', out, 3)), identity)

/** The first half of the `expanded` channels passes; the second goes through `times` blocks of `mid` channels between their ends. */
// biome-ignore format: one convolution a line
const stage = <N extends string, O extends number, E extends number, H extends number, M extends number, T extends number>(
  n: N, out: O, expanded: E, half: H, mid: M, times: T,
) => block(n,
  unit('conv_down', out, 3, 2),
  unit('conv_exp', expanded, 1),
  concat(
    sliceChannels(0, half),
    seq(sliceChannels(half, half), blocks('blocks', repeat(times, dark(mid, half))), unit('conv_transition_b', half, 1)),
  ),
  unit('conv_transition', out, 1),
)

export const cspdarknet53Stem = unit('stem.conv1', 32, 3)

// biome-ignore format: one stage a line
export const cspdarknet53Stages = [
  stage('0', 64, 128, 64, 32, 1),
  stage('1', 128, 128, 64, 64, 2),
  stage('2', 256, 256, 128, 128, 8),
  stage('3', 512, 512, 256, 256, 8),
  stage('4', 1024, 1024, 512, 512, 4),
] as const

export const cspdarknet53Body = seq(cspdarknet53Stem, block('stages', ...cspdarknet53Stages))

/** The head for a number of classes. */
export const cspdarknetHead = <C extends number>(classes: C) =>
  seq(globalAvgPool('head.global_pool'), linear('head.fc', classes, { init: 0.01 }))

/** CSPDarknet, for a number of classes. */
export type CspdarknetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof cspdarknetHead<C>>]>
/** CSPDarknet; called with other classes, the same body with a head for them. */
export interface Cspdarknet<Body extends Net> extends CspdarknetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): CspdarknetOf<Body, N>
}
const cspdarknet = <Body extends Net>(body: Body): Cspdarknet<Body> =>
  classifier(1000, (classes) => seq(body, cspdarknetHead(classes)))

export const cspdarknet53 = cspdarknet(cspdarknet53Body)

export default { cspdarknet53: network(cspdarknet53, 256, crossEntropy) } satisfies Family
