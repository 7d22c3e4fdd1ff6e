// U-Net (Ronneberger et al. 2015) as milesial's Pytorch-UNet builds it, with transposed convolutions: padded convolutions with batch norm, two
// classes for each pixel. Layer names are its parameter names: 'down1.maxpool_conv.1.double_conv.0'. The height and width of its images are multiples
// of 16, because each level joins its own half.
import {
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  convTranspose2d,
  crossEntropy,
  type Family,
  maxPool,
  type Net,
  network,
  relu,
  type Seq,
  seq,
  skip,
} from '../dsl'

const conv = <N extends string, C extends number>(name: N, channels: C) => conv2d(name, channels, 3, { bias: false })

// biome-ignore format: one convolution a line
const doubleConv = <N extends string, C extends number>(name: N, channels: C) => block(`${name}.double_conv`,
  conv('0', channels), batchNorm('1'), relu(),
  conv('3', channels), batchNorm('4'), relu(),
)

/** A level below: half the pixels, `inner` on them, twice the pixels again, beside the input. */
// biome-ignore format: one level's half a line
const level = <D extends number, U extends number, C extends number, Below extends number, N extends Net>(
  down: D, up: U, channels: C, below: Below, inner: N,
) => seq(
  skip(maxPool(`pool${down}`, 2), doubleConv(`down${down}.maxpool_conv.1`, below), inner, convTranspose2d(`up${up}.up`, channels, 2, { stride: 2 })),
  doubleConv(`up${up}.conv`, channels),
)

// biome-ignore format: one level a line
export const unetBody = seq(
  doubleConv('inc', 64),
  level(1, 4, 64, 128,
    level(2, 3, 128, 256,
      level(3, 2, 256, 512,
        level(4, 1, 512, 1024, seq())))),
)

/** The head for a number of classes. */
export const unetHead = <C extends number>(classes: C) => conv2d('outc.conv', classes, 1)

/** U-Net, for a number of classes. */
export type UnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof unetHead<C>>]>
/** U-Net; called with other classes, the same body with a head for them. */
export interface Unet<Body extends Net> extends UnetOf<Body, 2> {
  <const N extends number>(options: ClassesOptions<N>): UnetOf<Body, N>
}
export const unet: Unet<typeof unetBody> = classifier(2, (classes) => seq(unetBody, unetHead(classes)))

export default { unet: network(unet, 512, crossEntropy) } satisfies Family
