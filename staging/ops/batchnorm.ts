// Batch normalisation in two parts, so that it is exact under tiling: `bn_stats` reduces, `bn_apply` is element-wise, and the backward has the same
// two parts; the same with the rectifier that follows (`bn_relu_…`). Frozen norms read running statistics and have no barrier. `stats` is [4,C]:
// mean, M2 (sum of squared deviations) and the rounding errors of both, merged over tiles by Chan's rule.
import {
  type AttrsOf,
  data,
  defineOp,
  type Field,
  type GradContext,
  type OpDef,
  type OperandDef,
  perChannel,
  perChannelSum,
  type Sizes,
} from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

export const stats: OperandDef = { name: 'stats', role: 'whole', dims: [4, 'C'] }

const normFields = { eps: 'float', count: 'int' } as const
/** Attributes of the operators with a rectifier of slope `slope`. */
export const rectifiedFields = { ...normFields, slope: 'float' } as const
const frozenFields = { eps: 'float' } as const
const eps = { eps: { least: 0 } } as const
export const rectifiedLimits = { ...eps, slope: { least: 0 } } as const

const channels = (x: Sizes): Sizes => [x[1]!]
const elementsPerChannel = (x: Sizes): number => x[0]! * x[2]! * x[3]!
export const countFits = (count: number, x: Sizes) => (): string | undefined =>
  count === elementsPerChannel(x) ? undefined : `count is ${count} for ${x.join('x')}; allowed: B*H*W = ${elementsPerChannel(x)}`

export const bnStats = defineOp({
  kind: 'bn_stats',
  wire: 7,
  half: 'may',
  fields: {},
  anchor: 0,
  what: "stats `[4,C]`: mean, M2 = Σ(x−mean)², and the rounding errors of both, so that tiles merge to the bits of the whole. Merged by Chan's rule (`moments`). Means and sums are in double",
  ins: [data('x')],
  outs: [{ ...stats, merge: 'moments' }],
  shape: (_, [x]) =>
    checked(
      [
        expectRank('the input', x!, 4),
        () =>
          elementsPerChannel(x!) > 1
            ? undefined
            : `an input of ${x!.join('x')} has one value per channel, so no variance; allowed: B*H*W of 2 or more`,
      ],
      () => legal([4, x![1]!]),
    ),
  update: (u) => {
    const mean = u.state('running_mean')
    const variance = u.state('running_var')
    if (mean === undefined || variance === undefined) return
    const count = elementsPerChannel(u.shape(u.ins[0]!))
    u.emit('bn_running', { momentum: u.normMomentum, count }, [u.outs[0]!, mean, variance])
  },
  flops: perElement(4, firstIn),
  workspace: partialSums(2),
})

// ---------------------------------------------------------------- with and without a rectifier

interface Norm {
  readonly kind: 'bn' | 'bn_relu'
  /** Wire numbers of the operators in order. */
  readonly wires: readonly [number, number, number]
  readonly flops: readonly [number, number, number]
  readonly what: readonly [string, string, string]
  /** The operands of the backward beside x, dy and stats: for the sums, and for dx. */
  readonly reads: readonly [readonly ('gamma' | 'beta')[], readonly ('gamma' | 'beta')[]]
}

/** Returns the operators apply, bwd_reduce and bwd_data. */
const norm = <F extends { readonly eps: Field; readonly count: Field }>(fields: F, limits: OpDef<F>['limits'], n: Norm) => {
  const common = { half: 'may', fields, limits } as const
  const [sums, gradient] = n.reads
  const matching = (a: AttrsOf<F>, x: Sizes, dy: Sizes, outs: readonly Sizes[]) =>
    checked([expectShape('the incoming gradient', dy, x), countFits(a.count, x)], () => legal(...outs))
  const backward = (g: GradContext<F>): void => {
    const [x, statistics, gamma, beta] = g.ins as GradContext<F>['ins']
    const affine = { gamma: gamma!, beta: beta! }
    const read = [x!, g.outputGradient(0), statistics!]
    const [dgamma, dbeta] = g.emit(
      `${n.kind}_bwd_reduce`,
      g.attrs,
      [...read, ...sums.map((o) => affine[o])],
      [g.shape(gamma!), g.shape(beta!)],
    )
    g.addGradient(2, dgamma!)
    g.addGradient(3, dbeta!)
    const all = [...read, ...gradient.map((o) => affine[o]), dgamma!, dbeta!]
    if (g.needsGradient(0)) g.addGradient(0, g.emit(`${n.kind}_bwd_data`, g.attrs, all, [g.shape(x!)])[0]!)
  }
  return [
    defineOp({
      ...common,
      kind: `${n.kind}_apply`,
      wire: n.wires[0],
      anchor: 'out',
      what: n.what[0],
      ins: [data('x'), stats, perChannel('gamma'), perChannel('beta')],
      outs: [data('y')],
      shape: (a, [x]) => checked([expectRank('the input', x!, 4), countFits(a.count, x!)], () => legal(x!)),
      backward,
      flops: perElement(n.flops[0], firstOut),
    }),
    defineOp({
      ...common,
      kind: `${n.kind}_bwd_reduce`,
      wire: n.wires[1],
      anchor: 1,
      what: n.what[1],
      ins: [data('x'), data('dy'), stats, ...sums.map(perChannel)],
      outs: [perChannelSum('dgamma'), perChannelSum('dbeta')],
      shape: (a, [x, dy]) => matching(a, x!, dy!, [channels(x!), channels(x!)]),
      flops: perElement(n.flops[1], firstIn),
      workspace: partialSums(2),
    }),
    defineOp({
      ...common,
      kind: `${n.kind}_bwd_data`,
      wire: n.wires[2],
      anchor: 1,
      inPlace: [1],
      what: n.what[2],
      ins: [data('x'), data('dy'), stats, ...gradient.map(perChannel), perChannel('dgamma'), perChannel('dbeta')],
      outs: [data('dx')],
      shape: (a, [x, dy]) => matching(a, x!, dy!, [x!]),
      flops: perElement(n.flops[2], firstIn),
    }),
  ] as const
}

export const [bnApply, bnBwdReduce, bnBwdData] = norm(normFields, eps, {
  kind: 'bn',
  wires: [8, 9, 10],
  flops: [4, 5, 7],
  what: [
    'variance = M2/count; y = (x−mean)·rsqrt(var+eps)·gamma+beta; count = B·H·W of the whole value',
    'dgamma = Σ dy·x̂, dbeta = Σ dy; sum',
    'dx = gamma·rstd·(dy − dbeta/count − x̂·dgamma/count); dgamma and dbeta are the totals; in place of dy',
  ],
  reads: [[], ['gamma']],
})

/** The gradient computes the sign of y from x, so it does not read y. */
export const [bnReluApply, bnReluBwdReduce, bnReluBwdData] = norm(rectifiedFields, rectifiedLimits, {
  kind: 'bn_relu',
  wires: [70, 71, 72],
  flops: [5, 8, 10],
  what: [
    'z as y of bn_apply; y = z > 0 ? z : slope·z',
    'bn_bwd_reduce of dz = z > 0 ? dy : slope·dy',
    'bn_bwd_data of dz = z > 0 ? dy : slope·dy; in place of dy',
  ],
  reads: [
    ['gamma', 'beta'],
    ['gamma', 'beta'],
  ],
})

// ---------------------------------------------------------------- frozen norms and running averages

export const bnFrozen = defineOp({
  kind: 'bn_frozen',
  wire: 11,
  half: 'may',
  fields: frozenFields,
  limits: eps,
  anchor: 'out',
  what: 'running statistics',
  ins: [data('x'), perChannel('mean'), perChannel('var'), perChannel('gamma'), perChannel('beta')],
  outs: [data('y')],
  shape: (_, [x]) => checked([expectRank('the input', x!, 4)], () => legal(x!)),
  backward: (g) => {
    const [x, mean, variance, gamma, beta] = g.ins
    const dy = g.outputGradient(0)
    if (g.needsGradient(3) || g.needsGradient(4)) {
      const [dgamma, dbeta] = g.emit(
        'bn_frozen_bwd_reduce',
        g.attrs,
        [x!, dy, mean!, variance!],
        [g.shape(gamma!), g.shape(beta!)],
      )
      g.addGradient(3, dgamma!)
      g.addGradient(4, dbeta!)
    }
    if (g.needsGradient(0)) g.addGradient(0, g.emit('bn_frozen_bwd_data', g.attrs, [dy, variance!, gamma!], [g.shape(x!)])[0]!)
  },
  flops: perElement(4, firstOut),
})

export const bnFrozenBwdData = defineOp({
  kind: 'bn_frozen_bwd_data',
  wire: 12,
  half: 'may',
  fields: frozenFields,
  limits: eps,
  anchor: 0,
  what: 'dx = gamma·dy·rsqrt(var+eps)',
  ins: [data('dy'), perChannel('var'), perChannel('gamma')],
  outs: [data('dx')],
  shape: (_, [dy]) => checked([expectRank('the incoming gradient', dy!, 4)], () => legal(dy!)),
  flops: perElement(1, firstIn),
})

export const bnFrozenBwdReduce = defineOp({
  kind: 'bn_frozen_bwd_reduce',
  wire: 13,
  half: 'may',
  fields: frozenFields,
  limits: eps,
  anchor: 1,
  what: 'sum',
  ins: [data('x'), data('dy'), perChannel('mean'), perChannel('var')],
  outs: [perChannelSum('dgamma'), perChannelSum('dbeta')],
  shape: (_, [x, dy]) => checked([expectShape('the incoming gradient', dy!, x!)], () => legal(channels(x!), channels(x!))),
  flops: perElement(5, firstIn),
  workspace: partialSums(2),
})

export const bnRunning = defineOp({
  kind: 'bn_running',
  wire: 14,
  fields: { momentum: 'float', count: 'int' },
  limits: { momentum: { least: 0, most: 1 }, count: { least: 1 } },
  anchor: 0,
  mutates: [1, 2],
  what: 'r = (1−m)·r + m·batch; variance unbiased (M2/(count−1)); nothing if `finite` is 0; update phase',
  ins: [stats, perChannel('mean'), perChannel('var'), { name: 'finite', role: 'whole', dims: [1], drawn: 'one', optional: true }],
  outs: [],
  shape: (_, [statistics]) => checked([expectRank('stats', statistics!, 2)], () => legal()),
  flops: perElement(4, firstIn),
})
