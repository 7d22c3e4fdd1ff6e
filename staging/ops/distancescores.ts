// A table of scores for signed distances, computed by a small network of trained weights: Swin V2's continuous positions. This runs once a step, before
// the forward pass; attention reads the result in place of a parameter. Worked example: windows of 8x8 have 15·15 distances, each with two coordinates.
import { type AttrsOf, defineOp, type OperandDef, type Sizes } from './op'
import { checked, elements, expectShape, legal } from './rules'

const fields = { height: 'int', width: 'int', reachH: 'float', reachW: 'float', factor: 'float', bound: 'float' } as const
const limits = {
  height: { least: 1 },
  width: { least: 1 },
  reachH: { above: 0 },
  reachW: { above: 0 },
  factor: { above: 0 },
  bound: { least: 0 },
} as const
type Attrs = AttrsOf<typeof fields>
const values = (name: string): OperandDef<typeof fields> => ({ name, role: 'whole' })
const last: OperandDef<typeof fields> = { ...values('b2'), optional: true }

/** The coordinate of a distance of rows or columns. */
export const coordinate = (distance: number, reach: number, factor: number): number =>
  Math.sign(distance) * Math.log1p(Math.abs(distance) * reach) * factor

const rows = ({ height, width }: Attrs): number => (2 * height - 1) * (2 * width - 1)
const fits = ([w1, b1, w2, b2]: readonly Sizes[]) => [
  expectShape('w1', w1!, [w1![0]!, 2]),
  () => expectShape('b1', b1!, [w1![0]!])(),
  () => expectShape('w2', w2!, [w2![0]!, w1![0]!])(),
  () => (b2 ? expectShape('b2', b2, [w2![0]!])() : undefined),
]
const weights = (a: Attrs, ins: readonly Sizes[], y: Sizes) => [...fits(ins), () => expectShape('y', y, [rows(a), ins[2]![0]!])()]

export const distanceScores = defineOp({
  kind: 'distance_scores',
  wire: 301,
  fields,
  limits,
  anchor: 0,
  what: 'y[d, n] = z, or bound·σ(z) with a bound, z = w2[n]·relu(w1·[u, v] + b1) + b2[n], for each distance d of rows and columns, in the order of the table of `attention`; u = sign(rows)·log(1 + reachH·|rows|)·factor, v of columns. w1 `[K, 2]`, b1 `[K]`, w2 `[N, K]`, b2 `[N]`; without b2, it is 0',
  ins: [values('w1'), values('b1'), values('w2'), last],
  outs: [values('y')],
  shape: (a, ins) => checked(fits(ins as readonly Sizes[]), () => legal([rows(a), ins[2]![0]!])),
  backward: (g) => {
    const given = g.ins.map((i) => g.shape(i))
    const gradients = g.emit('distance_scores_bwd', g.attrs, [g.outs[0]!, g.outputGradient(0), ...g.ins], given)
    for (const [i, gradient] of gradients.entries()) if (g.needsGradient(i)) g.addGradient(i, gradient)
  },
  samples: ([, c]) =>
    [0, 16].map((bound) => ({
      attrs: { height: 2, width: 3, reachH: 8, reachW: 4, factor: 0.5, bound },
      ins: [[5, 2], [5], [c, 5], ...(bound === 0 ? [[c]] : [])],
    })),
  flops: (a, s) => 4 * rows(a) * elements(s.ins[2]),
})

export const distanceScoresBwd = defineOp({
  kind: 'distance_scores_bwd',
  wire: 302,
  fields,
  limits,
  anchor: 0,
  outputsGiven: true,
  what: 'the gradients of w1, b1, w2 and b2 from y and dy',
  ins: [values('y'), values('dy'), values('w1'), values('b1'), values('w2'), last],
  outs: [values('dw1'), values('db1'), values('dw2'), { ...values('db2'), optional: true }],
  shape: (a, [y, dy, ...ins], given) =>
    checked(
      [
        ...weights(a, ins as readonly Sizes[], y!),
        expectShape('dy', dy!, y!),
        () => (given.length === ins.length ? undefined : `it has ${given.length} outputs; allowed: ${ins.length}`),
        ...given.map((shape, i) => expectShape('the gradient', shape!, ins[i]!)),
      ],
      () => legal(...given),
    ),
  flops: (a, s) => 10 * rows(a) * elements(s.ins[4]),
})
