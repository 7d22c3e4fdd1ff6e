// SRResNet (Ledig et al. 2017) as twtygqyy's pytorch-SRResNet builds it: 16 residual blocks with instance norms, then two pixel shuffles to four times
// the size. Layer names are its parameter names: 'conv_input', 'residual.0.in1', 'upscale4x.3'. Any image size.
import {
  block,
  blocks,
  conv2d,
  type Family,
  identity,
  instanceNorm,
  leakyRelu,
  mse,
  network,
  pixelShuffle,
  repeat,
  residual,
  seq,
} from '../dsl'

const conv = <N extends string, O extends number, K extends 3 | 9>(name: N, out: O, kernel: K) =>
  conv2d(name, out, kernel, { bias: false, init: 'fan-out-normal' })
const norm = <N extends string>(name: N) => instanceNorm(name, { affine: true })
const rectified = leakyRelu(0.2)

// biome-ignore format: one convolution a line
const resblock = residual(seq(
  conv('conv1', 64, 3), norm('in1'), rectified,
  conv('conv2', 64, 3), norm('in2'),
), identity)

// biome-ignore format: one convolution a line
export const srresnet = seq(
  conv('conv_input', 64, 9), rectified,
  residual(seq(
    blocks('residual', repeat(16, resblock)),
    conv('conv_mid', 64, 3), norm('bn_mid'),
  ), identity),
  block('upscale4x',
    conv('0', 256, 3), pixelShuffle(2), rectified,
    conv('3', 256, 3), pixelShuffle(2), rectified,
  ),
  conv('conv_output', 3, 9),
)

export default { srresnet: network(srresnet, 128, mse) } satisfies Family
