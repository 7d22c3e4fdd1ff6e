// The stored types of the operands of a call. In: an operator's entry. Out: for each operand the element type, given that the call is in bf16 or not:
// bf16 activations, while it computes, sums and keeps its parameters in the graph's float type. Invariant: one bit gives all of a call's types, so a
// planner's machine and the reader of a tape agree. The layout of a weight tells its type. Worked example, a bf16 `conv2d(x, w, b) -> y`: x bf16, w
// and b real, y bf16; laid out, w is bf16 too.
import { inputDef, type OpDef, type OperandDef } from './op'

/**
 * real    the graph's float type         i32    class labels
 * u8      bytes, which only `from_bytes` reads
 * either  the graph's float type or bf16, all such operands of a call alike
 * bf16    always bf16                    any    whatever it is, all such operands of a call alike
 * weight  real in PyTorch's order, or laid out as `laid` says
 * laid    as either, channels innermost
 */
export type Element = 'real' | 'i32' | 'any' | 'either' | 'bf16' | 'u8' | 'weight' | 'laid'

const ELEMENTS: Readonly<Record<NonNullable<OpDef['bf16']>, Element>> = { may: 'either', always: 'bf16' }

/** Parameters, statistics and sums over tiles stay in the float type. */
export const elementOf = (d: OpDef, o: OperandDef): Element => {
  if (o.dtype) return o.dtype
  if (o.laid) return o.laid === 'is' ? 'laid' : 'weight'
  return d.bf16 && o.role !== 'whole' && !o.merge && !o.float ? ELEMENTS[d.bf16] : 'real'
}

/** In a call that is in bf16, or is not, and whose weight comes laid out, or does not. */
export const storedAs = (d: OpDef, o: OperandDef, bf16: boolean, laid = false): 'real' | 'i32' | 'bf16' | 'u8' => {
  const element = elementOf(d, o)
  if (element === 'i32' || element === 'u8') return element
  const float = element === 'real' || (element === 'weight' && !laid)
  return element === 'bf16' || (bf16 && !float) ? 'bf16' : 'real'
}

/** Those of an op's or a call's operands, in order. */
export const inputElements = (d: OpDef, count: number): readonly Element[] =>
  Array.from({ length: count }, (_, i) => elementOf(d, inputDef(d, i)))
