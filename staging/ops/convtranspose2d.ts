// Transposed convolution: the transpose of the convolution with the same weights, which maps y to x. Weights are [C, O/groups, kH, kW], PyTorch's
// order. Forward, data gradient, weight and bias gradient. A slice of T output rows needs T/stride + (reach - 2)/stride + 1 rows of x. Each tile
// computes only its rows of y; other tiles compute the other rows of a window. Worked example, kernel 4, stride 2, padding 1: rows [4,8) need x [1,5).
import { type AttrsOf, pointwise, shapeText, type Shapes, type Sizes, transposed, wholeChannels } from './op'
import { convFields, through, windowsOf } from './conv2d'
import { product } from './product'
import { checked, elements, expectRange, expectRank, legal, type Window, windowChecks } from './rules'

const fields = { ...convFields, outputPadH: 'int', outputPadW: 'int' } as const
type Attrs = AttrsOf<typeof fields>

interface Axis extends Window {
  readonly outputPad: number
}
const axesOf = (a: Attrs, w: Sizes): readonly [Axis, Axis] => {
  const [rows, columns] = windowsOf(a, w)
  return [
    { ...rows, outputPad: a.outputPadH },
    { ...columns, outputPad: a.outputPadW },
  ]
}

const outputExtent = (extent: number, x: Axis): number =>
  (extent - 1) * x.stride - x.padLow - x.padHigh + x.dilation * (x.kernel - 1) + 1 + x.outputPad

/** Padding is less than the window's reach, so every row of x contributes to y. */
const axisChecks = (dim: string, extent: number, x: Axis): readonly (() => string | undefined)[] => [
  ...windowChecks(dim, x, x.dilation * (x.kernel - 1)),
  expectRange(`output padding in ${dim}`, x.outputPad, 0, Math.max(x.stride, x.dilation) - 1),
  () =>
    outputExtent(extent, x) >= 1
      ? undefined
      : `the padding removes all ${outputExtent(extent, x) + x.padLow + x.padHigh} rows in ${dim}; use less padding`,
]

/** Returns y's shape from x and w. */
const spread = (a: Attrs, x: Sizes, w: Sizes): Shapes => {
  const [rows, columns] = axesOf(a, w)
  return checked(
    [
      expectRank('the input', x, 4),
      expectRank('the weight', w, 4),
      expectRange('groups', a.groups, 1),
      () => (x[1]! % a.groups === 0 ? undefined : `groups is ${a.groups}; allowed: divisors of the ${x[1]} input channels`),
      () =>
        w[0] === x[1]
          ? undefined
          : `the weight has shape ${shapeText(w)} for an input ${shapeText(x)}; ` + `allowed: [${x[1]},${w[1]},${w[2]},${w[3]}]`,
      ...axisChecks('H', x[2]!, rows),
      ...axisChecks('W', x[3]!, columns),
    ],
    () => legal([x[0]!, w[1]! * a.groups, outputExtent(x[2]!, rows), outputExtent(x[3]!, columns)]),
  )
}

export const [convTranspose2d, convTranspose2dBwdData, convTranspose2dBwdWeights] = product({
  kind: 'conv_transpose2d',
  wires: [41, 42, 43],
  what: [
    'w is `[C, O/groups, kH, kW]`; y[i·stride − pad + k·dilation] += x[i]·w[k]; reads exactly the x whose windows meet y',
    'a convolution of dy; parts of windows outside the box of dy count as zero, because other tiles add them',
    'dw and db merge by sum over tiles',
  ],
  fields,
  // The access to x: all windows that overlap a range of y.
  image: through(transposed),
  own: () => pointwise,
  gradient: () => wholeChannels,
  apply: spread,
  biases: (a, w) => w[1]! * a.groups,
  // Each element of x is multiplied by O/groups * kH * kW weights.
  multiplyAdds: (x, w) => elements(x) * (elements(w) / (w?.[0] ?? 1)),
  copies: 9,
  laid: true,
})
