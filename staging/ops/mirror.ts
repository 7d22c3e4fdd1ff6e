// Expands a table of absolute distances to a table of signed distances. This runs once a step, before the forward pass; attention reads the result in
// place of a parameter. Its gradient is the sum over the signs. Worked example, one row of three pixels: [a, b, c] becomes [c, b, a, b, c].
// With `isSigned`, the table has signed distances from keys to queries, and only their order changes: [a, b, c] of two pixels becomes [c, b, a].
import { defineOp, type AttrsOf, type OperandDef, type Sizes } from './op'
import { checked, elements, expectRank, expectShape, firstOut, legal, perElement } from './rules'

const fields = { height: 'int', width: 'int', isSigned: 'int' } as const
const limits = { height: { least: 1 }, width: { least: 1 }, isSigned: { least: 0, most: 1 } } as const
type Attrs = AttrsOf<typeof fields>
const values = (name: string): OperandDef<typeof fields> => ({ name, role: 'whole' })

/** Returns the number of rows of the expanded table: all signed distances. */
const distances = ({ height, width }: Attrs): number => (2 * height - 1) * (2 * width - 1)
/** The shape of the parameter for `count` heads. */
export const mirrored = (a: Attrs, count: number): Sizes =>
  a.isSigned === 1 ? [count, 2 * a.height - 1, 2 * a.width - 1] : [count, a.height * a.width]

export const mirror = defineOp({
  kind: 'mirror',
  wire: 298,
  fields,
  limits,
  anchor: 0,
  what: 'y[(dh + height − 1)·(2·width − 1) + dw + width − 1, n] = p[n, |dh|·width + |dw|], p `[N, height·width]`; with isSigned, p[n, height − 1 − dh, width − 1 − dw], p `[N, 2·height − 1, 2·width − 1]`',
  ins: [values('p')],
  outs: [values('y')],
  shape: (a, [p]) => checked([expectShape('the parameter', p!, mirrored(a, p![0]!))], () => legal([distances(a), p![0]!])),
  backward: (g) => {
    const [p] = g.ins
    if (g.needsGradient(0)) g.addGradient(0, g.emit('mirror_bwd', g.attrs, [g.outputGradient(0)], [g.shape(p!)])[0]!)
  },
  samples: ([, c]) => [
    { attrs: { height: 2, width: 3, isSigned: 0 }, ins: [[c, 6]] },
    { attrs: { height: 2, width: 3, isSigned: 1 }, ins: [[c, 3, 5]] },
  ],
  flops: perElement(1, firstOut),
})

export const mirrorBwd = defineOp({
  kind: 'mirror_bwd',
  wire: 299,
  fields,
  limits,
  anchor: 0,
  what: 'dp = the sum of dy over the signs of a distance; with isSigned, dy in the order of p',
  ins: [values('dy')],
  outs: [values('dp')],
  shape: (a, [dy]) =>
    checked([expectRank('dy', dy!, 2), () => expectShape('dy', dy!, [distances(a), dy![1]!])()], () =>
      legal(mirrored(a, dy![1]!)),
    ),
  flops: (_, s) => elements(s.ins[0]),
})
