// Sums: `add` of a residual join, whose gradient is dy itself for every input, and `grad_sum`, which adds the
// contributions to the gradient of a value that several ops read. A contribution may cover a smaller box (a tile's).
import { type AccessMap, data, defineOp, inside, type Sizes } from './op'
import { agreeBut, checked, elements, expectRange, expectRank, legal } from './rules'

const insideAll: AccessMap = { B: inside, C: inside, H: inside, W: inside }

const agreeing = (ins: readonly Sizes[]) =>
  checked([...ins.map((s, i) => expectRank(`input ${i}`, s, 4)), agreeBut(undefined, ins)], () => legal(ins[0]!))

export const add = defineOp({
  kind: 'add',
  wire: 23,
  half: 'may',
  fields: {},
  anchor: 'out',
  variadic: true,
  inPlace: [0],
  what: 'variadic, at least two; in place of a',
  ins: [data('a'), data('b')],
  outs: [data('y')],
  shape: (_, ins) => agreeing(ins),
  backward: (g) => {
    for (const i of g.ins.keys()) if (g.needsGradient(i)) g.addGradient(i, g.outputGradient(0))
  },
  flops: (_, s) => (s.ins.length - 1) * elements(s.outs[0]),
})

export const gradSum = defineOp({
  kind: 'grad_sum',
  wire: 24,
  half: 'may',
  fields: {},
  anchor: 'out',
  variadic: true,
  inPlace: [0],
  what: 'variadic; each input may hold a smaller box than the output: zero outside; in place of d0 when the boxes agree',
  ins: [data('d0', insideAll), data('d1', insideAll)],
  outs: [data('d')],
  shape: (_, ins) => agreeing(ins),
  flops: (_, s) => (s.ins.length - 1) * elements(s.outs[0]),
})

export const addRelu = defineOp({
  kind: 'add_relu',
  wire: 73,
  half: 'may',
  fields: { slope: 'float' },
  anchor: 'out',
  variadic: true,
  inPlace: [0],
  what: 'relu of the sum; in place of a',
  ins: [data('a'), data('b')],
  outs: [data('y')],
  shape: (a, ins) => checked([expectRange('slope', a.slope, 0)], () => agreeing(ins)),
  backward: (g) => {
    if (!g.ins.some((_, i) => g.needsGradient(i))) return
    const d = g.emit('relu_bwd', g.attrs, [g.outs[0]!, g.outputGradient(0)], [g.shape(g.outs[0]!)])[0]!
    for (const i of g.ins.keys()) if (g.needsGradient(i)) g.addGradient(i, d)
  },
  flops: (_, s) => s.ins.length * elements(s.outs[0]),
})
