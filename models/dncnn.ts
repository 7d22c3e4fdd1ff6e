// DnCNN (Zhang et al. 2017) as SaoYan's DnCNN-PyTorch builds it, for colour images: 17 convolutions, whose output is the noise in the image.
// Layer names are its parameter names: 'dncnn.0', 'dncnn.3'. Any image size.
import { batchNorm, block, conv2d, type Family, mse, network, relu, seq } from '../dsl'

const conv = <N extends number, O extends number>(n: N, out: O) => conv2d(`${n}`, out, 3, { bias: false, init: 'fan-in-normal' })
/** A convolution, and its norm under the next number. */
const normed = <N extends number, M extends number>(n: N, norm: M) => seq(conv(n, 64), batchNorm(`${norm}`), relu())

// biome-ignore format: five convolutions a line
export const dncnn = block('dncnn',
  conv(0, 64), relu(),
  normed(2, 3), normed(5, 6), normed(8, 9), normed(11, 12), normed(14, 15),
  normed(17, 18), normed(20, 21), normed(23, 24), normed(26, 27), normed(29, 30),
  normed(32, 33), normed(35, 36), normed(38, 39), normed(41, 42), normed(44, 45),
  conv(47, 3),
)

export default { dncnn: network(dncnn, 256, mse) } satisfies Family
