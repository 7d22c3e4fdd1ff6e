// Dropout. The mask is drawn from Philox by seed, step, `key` and global element index: the same under any tiling,
// recompute or swap, so the backward draws it again and nothing is saved.
import { defineOp, type OperandDef, pointwise } from './op'
import { checked, expectRange, expectRank, firstOut, legal, perElement } from './rules'

const fields = { p: 'float', key: 'int' } as const
const data = (name: string): OperandDef => ({ name, role: 'data', access: () => pointwise })
type Shape = readonly number[]

const dropped = (a: { readonly p: number; readonly key: number }, x: Shape) =>
  checked(
    [
      expectRank('the input', x, 4),
      expectRange('key', a.key, 0, 0xffffffff),
      () => (a.p >= 0 && a.p < 1 ? undefined : `p is ${a.p}; legal is 0 or more and below 1`),
    ],
    () => legal(x),
  )

export const dropout = defineOp({
  kind: 'dropout',
  wire: 29,
  narrow: 'may',
  reclaimed: true,
  fields,
  anchor: 'out',
  random: true,
  inPlace: [0],
  what: 'y = keep ? x/(1−p) : 0, keep drawn from Philox4x32-10 by (seed, step, key, global element index in B,C,H,W order); in place',
  ins: [data('x')],
  outs: [data('y')],
  shape: (a, [x]) => dropped(a, x!),
  backward: (g) => {
    if (g.wants(0)) g.give(0, g.emit('dropout_bwd', g.attrs, [g.dOut(0)], [g.shape(g.ins[0]!)])[0]!)
  },
  flops: perElement(10, firstOut),
})

export const dropoutBwd = defineOp({
  kind: 'dropout_bwd',
  wire: 30,
  narrow: 'may',
  fields,
  anchor: 0,
  random: true,
  inPlace: [0],
  what: 'the same mask; in place',
  ins: [data('dy')],
  outs: [data('dx')],
  shape: (a, [dy]) => dropped(a, dy!),
  flops: perElement(10, firstOut),
})
