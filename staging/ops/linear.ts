// Fully connected layer of the channels of each pixel: forward, data gradient, weight and bias gradient. Weights are [O,C].
// A flat input has one pixel an image. It tiles along B, H and W: every output needs all channels of its pixel.
import { all, type AccessMap, type CallShapes, same } from './op'
import { product } from './product'
import { checked, elements, expectRank, expectShape, legal } from './rules'

/** A flat value cannot be tiled along H and W. */
const perPixel = (_: unknown, s: CallShapes): AccessMap => {
  const across = elements(s.ins[0]!.slice(2)) > 1 ? same : all
  return { B: same, C: all, H: across, W: across }
}

export const [linear, linearBwdData, linearBwdWeights] = product({
  kind: 'linear',
  wires: [4, 5, 6],
  what: ['w is `[O,C]`, for each pixel', 'dx = dy·w', 'sum'],
  fields: {},
  reclaimed: true,
  image: () => perPixel,
  own: perPixel,
  gradient: perPixel,
  apply: (_, x, w) =>
    checked([expectRank('the input', x, 4), expectRank('the weight', w, 2), expectShape('the weight', w, [w[0]!, x[1]!])], () =>
      legal([x[0]!, w[0]!, x[2]!, x[3]!]),
    ),
  biases: (_, w) => w[0]!,
  // Each output reads the weights of one output channel.
  multiplyAdds: (_, w, y) => elements(y) * (w?.[1] ?? 0),
  copies: 1,
})
