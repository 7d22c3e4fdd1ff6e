// A body that is trained once, and a head for the classes of a task. Fine-tuning freezes the first layers of the body.
import { batchNorm, conv2d, globalAvgPool, linear, maxPool, model, relu, seq } from 'spillway'

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { bias: false }), batchNorm(`${name}.bn`), relu())

const body = seq(unit('one', 16), maxPool(2), unit('two', 32), maxPool(2), unit('three', 64))

/** 16 grey images of 32 x 32 pixels in each step, in one of three classes. */
export default model([16, 1, 32, 32], seq(body, globalAvgPool(), linear('head', 3)))
