// Max and average pooling with padding and PyTorch's ceil mode; their backward ops scatter each piece of dy into its
// window, so neighbouring tiles overlap and add. FT-compatible in H and W (sigma = stride, delta = kernel - stride).
import {
  all,
  type AccessMap,
  type AnyAttrs,
  type AttrsOf,
  attrsListed,
  data,
  defineOp,
  listedAttrs,
  type OperandDef,
  reduce,
  same,
  type Shapes,
  window,
  type Sizes,
} from './op'
import {
  checked,
  elements,
  expectRange,
  expectRank,
  expectShape,
  firstIn,
  firstOut,
  invertsForward,
  legal,
  perElement,
  windowsFit,
  gradientBy,
} from './rules'

export const maxFields = {
  kernelH: 'int',
  kernelW: 'int',
  strideH: 'int',
  strideW: 'int',
  padTop: 'int',
  padLeft: 'int',
  ceil: 'int',
} as const
/** Returns [padBottom, padRight] if they differ from padTop and padLeft. They only determine the number of windows; kernels do not read them. */
const PAD_END = 'padEnd'
export const maxRest = { [PAD_END]: { least: 0 } } as const
const avgFields = { ...maxFields, countIncludePad: 'int', padBottom: 'int', padRight: 'int' } as const
const avgBwdFields = { ...avgFields, extentH: 'int', extentW: 'int' } as const
type Attrs = AttrsOf<typeof maxFields>

export const poolWindows = (a: Attrs): AccessMap => ({
  B: same,
  C: same,
  H: window(a.kernelH, a.strideH, a.padTop),
  W: window(a.kernelW, a.strideW, a.padLeft),
})
const windows = (name: string): OperandDef<typeof maxFields> => ({ name, role: 'data', access: poolWindows })

/** Returns y's shape. Padding is at most half of the kernel, as in PyTorch, so each window has a pixel of the image. */
const pooled = (a: Attrs, padBottom: number, padRight: number, x: Sizes): Shapes =>
  checked([expectRank('the input', x, 4), expectRange('ceil', a.ceil, 0, 1)], () => {
    const common = { dilation: 1, ceil: a.ceil === 1 }
    const rows = { ...common, kernel: a.kernelH, stride: a.strideH, padLow: a.padTop, padHigh: padBottom }
    const columns = { ...common, kernel: a.kernelW, stride: a.strideW, padLow: a.padLeft, padHigh: padRight }
    return windowsFit(x, x[1]!, [rows, columns], (w) => Math.floor(w.kernel / 2))
  })

/** Returns the padding attributes of a max pool. Equal sides have no attributes of their own, so each pool has one form. */
export const maxPads = (top: number, left: number, bottom: number, right: number): AnyAttrs => ({
  padTop: top,
  padLeft: left,
  ...(top === bottom && left === right ? {} : listedAttrs(PAD_END, [bottom, right])),
})

const endFault = (a: Attrs, end: readonly number[]) => (): string | undefined =>
  end.length === 0 || (end.length === 2 && end.every(Number.isSafeInteger) && (end[0] !== a.padTop || end[1] !== a.padLeft))
    ? undefined
    : `padEnd is ${end.join(', ')}; allowed: two integers, padBottom and padRight, unless they equal padTop and padLeft`

export const maxPooled = (a: Attrs, x: Sizes): Shapes => {
  const end = attrsListed(PAD_END, a)
  return checked([endFault(a, end)], () => pooled(a, end[0] ?? a.padTop, end[1] ?? a.padLeft, x))
}
const avgPooled = (a: AttrsOf<typeof avgFields>, x: Sizes): Shapes =>
  checked([expectRange('countIncludePad', a.countIncludePad, 0, 1)], () => pooled(a, a.padBottom, a.padRight, x))

export const maxPool = defineOp({
  kind: 'max_pool',
  wire: 17,
  half: 'may',
  fields: maxFields,
  rest: maxRest,
  anchor: 'out',
  what: 'pads with −∞; padEnd0 and padEnd1 are padBottom and padRight, absent if they equal padTop and padLeft',
  ins: [windows('x')],
  outs: [data('y')],
  shape: (a, [x]) => maxPooled(a, x!),
  backward: gradientBy('max_pool_bwd', 'x'),
  flops: (a, s) => a.kernelH * a.kernelW * elements(s.outs[0]),
})

export const maxPoolBwd = defineOp({
  kind: 'max_pool_bwd',
  wire: 18,
  half: 'may',
  fields: maxFields,
  rest: maxRest,
  anchor: 1,
  what: 'to the first maximum in row order, as PyTorch; a NaN counts as the maximum',
  ins: [windows('x'), data('dy')],
  outs: [windows('dx')],
  shape: (a, [x, dy]) => invertsForward(() => maxPooled(a, x!), dy!, [x!]),
  flops: (a, s) => a.kernelH * a.kernelW * elements(s.ins[1]),
})

export const avgPool = defineOp({
  kind: 'avg_pool',
  wire: 19,
  half: 'may',
  fields: avgFields,
  anchor: 'out',
  what: "divisor as PyTorch, with ceil windows too: computed from the whole value's extent, not the tile's",
  ins: [windows('x')],
  outs: [data('y')],
  shape: (a, [x]) => avgPooled(a, x!),
  backward: (g) => {
    const x = g.shape(g.ins[0]!)
    if (g.needsGradient(0))
      g.addGradient(0, g.emit('avg_pool_bwd', { ...g.attrs, extentH: x[2]!, extentW: x[3]! }, [g.outputGradient(0)], [x])[0]!)
  },
  flops: (a, s) => a.kernelH * a.kernelW * elements(s.outs[0]),
})

export const avgPoolBwd = defineOp({
  kind: 'avg_pool_bwd',
  wire: 20,
  half: 'may',
  fields: avgBwdFields,
  anchor: 0,
  what: 'extent of x',
  ins: [data('dy')],
  outs: [windows('dx')],
  shape: (a, [dy]) => {
    const dx = [dy![0]!, dy![1]!, a.extentH, a.extentW]
    return checked(
      [expectRank('the incoming gradient', dy!, 4), expectRange('extentH', a.extentH, 1), expectRange('extentW', a.extentW, 1)],
      () => invertsForward(() => avgPooled(a, dx), dy!, [dx]),
    )
  },
  flops: (a, s) => a.kernelH * a.kernelW * elements(s.ins[0]),
})

// ---------------------------------------------------------------- global average

const globalFields = { count: 'int' } as const
const averages: AccessMap = { B: same, C: same, H: reduce, W: reduce }
const broadcast: AccessMap = { B: same, C: same, H: all, W: all }
const areaFits = (count: number, x: Sizes) => (): string | undefined =>
  count === x[2]! * x[3]! ? undefined : `count is ${count}; allowed: H*W = ${x[2]! * x[3]!}`

export const globalAvgPool = defineOp({
  kind: 'global_avg_pool',
  wire: 21,
  half: 'may',
  fields: globalFields,
  anchor: 0,
  what: 'y = Σ x / count over H and W; merges by sum over tiles of H and W',
  ins: [data('x')],
  outs: [{ ...data('y', averages), merge: 'sum' }],
  shape: (a, [x]) => checked([expectRank('the input', x!, 4), areaFits(a.count, x!)], () => legal([x![0]!, x![1]!, 1, 1])),
  backward: gradientBy('global_avg_pool_bwd'),
  flops: perElement(1, firstIn),
})

export const globalAvgPoolBwd = defineOp({
  kind: 'global_avg_pool_bwd',
  wire: 22,
  half: 'may',
  fields: globalFields,
  anchor: 'out',
  what: 'broadcast of dy / count',
  ins: [{ ...data('dy', broadcast), float: true }],
  outs: [data('dx')],
  outputsGiven: true,
  shape: (a, [dy], [dx]) =>
    checked(
      [expectRank('dx', dx!, 4), areaFits(a.count, dx!), expectShape('the incoming gradient', dy!, [dx![0]!, dx![1]!, 1, 1])],
      () => legal(dx!),
    ),
  flops: perElement(1, firstOut),
})
