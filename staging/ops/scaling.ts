// Dynamic scaling of losses, for activations in f16, as in PyTorch's GradScaler. The gradient of a loss is multiplied by a scale before it is rounded.
// Gradients of parameters are divided by it. If one of them is not finite, the update is skipped and the scale halved. After `interval`
// updates in a row the scale is doubled. Worked example, interval 2, scale 65536: finite, finite, infinite -> scale 65536, 131072, 65536.
import { asInput0, data, defineOp, type OperandDef } from './op'
import { firstIn, legal, perElement } from './rules'

/** PyTorch's start value and growth interval. */
export const FIRST_SCALE = 2 ** 16
export const GROWTH_INTERVAL = 2000

const one = (name: string): OperandDef => ({ name, role: 'whole', dims: [1], drawn: 'positive' })
/** The number of this update; 0 if it is skipped. */
export const updatesOperand: OperandDef = { name: 'updates', role: 'whole', dims: [1], drawn: 'one' }

/** The number of elements of the state `counts`. */
export const COUNTS = ['in a row', 'updates', 'skipped'] as const

export const scaleGradient = defineOp({
  kind: 'scale_gradient',
  wire: 284,
  fields: {},
  anchor: 0,
  inPlace: [0],
  what: 'y = g·scale; in place of g',
  ins: [data('g'), one('scale')],
  outs: [data('y')],
  samples: (image) => [{ attrs: {}, ins: [image, [1]] }],
  shape: (_, [g]) => legal(g!),
  flops: perElement(1, firstIn),
})

export const unscale = defineOp({
  kind: 'unscale',
  wire: 285,
  fields: {},
  anchor: 0,
  inPlace: [0],
  what: 'y = g·factor; in place of g',
  ins: [asInput0('g'), one('factor')],
  outs: [asInput0('y')],
  samples: (image) => [{ attrs: {}, ins: [image, [1]] }],
  shape: (_, [g]) => legal(g!),
  flops: perElement(1, firstIn),
})

export const adjustScale = defineOp({
  kind: 'adjust_scale',
  wire: 286,
  fields: { every: 'int', interval: 'int' },
  limits: { every: { least: 1, most: 2 ** 30 }, interval: { least: 1, most: 2 ** 24 } },
  anchor: 0,
  mutates: [0, 1],
  what: 'factor = 1/scale; updates = counts[1] + 1, or 0 if the squares are not finite; finite = 0 if they are not or `before` is 0, else 1. At every `every`-th step, counts[0] and counts[1] go up by 1, and scale doubles when counts[0] reaches `interval`, which sets it to 0; or, if not finite, counts[0] = 0, counts[2] goes up by 1 and scale is halved',
  ins: [
    one('scale'),
    { name: 'counts', role: 'whole', dims: [3], drawn: 'positive' },
    one('squares'),
    { ...one('before'), drawn: 'one', optional: true },
  ],
  outs: [one('factor'), one('updates'), one('finite')],
  samples: () => [
    { attrs: { every: 1, interval: 1 }, ins: [[1], [3], [1]] },
    { attrs: { every: 3, interval: 2000 }, ins: [[1], [3], [1]] },
    { attrs: { every: 2, interval: 2000 }, ins: [[1], [3], [1], [1]] },
  ],
  shape: () => legal([1], [1], [1]),
  flops: () => 8,
})
