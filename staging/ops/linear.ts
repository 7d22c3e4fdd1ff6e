// Fully connected layer on [B,C,1,1]: forward, data gradient, weight and bias gradient. Weights are [O,C].
// It tiles along B only: every output needs all channels of its sample.
import { all, type AccessMap, defineOp, same } from './op'
import { checked, elements, expectRank, expectShape, invertsForward, legal } from './rules'

type Shape = readonly number[]
const perSample = (): AccessMap => ({ B: same, C: all, H: all, W: all })

const apply = (x: Shape, w: Shape, b?: Shape) =>
  checked(
    [
      expectRank('the input', x, 4),
      expectRank('the weight', w, 2),
      expectShape('the input', x, [x[0]!, x[1]!, 1, 1]),
      expectShape('the weight', w, [w[0]!, x[1]!]),
      () => b && expectShape('the bias', b, [w[0]!])(),
    ],
    () => legal([x[0]!, w[0]!, 1, 1]),
  )

const macs = (batch: Shape | undefined, w: Shape | undefined): number => (batch?.[0] ?? 0) * elements(w)

export const linear = defineOp({
  kind: 'linear',
  wire: 4,
  narrow: 'may',
  reclaimed: true,
  fields: {},
  anchor: 'out',
  dense: true,
  what: 'x `[B,C,1,1]`, w `[O,C]`, y `[B,O,1,1]`',
  ins: [
    { name: 'x', role: 'data', access: perSample },
    { name: 'w', role: 'whole' },
    { name: 'b', role: 'whole', optional: true },
  ],
  outs: [{ name: 'y', role: 'data', access: perSample }],
  shape: (_, [x, w, b]) => apply(x!, w!, b),
  backward: (g) => {
    const [x, w, b] = g.ins
    const dy = g.dOut(0)
    if (g.wants(1)) {
      const shapes = [g.shape(w!), ...(b === undefined ? [] : [g.shape(b)])]
      const [dw, db] = g.emit('linear_bwd_weights', {}, [x!, dy], shapes)
      g.give(1, dw!)
      if (db !== undefined) g.give(2, db)
    }
    if (g.wants(0)) g.give(0, g.emit('linear_bwd_data', {}, [dy, w!], [g.shape(x!)])[0]!)
  },
  flops: (_, s) => 2 * macs(s.ins[0], s.ins[1]) + (s.ins[2] ? elements(s.outs[0]) : 0),
  workspace: (_, s, bytes) => elements(s.ins[1]) * bytes,
})

export const linearBwdData = defineOp({
  kind: 'linear_bwd_data',
  wire: 5,
  narrow: 'may',
  fields: {},
  anchor: 0,
  dense: true,
  what: 'dx = dy·w',
  ins: [
    { name: 'dy', role: 'data', access: perSample },
    { name: 'w', role: 'whole' },
  ],
  outs: [{ name: 'dx', role: 'data', access: perSample }],
  outputsGiven: true,
  shape: (_, [dy, w], given) => invertsForward(() => apply(given[0]!, w!), dy!, given),
  flops: (_, s) => 2 * macs(s.ins[0], s.ins[1]),
  workspace: (_, s, bytes) => elements(s.ins[1]) * bytes,
})

export const linearBwdWeights = defineOp({
  kind: 'linear_bwd_weights',
  wire: 6,
  narrow: 'may',
  fields: {},
  anchor: 1,
  dense: true,
  what: 'sum',
  ins: [
    { name: 'x', role: 'data', access: perSample },
    { name: 'dy', role: 'data', access: perSample },
  ],
  outs: [
    { name: 'dw', role: 'whole', merge: 'sum' },
    { name: 'db', role: 'whole', optional: true, merge: 'sum' },
  ],
  outputsGiven: true,
  shape: (_, [x, dy], given) => invertsForward(() => apply(x!, given[0]!, given[1]), dy!, given),
  flops: (_, s) => 2 * macs(s.ins[1], s.outs[0]) + (s.outs[1] ? elements(s.ins[1]) : 0),
  workspace: (_, s, bytes) => elements(s.outs[0]) * bytes,
})
