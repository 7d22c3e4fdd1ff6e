// ConvNeXt (Liu et al. 2022) as torchvision builds it: 7x7 convolutions of one channel at a time, then layers that see one pixel
// at a time. Layer names are torchvision's parameter names: 'features.1.0.block.0', 'features.1.0.layer_scale', 'classifier.2'.
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
  identity,
  layerNorm,
  layerScale,
  linear,
  type Net,
  network,
  pixelLinear,
  residual,
  type Seq,
  seq,
  stochasticDepth,
} from '../dsl'
import { copies } from './efficientnet'

const norm = <N extends string>(name: N) => layerNorm(name, { eps: 1e-6 })

/** In training, a block is skipped with probability `p`. `wide` is four times the channels. */
// biome-ignore format: one layer a line
const body = <C extends number, W extends number>(p: number, channels: C, wide: W) => seq(
  block('block',
    conv2d('0', channels, 7, { groups: channels, init: 0.02 }),
    norm('2'),
    pixelLinear('3', wide, { init: 0.02 }), gelu(),
    pixelLinear('5', channels, { init: 0.02 }),
  ),
  layerScale('layer_scale', 1e-6),
  stochasticDepth(p),
)
/** `count` blocks, the first of them the `nth` of the network, from 0. Each is skipped more often than the one before it, by `rise`. */
const keeping = <T extends number, C extends number, W extends number>(
  nth: number,
  count: T,
  rise: number,
  channels: C,
  wide: W,
) => copies(count, (i) => residual(body((nth + i) * rise, channels, wide), identity))

const stem = <O extends number>(out: O) => block('0', conv2d('0', out, 4, { stride: 4, pad: 0, init: 0.02 }), norm('1'))
const halving = <N extends string, O extends number>(name: N, out: O) =>
  block(name, norm('0'), conv2d('1', out, 2, { stride: 2, pad: 0, init: 0.02 }))

// biome-ignore format: one stage a line
export const convnextTinyBody = block('features',
  stem(96),
  blocks('1', ...keeping(0, 3, 0.1 / 17, 96, 384)),
  halving('2', 192),
  blocks('3', ...keeping(3, 3, 0.1 / 17, 192, 768)),
  halving('4', 384),
  blocks('5', ...keeping(6, 9, 0.1 / 17, 384, 1536)),
  halving('6', 768),
  blocks('7', ...keeping(15, 3, 0.1 / 17, 768, 3072)),
)

// biome-ignore format: one stage a line
export const convnextSmallBody = block('features',
  stem(96),
  blocks('1', ...keeping(0, 3, 0.4 / 35, 96, 384)),
  halving('2', 192),
  blocks('3', ...keeping(3, 3, 0.4 / 35, 192, 768)),
  halving('4', 384),
  blocks('5', ...keeping(6, 27, 0.4 / 35, 384, 1536)),
  halving('6', 768),
  blocks('7', ...keeping(33, 3, 0.4 / 35, 768, 3072)),
)

// biome-ignore format: one stage a line
export const convnextBaseBody = block('features',
  stem(128),
  blocks('1', ...keeping(0, 3, 0.5 / 35, 128, 512)),
  halving('2', 256),
  blocks('3', ...keeping(3, 3, 0.5 / 35, 256, 1024)),
  halving('4', 512),
  blocks('5', ...keeping(6, 27, 0.5 / 35, 512, 2048)),
  halving('6', 1024),
  blocks('7', ...keeping(33, 3, 0.5 / 35, 1024, 4096)),
)

// biome-ignore format: one stage a line
export const convnextLargeBody = block('features',
  stem(192),
  blocks('1', ...keeping(0, 3, 0.5 / 35, 192, 768)),
  halving('2', 384),
  blocks('3', ...keeping(3, 3, 0.5 / 35, 384, 1536)),
  halving('4', 768),
  blocks('5', ...keeping(6, 27, 0.5 / 35, 768, 3072)),
  halving('6', 1536),
  blocks('7', ...keeping(33, 3, 0.5 / 35, 1536, 6144)),
)

/** The head for a number of classes. */
export const convnextHead = <C extends number>(classes: C) =>
  seq(globalAvgPool('avgpool'), norm('classifier.0'), linear('classifier.2', classes, { init: 0.02 }))

/** ConvNeXt, for a number of classes. */
export type ConvnextOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof convnextHead<C>>]>
/** ConvNeXt; called with other classes, the same body with a head for them. */
export interface Convnext<Body extends Net> extends ConvnextOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): ConvnextOf<Body, N>
}
const convnext = <Body extends Net>(body: Body): Convnext<Body> => classifier(1000, (classes) => seq(body, convnextHead(classes)))

export const convnextTiny = convnext(convnextTinyBody)
export const convnextSmall = convnext(convnextSmallBody)
export const convnextBase = convnext(convnextBaseBody)
export const convnextLarge = convnext(convnextLargeBody)

export default {
  'convnext-tiny': network(convnextTiny, 224, crossEntropy),
  'convnext-small': network(convnextSmall, 224, crossEntropy),
  'convnext-base': network(convnextBase, 224, crossEntropy),
  'convnext-large': network(convnextLarge, 224, crossEntropy),
} satisfies Family
