// Transposed convolution: y is what a convolution with the same weights would have read to make x. Weights are
// [C, O/groups, kH, kW], PyTorch's order. Forward, data gradient, weight and bias gradient.
// A slice of T output rows needs T/stride + (reach - 2)/stride + 1 rows of x. Each tile computes its rows of y alone, so
// what a window puts beyond them is another tile's. Worked example, kernel 4, stride 2, padding 1: rows [4,8) need x [1,5).
import {
  all,
  type AccessMap,
  type AttrsOf,
  type CallShapes,
  defineOp,
  type OperandDef,
  pointwise,
  same,
  shapeText,
  type Shapes,
  transposed,
  wholeChannels,
} from './op'
import { convFields } from './conv2d'
import { checked, elements, expectRange, expectRank, expectShape, invertsForward, legal } from './rules'

const fields = { ...convFields, outputPadH: 'int', outputPadW: 'int' } as const
type Fields = typeof fields
type Attrs = AttrsOf<Fields>
type Shape = readonly number[]

/** What the side of x sees: the windows, whose size is the weight's, that meet a range of y. */
const windowsMeeting =
  (weight: (s: CallShapes) => Shape) =>
  (a: Attrs, s: CallShapes): AccessMap => {
    const w = weight(s)
    return {
      B: same,
      C: all,
      H: transposed(w[2]!, a.strideH, a.padTop, a.dilationH),
      W: transposed(w[3]!, a.strideW, a.padLeft, a.dilationW),
    }
  }

interface Axis {
  readonly kernel: number
  readonly stride: number
  readonly padLow: number
  readonly padHigh: number
  readonly dilation: number
  readonly outputPad: number
}
const axisH = (a: Attrs, w: Shape): Axis => ({
  kernel: w[2]!,
  stride: a.strideH,
  padLow: a.padTop,
  padHigh: a.padBottom,
  dilation: a.dilationH,
  outputPad: a.outputPadH,
})
const axisW = (a: Attrs, w: Shape): Axis => ({
  kernel: w[3]!,
  stride: a.strideW,
  padLow: a.padLeft,
  padHigh: a.padRight,
  dilation: a.dilationW,
  outputPad: a.outputPadW,
})

const outputExtent = (extent: number, x: Axis): number =>
  (extent - 1) * x.stride - x.padLow - x.padHigh + x.dilation * (x.kernel - 1) + 1 + x.outputPad

const axisChecks = (dim: string, extent: number, x: Axis): readonly (() => string | undefined)[] => {
  const mostPad = x.dilation * (x.kernel - 1)
  return [
    expectRange(`kernel${dim}`, x.kernel, 1),
    expectRange(`stride${dim}`, x.stride, 1),
    expectRange(`dilation${dim}`, x.dilation, 1),
    // Padding stays below the window's reach, so that every row of x reaches y.
    expectRange(`low padding in ${dim}`, x.padLow, 0, mostPad),
    expectRange(`high padding in ${dim}`, x.padHigh, 0, mostPad),
    expectRange(`output padding in ${dim}`, x.outputPad, 0, Math.max(x.stride, x.dilation) - 1),
    () =>
      outputExtent(extent, x) >= 1
        ? undefined
        : `the padding takes all of the ${outputExtent(extent, x) + x.padLow + x.padHigh} rows in ${dim}` +
          `; legal is less padding than that`,
  ]
}

/** y's shape from x and w. */
const spread = (a: Attrs, x: Shape, w: Shape): Shapes =>
  checked(
    [
      expectRank('the input', x, 4),
      expectRank('the weight', w, 4),
      expectRange('groups', a.groups, 1),
      () => (x[1]! % a.groups === 0 ? undefined : `groups is ${a.groups}; legal are divisors of the ${x[1]} input channels`),
      () =>
        w[0] === x[1]
          ? undefined
          : `the weight has shape ${shapeText(w)} for an input ${shapeText(x)}; ` + `legal is [${x[1]},${w[1]},${w[2]},${w[3]}]`,
      ...axisChecks('H', x[2]!, axisH(a, w)),
      ...axisChecks('W', x[3]!, axisW(a, w)),
    ],
    () => legal([x[0]!, w[1]! * a.groups, outputExtent(x[2]!, axisH(a, w)), outputExtent(x[3]!, axisW(a, w))]),
  )

/** Multiply-adds: every element of x meets O/groups * kH * kW weights. */
const macs = (x: Shape | undefined, w: Shape | undefined): number => elements(x) * (elements(w) / (w?.[0] ?? 1))

const bias: OperandDef<Fields> = { name: 'b', role: 'whole', optional: true }
const biasFits = (b: Shape | undefined, a: Attrs, w: Shape) => (): string | undefined =>
  b && expectShape('the bias', b, [w[1]! * a.groups])()

export const convTranspose2d = defineOp({
  kind: 'conv_transpose2d',
  wire: 41,
  narrow: 'may',
  fields,
  anchor: 'out',
  dense: true,
  what: 'w is `[C, O/groups, kH, kW]`; y[i·stride − pad + k·dilation] += x[i]·w[k]; reads exactly the x whose windows meet y',
  ins: [{ name: 'x', role: 'data', access: windowsMeeting((s) => s.ins[1]!) }, { name: 'w', role: 'whole' }, bias],
  outs: [{ name: 'y', role: 'data', access: () => pointwise }],
  shape: (a, [x, w, b]) => checked([biasFits(b, a, w!)], () => spread(a, x!, w!)),
  backward: (g) => {
    const [x, w, b] = g.ins
    const dy = g.dOut(0)
    // The weight gradient comes first: x can go before dx arrives.
    if (g.wants(1)) {
      const shapes = [g.shape(w!), ...(b === undefined ? [] : [g.shape(b)])]
      const [dw, db] = g.emit('conv_transpose2d_bwd_weights', g.attrs, [x!, dy], shapes)
      g.give(1, dw!)
      if (db !== undefined) g.give(2, db)
    }
    if (g.wants(0)) g.give(0, g.emit('conv_transpose2d_bwd_data', g.attrs, [dy, w!], [g.shape(x!)])[0]!)
  },
  flops: (_, s) => 2 * macs(s.ins[0], s.ins[1]) + (s.ins[2] ? elements(s.outs[0]) : 0),
  // One reordered copy of the weights.
  workspace: (_, s, bytes) => elements(s.ins[1]) * bytes,
})

export const convTranspose2dBwdData = defineOp({
  kind: 'conv_transpose2d_bwd_data',
  wire: 42,
  narrow: 'may',
  fields,
  anchor: 0,
  dense: true,
  what: 'a convolution of dy; parts of windows outside the box of dy count as zero, for other tiles add them',
  ins: [
    { name: 'dy', role: 'data', access: () => wholeChannels },
    { name: 'w', role: 'whole' },
  ],
  outs: [{ name: 'dx', role: 'data', access: windowsMeeting((s) => s.ins[1]!) }],
  outputsGiven: true,
  shape: (a, [dy, w], given) => invertsForward(() => spread(a, given[0]!, w!), dy!, given),
  flops: (_, s) => 2 * macs(s.outs[0], s.ins[1]),
  workspace: (_, s, bytes) => elements(s.ins[1]) * bytes,
})

export const convTranspose2dBwdWeights = defineOp({
  kind: 'conv_transpose2d_bwd_weights',
  wire: 43,
  narrow: 'may',
  fields,
  anchor: 1,
  dense: true,
  what: 'dw and db merge by sum over tiles',
  ins: [
    { name: 'x', role: 'data', access: windowsMeeting((s) => s.outs[0]!) },
    { name: 'dy', role: 'data', access: () => wholeChannels },
  ],
  outs: [
    { name: 'dw', role: 'whole', merge: 'sum' },
    { ...bias, name: 'db', merge: 'sum' },
  ],
  outputsGiven: true,
  shape: (a, [x, dy], given) =>
    checked([biasFits(given[1], a, given[0]!)], () => invertsForward(() => spread(a, x!, given[0]!), dy!, given)),
  flops: (_, s) => 2 * macs(s.ins[0], s.outs[0]) + (s.outs[1] ? elements(s.ins[1]) : 0),
  // Threads sum into copies of their own: up to eight, and one in the kernel's layout.
  workspace: (_, s, bytes) => 9 * elements(s.outs[0]) * bytes,
})
