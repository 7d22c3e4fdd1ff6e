// Conversions between the stored types of activations: `to_bf16` and `to_f16` round, `from_bf16` and `from_f16` return to the graph's float type.
// The conversions of gradients consume each piece of their input once, as backward ops do. They are not layers of a network: the rewrite to 16-bit
// activations inserts them (grad/rewrite/half.ts).
import { defineOp, type Half, type OpDef, type OperandDef, pointwise } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

const operand = (name: string, float: boolean): OperandDef => ({
  name,
  role: 'data',
  access: () => pointwise,
  ...(float ? { float } : {}),
})

/** With its wire number. */
const cast = (half: Half, to: 'half' | 'float', of: 'value' | 'gradient', wire: number): OpDef =>
  defineOp({
    kind: castKind(half, to, of),
    wire,
    anchor: of === 'gradient' ? 0 : 'out',
    half,
    fields: {},
    what: to === 'half' ? `y = x as ${half}, to nearest even` : `y = x, which is ${half}`,
    ins: [operand('x', to === 'half')],
    outs: [operand('y', to === 'float')],
    shape: (_, [x]) => checked([expectRank('the input', x!, 4)], () => legal(x!)),
    flops: perElement(1, firstOut),
  })

export const castKind = (half: Half, to: 'half' | 'float', of: 'value' | 'gradient'): string =>
  `${to === 'half' ? 'to' : 'from'}_${half}${of === 'gradient' ? '_grad' : ''}`

export const castOps: readonly OpDef[] = [
  cast('bf16', 'half', 'value', 92),
  cast('bf16', 'float', 'value', 93),
  cast('bf16', 'half', 'gradient', 94),
  cast('bf16', 'float', 'gradient', 95),
  cast('f16', 'half', 'value', 280),
  cast('f16', 'float', 'value', 281),
  cast('f16', 'half', 'gradient', 282),
  cast('f16', 'float', 'gradient', 283),
]
