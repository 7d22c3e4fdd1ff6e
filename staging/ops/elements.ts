// The stored types of the operands of a call. In: an operator's entry, and the 16-bit type of the call, or undefined. Out: the element type of each
// operand. The call computes, sums and keeps its parameters in the graph's float type. Invariant: one
// type determines all types of a call, so planner and tape reader agree. The layout of a weight determines its type. Worked example, a
// bf16 `conv2d(x, w, b) -> y`: x bf16, w and b real, y bf16; laid out, w is bf16 too.
import { type Half, inputDef, isHalf, type OpDef, type OperandDef } from './op'

/**
 * real    the graph's float type         i32    class labels
 * u8      bytes, which only `from_bytes` reads
 * either  the graph's float type or a half, all such operands of a call alike
 * bf16    always bf16                    f16    always f16
 * any     any type, the same for all such operands of a call
 * weight  real in PyTorch's order, or laid out as `laid` says
 * laid    as either, channels innermost
 */
export type Element = 'real' | 'i32' | 'any' | 'either' | Half | 'u8' | 'weight' | 'laid'

/** Returns the element type of an operand. Parameters, statistics and sums over tiles have the float type. */
export const elementOf = (d: OpDef, o: OperandDef): Element => {
  if (o.dtype) return o.dtype
  if (o.laid) return o.laid === 'is' ? 'laid' : 'weight'
  if (!d.half || o.role === 'whole' || o.merge || o.float) return 'real'
  return d.half === 'may' ? 'either' : d.half
}

/** The 16-bit type of a call's activations, if they have one, and true if its weight is laid out. */
export const storedAs = (d: OpDef, o: OperandDef, half: Half | undefined, laid = false): 'real' | 'i32' | Half | 'u8' => {
  const element = elementOf(d, o)
  if (element === 'i32' || element === 'u8' || isHalf(element)) return element
  const float = element === 'real' || (element === 'weight' && !laid)
  return half === undefined || float ? 'real' : half
}

/** Returns the element types of the operands of an op or a call, in order. */
export const inputElements = (d: OpDef, count: number): readonly Element[] =>
  Array.from({ length: count }, (_, i) => elementOf(d, inputDef(d, i)))
