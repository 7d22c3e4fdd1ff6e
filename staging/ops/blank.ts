// A parameter with zeros in place of some values in a row, once a step: the bias of keys in Swin V2 is not trained. The operator is its own gradient.
// Worked example: [1, 2, 3] from 1 to 2 becomes [1, 0, 3].
import { defineOp, type OperandDef } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

const fields = { from: 'int', to: 'int' } as const
const limits = { from: { least: 0 }, to: { least: 1 } } as const
const values = (name: string): OperandDef<typeof fields> => ({ name, role: 'whole' })

export const blank = defineOp({
  kind: 'blank',
  wire: 305,
  fields,
  limits,
  anchor: 0,
  what: 'y = p, and 0 at the places from `from` to `to` − 1, p `[N]`',
  ins: [values('p')],
  outs: [values('y')],
  shape: ({ from, to }, [p]) =>
    checked(
      [
        expectRank('the parameter', p!, 1),
        () =>
          from < to && to <= p![0]!
            ? undefined
            : `it blanks ${from} to ${to} of ${p![0]} values; allowed: places of the parameter`,
      ],
      () => legal(p!),
    ),
  backward: (g) => {
    const [p] = g.ins
    if (g.needsGradient(0)) g.addGradient(0, g.emit('blank', g.attrs, [g.outputGradient(0)], [g.shape(p!)])[0]!)
  },
  samples: (x) => [{ attrs: { from: 1, to: 2 }, ins: [[x[1]! + 2]] }],
  flops: perElement(1, firstOut),
})
