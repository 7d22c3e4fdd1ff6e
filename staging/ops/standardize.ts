// Weight standardisation: the weights of each output channel of a convolution get the mean 0 and the variance 1. It is computed once a step, before
// the forward pass, as a weight that is laid out (ops/layout.ts): convolutions read it in place of their parameter. Its gradient comes from the
// whole gradient of the standardised weight. Worked example, a row [1, 3] with eps 0: mean 2, variance 1, so [-1, 1].
import { asInput0, defineOp, type OperandDef } from './op'
import { checked, expectRank, expectShape, firstOut, legal, perElement } from './rules'

const fields = { eps: 'float' } as const
const limits = { eps: { least: 0 } } as const

const weight = (name: string): OperandDef<typeof fields> => ({ name, role: 'whole' })

export const standardize = defineOp({
  kind: 'standardize',
  wire: 239,
  half: 'may',
  fields,
  limits,
  anchor: 0,
  what: 'y = (w − mean)·rstd for each output channel, laid out as by lay_out; mean and variance (biased) of its weights, rstd = 1/√(variance + eps)',
  ins: [weight('w')],
  outs: [{ ...asInput0('y'), laid: 'is' }],
  shape: (_, [w]) => checked([expectRank('the weight', w!, 4)], () => legal(w!)),
  backward: (g) => {
    const [w] = g.ins
    if (g.needsGradient(0)) g.addGradient(0, g.emit('standardize_bwd', g.attrs, [g.outputGradient(0), w!], [g.shape(w!)])[0]!)
  },
  flops: perElement(6, firstOut),
})

export const standardizeBwd = defineOp({
  kind: 'standardize_bwd',
  wire: 240,
  fields,
  limits,
  anchor: 0,
  what: 'n = (w − mean)·rstd, N weights for each output channel: dw = rstd·(dy − Σ dy/N − n·Σ dy·n/N)',
  ins: [weight('dy'), weight('w')],
  outs: [weight('dw')],
  shape: (_, [dy, w]) => checked([expectRank('the weight', w!, 4), () => expectShape('dy', dy!, w!)()], () => legal(w!)),
  flops: perElement(12, firstOut),
})
