// ConvNeXt-T (Liu et al. 2022) as torchvision builds it: 7x7 convolutions of one channel at a time, then layers that see one pixel
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

const norm = <N extends string>(name: N) => layerNorm(name, { eps: 1e-6 })

/** The `nth` of eighteen blocks, from 0: the later, the more often it is skipped in training. `wide` is four times the channels. */
// biome-ignore format: one layer a line
const body = <C extends number, W extends number>(nth: number, channels: C, wide: W) => seq(
  block('block',
    conv2d('0', channels, 7, { groups: channels, init: 0.02 }),
    norm('2'),
    pixelLinear('3', wide, { init: 0.02 }), gelu(),
    pixelLinear('5', channels, { init: 0.02 }),
  ),
  layerScale('layer_scale', 1e-6),
  stochasticDepth((0.1 * nth) / 17),
)
const keeping = <C extends number, W extends number>(nth: number, channels: C, wide: W) =>
  residual(body(nth, channels, wide), identity)
const three = <C extends number, W extends number>(from: number, channels: C, wide: W) =>
  [keeping(from, channels, wide), keeping(from + 1, channels, wide), keeping(from + 2, channels, wide)] as const

const halving = <N extends string, O extends number>(name: N, out: O) =>
  block(name, norm('0'), conv2d('1', out, 2, { stride: 2, pad: 0, init: 0.02 }))

// biome-ignore format: one stage a line
export const convnextTinyBody = seq(
  block('features',
    block('0', conv2d('0', 96, 4, { stride: 4, pad: 0, init: 0.02 }), norm('1')),
    blocks('1', ...three(0, 96, 384)),
    halving('2', 192),
    blocks('3', ...three(3, 192, 768)),
    halving('4', 384),
    blocks('5', ...three(6, 384, 1536), ...three(9, 384, 1536), ...three(12, 384, 1536)),
    halving('6', 768),
    blocks('7', ...three(15, 768, 3072)),
  ),
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
export const convnextTiny: Convnext<typeof convnextTinyBody> = classifier(1000, (classes) =>
  seq(convnextTinyBody, convnextHead(classes)),
)

export default { 'convnext-tiny': network(convnextTiny, 224, crossEntropy) } satisfies Family
