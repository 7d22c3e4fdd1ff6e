// A classifier of three shapes. Hover over `model`: the editor shows the output, the parameters and the bytes.
import { batchNorm, conv2d, globalAvgPool, linear, maxPool, model, relu, seq } from 'spillway'

/** A convolution with a norm. Names of layers are names of parameters, as in PyTorch. */
const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { bias: false }), batchNorm(`${name}.bn`), relu())

/** 32 grey images of 32 x 32 pixels in each step. */
export default model(
  [32, 1, 32, 32],
  seq(unit('one', 16), maxPool(2), unit('two', 32), maxPool(2), unit('three', 64), globalAvgPool(), linear('head', 3)),
)
