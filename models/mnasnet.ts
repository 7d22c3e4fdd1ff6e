// MNASNet (Tan et al. 2019) as torchvision builds it: MobileNetV2's blocks with ReLU, and kernels of 3x3 and 5x5.
// Layer names are torchvision's parameter names: 'layers.8.0.layers.3', 'classifier.1'.
import {
  batchNorm,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  dropout,
  type Family,
  globalAvgPool,
  identity,
  linear,
  type Net,
  network,
  relu,
  repeat,
  residual,
  type Seq,
  seq,
} from '../dsl'

type Kernel = 1 | 3 | 5

/** A convolution, and its norm under the next number. */
// biome-ignore format: the types on a line
const normed = <N extends number, M extends number, O extends number, K extends Kernel, S extends number = 1, G extends number = 1>(
  n: N, norm: M, out: O, kernel: K, stride?: S, groups?: G,
) => seq(conv2d(`${n}`, out, kernel, { stride, groups, bias: false, init: 'fan-out-normal' }), batchNorm(`${norm}`))

/** `wide` is the channels that come in times the expansion. */
// biome-ignore format: one convolution a line
const bottleneck = <K extends Kernel, W extends number, O extends number, S extends number = 1>(
  kernel: K, wide: W, out: O, stride?: S,
) => block('layers',
  normed(0, 1, wide, 1), relu(),
  normed(3, 4, wide, kernel, stride, wide), relu(),
  normed(6, 7, out, 1),
)
const keeping = <K extends Kernel, W extends number, O extends number>(kernel: K, wide: W, out: O) =>
  residual(bottleneck(kernel, wide, out), identity)

// biome-ignore format: one stage a line
export const mnasnet05Body = block('layers',
  normed(0, 1, 16, 3, 2), relu(), normed(3, 4, 16, 3, 1, 16), relu(), normed(6, 7, 8, 1),
  blocks('8', bottleneck(3, 24, 16, 2), repeat(2, keeping(3, 48, 16))),
  blocks('9', bottleneck(5, 48, 24, 2), repeat(2, keeping(5, 72, 24))),
  blocks('10', bottleneck(5, 144, 40, 2), repeat(2, keeping(5, 240, 40))),
  blocks('11', bottleneck(3, 240, 48), keeping(3, 288, 48)),
  blocks('12', bottleneck(5, 288, 96, 2), repeat(3, keeping(5, 576, 96))),
  blocks('13', bottleneck(3, 576, 160)),
  normed(14, 15, 1280, 1), relu(),
)

// biome-ignore format: one stage a line
export const mnasnet10Body = block('layers',
  normed(0, 1, 32, 3, 2), relu(), normed(3, 4, 32, 3, 1, 32), relu(), normed(6, 7, 16, 1),
  blocks('8', bottleneck(3, 48, 24, 2), repeat(2, keeping(3, 72, 24))),
  blocks('9', bottleneck(5, 72, 40, 2), repeat(2, keeping(5, 120, 40))),
  blocks('10', bottleneck(5, 240, 80, 2), repeat(2, keeping(5, 480, 80))),
  blocks('11', bottleneck(3, 480, 96), keeping(3, 576, 96)),
  blocks('12', bottleneck(5, 576, 192, 2), repeat(3, keeping(5, 1152, 192))),
  blocks('13', bottleneck(3, 1152, 320)),
  normed(14, 15, 1280, 1), relu(),
)

/** The head for a number of classes. */
export const mnasnetHead = <C extends number>(classes: C) =>
  seq(globalAvgPool('avgpool'), dropout(0.2), linear('classifier.1', classes, { init: 1 / Math.sqrt(classes / 2) }))

/** MNASNet, for a number of classes. */
export type MnasnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof mnasnetHead<C>>]>
/** MNASNet; called with other classes, the same body with a head for them. */
export interface Mnasnet<Body extends Net> extends MnasnetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): MnasnetOf<Body, N>
}
const mnasnet = <Body extends Net>(body: Body): Mnasnet<Body> => classifier(1000, (classes) => seq(body, mnasnetHead(classes)))

export const mnasnet05 = mnasnet(mnasnet05Body)
export const mnasnet10 = mnasnet(mnasnet10Body)

export default {
  'mnasnet0-5': network(mnasnet05, 224, crossEntropy),
  'mnasnet1-0': network(mnasnet10, 224, crossEntropy),
} satisfies Family
