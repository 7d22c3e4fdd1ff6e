// The hyperbolic tangent. The backward reads y, not x, so the forward may overwrite x.
import { defineOp, type OperandDef, pointwise } from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, perElement } from './rules'

const data = (name: string): OperandDef => ({ name, role: 'data', access: () => pointwise })

export const tanh = defineOp({
  kind: 'tanh',
  wire: 39,
  narrow: 'may',
  fields: {},
  anchor: 'out',
  inPlace: [0],
  what: 'y = tanh(x); may run in place',
  ins: [data('x')],
  outs: [data('y')],
  shape: (_, [x]) => checked([expectRank('the input', x!, 4)], () => legal(x!)),
  backward: (g) => {
    if (g.wants(0)) g.give(0, g.emit('tanh_bwd', {}, [g.outs[0]!, g.dOut(0)], [g.shape(g.ins[0]!)])[0]!)
  },
  flops: perElement(5, firstOut),
})

export const tanhBwd = defineOp({
  kind: 'tanh_bwd',
  wire: 40,
  narrow: 'may',
  fields: {},
  anchor: 1,
  inPlace: [1],
  what: 'dx = dy·(1 − y²); in place of dy',
  ins: [data('y'), data('dy')],
  outs: [data('dx')],
  shape: (_, [y, dy]) => checked([expectRank('y', y!, 4), expectShape('the incoming gradient', dy!, y!)], () => legal(y!)),
  flops: perElement(3, firstIn),
})
