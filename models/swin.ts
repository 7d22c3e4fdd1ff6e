// Swin Transformer (Liu et al. 2021) as torchvision builds it: attention within windows of 7x7 pixels, which every second block shifts by 3. Layer names
// are torchvision's parameter names: 'features.1.0.attn.qkv', 'features.2.reduction', 'head'. The height and width of its images are multiples of 224:
// the reference fills up other sizes with zeros.
import {
  attention,
  block,
  blocks,
  channelShuffle,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  type Family,
  gelu,
  globalAvgPool,
  identity,
  layerNorm,
  linear,
  type Net,
  network,
  pixelLinear,
  pixelUnshuffle,
  residual,
  type Seq,
  seq,
  sliceChannels,
  stochasticDepth,
} from '../dsl'

const dense = <N extends string, O extends number>(name: N, out: O) => pixelLinear(name, out, { init: 0.02 })

/** Attention in windows, then two layers per pixel. Training skips each of both branches with probability `p`. */
// biome-ignore format: one layer a line
const unit = <H extends number, C extends number, T extends number, W extends number, S extends 0 | 3>(
  p: number, heads: H, channels: C, triple: T, wide: W, shift: S,
) => seq(
  residual(seq(
    layerNorm('norm1'),
    dense('attn.qkv', triple), attention('attn', heads, { window: 7, shift, relative: true }), dense('attn.proj', channels),
    stochasticDepth(p),
  ), identity),
  residual(seq(layerNorm('norm2'), dense('mlp.0', wide), gelu(), dense('mlp.3', channels), stochasticDepth(p)), identity),
)

const RISE = 0.2 / 11
/** Two blocks, the first of them the `nth` of the network, from 0. Each is skipped more often than the block before it. */
const pair = <H extends number, C extends number, T extends number, W extends number>(
  nth: number,
  heads: H,
  channels: C,
  triple: T,
  wide: W,
) => [unit(nth * RISE, heads, channels, triple, wide, 0), unit((nth + 1) * RISE, heads, channels, triple, wide, 3)] as const

/**
 * Four pixels become one: their channels one after the other, pixel by pixel, the columns before the rows. Channels begin
 * at `second` for the second pixel of the first row, and so on.
 */
// biome-ignore format: one layer a line
const merging = <N extends string, C extends number, S extends number, T extends number, O extends number>(
  name: N, channels: C, second: S, last: T, out: O,
) => block(name,
  pixelUnshuffle(2),
  channelShuffle(channels),
  concat(sliceChannels(0, channels), sliceChannels(second, channels), sliceChannels(channels, channels), sliceChannels(last, channels)),
  layerNorm('norm'),
  pixelLinear('reduction', out, { bias: false, init: 0.02 }),
)

// biome-ignore format: one stage a line
export const swinTinyBody = seq(
  block('features',
    block('0', conv2d('0', 96, 4, { stride: 4, pad: 0 }), layerNorm('2')),
    blocks('1', ...pair(0, 3, 96, 288, 384)),
    merging('2', 96, 192, 288, 192),
    blocks('3', ...pair(2, 6, 192, 576, 768)),
    merging('4', 192, 384, 576, 384),
    blocks('5', ...pair(4, 12, 384, 1152, 1536), ...pair(6, 12, 384, 1152, 1536), ...pair(8, 12, 384, 1152, 1536)),
    merging('6', 384, 768, 1152, 768),
    blocks('7', ...pair(10, 24, 768, 2304, 3072)),
  ),
  layerNorm('norm'),
)

/** The head for a number of classes. */
export const swinHead = <C extends number>(classes: C) => seq(globalAvgPool('avgpool'), linear('head', classes, { init: 0.02 }))

/** Swin, for a number of classes. */
export type SwinOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof swinHead<C>>]>
/** Swin; called with other classes, the same body with a head for them. */
export interface Swin<Body extends Net> extends SwinOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): SwinOf<Body, N>
}
const swin = <Body extends Net>(body: Body): Swin<Body> => classifier(1000, (classes) => seq(body, swinHead(classes)))

export const swinTiny = swin(swinTinyBody)

export default { 'swin-t': network(swinTiny, 224, crossEntropy) } satisfies Family
