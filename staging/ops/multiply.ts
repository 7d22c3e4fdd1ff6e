// Products, element by element. `multiply` is that of two tensors (gates, squeeze and excite); the second may have one value for all pixels of a
// channel or for all channels of a pixel. `scale` is that of a tensor and a parameter for each channel.
import {
  all,
  type AccessMap,
  type AttrsOf,
  data,
  defineOp,
  type GradContext,
  type OperandDef,
  perChannel,
  perChannelSum,
  pointwise,
  reduce,
  same,
  type Sizes,
} from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

/** The broadcast of the second factor: 0 a value for each element, 1 a value for each channel, 2 a value for each pixel. */
const fields = { over: 'int' } as const
const limits = { over: { least: 0, most: 2 } } as const
type Attrs = AttrsOf<typeof fields>

const FACTORS: readonly AccessMap[] = [pointwise, { B: same, C: same, H: all, W: all }, { B: same, C: all, H: same, W: same }]
const factorOf = ({ over }: Attrs, [b, c, h, w]: Sizes): Sizes =>
  over === 0 ? [b!, c!, h!, w!] : over === 1 ? [b!, c!, 1, 1] : [b!, 1, h!, w!]
const factor: OperandDef<typeof fields> = { name: 's', role: 'data', access: (a) => FACTORS[a.over] ?? pointwise }

const factorFits = (a: Attrs, [x, s]: readonly Sizes[]) =>
  checked([expectRank('the input', x!, 4), () => expectShape('the factor', s!, factorOf(a, x!))()], () => legal(x!))
const scaled = (_: unknown, [x]: readonly Sizes[]) => checked([expectRank('the input', x!, 4)], () => legal(x!))

const multiplyBackward = (g: GradContext<typeof fields>): void => {
  const [x, s] = g.ins
  const dy = g.outputGradient(0)
  if (g.needsGradient(0)) g.addGradient(0, g.emit('multiply_bwd_data', g.attrs, [dy, s!], [g.shape(x!)])[0]!)
  if (!g.needsGradient(1)) return
  const ds =
    g.attrs.over === 0
      ? g.emit('multiply_bwd_data', g.attrs, [dy, x!], [g.shape(s!)])
      : g.emit(g.attrs.over === 1 ? 'multiply_bwd_space' : 'multiply_bwd_channels', {}, [x!, dy], [g.shape(s!)])
  g.addGradient(1, ds[0]!)
}

export const multiply = defineOp({
  kind: 'multiply',
  wire: 110,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  inPlace: [0],
  what: 'y = x·s; s is like x (over 0), `[B,C,1,1]` (1) or `[B,1,H,W]` (2); may run in place of x',
  ins: [data('x'), factor],
  outs: [data('y')],
  shape: factorFits,
  backward: multiplyBackward,
  samples: (x) => [0, 1, 2].map((over) => ({ attrs: { over }, ins: [x, factorOf({ over }, x)] })),
  flops: perElement(1, firstOut),
})

export const multiplyBwdData = defineOp({
  kind: 'multiply_bwd_data',
  wire: 111,
  half: 'may',
  fields,
  limits,
  anchor: 0,
  inPlace: [0],
  what: 'dx = dy·s; in place of dy',
  ins: [data('dy'), factor],
  outs: [data('dx')],
  shape: factorFits,
  flops: perElement(1, firstIn),
})

const gradientOfFactor = (
  kind: string,
  wire: number,
  over: 1 | 2,
  access: AccessMap,
  what: string,
  backward?: (g: GradContext<Record<never, never>>) => void,
) =>
  defineOp({
    kind,
    wire,
    half: 'may',
    fields: {},
    anchor: 1,
    what,
    ins: [data('x'), data('dy')],
    outs: [{ ...data('ds', access), merge: 'sum' }],
    shape: (_, [x, dy]) =>
      checked([expectRank('x', x!, 4), expectShape('the incoming gradient', dy!, x!)], () => legal(factorOf({ over }, x!))),
    ...(backward && { backward }),
    flops: perElement(2, firstIn),
    workspace: partialSums(1),
  })

export const multiplyBwdSpace = gradientOfFactor(
  'multiply_bwd_space',
  112,
  1,
  { B: same, C: same, H: reduce, W: reduce },
  'ds `[B,C,1,1]` = Σ x·dy over the pixels of an image; sum',
)
export const multiplyBwdChannels = gradientOfFactor(
  'multiply_bwd_channels',
  113,
  2,
  { B: same, C: reduce, H: same, W: same },
  'ds `[B,1,H,W]` = Σ x·dy over the channels of a pixel',
  // Forward passes also use it: the squares of an RMS norm.
  (g) => {
    for (const i of [0, 1])
      if (g.needsGradient(i))
        g.addGradient(i, g.emit('multiply', { over: 2 }, [g.ins[1 - i]!, g.outputGradient(0)], [g.shape(g.ins[i]!)])[0]!)
  },
)

// ---------------------------------------------------------------- times a parameter

export const scale = defineOp({
  kind: 'scale',
  wire: 114,
  half: 'may',
  fields: {},
  anchor: 'out',
  inPlace: [0],
  what: 'y = x·gamma, gamma `[C]` or `[C,1,1]`; may run in place',
  ins: [data('x'), perChannel('gamma')],
  outs: [data('y')],
  shape: scaled,
  backward: (g) => {
    const [x, weights] = g.ins
    if (g.needsGradient(1)) g.addGradient(1, g.emit('scale_bwd_weights', {}, [x!, g.outputGradient(0)], [g.shape(weights!)])[0]!)
    if (g.needsGradient(0)) g.addGradient(0, g.emit('scale_bwd_data', {}, [g.outputGradient(0), weights!], [g.shape(x!)])[0]!)
  },
  samples: (x) => [{ attrs: {}, ins: [x, [x[1]]] }],
  flops: perElement(1, firstOut),
})

export const scaleBwdData = defineOp({
  kind: 'scale_bwd_data',
  wire: 115,
  half: 'may',
  fields: {},
  anchor: 0,
  inPlace: [0],
  what: 'dx = dy·gamma; in place of dy',
  ins: [data('dy'), perChannel('gamma')],
  outs: [data('dx')],
  shape: scaled,
  flops: perElement(1, firstIn),
})

export const scaleBwdWeights = defineOp({
  kind: 'scale_bwd_weights',
  wire: 116,
  half: 'may',
  fields: {},
  anchor: 1,
  outputsGiven: true,
  what: 'dgamma = Σ x·dy over batch and pixels; sum',
  ins: [data('x'), data('dy')],
  outs: [perChannelSum('dgamma')],
  shape: (_, [x, dy], given) => checked([expectShape('the incoming gradient', dy!, x!)], () => legal(...given)),
  flops: perElement(2, firstIn),
  workspace: partialSums(1),
})
