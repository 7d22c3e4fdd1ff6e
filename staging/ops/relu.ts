// ReLU and leaky ReLU (slope > 0). The backward reads y, not x, so the forward may overwrite x.
import { defineOp, type OperandDef, pointwise } from './op'
import { checked, expectRange, expectRank, expectShape, firstIn, firstOut, legal, perElement } from './rules'

const fields = { slope: 'float' } as const
const data = (name: string): OperandDef => ({ name, role: 'data', access: () => pointwise })

export const relu = defineOp({
  kind: 'relu',
  wire: 15,
  narrow: 'may',
  fields,
  anchor: 'out',
  inPlace: [0],
  what: 'y = x > 0 ? x : slope·x; may run in place',
  ins: [data('x')],
  outs: [data('y')],
  // A negative slope would fold both signs of x onto one of y.
  shape: (a, [x]) => checked([expectRank('the input', x!, 4), expectRange('slope', a.slope, 0)], () => legal(x!)),
  backward: (g) => {
    if (g.wants(0)) g.give(0, g.emit('relu_bwd', g.attrs, [g.outs[0]!, g.dOut(0)], [g.shape(g.ins[0]!)])[0]!)
  },
  flops: perElement(1, firstOut),
})

export const reluBwd = defineOp({
  kind: 'relu_bwd',
  wire: 16,
  narrow: 'may',
  fields,
  anchor: 1,
  inPlace: [1],
  what: 'dx = y > 0 ? dy : slope·dy; in place of dy',
  ins: [data('y'), data('dy')],
  outs: [data('dx')],
  shape: (a, [y, dy]) =>
    checked([expectRank('y', y!, 4), expectShape('the incoming gradient', dy!, y!), expectRange('slope', a.slope, 0)], () =>
      legal(y!),
    ),
  flops: perElement(1, firstIn),
})
