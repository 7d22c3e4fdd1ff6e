// MobileNetV3 (Howard et al. 2019) as torchvision builds it: MobileNetV2's blocks, some with gates that are computed from each channel's mean.
// Layer names are torchvision's parameter names: 'features.4.block.2.fc1', 'classifier.3'.
import {
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  counted,
  crossEntropy,
  dropout,
  type Family,
  globalAvgPool,
  hardSigmoid,
  hardSwish,
  identity,
  linear,
  type Net,
  network,
  relu,
  residual,
  scaled,
  type Seq,
  seq,
} from '../dsl'

type Kernel = 1 | 3 | 5

// biome-ignore format: the types on a line
const normed = <N extends string, O extends number, K extends Kernel, S extends number = 1, G extends number = 1, D extends number = 1>(
  name: N, out: O, kernel: K, stride?: S, groups?: G, dilation?: D,
) => block(name,
  conv2d('0', out, kernel, { stride, groups, dilation, bias: false, init: 'fan-out-normal' }),
  batchNorm('1', { eps: 1e-3 }),
)

// biome-ignore format: one convolution a line
const excited = <N extends string, W extends number, Q extends number>(name: N, wide: W, squeezed: Q) => block(name, scaled(
  globalAvgPool(),
  conv2d('fc1', squeezed, 1, { init: 'fan-out-normal' }), relu(),
  conv2d('fc2', wide, 1, { init: 'fan-out-normal' }), hardSigmoid(),
))

// biome-ignore format: one convolution a line
const plain = <K extends Kernel, W extends number, O extends number, A extends Net, S extends number = 1>(
  kernel: K, wide: W, out: O, activation: A, stride?: S,
) => block('block',
  normed('0', wide, 1), activation,
  normed('1', wide, kernel, stride, wide), activation,
  normed('2', out, 1),
)
// biome-ignore format: one convolution a line
const gated = <
  K extends Kernel, W extends number, Q extends number, O extends number, A extends Net, S extends number = 1, D extends number = 1,
>(kernel: K, wide: W, squeezed: Q, out: O, activation: A, stride?: S, dilation?: D) => block('block',
  normed('0', wide, 1), activation,
  normed('1', wide, kernel, stride, wide, dilation), activation,
  excited('2', wide, squeezed),
  normed('3', out, 1),
)

const stem = seq(normed('0', 16, 3, 2), hardSwish())
const last = <N extends string, O extends number>(name: N, out: O) => seq(normed(name, out, 1), hardSwish())

/** The first blocks of the large network, to an eighth of the image: `mobilenetv3LargeLate` continues them. */
// biome-ignore format: a row of the paper's table 1 a line
export const mobilenetv3LargeEarly = seq(
  stem,
  counted('', 1,
    residual(block('block', normed('0', 16, 3, 1, 16), relu(), normed('1', 16, 1)), identity),
    plain(3, 64, 24, relu(), 2),
    residual(plain(3, 72, 24, relu()), identity),
    gated(5, 72, 24, 40, relu(), 2),
  ),
)
/** The other blocks; the last stage may keep its size and dilate instead. */
// biome-ignore format: a row of the paper's table 1 a line
export const mobilenetv3LargeLate = <S extends 1 | 2, D extends 1 | 2>(stride: S, dilation: D) => seq(
  counted('', 5,
    residual(gated(5, 120, 32, 40, relu()), identity),
    residual(gated(5, 120, 32, 40, relu()), identity),
    plain(3, 240, 80, hardSwish(), 2),
    residual(plain(3, 200, 80, hardSwish()), identity),
    residual(plain(3, 184, 80, hardSwish()), identity),
    residual(plain(3, 184, 80, hardSwish()), identity),
    gated(3, 480, 120, 112, hardSwish()),
    residual(gated(3, 672, 168, 112, hardSwish()), identity),
    gated(5, 672, 168, 160, hardSwish(), stride, dilation),
    residual(gated(5, 960, 240, 160, hardSwish(), 1, dilation), identity),
    residual(gated(5, 960, 240, 160, hardSwish(), 1, dilation), identity),
  ),
  last('16', 960),
)

export const mobilenetv3LargeBody = block('features', mobilenetv3LargeEarly, mobilenetv3LargeLate(2, 1))

// biome-ignore format: a row of the paper's table 2 a line
export const mobilenetv3SmallBody = block('features',
  stem,
  counted('', 1,
    block('block', normed('0', 16, 3, 2, 16), relu(), excited('1', 16, 8), normed('2', 16, 1)),
    plain(3, 72, 24, relu(), 2),
    residual(plain(3, 88, 24, relu()), identity),
    gated(5, 96, 24, 40, hardSwish(), 2),
    residual(gated(5, 240, 64, 40, hardSwish()), identity),
    residual(gated(5, 240, 64, 40, hardSwish()), identity),
    gated(5, 120, 32, 48, hardSwish()),
    residual(gated(5, 144, 40, 48, hardSwish()), identity),
    gated(5, 288, 72, 96, hardSwish(), 2),
    residual(gated(5, 576, 144, 96, hardSwish()), identity),
    residual(gated(5, 576, 144, 96, hardSwish()), identity),
  ),
  last('12', 576),
)

/** The head for a number of classes. */
// biome-ignore format: one layer a line
export const mobilenetv3Head = <H extends number, C extends number>(hidden: H, classes: C) => seq(
  globalAvgPool('avgpool'),
  linear('classifier.0', hidden, { init: 0.01 }), hardSwish(), dropout(0.2),
  linear('classifier.3', classes, { init: 0.01 }),
)

/** MobileNetV3, for a number of classes. */
export type Mobilenetv3Of<Body extends Net, H extends number, C extends number> = Seq<
  readonly [Body, ReturnType<typeof mobilenetv3Head<H, C>>]
>
/** MobileNetV3; called with other classes, the same body with a head for them. */
export interface Mobilenetv3<Body extends Net, H extends number> extends Mobilenetv3Of<Body, H, 1000> {
  <const N extends number>(options: ClassesOptions<N>): Mobilenetv3Of<Body, H, N>
}
const mobilenetv3 = <Body extends Net, H extends number>(body: Body, hidden: H): Mobilenetv3<Body, H> =>
  classifier(1000, (classes) => seq(body, mobilenetv3Head(hidden, classes)))

export const mobilenetv3Large = mobilenetv3(mobilenetv3LargeBody, 1280)
export const mobilenetv3Small = mobilenetv3(mobilenetv3SmallBody, 1024)

export default {
  'mobilenetv3-large': network(mobilenetv3Large, 224, crossEntropy),
  'mobilenetv3-small': network(mobilenetv3Small, 224, crossEntropy),
} satisfies Family
