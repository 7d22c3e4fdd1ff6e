// One trained number for several channels: it is repeated once a step, before the forward pass, and other operators read the repetition in place of a
// parameter. Its gradient is the sum over the repetition. Worked example, a parameter [2, 5] three times: [2, 2, 2, 5, 5, 5].
import { defineOp, type OperandDef, type Sizes } from './op'
import { checked, elements, expectRank, expectShape, firstOut, legal, perElement } from './rules'

const fields = { times: 'int' } as const
const limits = { times: { least: 1 } } as const
const values = (name: string): OperandDef<typeof fields> => ({ name, role: 'whole' })

/** The shape of `count` numbers: [N], or [N,1,1]. */
const ofOne = (shape: Sizes, count: number): Sizes => [count, ...shape.slice(1).map(() => 1)]

export const spread = defineOp({
  kind: 'spread',
  wire: 294,
  fields,
  limits,
  anchor: 0,
  what: 'y = each value of p `times` in a row, p `[N]` or `[N,1,1]`, y `[N·times]`',
  ins: [values('p')],
  outs: [values('y')],
  shape: ({ times }, [p]) => checked([expectShape('the parameter', p!, ofOne(p!, p![0]!))], () => legal([p![0]! * times])),
  backward: (g) => {
    const [p] = g.ins
    if (g.needsGradient(0)) g.addGradient(0, g.emit('spread_bwd', g.attrs, [g.outputGradient(0)], [g.shape(p!)])[0]!)
  },
  samples: (x) => [{ attrs: { times: 3 }, ins: [[x[1]]] }],
  flops: perElement(1, firstOut),
})

export const spreadBwd = defineOp({
  kind: 'spread_bwd',
  wire: 295,
  fields,
  limits,
  anchor: 0,
  outputsGiven: true,
  what: 'dp = the sum of `times` values of dy in a row',
  ins: [values('dy')],
  outs: [values('dp')],
  shape: ({ times }, [dy], [dp]) =>
    checked(
      [
        expectRank('dy', dy!, 1),
        () => (dy![0]! % times === 0 ? undefined : `dy has ${dy![0]} values; allowed: multiples of ${times}`),
        () => expectShape('dp', dp!, ofOne(dp!, dy![0]! / times))(),
      ],
      () => legal(dp!),
    ),
  flops: (_, s) => elements(s.ins[0]),
})
