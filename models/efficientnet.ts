// EfficientNet-B0 (Tan and Le 2019) as torchvision builds it: MobileNetV2's blocks, with gates that are computed from each
// channel's mean. Layer names are torchvision's parameter names: 'features.4.1.block.2.fc1', 'classifier.1'.
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
  residual,
  scaled,
  type Seq,
  seq,
  sigmoid,
  silu,
  stochasticDepth,
} from '../dsl'

type Kernel = 1 | 3 | 5

const normed = <N extends string, O extends number, K extends Kernel, S extends number = 1, G extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
  groups?: G,
) => block(name, conv2d('0', out, kernel, { stride, groups, bias: false, init: 'fan-out-normal' }), batchNorm('1'))

const unit = <N extends string, O extends number, K extends Kernel, S extends number = 1, G extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
  groups?: G,
) => seq(normed(name, out, kernel, stride, groups), silu())

// biome-ignore format: one convolution a line
const excited = <N extends string, W extends number, Q extends number>(name: N, wide: W, squeezed: Q) => block(name, scaled(
  globalAvgPool(),
  conv2d('fc1', squeezed, 1, { init: 'fan-out-normal' }), silu(),
  conv2d('fc2', wide, 1, { init: 'fan-out-normal' }), sigmoid(),
))

/** `wide` is six times the channels that come in, `squeezed` a quarter of them. */
// biome-ignore format: one convolution a line
const bottleneck = <K extends Kernel, W extends number, Q extends number, O extends number, S extends number = 1>(
  kernel: K, wide: W, squeezed: Q, out: O, stride?: S,
) => block('block',
  unit('0', wide, 1),
  unit('1', wide, kernel, stride, wide),
  excited('2', wide, squeezed),
  normed('3', out, 1),
)

/** The `nth` of sixteen blocks: the later, the more often it is skipped in training. */
const keeping = <K extends Kernel, W extends number, Q extends number, O extends number>(
  nth: number,
  kernel: K,
  wide: W,
  squeezed: Q,
  out: O,
) => residual(seq(bottleneck(kernel, wide, squeezed, out), stochasticDepth((0.2 * nth) / 16)), identity)

// biome-ignore format: one block a line
export const efficientnetB0Body = seq(
  block('features',
    unit('0', 32, 3, 2),
    blocks('1', block('block', unit('0', 32, 3, 1, 32), excited('1', 32, 8), normed('2', 16, 1))),
    blocks('2', bottleneck(3, 96, 4, 24, 2), keeping(2, 3, 144, 6, 24)),
    blocks('3', bottleneck(5, 144, 6, 40, 2), keeping(4, 5, 240, 10, 40)),
    blocks('4', bottleneck(3, 240, 10, 80, 2), keeping(6, 3, 480, 20, 80), keeping(7, 3, 480, 20, 80)),
    blocks('5', bottleneck(5, 480, 20, 112, 1), keeping(9, 5, 672, 28, 112), keeping(10, 5, 672, 28, 112)),
    blocks('6',
      bottleneck(5, 672, 28, 192, 2),
      keeping(12, 5, 1152, 48, 192), keeping(13, 5, 1152, 48, 192), keeping(14, 5, 1152, 48, 192),
    ),
    blocks('7', bottleneck(3, 1152, 48, 320, 1)),
    unit('8', 1280, 1),
  ),
)

/** The head for a number of classes. */
// biome-ignore format: one layer a line
export const efficientnetHead = <C extends number>(classes: C) => seq(
  globalAvgPool('avgpool'), dropout(0.2),
  // torchvision's weights start uniform, with this deviation.
  linear('classifier.1', classes, { init: 1 / Math.sqrt(3 * classes) }),
)

/** EfficientNet, for a number of classes. */
export type EfficientnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof efficientnetHead<C>>]>
/** EfficientNet; called with other classes, the same body with a head for them. */
export interface Efficientnet<Body extends Net> extends EfficientnetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): EfficientnetOf<Body, N>
}
export const efficientnetB0: Efficientnet<typeof efficientnetB0Body> = classifier(1000, (classes) =>
  seq(efficientnetB0Body, efficientnetHead(classes)),
)

export default { 'efficientnet-b0': network(efficientnetB0, 224, crossEntropy) } satisfies Family
