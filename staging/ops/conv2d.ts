// Convolution: forward, data gradient, weight and bias gradient. Weights are [O, C/groups, kH, kW], PyTorch's order.
// Paper 3, Table 3: sigma is the stride, delta the reach of the (dilated) kernel less the stride, in H and W.
import { isLeft, left } from 'fp-ts/Either'
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
} from './op'
import { product, productGradients, weightCopy } from './product'
import { checked, elements, expectRange, expectRank, legal, type Window, windowFits } from './rules'

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
type Shape = readonly number[]

const windowH = (a: Attrs, w: Shape): Window => ({
  kernel: w[2]!,
  stride: a.strideH,
  padLow: a.padTop,
  padHigh: a.padBottom,
  dilation: a.dilationH,
  ceil: false,
})
const windowW = (a: Attrs, w: Shape): Window => ({
  kernel: w[3]!,
  stride: a.strideW,
  padLow: a.padLeft,
  padHigh: a.padRight,
  dilation: a.dilationW,
  ceil: false,
})

/** What the image side sees: windows whose size is the weight's, wherever the weight stands among the operands. */
const image =
  (weight: (s: CallShapes) => Shape) =>
  (a: Attrs, s: CallShapes): AccessMap => {
    const w = weight(s)
    return {
      B: same,
      C: all,
      H: window(w[2]!, a.strideH, a.padTop, a.dilationH),
      W: window(w[3]!, a.strideW, a.padLeft, a.dilationW),
    }
  }

/** y's shape from x and w. */
const convolve = (a: Attrs, x: Shape, w: Shape): Shapes => {
  const channels = x[1]! / a.groups
  return checked(
    [
      expectRank('the input', x, 4),
      expectRank('the weight', w, 4),
      expectRange('groups', a.groups, 1),
      () => (Number.isInteger(channels) ? undefined : `groups is ${a.groups}; legal are divisors of the ${x[1]} input channels`),
      () => (w[0]! % a.groups === 0 ? undefined : `groups is ${a.groups}; legal are divisors of the ${w[0]} output channels`),
      () =>
        w[1] === channels
          ? undefined
          : `the weight has shape ${shapeText(w)} for an input ${shapeText(x)}; ` +
            `legal is [${w[0]},${channels},${w[2]},${w[3]}]`,
    ],
    () => {
      // Padding stays below the window's reach, so that every window sees a pixel of the image.
      const h = windowFits('H', x[2]!, windowH(a, w), a.dilationH * (w[2]! - 1))
      if (isLeft(h)) return left(h.left)
      const v = windowFits('W', x[3]!, windowW(a, w), a.dilationW * (w[3]! - 1))
      return isLeft(v) ? left(v.left) : legal([x[0]!, w[0]!, h.right, v.right])
    },
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
  image,
  own: () => pointwise,
  gradient: () => wholeChannels,
  apply: convolve,
  biases: (_, w) => w[0]!,
  // Every output element meets C/groups * kH * kW weights.
  multiplyAdds: (_, w, y) => elements(y) * (elements(w) / (w?.[0] ?? 1)),
  copies: 9,
})

const reluFields = { ...convFields, slope: 'float' } as const

export const conv2dRelu = defineOp({
  kind: 'conv2d_relu',
  wire: 84,
  bf16: 'may',
  fields: reluFields,
  anchor: 'out',
  dense: true,
  what: 'z as y of conv2d; y = z > 0 ? z : slope·z',
  ins: conv2d.ins as OperandDef<typeof reluFields>[],
  outs: conv2d.outs as OperandDef<typeof reluFields>[],
  shape: (a, ins) => checked([expectRange('slope', a.slope, 0)], () => conv2d.shape(a, ins, [])),
  backward: (g) => {
    if (!g.ins.some((_, i) => g.wants(i))) return
    const { slope, ...attrs } = g.attrs
    productGradients('conv2d', g, attrs, g.emit('relu_bwd', { slope }, [g.outs[0]!, g.dOut(0)], [g.shape(g.outs[0]!)])[0]!)
  },
  flops: (a, s) => conv2d.flops(a, s) + elements(s.outs[0]),
  workspace: weightCopy,
})
