// The leaky rectifier with a trained slope: one for each channel, or one for all. The backward pass reads x, because with a negative
// slope the sign of x does not follow from y.
import { type AttrsOf, defineOp, type OperandDef, pixels, type Sizes } from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const fields = { shared: 'int' } as const
const limits = { shared: { least: 0, most: 1 } } as const
type Attrs = AttrsOf<typeof fields>

const slopesOf = ({ shared }: Attrs, [, c]: Sizes): Sizes => [shared === 1 ? 1 : c!]
const slopes = (name: string): OperandDef => ({ name, role: 'whole' })

const slopesFit = (a: Attrs, x: Sizes, slope: Sizes | undefined) => () =>
  slope === undefined ? undefined : expectShape('the slope', slope, slopesOf(a, x))()

export const prelu = defineOp({
  kind: 'prelu',
  wire: 270,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  what: 'y = x > 0 ? x : slope·x, slope `[C]`, or `[1]` if shared',
  ins: [pixels('x'), slopes('slope')],
  outs: [pixels('y')],
  shape: (a, [x, slope]) => checked([expectRank('the input', x!, 4), slopesFit(a, x!, slope)], () => legal(x!)),
  backward: (g) => {
    const [x, slope] = g.ins
    const dy = g.outputGradient(0)
    if (g.needsGradient(1)) g.addGradient(1, g.emit('prelu_bwd_weights', g.attrs, [x!, dy], [g.shape(slope!)])[0]!)
    if (g.needsGradient(0)) g.addGradient(0, g.emit('prelu_bwd_data', g.attrs, [x!, dy, slope!], [g.shape(x!)])[0]!)
  },
  samples: (x) => [0, 1].map((shared) => ({ attrs: { shared }, ins: [x, slopesOf({ shared }, x)] })),
  flops: perElement(2, firstOut),
})

export const preluBwdData = defineOp({
  kind: 'prelu_bwd_data',
  wire: 271,
  half: 'may',
  fields,
  limits,
  anchor: 1,
  inPlace: [1],
  what: 'dx = x > 0 ? dy : slope·dy; in place of dy',
  ins: [pixels('x'), pixels('dy'), slopes('slope')],
  outs: [pixels('dx')],
  shape: (a, [x, dy, slope]) =>
    checked([expectRank('the input', x!, 4), expectShape('the incoming gradient', dy!, x!), slopesFit(a, x!, slope)], () =>
      legal(x!),
    ),
  flops: perElement(2, firstIn),
})

export const preluBwdWeights = defineOp({
  kind: 'prelu_bwd_weights',
  wire: 272,
  half: 'may',
  fields,
  limits,
  anchor: 1,
  outputsGiven: true,
  what: 'dslope = Σ x·dy where x ≤ 0, over batch and pixels, and channels if shared; sum',
  ins: [pixels('x'), pixels('dy')],
  outs: [{ ...slopes('dslope'), merge: 'sum' }],
  shape: (a, [x, dy], [dslope]) =>
    checked([expectRank('the input', x!, 4), expectShape('the incoming gradient', dy!, x!), slopesFit(a, x!, dslope)], () =>
      legal(dslope!),
    ),
  flops: perElement(3, firstIn),
  workspace: partialSums(1),
})
