// A small U-Net that gives each pixel a class: the background, or one of two shapes. Image sides are multiples of 4.
import { batchNorm, conv2d, convTranspose2d, maxPool, model, type Net, relu, seq, skip } from 'spillway'

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { bias: false }), batchNorm(`${name}.bn`), relu())

/** Half the pixels with `inner` on them, then all pixels again, joined with the input. */
const level = <N extends string, C extends number, D extends number, Inner extends Net>(
  name: N,
  channels: C,
  below: D,
  inner: Inner,
) =>
  seq(
    skip(maxPool(2), unit(`${name}.down`, below), inner, convTranspose2d(`${name}.up`, channels, 2, { stride: 2 })),
    unit(`${name}.join`, channels),
  )

/** 8 grey images of 64 x 64 pixels in each step. */
export default model(
  [8, 1, 64, 64],
  seq(unit('stem', 16), level('half', 16, 32, level('quarter', 32, 48, seq())), conv2d('classes', 3, 1)),
)
