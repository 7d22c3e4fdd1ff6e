// EDSR (Lim et al. 2017) as the authors' EDSR-PyTorch builds it: residual blocks without norms, then pixel shuffles to 2, 3 or 4 times the size.
// Input and output are images minus the mean colour. The reference subtracts and adds that colour by fixed convolutions.
// Layer names are its parameter names: 'head.0', 'body.0.body.2', 'tail.0.0'. Any image size.
import {
  affine,
  block,
  conv2d,
  counted,
  type Family,
  identity,
  l1,
  type Net,
  network,
  pixelShuffle,
  relu,
  repeat,
  residual,
  seq,
} from '../dsl'

const conv = <N extends number, O extends number>(n: N, out: O) => conv2d(`${n}`, out, 3)

// biome-ignore format: one convolution a line
const body = <C extends number>(channels: C) => block('body',
  conv(0, channels), relu(),
  conv(2, channels),
)
const plain = residual(body(64), identity)
/** A tenth of each block's result is added, so that many channels train stably. */
const damped = residual(seq(body(256), affine(0.1)), identity)

export const edsrBaselineBody = seq(
  block('head', conv(0, 64)),
  residual(block('body', counted('', 0, repeat(16, plain)), conv(16, 64)), identity),
)
export const edsrBody = seq(
  block('head', conv(0, 256)),
  residual(block('body', counted('', 0, repeat(32, damped)), conv(32, 256)), identity),
)

/** Creates an EDSR from a body, a convolution and a shuffle for each factor of the size, and the convolution to colours. */
const edsr = <Body extends Net, Up extends Net>(body: Body, up: Up) => seq(body, block('tail', block('0', up), conv(1, 3)))

const twice = <N extends number, O extends number>(n: N, out: O) => seq(conv(n, out), pixelShuffle(2))
const thrice = <O extends number>(out: O) => seq(conv(0, out), pixelShuffle(3))

export const edsrBaselineX2 = edsr(edsrBaselineBody, twice(0, 256))
export const edsrBaselineX3 = edsr(edsrBaselineBody, thrice(576))
export const edsrBaselineX4 = edsr(edsrBaselineBody, seq(twice(0, 256), twice(2, 256)))
export const edsrX2 = edsr(edsrBody, twice(0, 1024))
export const edsrX3 = edsr(edsrBody, thrice(2304))
export const edsrX4 = edsr(edsrBody, seq(twice(0, 1024), twice(2, 1024)))

export default {
  'edsr-baseline-x2': network(edsrBaselineX2, 128, l1),
  'edsr-baseline-x3': network(edsrBaselineX3, 128, l1),
  'edsr-baseline-x4': network(edsrBaselineX4, 128, l1),
  'edsr-x2': network(edsrX2, 128, l1),
  'edsr-x3': network(edsrX3, 128, l1),
  'edsr-x4': network(edsrX4, 128, l1),
} satisfies Family
