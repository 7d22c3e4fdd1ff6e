// Between the two element types that activations are stored in: `to_bf16` rounds, `from_bf16` gives the graph's float type
// back; those of gradients consume each piece of theirs once, as backward ops do. No network names them: they come from
// storing a training graph's activations as bf16 (grad/rewrite/bf16.ts).
import { defineOp, type OpDef, type OperandDef, pointwise } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

interface Cast {
  readonly kind: string
  readonly wire: number
  readonly anchor: OpDef['anchor']
  readonly to: 'bf16' | 'float'
}

const operand = (name: string, float: boolean): OperandDef => ({
  name,
  role: 'data',
  access: () => pointwise,
  ...(float ? { float } : {}),
})

const cast = ({ to, ...own }: Cast): OpDef =>
  defineOp({
    ...own,
    bf16: 'always',
    fields: {},
    what: to === 'bf16' ? 'y = x as bf16, to nearest even' : 'y = x, which is bf16',
    ins: [operand('x', to === 'bf16')],
    outs: [operand('y', to === 'float')],
    shape: (_, [x]) => checked([expectRank('the input', x!, 4)], () => legal(x!)),
    flops: perElement(1, firstOut),
  })

export const toBf16 = cast({ kind: 'to_bf16', wire: 92, anchor: 'out', to: 'bf16' })
export const fromBf16 = cast({ kind: 'from_bf16', wire: 93, anchor: 'out', to: 'float' })
export const toBf16Grad = cast({ kind: 'to_bf16_grad', wire: 94, anchor: 0, to: 'bf16' })
export const fromBf16Grad = cast({ kind: 'from_bf16_grad', wire: 95, anchor: 0, to: 'float' })
