// Convolution: forward, data gradient, weight and bias gradient. Weights are [O, C/groups, kH, kW], PyTorch's order.
// Paper 3, Table 3: sigma is the stride, delta the reach of the (dilated) kernel less the stride, in H and W.
import { mapped } from '../core/mapped'
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
  window,
  wholeChannels,
  type Sizes,
} from './op'
import { product, productGradients, weightCopy } from './product'
import { checked, elements, expectRange, expectRank, type Window, windowsFit } from './rules'

export const convFields = {
  strideH: 'int',
  strideW: 'int',
  padTop: 'int',
  padLeft: 'int',
  padBottom: 'int',
  padRight: 'int',
  dilationH: 'int',
  dilationW: 'int',
  groups: 'int',
} as const
type Fields = typeof convFields
type Attrs = AttrsOf<Fields>

/** Returns the windows along H and W; their size is that of the weight. */
export const windowsOf = (a: Attrs, w: Sizes): readonly [Window, Window] => [
  { kernel: w[2]!, stride: a.strideH, padLow: a.padTop, padHigh: a.padBottom, dilation: a.dilationH, ceil: false },
  { kernel: w[3]!, stride: a.strideW, padLow: a.padLeft, padHigh: a.padRight, dilation: a.dilationW, ceil: false },
]

/** The access map of these windows; the weight may be any operand. */
export const through =
  (seen: typeof window) =>
  (weight: (s: CallShapes) => Sizes) =>
  (a: Attrs, s: CallShapes): AccessMap => {
    const [h, w] = mapped(windowsOf(a, weight(s)), (x) => seen(x.kernel, x.stride, x.padLow, x.dilation))
    return { B: same, C: all, H: h!, W: w! }
  }

/** Returns y's shape from x and w. */
const convolve = (a: Attrs, x: Sizes, w: Sizes): Shapes => {
  const channels = x[1]! / a.groups
  return checked(
    [
      expectRank('the input', x, 4),
      expectRank('the weight', w, 4),
      expectRange('groups', a.groups, 1),
      () => (Number.isInteger(channels) ? undefined : `groups is ${a.groups}; allowed: divisors of the ${x[1]} input channels`),
      () => (w[0]! % a.groups === 0 ? undefined : `groups is ${a.groups}; allowed: divisors of the ${w[0]} output channels`),
      () =>
        w[1] === channels
          ? undefined
          : `the weight has shape ${shapeText(w)} for an input ${shapeText(x)}; ` +
            `allowed: [${w[0]},${channels},${w[2]},${w[3]}]`,
    ],
    // Padding is less than the window's reach, so every window covers a pixel of the image.
    () => windowsFit(x, w[0]!, windowsOf(a, w), (v) => v.dilation * (v.kernel - 1)),
  )
}

export const [conv2d, conv2dBwdData, conv2dBwdWeights] = product({
  kind: 'conv2d',
  wires: [1, 2, 3],
  what: [
    'w is `[O, C/groups, kH, kW]`',
    'writes the whole dx box (zeros where nothing lands)',
    'dw and db merge by sum over tiles',
  ],
  fields: convFields,
  image: through(window),
  own: () => pointwise,
  gradient: () => wholeChannels,
  apply: convolve,
  biases: (_, w) => w[0]!,
  // Each output element reads C/groups * kH * kW weights.
  multiplyAdds: (_, w, y) => elements(y) * (elements(w) / (w?.[0] ?? 1)),
  copies: 9,
  laid: true,
})

const reluFields = { ...convFields, slope: 'float' } as const

export const conv2dRelu = defineOp({
  kind: 'conv2d_relu',
  wire: 84,
  half: 'may',
  fields: reluFields,
  anchor: 'out',
  dense: true,
  what: 'z as y of conv2d; y = z > 0 ? z : slope·z',
  ins: conv2d.ins as OperandDef<typeof reluFields>[],
  outs: conv2d.outs as OperandDef<typeof reluFields>[],
  shape: (a, ins) => checked([expectRange('slope', a.slope, 0)], () => conv2d.shape(a, ins, [])),
  backward: (g) => {
    if (!g.ins.some((_, i) => g.needsGradient(i))) return
    const { slope, ...attrs } = g.attrs
    productGradients(
      'conv2d',
      g,
      attrs,
      g.emit('relu_bwd', { slope }, [g.outs[0]!, g.outputGradient(0)], [g.shape(g.outs[0]!)])[0]!,
    )
  },
  flops: (a, s) => conv2d.flops(a, s) + elements(s.outs[0]),
  workspace: weightCopy,
})
