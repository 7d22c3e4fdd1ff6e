// Queries and keys of unit length for attention by cosines: each head's channels are divided by their length, and queries are multiplied by a trained
// factor of the head. Values are copied. The backward computes the lengths again from x. Worked example: with p = log(10), a query becomes 10 long.
import { type AttrsOf, data, defineOp, type OperandDef, type Sizes, wholeChannels } from './op'
import { checked, elements, expectRank, expectShape, firstIn, firstOut, legal, perElement } from './rules'

const fields = { heads: 'int', headFirst: 'int', most: 'float' } as const
const limits = { heads: { least: 1 }, headFirst: { least: 0, most: 1 } } as const
type Attrs = AttrsOf<typeof fields>
const image = (name: string): OperandDef<typeof fields> => data(name, wholeChannels) as OperandDef<typeof fields>
const factors: OperandDef<typeof fields> = { name: 'p', role: 'whole' }

const fits = ({ heads }: Attrs, x: Sizes, p: Sizes) => [
  expectRank('the input', x, 4),
  () =>
    x[1]! % (3 * heads) === 0
      ? undefined
      : `${x[1]} channels are not queries, keys and values of ${heads} heads; allowed: multiples of ${3 * heads}`,
  () => (elements(p) === heads ? undefined : `p has ${elements(p)} numbers; allowed: ${heads}, one for each head`),
]

export const unitHeads = defineOp({
  kind: 'unit_heads',
  wire: 303,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  what: 'y = x, the queries and keys of each head divided by √(Σx² + 1e-24) over their channels, the queries times e^min(p, most). x `[B,3C,H,W]` is that of `attention`; p has a number for each head',
  ins: [image('x'), factors],
  outs: [image('y')],
  shape: (a, [x, p]) => checked(fits(a, x!, p!), () => legal(x!)),
  backward: (g) => {
    const [x, p] = g.ins
    const [dx, dp] = g.emit('unit_heads_bwd', g.attrs, [x!, g.outputGradient(0), p!], [g.shape(x!), g.shape(p!)])
    if (g.needsGradient(0)) g.addGradient(0, dx!)
    if (g.needsGradient(1)) g.addGradient(1, dp!)
  },
  samples: ([b, c, h, w]) =>
    [0, 1].map((headFirst) => ({
      attrs: { heads: 2, headFirst, most: 4 },
      ins: [[b, 6 * c, h, w], headFirst ? [2] : [2, 1, 1]],
    })),
  flops: perElement(4, firstOut),
})

export const unitHeadsBwd = defineOp({
  kind: 'unit_heads_bwd',
  wire: 304,
  half: 'may',
  fields,
  limits,
  anchor: 1,
  outputsGiven: true,
  what: 'the gradients of x and p; dp: sum, 0 where p > most',
  ins: [image('x'), image('dy'), factors],
  outs: [image('dx'), { name: 'dp', role: 'whole', merge: 'sum' }],
  shape: (a, [x, dy, p], given) =>
    checked(
      [
        ...fits(a, x!, p!),
        expectShape('the incoming gradient', dy!, x!),
        expectShape('dx', given[0]!, x!),
        expectShape('dp', given[1]!, p!),
      ],
      () => legal(...given),
    ),
  flops: perElement(8, firstIn),
})
