// Clipping of gradients, as in PyTorch: within limits, or all of them shortened alike if their common length exceeds a limit. A sum of squares passes
// from gradient to gradient, so that each may leave the device until the last is there. Worked example: after [3] and [4] the sum of
// squares is 25, so the length is 5; for a limit of 1, both are divided by 5.
import { asInput0, defineOp, type OperandDef } from './op'
import { elements, firstIn, legal, perElement } from './rules'

/** The sum of squares of the gradients so far. */
const squares: OperandDef = { name: 'squares', role: 'whole', dims: [1], drawn: 'positive' }
/** Elements of a gradient in one partial sum of squares. */
const BLOCK = 8192

export const clipValues = defineOp({
  kind: 'clip_values',
  wire: 129,
  fields: { limit: 'float' },
  limits: { limit: { above: 0 } },
  anchor: 0,
  inPlace: [0],
  what: 'y = g, clamped to ±limit; in place of g',
  ins: [asInput0('g')],
  outs: [asInput0('y')],
  samples: (image) => [{ attrs: { limit: 0.5 }, ins: [image] }],
  shape: (_, [g]) => legal(g!),
  flops: perElement(2, firstIn),
})

export const squareSum = defineOp({
  kind: 'square_sum',
  wire: 130,
  fields: {},
  anchor: 0,
  what: 'squares = Σ g² + before',
  ins: [asInput0('g'), { ...squares, name: 'before', optional: true }],
  outs: [squares],
  samples: (image) => [
    { attrs: {}, ins: [image] },
    { attrs: {}, ins: [image, [1]] },
  ],
  shape: () => legal([1]),
  flops: perElement(2, firstIn),
  workspace: (_, s) => 8 * Math.ceil(elements(s.ins[0]) / BLOCK),
})

export const clipNorm = defineOp({
  kind: 'clip_norm',
  wire: 131,
  fields: { most: 'float' },
  limits: { most: { above: 0 } },
  anchor: 0,
  inPlace: [0],
  what: 'y = g·min(1, most / (√squares + 1e-6)), NaN where the squares are not finite; in place of g',
  ins: [asInput0('g'), squares],
  outs: [asInput0('y')],
  samples: (image) => [{ attrs: { most: 0.5 }, ins: [image, [1]] }],
  shape: (_, [g]) => legal(g!),
  flops: perElement(1, firstIn),
})
