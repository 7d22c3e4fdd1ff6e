// Small networks that have, between them, every operator that can be exported, with the unusual cases of each. Only used by tests.
import {
  adaptiveAvgPool,
  avgPool,
  batchNorm,
  concat,
  conv2d,
  convTranspose2d,
  dropout,
  flatten,
  fromBytes,
  gelu,
  globalAvgPool,
  groupNorm,
  hardSwish,
  identity,
  instanceNorm,
  layerNorm,
  layerScale,
  leakyRelu,
  linear,
  localResponseNorm,
  maxPool,
  type Net,
  pixelLinear,
  reflectionPad2d,
  relu,
  relu6,
  residual,
  scaled,
  seq,
  type Shape,
  sigmoid,
  silu,
  softmax,
  stochasticDepth,
  tanh,
  upsample,
} from '../../dsl'

export interface SmallNet {
  readonly net: Net
  readonly input: Shape
  /** Absent if the same graph comes back; else the expected words. */
  readonly back?: RegExp
}

export const SMALL: Readonly<Record<string, SmallNet>> = {
  windows: {
    input: [2, 4, 21, 19],
    net: seq(
      conv2d('a', 6, [3, 5], { stride: [2, 1], pad: { top: 0, left: 1, bottom: 2, right: 3 }, dilation: [1, 2], groups: 2 }),
      relu(),
      maxPool(3, { stride: 2, pad: 1, ceil: true }),
      convTranspose2d('b', 4, 3, { stride: 2, pad: 1, outputPad: [1, 0], groups: 2, bias: false }),
      leakyRelu(0.2),
      avgPool(3, { stride: 2, pad: 1, countIncludePad: false }),
      avgPool(2, { stride: 1, pad: 1 }),
    ),
  },
  ceiling: {
    input: [1, 3, 14, 15],
    net: seq(conv2d('a', 4, 3), avgPool(3, { stride: 2, pad: 1, ceil: true }), avgPool(2, { ceil: true })),
  },
  'rounding up to what is there': {
    input: [1, 3, 14, 15],
    net: seq(conv2d('a', 4, 3), maxPool(2, { stride: 3, pad: 1, ceil: true })),
    back: /./,
  },
  norms: {
    input: [2, 8, 6, 5],
    net: seq(
      groupNorm('a', 4),
      instanceNorm('b', { affine: true, eps: 1e-3 }),
      instanceNorm(),
      layerNorm('c', { eps: 1e-6 }),
      groupNorm('d', 2, { affine: false }),
      batchNorm('e', { eps: 1e-3 }),
      layerScale('f.gamma'),
      localResponseNorm(5, { alpha: 1e-3, k: 2 }),
    ),
  },
  functions: {
    input: [1, 4, 5, 5],
    net: seq(
      conv2d('a', 4, 1),
      residual(seq(relu6(), hardSwish(), silu(), gelu()), identity),
      sigmoid(),
      tanh(),
      pixelLinear('b', 6),
      scaled(globalAvgPool(), conv2d('c', 6, 1), sigmoid()),
      scaled(conv2d('d', 1, 1), sigmoid()),
      scaled(conv2d('e', 6, 1)),
      softmax(),
    ),
  },
  bytes: {
    input: [2, 3, 6, 7],
    net: seq(fromBytes({ mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }), conv2d('a', 4, 3), relu()),
  },
  bytesOfOne: { input: [2, 1, 6, 7], net: seq(fromBytes({ mean: 0.1307, std: 0.3081 }), conv2d('a', 4, 3)) },
  bytesAlone: { input: [2, 3, 6, 7], net: seq(fromBytes({ mean: [0.5, 0, 0], std: 0.5 })) },
  sizes: {
    input: [1, 2, 6, 7],
    net: seq(
      reflectionPad2d({ top: 1, left: 0, bottom: 2, right: 3 }),
      upsample({ scale: 2 }),
      upsample({ size: [11, 13], mode: 'bilinear' }),
      upsample({ scale: [2, 1], mode: 'bilinear', alignCorners: true }),
      concat(identity, conv2d('a', 3, 1), seq(relu(), conv2d('b', 2, 3))),
      adaptiveAvgPool('p', [11, 1]),
      dropout(0.5),
      flatten(),
      linear('c', 9),
      relu(),
      stochasticDepth(0.25),
      residual(linear('d', 9, { bias: false }), identity),
      softmax(),
    ),
  },
  mixture: {
    input: [3, 2, 4, 4],
    net: seq(
      globalAvgPool(),
      linear('a', 6),
      concat(relu(), tanh()),
      layerNorm('b'),
      batchNorm('c'),
      conv2d('d', 4, 1),
      linear('e', 2),
    ),
  },
  frozen: {
    input: [1, 2, 4, 4],
    net: seq(conv2d('a', 4, 3), batchNorm('b', { frozen: true })),
    back: /frozen/,
  },
  'even windows of channels': {
    input: [1, 6, 3, 3],
    net: seq(conv2d('a', 6, 3), localResponseNorm(4)),
    back: /node 'localResponseNorm\/2' \(Unsqueeze\)/,
  },
  'nearest, by no whole number': {
    input: [1, 2, 14, 5],
    net: seq(conv2d('a', 2, 3), upsample({ size: [16, 10] })),
    back: /\(Gather\)/,
  },
}
