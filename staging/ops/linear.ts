// Fully connected layer of the channels of each pixel: forward, data gradient, weight and bias gradient. Weights are [O,C].
// A flat input has one pixel an image. It tiles along B, H and W: every output needs all channels of its pixel.
import { all, type AccessMap, type CallShapes, defineOp, same } from './op'
import { checked, elements, expectRank, expectShape, invertsForward, legal } from './rules'

type Shape = readonly number[]
/** What is flat has nothing to cut along H and W. */
const perPixel = (_: unknown, s: CallShapes): AccessMap => {
  const across = elements(s.ins[0]!.slice(2)) > 1 ? same : all
  return { B: same, C: all, H: across, W: across }
}

const apply = (x: Shape, w: Shape, b?: Shape) =>
  checked(
    [
      expectRank('the input', x, 4),
      expectRank('the weight', w, 2),
      expectShape('the weight', w, [w[0]!, x[1]!]),
      () => b && expectShape('the bias', b, [w[0]!])(),
    ],
    () => legal([x[0]!, w[0]!, x[2]!, x[3]!]),
  )

/** Every output meets the weights of one channel. */
const macs = (y: Shape | undefined, w: Shape | undefined): number => elements(y) * (w?.[1] ?? 0)

export const linear = defineOp({
  kind: 'linear',
  wire: 4,
  narrow: 'may',
  reclaimed: true,
  fields: {},
  anchor: 'out',
  dense: true,
  what: 'w is `[O,C]`, for each pixel',
  ins: [
    { name: 'x', role: 'data', access: perPixel },
    { name: 'w', role: 'whole' },
    { name: 'b', role: 'whole', optional: true },
  ],
  outs: [{ name: 'y', role: 'data', access: perPixel }],
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
  flops: (_, s) => 2 * macs(s.outs[0], s.ins[1]) + (s.ins[2] ? elements(s.outs[0]) : 0),
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
    { name: 'dy', role: 'data', access: perPixel },
    { name: 'w', role: 'whole' },
  ],
  outs: [{ name: 'dx', role: 'data', access: perPixel }],
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
    { name: 'x', role: 'data', access: perPixel },
    { name: 'dy', role: 'data', access: perPixel },
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
