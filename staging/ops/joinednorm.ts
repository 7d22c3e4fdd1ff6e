// Batch norm (and the rectifier after it; slope 1: none) of values side by side along C, without joining them first: the growing input of a dense
// block is read in place and never copied. The statistics of each part are computed once and joined. The backward adds the gradient
// of the parts to that of the next layer.
import { countFits, rectifiedFields as fields, rectifiedLimits as limits, stats } from './batchnorm'
import { defineOp, perChannel, perChannelSum, pixels, type Sizes } from './op'
import { agreeBut, checked, elements, expectRange, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const channelsOf = (shapes: readonly Sizes[]): number => shapes.reduce((n, s) => n + s[1]!, 0)
const joinedShape = (parts: readonly Sizes[]): Sizes => [parts[0]![0]!, channelsOf(parts), parts[0]![2]!, parts[0]![3]!]
const fits = (a: { readonly count: number }, parts: readonly Sizes[]) => [agreeBut(1, parts), countFits(a.count, parts[0]!)]

export const joinStats = defineOp({
  kind: 'join_stats',
  wire: 80,
  fields: { count: 'int' },
  anchor: 0,
  variadic: true,
  what: 'statistics of values concatenated along C, from the statistics of each; count = B·H·W of the whole values',
  ins: [
    { name: 's0', role: 'whole' },
    { name: 's1', role: 'whole' },
  ],
  outs: [{ name: 'stats', role: 'whole' }],
  shape: (a, parts) =>
    checked([expectRange('count', a.count, 2), ...parts.map((s) => expectShape('statistics', s, [4, s[1]!]))], () =>
      legal([4, channelsOf(parts)]),
    ),
  update: (u) => {
    const mean = u.state('running_mean')
    const variance = u.state('running_var')
    if (mean !== undefined && variance !== undefined)
      u.emit('bn_running', { momentum: u.normMomentum, count: u.attrs['count']! }, [u.outs[0]!, mean, variance])
  },
  flops: perElement(0, firstOut),
})

export const joinedNorm = defineOp({
  kind: 'joined_norm',
  wire: 81,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  variadic: true,
  joins: true,
  what: 'bn_relu_apply of all x concatenated along C',
  ins: [stats, perChannel('gamma'), perChannel('beta'), pixels('x0'), pixels('x1')],
  outs: [pixels('y')],
  shape: (a, [, , , ...parts]) => checked(fits(a, parts), () => legal(joinedShape(parts))),
  backward: (g) => {
    const [statistics, gamma, beta, ...parts] = g.ins
    const dy = g.outputGradient(0)
    const [dgamma, dbeta] = g.emit(
      'joined_norm_bwd_reduce',
      g.attrs,
      [dy, statistics!, gamma!, beta!, ...parts],
      [g.shape(gamma!), g.shape(beta!)],
    )
    g.addGradient(1, dgamma!)
    g.addGradient(2, dbeta!)
    if (!parts.some((_, i) => g.needsGradient(3 + i))) return
    const onto = g.earlierJoinedGradient(3)
    const dx = g.emit(
      'joined_norm_bwd_data',
      { ...g.attrs, onto: onto.length },
      [dy, statistics!, gamma!, beta!, dgamma!, dbeta!, ...onto, ...parts],
      [g.shape(dy)],
    )[0]!
    g.addJoinedGradient(3, dx)
  },
  flops: perElement(5, firstOut),
})

export const joinedNormBwdReduce = defineOp({
  kind: 'joined_norm_bwd_reduce',
  wire: 82,
  half: 'may',
  fields,
  limits,
  anchor: 0,
  variadic: true,
  what: 'bn_relu_bwd_reduce of all x concatenated along C',
  ins: [pixels('dy'), stats, perChannel('gamma'), perChannel('beta'), pixels('x0'), pixels('x1')],
  outs: [perChannelSum('dgamma'), perChannelSum('dbeta')],
  shape: (a, [dy, , , , ...parts]) =>
    checked([...fits(a, parts), expectShape('the incoming gradient', dy!, joinedShape(parts))], () =>
      legal([channelsOf(parts)], [channelsOf(parts)]),
    ),
  flops: perElement(8, firstIn),
  workspace: partialSums(2),
})

export const joinedNormBwdData = defineOp({
  kind: 'joined_norm_bwd_data',
  wire: 83,
  half: 'may',
  fields: { ...fields, onto: 'int' },
  limits: { ...limits, onto: { least: 0, most: 1 } },
  anchor: 0,
  variadic: true,
  inPlace: [0],
  what: 'bn_relu_bwd_data of all x concatenated along C; onto = 1: d, with at least as many channels, precedes x0, and its first channels are added; in place of dy',
  ins: [
    pixels('dy'),
    stats,
    perChannel('gamma'),
    perChannel('beta'),
    perChannel('dgamma'),
    perChannel('dbeta'),
    pixels('x0'),
    pixels('x1'),
  ],
  outs: [pixels('dx')],
  shape: (a, [dy, , , , , , ...rest]) => {
    const parts = rest.slice(a.onto)
    const joined = joinedShape(parts)
    return checked(
      [
        ...fits(a, parts),
        expectShape('the incoming gradient', dy!, joined),
        ...(a.onto ? [agreeBut(1, [joined, rest[0]!]), expectRange('the channels to add to', rest[0]![1]!, joined[1]!)] : []),
      ],
      () => legal(joined),
    )
  },
  flops: (a, s) => (11 + a.onto) * elements(s.ins[0]),
})
