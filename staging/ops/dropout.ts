// Dropout. The mask is drawn from Philox by seed, step, `key` and global element index: the same under any tiling,
// recompute or swap, so the backward draws it again and nothing is saved.
import { data, defineOp } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

const fields = { p: 'float', key: 'int' } as const
const limits = { p: { least: 0, below: 1 }, key: { least: 0, most: 0xffffffff } } as const
type Shape = readonly number[]

const dropped = (_: unknown, [x]: readonly Shape[]) => checked([expectRank('the input', x!, 4)], () => legal(x!))

export const dropout = defineOp({
  kind: 'dropout',
  wire: 29,
  narrow: 'may',
  reclaimed: true,
  fields,
  limits,
  anchor: 'out',
  random: true,
  inPlace: [0],
  what: 'y = keep ? x/(1−p) : 0, keep drawn from Philox4x32-10 by (seed, step, key, global element index in B,C,H,W order); in place',
  ins: [data('x')],
  outs: [data('y')],
  shape: dropped,
  backward: (g) => {
    if (g.wants(0)) g.give(0, g.emit('dropout_bwd', g.attrs, [g.dOut(0)], [g.shape(g.ins[0]!)])[0]!)
  },
  samples: (image) => [0, 0.2, 0.5].map((p) => ({ attrs: { p, key: 7 }, ins: [image] })),
  flops: perElement(10, firstOut),
})

export const dropoutBwd = defineOp({
  kind: 'dropout_bwd',
  wire: 30,
  narrow: 'may',
  fields,
  limits,
  anchor: 0,
  random: true,
  inPlace: [0],
  what: 'the same mask; in place',
  ins: [data('dy')],
  outs: [data('dx')],
  shape: dropped,
  flops: perElement(10, firstOut),
})
