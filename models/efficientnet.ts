// EfficientNet (Tan and Le 2019) and EfficientNetV2 (2021) as torchvision builds them: MobileNetV2's blocks, with gates that are computed from each
// channel's mean. V2 begins with fused blocks: one 3x3 convolution instead of a 1x1 and a convolution of one channel at a time.
// Layer names are torchvision's parameter names: 'features.4.1.block.2.fc1', 'classifier.1'.
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

/** `Count` nets of one type. */
type Copies<Count extends number, B extends Net, Found extends readonly Net[] = readonly []> = Found['length'] extends Count
  ? Found
  : Copies<Count, B, readonly [...Found, B]>
/** Creates `count` nets that differ in numbers only. */
export const copies = <Count extends number, B extends Net>(count: Count, net: (nth: number) => B) =>
  Array.from({ length: count }, (_, i) => net(i)) as readonly Net[] as Copies<Count, B>

/** Facts of a network that its types do not depend on: the constant of its norms, and its blocks. */
interface Setting {
  readonly eps: number
  readonly blocks: number
}

const normed = <N extends string, O extends number, K extends Kernel, S extends number = 1, G extends number = 1>(
  { eps }: Setting,
  name: N,
  out: O,
  kernel: K,
  stride?: S,
  groups?: G,
) => block(name, conv2d('0', out, kernel, { stride, groups, bias: false, init: 'fan-out-normal' }), batchNorm('1', { eps }))

const unit = <N extends string, O extends number, K extends Kernel, S extends number = 1, G extends number = 1>(
  at: Setting,
  name: N,
  out: O,
  kernel: K,
  stride?: S,
  groups?: G,
) => seq(normed(at, name, out, kernel, stride, groups), silu())

// biome-ignore format: one convolution a line
const excited = <N extends string, W extends number, Q extends number>(name: N, wide: W, squeezed: Q) => block(name, scaled(
  globalAvgPool(),
  conv2d('fc1', squeezed, 1, { init: 'fan-out-normal' }), silu(),
  conv2d('fc2', wide, 1, { init: 'fan-out-normal' }), sigmoid(),
))

// biome-ignore format: one convolution a line
const plain = <I extends number, Q extends number, O extends number>(at: Setting, channels: I, squeezed: Q, out: O) => block('block',
  unit(at, '0', channels, 3, 1, channels),
  excited('1', channels, squeezed),
  normed(at, '2', out, 1),
)
/** `wide` is the channels that come in times the expansion, `squeezed` a quarter of them. */
// biome-ignore format: one convolution a line
const bottleneck = <K extends Kernel, W extends number, Q extends number, O extends number, S extends number = 1>(
  at: Setting, kernel: K, wide: W, squeezed: Q, out: O, stride?: S,
) => block('block',
  unit(at, '0', wide, 1),
  unit(at, '1', wide, kernel, stride, wide),
  excited('2', wide, squeezed),
  normed(at, '3', out, 1),
)
// biome-ignore format: one convolution a line
const fused = <W extends number, O extends number, S extends number = 1>(at: Setting, wide: W, out: O, stride?: S) => block('block',
  unit(at, '0', wide, 3, stride),
  normed(at, '1', out, 1),
)

/** `count` blocks that keep their input, the first of them the `nth` of the network. The later, the more often it is skipped in training. */
const keeping = <T extends number, B extends Net>(at: Setting, nth: number, count: T, body: B) =>
  copies(count, (i) => residual(seq(body, stochasticDepth((0.2 * (nth + i)) / at.blocks)), identity))

// biome-ignore format: one list
const plains = <T extends number, C extends number, Q extends number>(at: Setting, nth: number, count: T, channels: C, squeezed: Q) =>
  keeping(at, nth, count, plain(at, channels, squeezed, channels))
// biome-ignore format: one list
const bottlenecks = <T extends number, K extends Kernel, W extends number, Q extends number, C extends number>(
  at: Setting, nth: number, count: T, kernel: K, wide: W, squeezed: Q, channels: C,
) => keeping(at, nth, count, bottleneck(at, kernel, wide, squeezed, channels))
// biome-ignore format: one list
const fuseds = <T extends number, W extends number, C extends number>(at: Setting, nth: number, count: T, wide: W, channels: C) =>
  keeping(at, nth, count, fused(at, wide, channels))

// ---------------------------------------------------------------- bodies

const b0: Setting = { eps: 1e-5, blocks: 16 }
// biome-ignore format: one stage a line
export const efficientnetB0Body = block('features',
  unit(b0, '0', 32, 3, 2),
  blocks('1', plain(b0, 32, 8, 16)),
  blocks('2', bottleneck(b0, 3, 96, 4, 24, 2), ...bottlenecks(b0, 2, 1, 3, 144, 6, 24)),
  blocks('3', bottleneck(b0, 5, 144, 6, 40, 2), ...bottlenecks(b0, 4, 1, 5, 240, 10, 40)),
  blocks('4', bottleneck(b0, 3, 240, 10, 80, 2), ...bottlenecks(b0, 6, 2, 3, 480, 20, 80)),
  blocks('5', bottleneck(b0, 5, 480, 20, 112), ...bottlenecks(b0, 9, 2, 5, 672, 28, 112)),
  blocks('6', bottleneck(b0, 5, 672, 28, 192, 2), ...bottlenecks(b0, 12, 3, 5, 1152, 48, 192)),
  blocks('7', bottleneck(b0, 3, 1152, 48, 320)),
  unit(b0, '8', 1280, 1),
)

const b1: Setting = { eps: 1e-5, blocks: 23 }
// biome-ignore format: one stage a line
export const efficientnetB1Body = block('features',
  unit(b1, '0', 32, 3, 2),
  blocks('1', plain(b1, 32, 8, 16), ...plains(b1, 1, 1, 16, 4)),
  blocks('2', bottleneck(b1, 3, 96, 4, 24, 2), ...bottlenecks(b1, 3, 2, 3, 144, 6, 24)),
  blocks('3', bottleneck(b1, 5, 144, 6, 40, 2), ...bottlenecks(b1, 6, 2, 5, 240, 10, 40)),
  blocks('4', bottleneck(b1, 3, 240, 10, 80, 2), ...bottlenecks(b1, 9, 3, 3, 480, 20, 80)),
  blocks('5', bottleneck(b1, 5, 480, 20, 112), ...bottlenecks(b1, 13, 3, 5, 672, 28, 112)),
  blocks('6', bottleneck(b1, 5, 672, 28, 192, 2), ...bottlenecks(b1, 17, 4, 5, 1152, 48, 192)),
  blocks('7', bottleneck(b1, 3, 1152, 48, 320), ...bottlenecks(b1, 22, 1, 3, 1920, 80, 320)),
  unit(b1, '8', 1280, 1),
)

const b2: Setting = { eps: 1e-5, blocks: 23 }
// biome-ignore format: one stage a line
export const efficientnetB2Body = block('features',
  unit(b2, '0', 32, 3, 2),
  blocks('1', plain(b2, 32, 8, 16), ...plains(b2, 1, 1, 16, 4)),
  blocks('2', bottleneck(b2, 3, 96, 4, 24, 2), ...bottlenecks(b2, 3, 2, 3, 144, 6, 24)),
  blocks('3', bottleneck(b2, 5, 144, 6, 48, 2), ...bottlenecks(b2, 6, 2, 5, 288, 12, 48)),
  blocks('4', bottleneck(b2, 3, 288, 12, 88, 2), ...bottlenecks(b2, 9, 3, 3, 528, 22, 88)),
  blocks('5', bottleneck(b2, 5, 528, 22, 120), ...bottlenecks(b2, 13, 3, 5, 720, 30, 120)),
  blocks('6', bottleneck(b2, 5, 720, 30, 208, 2), ...bottlenecks(b2, 17, 4, 5, 1248, 52, 208)),
  blocks('7', bottleneck(b2, 3, 1248, 52, 352), ...bottlenecks(b2, 22, 1, 3, 2112, 88, 352)),
  unit(b2, '8', 1408, 1),
)

const b3: Setting = { eps: 1e-5, blocks: 26 }
// biome-ignore format: one stage a line
export const efficientnetB3Body = block('features',
  unit(b3, '0', 40, 3, 2),
  blocks('1', plain(b3, 40, 10, 24), ...plains(b3, 1, 1, 24, 6)),
  blocks('2', bottleneck(b3, 3, 144, 6, 32, 2), ...bottlenecks(b3, 3, 2, 3, 192, 8, 32)),
  blocks('3', bottleneck(b3, 5, 192, 8, 48, 2), ...bottlenecks(b3, 6, 2, 5, 288, 12, 48)),
  blocks('4', bottleneck(b3, 3, 288, 12, 96, 2), ...bottlenecks(b3, 9, 4, 3, 576, 24, 96)),
  blocks('5', bottleneck(b3, 5, 576, 24, 136), ...bottlenecks(b3, 14, 4, 5, 816, 34, 136)),
  blocks('6', bottleneck(b3, 5, 816, 34, 232, 2), ...bottlenecks(b3, 19, 5, 5, 1392, 58, 232)),
  blocks('7', bottleneck(b3, 3, 1392, 58, 384), ...bottlenecks(b3, 25, 1, 3, 2304, 96, 384)),
  unit(b3, '8', 1536, 1),
)

const b4: Setting = { eps: 1e-5, blocks: 32 }
// biome-ignore format: one stage a line
export const efficientnetB4Body = block('features',
  unit(b4, '0', 48, 3, 2),
  blocks('1', plain(b4, 48, 12, 24), ...plains(b4, 1, 1, 24, 6)),
  blocks('2', bottleneck(b4, 3, 144, 6, 32, 2), ...bottlenecks(b4, 3, 3, 3, 192, 8, 32)),
  blocks('3', bottleneck(b4, 5, 192, 8, 56, 2), ...bottlenecks(b4, 7, 3, 5, 336, 14, 56)),
  blocks('4', bottleneck(b4, 3, 336, 14, 112, 2), ...bottlenecks(b4, 11, 5, 3, 672, 28, 112)),
  blocks('5', bottleneck(b4, 5, 672, 28, 160), ...bottlenecks(b4, 17, 5, 5, 960, 40, 160)),
  blocks('6', bottleneck(b4, 5, 960, 40, 272, 2), ...bottlenecks(b4, 23, 7, 5, 1632, 68, 272)),
  blocks('7', bottleneck(b4, 3, 1632, 68, 448), ...bottlenecks(b4, 31, 1, 3, 2688, 112, 448)),
  unit(b4, '8', 1792, 1),
)

const b5: Setting = { eps: 1e-3, blocks: 39 }
// biome-ignore format: one stage a line
export const efficientnetB5Body = block('features',
  unit(b5, '0', 48, 3, 2),
  blocks('1', plain(b5, 48, 12, 24), ...plains(b5, 1, 2, 24, 6)),
  blocks('2', bottleneck(b5, 3, 144, 6, 40, 2), ...bottlenecks(b5, 4, 4, 3, 240, 10, 40)),
  blocks('3', bottleneck(b5, 5, 240, 10, 64, 2), ...bottlenecks(b5, 9, 4, 5, 384, 16, 64)),
  blocks('4', bottleneck(b5, 3, 384, 16, 128, 2), ...bottlenecks(b5, 14, 6, 3, 768, 32, 128)),
  blocks('5', bottleneck(b5, 5, 768, 32, 176), ...bottlenecks(b5, 21, 6, 5, 1056, 44, 176)),
  blocks('6', bottleneck(b5, 5, 1056, 44, 304, 2), ...bottlenecks(b5, 28, 8, 5, 1824, 76, 304)),
  blocks('7', bottleneck(b5, 3, 1824, 76, 512), ...bottlenecks(b5, 37, 2, 3, 3072, 128, 512)),
  unit(b5, '8', 2048, 1),
)

const b6: Setting = { eps: 1e-3, blocks: 45 }
// biome-ignore format: one stage a line
export const efficientnetB6Body = block('features',
  unit(b6, '0', 56, 3, 2),
  blocks('1', plain(b6, 56, 14, 32), ...plains(b6, 1, 2, 32, 8)),
  blocks('2', bottleneck(b6, 3, 192, 8, 40, 2), ...bottlenecks(b6, 4, 5, 3, 240, 10, 40)),
  blocks('3', bottleneck(b6, 5, 240, 10, 72, 2), ...bottlenecks(b6, 10, 5, 5, 432, 18, 72)),
  blocks('4', bottleneck(b6, 3, 432, 18, 144, 2), ...bottlenecks(b6, 16, 7, 3, 864, 36, 144)),
  blocks('5', bottleneck(b6, 5, 864, 36, 200), ...bottlenecks(b6, 24, 7, 5, 1200, 50, 200)),
  blocks('6', bottleneck(b6, 5, 1200, 50, 344, 2), ...bottlenecks(b6, 32, 10, 5, 2064, 86, 344)),
  blocks('7', bottleneck(b6, 3, 2064, 86, 576), ...bottlenecks(b6, 43, 2, 3, 3456, 144, 576)),
  unit(b6, '8', 2304, 1),
)

const b7: Setting = { eps: 1e-3, blocks: 55 }
// biome-ignore format: one stage a line
export const efficientnetB7Body = block('features',
  unit(b7, '0', 64, 3, 2),
  blocks('1', plain(b7, 64, 16, 32), ...plains(b7, 1, 3, 32, 8)),
  blocks('2', bottleneck(b7, 3, 192, 8, 48, 2), ...bottlenecks(b7, 5, 6, 3, 288, 12, 48)),
  blocks('3', bottleneck(b7, 5, 288, 12, 80, 2), ...bottlenecks(b7, 12, 6, 5, 480, 20, 80)),
  blocks('4', bottleneck(b7, 3, 480, 20, 160, 2), ...bottlenecks(b7, 19, 9, 3, 960, 40, 160)),
  blocks('5', bottleneck(b7, 5, 960, 40, 224), ...bottlenecks(b7, 29, 9, 5, 1344, 56, 224)),
  blocks('6', bottleneck(b7, 5, 1344, 56, 384, 2), ...bottlenecks(b7, 39, 12, 5, 2304, 96, 384)),
  blocks('7', bottleneck(b7, 3, 2304, 96, 640), ...bottlenecks(b7, 52, 3, 3, 3840, 160, 640)),
  unit(b7, '8', 2560, 1),
)

const v2s: Setting = { eps: 1e-3, blocks: 40 }
// biome-ignore format: one stage a line
export const efficientnetV2SBody = block('features',
  unit(v2s, '0', 24, 3, 2),
  blocks('1', ...keeping(v2s, 0, 2, block('block', unit(v2s, '0', 24, 3)))),
  blocks('2', fused(v2s, 96, 48, 2), ...fuseds(v2s, 3, 3, 192, 48)),
  blocks('3', fused(v2s, 192, 64, 2), ...fuseds(v2s, 7, 3, 256, 64)),
  blocks('4', bottleneck(v2s, 3, 256, 16, 128, 2), ...bottlenecks(v2s, 11, 5, 3, 512, 32, 128)),
  blocks('5', bottleneck(v2s, 3, 768, 32, 160), ...bottlenecks(v2s, 17, 8, 3, 960, 40, 160)),
  blocks('6', bottleneck(v2s, 3, 960, 40, 256, 2), ...bottlenecks(v2s, 26, 14, 3, 1536, 64, 256)),
  unit(v2s, '7', 1280, 1),
)

const v2m: Setting = { eps: 1e-3, blocks: 57 }
// biome-ignore format: one stage a line
export const efficientnetV2MBody = block('features',
  unit(v2m, '0', 24, 3, 2),
  blocks('1', ...keeping(v2m, 0, 3, block('block', unit(v2m, '0', 24, 3)))),
  blocks('2', fused(v2m, 96, 48, 2), ...fuseds(v2m, 4, 4, 192, 48)),
  blocks('3', fused(v2m, 192, 80, 2), ...fuseds(v2m, 9, 4, 320, 80)),
  blocks('4', bottleneck(v2m, 3, 320, 20, 160, 2), ...bottlenecks(v2m, 14, 6, 3, 640, 40, 160)),
  blocks('5', bottleneck(v2m, 3, 960, 40, 176), ...bottlenecks(v2m, 21, 13, 3, 1056, 44, 176)),
  blocks('6', bottleneck(v2m, 3, 1056, 44, 304, 2), ...bottlenecks(v2m, 35, 17, 3, 1824, 76, 304)),
  blocks('7', bottleneck(v2m, 3, 1824, 76, 512), ...bottlenecks(v2m, 53, 4, 3, 3072, 128, 512)),
  unit(v2m, '8', 1280, 1),
)

const v2l: Setting = { eps: 1e-3, blocks: 79 }
// biome-ignore format: one stage a line
export const efficientnetV2LBody = block('features',
  unit(v2l, '0', 32, 3, 2),
  blocks('1', ...keeping(v2l, 0, 4, block('block', unit(v2l, '0', 32, 3)))),
  blocks('2', fused(v2l, 128, 64, 2), ...fuseds(v2l, 5, 6, 256, 64)),
  blocks('3', fused(v2l, 256, 96, 2), ...fuseds(v2l, 12, 6, 384, 96)),
  blocks('4', bottleneck(v2l, 3, 384, 24, 192, 2), ...bottlenecks(v2l, 19, 9, 3, 768, 48, 192)),
  blocks('5', bottleneck(v2l, 3, 1152, 48, 224), ...bottlenecks(v2l, 29, 18, 3, 1344, 56, 224)),
  blocks('6', bottleneck(v2l, 3, 1344, 56, 384, 2), ...bottlenecks(v2l, 48, 24, 3, 2304, 96, 384)),
  blocks('7', bottleneck(v2l, 3, 2304, 96, 640), ...bottlenecks(v2l, 73, 6, 3, 3840, 160, 640)),
  unit(v2l, '8', 1280, 1),
)

// ---------------------------------------------------------------- networks

/** The head for a number of classes; larger networks drop more. */
// biome-ignore format: one layer a line
export const efficientnetHead = <C extends number>(classes: C, dropped = 0.2) => seq(
  globalAvgPool('avgpool'), dropout(dropped),
  // torchvision's weights start uniform, with this deviation.
  linear('classifier.1', classes, { init: 1 / Math.sqrt(3 * classes) }),
)

/** EfficientNet, for a number of classes. */
export type EfficientnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof efficientnetHead<C>>]>
/** EfficientNet; called with other classes, the same body with a head for them. */
export interface Efficientnet<Body extends Net> extends EfficientnetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): EfficientnetOf<Body, N>
}
const efficientnet = <Body extends Net>(body: Body, dropped: number): Efficientnet<Body> =>
  classifier(1000, (classes) => seq(body, efficientnetHead(classes, dropped)))

export const efficientnetB0 = efficientnet(efficientnetB0Body, 0.2)
export const efficientnetB1 = efficientnet(efficientnetB1Body, 0.2)
export const efficientnetB2 = efficientnet(efficientnetB2Body, 0.3)
export const efficientnetB3 = efficientnet(efficientnetB3Body, 0.3)
export const efficientnetB4 = efficientnet(efficientnetB4Body, 0.4)
export const efficientnetB5 = efficientnet(efficientnetB5Body, 0.4)
export const efficientnetB6 = efficientnet(efficientnetB6Body, 0.5)
export const efficientnetB7 = efficientnet(efficientnetB7Body, 0.5)
export const efficientnetV2S = efficientnet(efficientnetV2SBody, 0.2)
export const efficientnetV2M = efficientnet(efficientnetV2MBody, 0.3)
export const efficientnetV2L = efficientnet(efficientnetV2LBody, 0.4)

export default {
  'efficientnet-b0': network(efficientnetB0, 224, crossEntropy),
  'efficientnet-b1': network(efficientnetB1, 240, crossEntropy),
  'efficientnet-b2': network(efficientnetB2, 288, crossEntropy),
  'efficientnet-b3': network(efficientnetB3, 300, crossEntropy),
  'efficientnet-b4': network(efficientnetB4, 380, crossEntropy),
  'efficientnet-b5': network(efficientnetB5, 456, crossEntropy),
  'efficientnet-b6': network(efficientnetB6, 528, crossEntropy),
  'efficientnet-b7': network(efficientnetB7, 600, crossEntropy),
  'efficientnet-v2-s': network(efficientnetV2S, 384, crossEntropy),
  'efficientnet-v2-m': network(efficientnetV2M, 480, crossEntropy),
  'efficientnet-v2-l': network(efficientnetV2L, 480, crossEntropy),
} satisfies Family
