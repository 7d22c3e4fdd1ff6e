// Sums: `add` of a residual join, whose gradient is dy itself for every input, and `grad_sum`, which adds the
// contributions to the gradient of a value that several ops read. A contribution may cover a smaller box (a tile's).
import { type AccessMap, defineOp, inside, pointwise } from './op'
import { agreeBut, checked, elements, expectRank, legal } from './rules'

type Shape = readonly number[]
const insideAll: AccessMap = { B: inside, C: inside, H: inside, W: inside }

const agreeing = (ins: readonly Shape[]) =>
  checked([...ins.map((s, i) => expectRank(`input ${i}`, s, 4)), agreeBut(undefined, ins)], () => legal(ins[0]!))

export const add = defineOp({
  kind: 'add', wire: 23, fields: {}, anchor: 'out', variadic: true, inPlace: [0],
  what: 'variadic, at least two; in place of a',
  ins: [{ name: 'a', role: 'data', access: () => pointwise }, { name: 'b', role: 'data', access: () => pointwise }],
  outs: [{ name: 'y', role: 'data', access: () => pointwise }],
  shape: (_, ins) => agreeing(ins),
  backward: (g) => {
    for (const i of g.ins.keys()) if (g.wants(i)) g.give(i, g.dOut(0))
  },
  flops: (_, s) => (s.ins.length - 1) * elements(s.outs[0]),
})

export const gradSum = defineOp({
  kind: 'grad_sum', wire: 24, fields: {}, anchor: 'out', variadic: true, inPlace: [0],
  what: 'variadic; each input may hold a smaller box than the output: zero outside; in place of d0 when the boxes agree',
  ins: [{ name: 'd0', role: 'data', access: () => insideAll }, { name: 'd1', role: 'data', access: () => insideAll }],
  outs: [{ name: 'd', role: 'data', access: () => pointwise }],
  shape: (_, ins) => agreeing(ins),
  flops: (_, s) => (s.ins.length - 1) * elements(s.outs[0]),
})
