// ShuffleNetV2 (Ma et al. 2018) as torchvision builds it: each block works on half of the channels, then a shuffle mixes the halves.
// Layer names are torchvision's parameter names: 'stage2.0.branch1.0', 'conv5.0', 'fc'.
import {
  batchNorm,
  block,
  blocks,
  channelShuffle,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  linear,
  maxPool,
  type Net,
  network,
  relu,
  repeat,
  type Seq,
  seq,
  sliceChannels,
} from '../dsl'

/** A convolution, and its norm under the next number. */
// biome-ignore format: the types on a line
const normed = <N extends number, M extends number, O extends number, K extends 1 | 3, S extends number = 1, G extends number = 1>(
  n: N, norm: M, out: O, kernel: K, stride?: S, groups?: G,
) => seq(conv2d(`${n}`, out, kernel, { stride, groups, bias: false }), batchNorm(`${norm}`))

// biome-ignore format: one convolution a line
const branch2 = <H extends number, S extends number = 1>(half: H, stride?: S) => block('branch2',
  normed(0, 1, half, 1), relu(),
  normed(3, 4, half, 3, stride, half),
  normed(5, 6, half, 1), relu(),
)
/** Halves the image: both branches see all of the `from` channels. */
const down = <I extends number, H extends number>(from: I, half: H) =>
  seq(
    concat(block('branch1', normed(0, 1, from, 3, 2, from), normed(2, 3, half, 1), relu()), branch2(half, 2)),
    channelShuffle(2),
  )
const keeping = <H extends number>(half: H) =>
  seq(concat(sliceChannels(0, half), seq(sliceChannels(half, half), branch2(half))), channelShuffle(2))

/** Half the channels of each stage; twice these come into the next one. */
// biome-ignore format: one stage a line
const bodies = <
  H2 extends number, C2 extends number, H3 extends number, C3 extends number, H4 extends number, L extends number,
>(half2: H2, channels2: C2, half3: H3, channels3: C3, half4: H4, last: L) => seq(
  block('conv1', normed(0, 1, 24, 3, 2), relu()), maxPool('maxpool', 3, { stride: 2, pad: 1 }),
  blocks('stage2', down(24, half2), repeat(3, keeping(half2))),
  blocks('stage3', down(channels2, half3), repeat(7, keeping(half3))),
  blocks('stage4', down(channels3, half4), repeat(3, keeping(half4))),
  block('conv5', normed(0, 1, last, 1), relu()),
)

export const shufflenet05Body = bodies(24, 48, 48, 96, 96, 1024)
export const shufflenet10Body = bodies(58, 116, 116, 232, 232, 1024)
export const shufflenet15Body = bodies(88, 176, 176, 352, 352, 1024)
export const shufflenet20Body = bodies(122, 244, 244, 488, 488, 2048)

/** The head for a number of classes. */
export const shufflenetHead = <C extends number>(classes: C) => seq(globalAvgPool('avgpool'), linear('fc', classes))

/** ShuffleNetV2, for a number of classes. */
export type ShufflenetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof shufflenetHead<C>>]>
/** ShuffleNetV2; called with other classes, the same body with a head for them. */
export interface Shufflenet<Body extends Net> extends ShufflenetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): ShufflenetOf<Body, N>
}
const shufflenet = <Body extends Net>(body: Body): Shufflenet<Body> =>
  classifier(1000, (classes) => seq(body, shufflenetHead(classes)))

export const shufflenet05 = shufflenet(shufflenet05Body)
export const shufflenet10 = shufflenet(shufflenet10Body)
export const shufflenet15 = shufflenet(shufflenet15Body)
export const shufflenet20 = shufflenet(shufflenet20Body)

export default {
  'shufflenetv2-x0-5': network(shufflenet05, 224, crossEntropy),
  'shufflenetv2-x1-0': network(shufflenet10, 224, crossEntropy),
  'shufflenetv2-x1-5': network(shufflenet15, 224, crossEntropy),
  'shufflenetv2-x2-0': network(shufflenet20, 224, crossEntropy),
} satisfies Family
