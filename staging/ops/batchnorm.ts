// Batch normalisation split so that it is exact under tiling: `bn_stats` reduces, `bn_apply` is element-wise, and the
// backward has the same two parts. Frozen norms read running statistics and have no barrier.
// `stats` is [4,C]: mean, M2 (sum of squared deviations) and what storing these rounded off, merged over tiles by Chan's rule.
import { defineOp, type OperandDef, pointwise } from './op'
import { checked, expectRange, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

type Shape = readonly number[]
export const data = (name: string): OperandDef => ({ name, role: 'data', access: () => pointwise })
export const whole = (name: string): OperandDef => ({ name, role: 'whole' })
export const sum = (name: string): OperandDef => ({ name, role: 'whole', merge: 'sum' })

const normFields = { eps: 'float', count: 'int' } as const
/** A rectifier of slope `slope` follows. */
export const rectifiedFields = { ...normFields, slope: 'float' } as const
const frozenFields = { eps: 'float' } as const

const channels = (x: Shape): Shape => [x[1]!]
export const statsOf = (x: Shape): Shape => [4, x[1]!]
const elementsPerChannel = (x: Shape): number => x[0]! * x[2]! * x[3]!
export const countFits = (count: number, x: Shape) => (): string | undefined =>
  count === elementsPerChannel(x) ? undefined : `count is ${count} for ${x.join('x')}; legal is B*H*W = ${elementsPerChannel(x)}`
export const eachChannel = (x: Shape, operands: Readonly<Record<string, Shape | undefined>>) =>
  Object.entries(operands).map(([name, s]) => expectShape(name, s!, channels(x)))

export const bnStats = defineOp({
  kind: 'bn_stats',
  wire: 7,
  narrow: 'may',
  fields: {},
  anchor: 0,
  what: "stats `[4,C]`: mean, M2 = Σ(x−mean)², and what storing these rounded off (so that tiles merge to the bits of the whole); merges by Chan's rule (`moments`); means and sums in double inside",
  ins: [data('x')],
  outs: [{ name: 'stats', role: 'whole', merge: 'moments' }],
  shape: (_, [x]) =>
    checked(
      [
        expectRank('the input', x!, 4),
        () =>
          elementsPerChannel(x!) > 1
            ? undefined
            : `an input of ${x!.join('x')} has one value a channel and so no variance; legal are inputs with B*H*W of 2 or more`,
      ],
      () => legal(statsOf(x!)),
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

export const bnApply = defineOp({
  kind: 'bn_apply',
  wire: 8,
  narrow: 'may',
  fields: normFields,
  anchor: 'out',
  what: 'variance = M2/count; y = (x−mean)·rsqrt(var+eps)·gamma+beta; count = B·H·W of the whole value',
  ins: [data('x'), whole('stats'), whole('gamma'), whole('beta')],
  outs: [data('y')],
  shape: (a, [x, stats, gamma, beta]) =>
    checked(
      [
        expectRank('the input', x!, 4),
        expectRange('eps', a.eps, 0),
        countFits(a.count, x!),
        expectShape('stats', stats!, statsOf(x!)),
        ...eachChannel(x!, { gamma, beta }),
      ],
      () => legal(x!),
    ),
  backward: (g) => {
    const [x, stats, gamma, beta] = g.ins
    const dy = g.dOut(0)
    const [dgamma, dbeta] = g.emit('bn_bwd_reduce', g.attrs, [x!, dy, stats!], [g.shape(gamma!), g.shape(beta!)])
    g.give(2, dgamma!)
    g.give(3, dbeta!)
    if (g.wants(0)) g.give(0, g.emit('bn_bwd_data', g.attrs, [x!, dy, stats!, gamma!, dgamma!, dbeta!], [g.shape(x!)])[0]!)
  },
  flops: perElement(4, firstOut),
})

export const bnBwdReduce = defineOp({
  kind: 'bn_bwd_reduce',
  wire: 9,
  narrow: 'may',
  fields: normFields,
  anchor: 1,
  what: 'dgamma = Σ dy·x̂, dbeta = Σ dy; sum',
  ins: [data('x'), data('dy'), whole('stats')],
  outs: [sum('dgamma'), sum('dbeta')],
  shape: (a, [x, dy, stats]) =>
    checked(
      [expectShape('the incoming gradient', dy!, x!), countFits(a.count, x!), expectShape('stats', stats!, statsOf(x!))],
      () => legal(channels(x!), channels(x!)),
    ),
  flops: perElement(5, firstIn),
  workspace: partialSums(2),
})

export const bnBwdData = defineOp({
  kind: 'bn_bwd_data',
  wire: 10,
  narrow: 'may',
  fields: normFields,
  anchor: 1,
  inPlace: [1],
  what: 'dx = gamma·rstd·(dy − dbeta/count − x̂·dgamma/count); dgamma and dbeta are the totals; in place of dy',
  ins: [data('x'), data('dy'), whole('stats'), whole('gamma'), whole('dgamma'), whole('dbeta')],
  outs: [data('dx')],
  shape: (a, [x, dy, stats, gamma, dgamma, dbeta]) =>
    checked(
      [
        expectShape('the incoming gradient', dy!, x!),
        countFits(a.count, x!),
        expectShape('stats', stats!, statsOf(x!)),
        ...eachChannel(x!, { gamma, dgamma, dbeta }),
      ],
      () => legal(x!),
    ),
  flops: perElement(7, firstIn),
})

export const bnFrozen = defineOp({
  kind: 'bn_frozen',
  wire: 11,
  narrow: 'may',
  fields: frozenFields,
  anchor: 'out',
  what: 'running statistics',
  ins: [data('x'), whole('mean'), whole('var'), whole('gamma'), whole('beta')],
  outs: [data('y')],
  shape: (a, [x, mean, variance, gamma, beta]) =>
    checked(
      [expectRank('the input', x!, 4), expectRange('eps', a.eps, 0), ...eachChannel(x!, { mean, var: variance, gamma, beta })],
      () => legal(x!),
    ),
  backward: (g) => {
    const [x, mean, variance, gamma, beta] = g.ins
    const dy = g.dOut(0)
    if (g.wants(3) || g.wants(4)) {
      const [dgamma, dbeta] = g.emit(
        'bn_frozen_bwd_reduce',
        g.attrs,
        [x!, dy, mean!, variance!],
        [g.shape(gamma!), g.shape(beta!)],
      )
      g.give(3, dgamma!)
      g.give(4, dbeta!)
    }
    if (g.wants(0)) g.give(0, g.emit('bn_frozen_bwd_data', g.attrs, [dy, variance!, gamma!], [g.shape(x!)])[0]!)
  },
  flops: perElement(4, firstOut),
})

export const bnFrozenBwdData = defineOp({
  kind: 'bn_frozen_bwd_data',
  wire: 12,
  narrow: 'may',
  fields: frozenFields,
  anchor: 0,
  what: 'dx = gamma·dy·rsqrt(var+eps)',
  ins: [data('dy'), whole('var'), whole('gamma')],
  outs: [data('dx')],
  shape: (_, [dy, variance, gamma]) =>
    checked([expectRank('the incoming gradient', dy!, 4), ...eachChannel(dy!, { var: variance, gamma })], () => legal(dy!)),
  flops: perElement(1, firstIn),
})

export const bnFrozenBwdReduce = defineOp({
  kind: 'bn_frozen_bwd_reduce',
  wire: 13,
  narrow: 'may',
  fields: frozenFields,
  anchor: 1,
  what: 'sum',
  ins: [data('x'), data('dy'), whole('mean'), whole('var')],
  outs: [sum('dgamma'), sum('dbeta')],
  shape: (_, [x, dy, mean, variance]) =>
    checked([expectShape('the incoming gradient', dy!, x!), ...eachChannel(x!, { mean, var: variance })], () =>
      legal(channels(x!), channels(x!)),
    ),
  flops: perElement(5, firstIn),
  workspace: partialSums(2),
})

export const bnRunning = defineOp({
  kind: 'bn_running',
  wire: 14,
  fields: { momentum: 'float', count: 'int' },
  anchor: 0,
  mutates: [1, 2],
  what: 'r = (1−m)·r + m·batch; variance unbiased (M2/(count−1)); update phase',
  ins: [whole('stats'), whole('mean'), whole('var')],
  outs: [],
  shape: (a, [stats, mean, variance]) =>
    checked(
      [
        expectRank('stats', stats!, 2),
        expectShape('stats', stats!, [4, stats![1]!]),
        expectRange('momentum', a.momentum, 0, 1),
        expectRange('count', a.count, 1),
        expectShape('mean', mean!, [stats![1]!]),
        expectShape('var', variance!, [stats![1]!]),
      ],
      () => legal(),
    ),
  flops: perElement(4, firstIn),
})

// ---------------------------------------------------------------- with the rectifier that follows

// The gradient sees from x on which side of zero y was, so y itself is not read again.

export const bnReluApply = defineOp({
  kind: 'bn_relu_apply',
  wire: 70,
  narrow: 'may',
  fields: rectifiedFields,
  anchor: 'out',
  what: 'z as y of bn_apply; y = z > 0 ? z : slope·z',
  ins: [data('x'), whole('stats'), whole('gamma'), whole('beta')],
  outs: [data('y')],
  shape: (a, [x, stats, gamma, beta]) =>
    checked(
      [
        expectRank('the input', x!, 4),
        expectRange('eps', a.eps, 0),
        expectRange('slope', a.slope, 0),
        countFits(a.count, x!),
        expectShape('stats', stats!, statsOf(x!)),
        ...eachChannel(x!, { gamma, beta }),
      ],
      () => legal(x!),
    ),
  backward: (g) => {
    const [x, stats, gamma, beta] = g.ins
    const dy = g.dOut(0)
    const [dgamma, dbeta] = g.emit(
      'bn_relu_bwd_reduce',
      g.attrs,
      [x!, dy, stats!, gamma!, beta!],
      [g.shape(gamma!), g.shape(beta!)],
    )
    g.give(2, dgamma!)
    g.give(3, dbeta!)
    if (g.wants(0))
      g.give(0, g.emit('bn_relu_bwd_data', g.attrs, [x!, dy, stats!, gamma!, beta!, dgamma!, dbeta!], [g.shape(x!)])[0]!)
  },
  flops: perElement(5, firstOut),
})

export const bnReluBwdReduce = defineOp({
  kind: 'bn_relu_bwd_reduce',
  wire: 71,
  narrow: 'may',
  fields: rectifiedFields,
  anchor: 1,
  what: 'bn_bwd_reduce of dz = z > 0 ? dy : slope·dy',
  ins: [data('x'), data('dy'), whole('stats'), whole('gamma'), whole('beta')],
  outs: [sum('dgamma'), sum('dbeta')],
  shape: (a, [x, dy, stats, gamma, beta]) =>
    checked(
      [
        expectShape('the incoming gradient', dy!, x!),
        countFits(a.count, x!),
        expectShape('stats', stats!, statsOf(x!)),
        ...eachChannel(x!, { gamma, beta }),
      ],
      () => legal(channels(x!), channels(x!)),
    ),
  flops: perElement(8, firstIn),
  workspace: partialSums(2),
})

export const bnReluBwdData = defineOp({
  kind: 'bn_relu_bwd_data',
  wire: 72,
  narrow: 'may',
  fields: rectifiedFields,
  anchor: 1,
  inPlace: [1],
  what: 'bn_bwd_data of dz = z > 0 ? dy : slope·dy; in place of dy',
  ins: [data('x'), data('dy'), whole('stats'), whole('gamma'), whole('beta'), whole('dgamma'), whole('dbeta')],
  outs: [data('dx')],
  shape: (a, [x, dy, stats, gamma, beta, dgamma, dbeta]) =>
    checked(
      [
        expectShape('the incoming gradient', dy!, x!),
        countFits(a.count, x!),
        expectShape('stats', stats!, statsOf(x!)),
        ...eachChannel(x!, { gamma, beta, dgamma, dbeta }),
      ],
      () => legal(x!),
    ),
  flops: perElement(10, firstIn),
})
