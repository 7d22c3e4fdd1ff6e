// Group normalisation: each image's channels in groups, each group by its own mean and variance; instance norm is one
// channel a group, layer norm one group. Split like batch norm: `group_norm_stats` reduces, `group_norm_apply` is
// element-wise, the backward has the same two parts. Statistics belong to an image, so tiles of the batch share none.
// `stats` is [B,4G,1,1]: for each image the rows of batch norm's [4,C], merged over tiles of H and W by Chan's rule.
import { all, type AccessMap, data, defineOp, type GradContext, type OperandDef, pixels, reduce, same, type Sizes } from './op'
import { checked, expectRange, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const perImage: AccessMap = { B: same, C: all, H: all, W: all }
const reduced: AccessMap = { B: same, C: all, H: reduce, W: reduce }
const ofImages = (name: string): OperandDef => data(name, perImage)
const overPixels = (name: string, merge: 'sum' | 'moments'): OperandDef => ({ name, role: 'data', access: () => reduced, merge })
const optional = (name: string): OperandDef => ({ name, role: 'whole', optional: true })

const statsFields = { groups: 'int' } as const
const fields = { groups: 'int', eps: 'float', count: 'int' } as const

const statsOf = (x: Sizes, groups: number): Sizes => [x[0]!, 4 * groups, 1, 1]
const sumsOf = (x: Sizes): Sizes => [x[0]!, 2 * x[1]!, 1, 1]
export const elementsPerGroup = (x: Sizes, groups: number): number => (x[1]! / groups) * x[2]! * x[3]!
const groupsFit = (groups: number, x: Sizes) => (): string | undefined =>
  groups >= 1 && x[1]! % groups === 0
    ? undefined
    : `${x[1]} channels do not divide into ${groups} groups; allowed: divisors of ${x[1]}`

interface Attrs {
  readonly groups: number
  readonly eps: number
  readonly count: number
}
const fits = (a: Attrs, x: Sizes) => [
  expectRank('the input', x, 4),
  groupsFit(a.groups, x),
  expectRange('eps', a.eps, 0),
  () => expectRange('count', a.count, elementsPerGroup(x, a.groups), elementsPerGroup(x, a.groups))(),
]
const eachChannel = (x: Sizes, operands: Readonly<Record<string, Sizes | undefined>>) =>
  Object.entries(operands).flatMap(([name, s]) => (s ? [expectShape(name, s, [x[1]!])] : []))

export const groupNormStats = defineOp({
  kind: 'group_norm_stats',
  wire: 50,
  fields: statsFields,
  anchor: 0,
  what: "stats `[B,4·groups,1,1]`: for each image the four rows of `bn_stats`, over the pixels and channels of a group; merges over H and W by Chan's rule (`moments`)",
  ins: [pixels('x')],
  outs: [overPixels('stats', 'moments')],
  shape: (a, [x]) =>
    checked(
      [
        expectRank('the input', x!, 4),
        groupsFit(a.groups, x!),
        () =>
          elementsPerGroup(x!, a.groups) > 1
            ? undefined
            : `an input of ${x!.join('x')} has one value per group, so no variance; allowed: more pixels, or fewer groups`,
      ],
      () => legal(statsOf(x!, a.groups)),
    ),
  flops: perElement(4, firstIn),
  workspace: partialSums(2),
})

/** The sums over each image also give the gradients of scale and shift. */
const applyBackward = (g: GradContext<typeof fields>): void => {
  const [x, stats, gamma, beta] = g.ins
  const dy = g.outputGradient(0)
  const affine = gamma !== undefined && beta !== undefined ? [g.shape(gamma), g.shape(beta)] : []
  const [sums, dgamma, dbeta] = g.emit('group_norm_bwd_reduce', g.attrs, [x!, dy, stats!], [sumsOf(g.shape(x!)), ...affine])
  if (dgamma !== undefined && g.needsGradient(2)) g.addGradient(2, dgamma)
  if (dbeta !== undefined && g.needsGradient(3)) g.addGradient(3, dbeta)
  if (!g.needsGradient(0)) return
  const scale = gamma === undefined ? [] : [gamma]
  g.addGradient(0, g.emit('group_norm_bwd_data', g.attrs, [x!, dy, stats!, sums!, ...scale], [g.shape(x!)])[0]!)
}

export const groupNormApply = defineOp({
  kind: 'group_norm_apply',
  wire: 51,
  fields,
  anchor: 'out',
  what: 'variance = M2/count; y = (x−mean)·rsqrt(var+eps)·gamma+beta; count = H·W·C/groups of the whole value; gamma and beta come together',
  ins: [pixels('x'), ofImages('stats'), optional('gamma'), optional('beta')],
  outs: [pixels('y')],
  shape: (a, ins) =>
    checked(
      [
        ...fits(a, ins[0]!),
        () => expectShape('stats', ins[1]!, statsOf(ins[0]!, a.groups))(),
        () => (ins.length === 3 ? 'gamma is given without beta; give both or neither' : undefined),
        ...eachChannel(ins[0]!, { gamma: ins[2], beta: ins[3] }),
      ],
      () => legal(ins[0]!),
    ),
  backward: applyBackward,
  flops: perElement(4, firstOut),
})

export const groupNormBwdReduce = defineOp({
  kind: 'group_norm_bwd_reduce',
  wire: 52,
  fields,
  anchor: 1,
  outputsGiven: true,
  what: 'sums `[B,2C,1,1]`: for each image and channel Σ dy·x̂, then Σ dy; dgamma and dbeta are their sums over the batch; sum',
  ins: [pixels('x'), pixels('dy'), ofImages('stats')],
  outs: [overPixels('sums', 'sum'), { ...optional('dgamma'), merge: 'sum' }, { ...optional('dbeta'), merge: 'sum' }],
  shape: (a, [x, dy, stats], given) =>
    checked(
      [
        ...fits(a, x!),
        expectShape('the incoming gradient', dy!, x!),
        () => expectShape('stats', stats!, statsOf(x!, a.groups))(),
        expectShape('sums', given[0]!, sumsOf(x!)),
        ...eachChannel(x!, { dgamma: given[1], dbeta: given[2] }),
      ],
      () => legal(...given),
    ),
  flops: perElement(5, firstIn),
  workspace: partialSums(2),
})

export const groupNormBwdData = defineOp({
  kind: 'group_norm_bwd_data',
  wire: 53,
  fields,
  anchor: 1,
  what: 'dx = rstd·(gamma·dy − (Σ gamma·dy + x̂·Σ gamma·dy·x̂)/count), the sums over the group, from the totals in sums',
  ins: [pixels('x'), pixels('dy'), ofImages('stats'), ofImages('sums'), optional('gamma')],
  outs: [pixels('dx')],
  shape: (a, [x, dy, stats, sums, gamma]) =>
    checked(
      [
        ...fits(a, x!),
        expectShape('the incoming gradient', dy!, x!),
        () => expectShape('stats', stats!, statsOf(x!, a.groups))(),
        expectShape('sums', sums!, sumsOf(x!)),
        ...eachChannel(x!, { gamma }),
      ],
      () => legal(x!),
    ),
  flops: perElement(7, firstIn),
})
