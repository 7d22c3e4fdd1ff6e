// Convolution: forward, data gradient, weight and bias gradient. Weights are [O, C/groups, kH, kW], PyTorch's order.
// Paper 3, Table 3: sigma is the stride, delta the reach of the (dilated) kernel less the stride, in H and W.
import { isLeft, left } from 'fp-ts/Either'
import {
  all,
  type AccessMap,
  type AnyAttrs,
  type AttrsOf,
  type CallShapes,
  defineOp,
  type GradContext,
  type OperandDef,
  type Ref,
  pointwise,
  same,
  shapeText,
  type Shapes,
  window,
  wholeChannels,
} from './op'
import { checked, elements, expectRange, expectRank, expectShape, invertsForward, legal, type Window, windowFits } from './rules'

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

/** Multiply-adds: every output element meets C/groups * kH * kW weights. */
const macs = (y: Shape | undefined, w: Shape | undefined): number => elements(y) * (elements(w) / (w?.[0] ?? 1))

const bias: OperandDef<Fields> = { name: 'b', role: 'whole', optional: true }
const biasFits = (b: Shape | undefined, w: Shape) => (): string | undefined => b && expectShape('the bias', b, [w[0]!])()

/** The gradients of a convolution whose output's gradient is dy. */
const convolutionGradients = (g: GradContext<Fields>, attrs: AnyAttrs, dy: Ref): void => {
  const [x, w, b] = g.ins
  // The weight gradient comes first: x can go before the equally large dx arrives.
  if (g.wants(1)) {
    const shapes = [g.shape(w!), ...(b === undefined ? [] : [g.shape(b)])]
    const [dw, db] = g.emit('conv2d_bwd_weights', attrs, [x!, dy], shapes)
    g.give(1, dw!)
    if (db !== undefined) g.give(2, db)
  }
  if (g.wants(0)) g.give(0, g.emit('conv2d_bwd_data', attrs, [dy, w!], [g.shape(x!)])[0]!)
}

export const conv2d = defineOp({
  kind: 'conv2d',
  wire: 1,
  narrow: 'may',
  fields: convFields,
  anchor: 'out',
  dense: true,
  what: 'w is `[O, C/groups, kH, kW]`',
  ins: [{ name: 'x', role: 'data', access: image((s) => s.ins[1]!) }, { name: 'w', role: 'whole' }, bias],
  outs: [{ name: 'y', role: 'data', access: () => pointwise }],
  shape: (a, [x, w, b]) => checked([biasFits(b, w!)], () => convolve(a, x!, w!)),
  backward: (g) => convolutionGradients(g, g.attrs, g.dOut(0)),
  flops: (_, s) => 2 * macs(s.outs[0], s.ins[1]) + (s.ins[2] ? elements(s.outs[0]) : 0),
  // One reordered copy of the weights.
  workspace: (_, s, bytes) => elements(s.ins[1]) * bytes,
})

const reluFields = { ...convFields, slope: 'float' } as const

export const conv2dRelu = defineOp({
  kind: 'conv2d_relu',
  wire: 84,
  narrow: 'may',
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
    convolutionGradients(g, attrs, g.emit('relu_bwd', { slope }, [g.outs[0]!, g.dOut(0)], [g.shape(g.outs[0]!)])[0]!)
  },
  flops: (a, s) => conv2d.flops(a, s) + elements(s.outs[0]),
  workspace: (_, s, bytes) => elements(s.ins[1]) * bytes,
})

export const conv2dBwdData = defineOp({
  kind: 'conv2d_bwd_data',
  wire: 2,
  narrow: 'may',
  fields: convFields,
  anchor: 0,
  dense: true,
  what: 'writes the whole dx box (zeros where nothing lands)',
  ins: [
    { name: 'dy', role: 'data', access: () => wholeChannels },
    { name: 'w', role: 'whole' },
  ],
  outs: [{ name: 'dx', role: 'data', access: image((s) => s.ins[1]!) }],
  outputsGiven: true,
  shape: (a, [dy, w], given) => invertsForward(() => convolve(a, given[0]!, w!), dy!, given),
  flops: (_, s) => 2 * macs(s.ins[0], s.ins[1]),
  workspace: (_, s, bytes) => elements(s.ins[1]) * bytes,
})

export const conv2dBwdWeights = defineOp({
  kind: 'conv2d_bwd_weights',
  wire: 3,
  narrow: 'may',
  fields: convFields,
  anchor: 1,
  dense: true,
  what: 'dw and db merge by sum over tiles',
  ins: [
    { name: 'x', role: 'data', access: image((s) => s.outs[0]!) },
    { name: 'dy', role: 'data', access: () => wholeChannels },
  ],
  outs: [
    { name: 'dw', role: 'whole', merge: 'sum' },
    { ...bias, name: 'db', merge: 'sum' },
  ],
  outputsGiven: true,
  shape: (a, [x, dy], given) =>
    checked([biasFits(given[1], given[0]!)], () => invertsForward(() => convolve(a, x!, given[0]!), dy!, given)),
  flops: (_, s) => 2 * macs(s.ins[1], s.outs[0]) + (s.outs[1] ? elements(s.ins[1]) : 0),
  // Threads sum into copies of their own: up to eight, and one in the kernel's layout.
  workspace: (_, s, bytes) => 9 * elements(s.outs[0]) * bytes,
})
