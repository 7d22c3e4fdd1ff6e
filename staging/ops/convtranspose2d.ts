// Transposed convolution: y is what a convolution with the same weights would have read to make x. Weights are
// [C, O/groups, kH, kW], PyTorch's order. Forward, data gradient, weight and bias gradient.
// A slice of T output rows needs T/stride + (reach - 2)/stride + 1 rows of x. Each tile computes its rows of y alone, so
// what a window puts beyond them is another tile's. Worked example, kernel 4, stride 2, padding 1: rows [4,8) need x [1,5).
import {
  all,
  type AccessMap,
  type AttrsOf,
  type CallShapes,
  pointwise,
  same,
  shapeText,
  type Shapes,
  transposed,
  wholeChannels,
} from './op'
import { convFields } from './conv2d'
import { product } from './product'
import { checked, elements, expectRange, expectRank, legal } from './rules'

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

export const [convTranspose2d, convTranspose2dBwdData, convTranspose2dBwdWeights] = product({
  kind: 'conv_transpose2d',
  wires: [41, 42, 43],
  what: [
    'w is `[C, O/groups, kH, kW]`; y[i·stride − pad + k·dilation] += x[i]·w[k]; reads exactly the x whose windows meet y',
    'a convolution of dy; parts of windows outside the box of dy count as zero, for other tiles add them',
    'dw and db merge by sum over tiles',
  ],
  fields,
  image: windowsMeeting,
  own: () => pointwise,
  gradient: () => wholeChannels,
  apply: spread,
  biases: (a, w) => w[1]! * a.groups,
  // Every element of x meets O/groups * kH * kW weights.
  multiplyAdds: (x, w) => elements(x) * (elements(w) / (w?.[0] ?? 1)),
  copies: 9,
})
