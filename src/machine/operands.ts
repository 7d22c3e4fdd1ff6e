// The operands of a call that is known by its shapes only. In: an operator's attributes and the shapes of one call.
// Out: where each operand would lie in its whole value, so that a kernel sees the padding that these shapes imply.
// Worked example: 3x3, padding 1, 8 rows out. 10 rows in: the tile lies inside the image, rows [1,9) of the output see
// rows [0,10). 9 rows in: it lies at the top edge. 8 rows in: it is the whole image.
import { DIMS, type Dim } from '../../staging/core/box'
import type { DType, Float } from '../../staging/graph/graph'
import type { KernelRequest, NativeOperand } from '../device/native'
import {
  type AnyAttrs,
  attrNames,
  type CallShapes,
  comesLaid,
  inputDef,
  type OperandDef,
  type OpDef,
  sigmaDelta,
  touched,
  type BoxPlace,
  type Windows,
} from '../../staging/ops/op'
import { storedAs } from '../../staging/ops/elements'
import { opDef } from '../../staging/ops/registry'

/** The place of a box in its value, with all fields. */
export type PlacedOperand = Required<Omit<NativeOperand, 'rank' | 'strides'>> & Pick<NativeOperand, 'strides'>

interface Placed {
  readonly origin: number
  readonly extent: number
}

/** The start of the iteration along a dimension, and the padding left for its far end. */
interface Start {
  readonly from: number
  readonly count: number
  readonly padFar: number
}

const startOf = (count: number, window: Windows | undefined, held: number): Start => {
  if (!window) return { from: 0, count, padFar: 0 }
  const missing = Math.max(0, (count - 1) * window.stride + window.reach - held)
  const from = Math.max(0, Math.ceil((window.pad - missing) / window.stride))
  return { from, count, padFar: Math.max(0, missing - Math.max(0, window.pad - from * window.stride)) }
}

const accessOf = (def: OperandDef, attrs: AnyAttrs, s: CallShapes, d: Dim) => (def.access ? def.access(attrs, s)[d] : undefined)

const placeAlong = (def: OperandDef, attrs: AnyAttrs, s: CallShapes, d: Dim, held: number, start: Start): Placed => {
  const access = accessOf(def, attrs, s, d)
  if (access?.tag === 'window') {
    const origin = Math.max(0, start.from * access.stride - access.pad)
    return { origin, extent: origin + held + (start.padFar > 0 ? 0 : access.reach) }
  }
  if (access?.tag === 'same' || access?.tag === 'inside') return { origin: start.from, extent: start.from + held }
  const from = access && sigmaDelta(access) ? touched(access, [0, start.count], Number.POSITIVE_INFINITY)[0] : 0
  return { origin: from, extent: from + held }
}

interface OperandShape {
  readonly def: OperandDef
  readonly shape: readonly number[]
}

const startsOf = (def: OpDef, attrs: AnyAttrs, s: CallShapes, slots: readonly OperandShape[]): Readonly<Record<Dim, Start>> => {
  const anchor = def.anchor === 'out' ? s.outs[0] : s.ins[def.anchor]
  const along = (d: Dim, i: number): Start => {
    for (const slot of slots) {
      const access = slot.shape.length === 4 ? accessOf(slot.def, attrs, s, d) : undefined
      if (access?.tag === 'window') return startOf(anchor?.[i] ?? 1, access, slot.shape[i]!)
    }
    return startOf(anchor?.[i] ?? 1, undefined, 0)
  }
  return { B: along('B', 0), C: along('C', 1), H: along('H', 2), W: along('W', 3) }
}

/** Its kind by wire number. */
export type NativeCall = Pick<KernelRequest<PlacedOperand>, 'kind' | 'attrs' | 'ins' | 'outs'>

/** Attributes in wire order. */
export const wireAttrs = (def: OpDef, attrs: AnyAttrs): readonly number[] => attrNames(def, attrs).map((k) => attrs[k]!)

export const operandType = (def: OpDef, o: OperandDef, s: CallShapes, float: Float): DType => {
  const stored = storedAs(def, o, s.half, comesLaid(def, s))
  return stored === 'real' ? float : stored
}

/** For a weight in the layout of activations: channels innermost. */
const laidStrides = ([, c, h, w]: readonly number[]): readonly number[] => [h! * w! * c!, 1, w! * c!, c!]

export const nativeCall = (kind: string, attrs: AnyAttrs, s: CallShapes, float: Float): NativeCall => {
  const def = opDef(kind)
  const typeOf = (o: OperandDef): DType => operandType(def, o, s, float)
  const stridesOf = ({ laid }: OperandDef, dims: readonly number[]): Pick<NativeOperand, 'strides'> =>
    laid === 'is' || (laid === 'may' && comesLaid(def, s)) ? { strides: laidStrides(dims) } : {}
  const ins = s.ins.map((shape, i): OperandShape => ({ def: inputDef(def, i), shape }))
  const outs = s.outs.map((shape, i): OperandShape => ({ def: def.outs[Math.min(i, def.outs.length - 1)]!, shape }))
  if (s.at) {
    const known = (slots: readonly OperandShape[], at: readonly BoxPlace[]): readonly PlacedOperand[] =>
      slots.map(({ def: o, shape }, i) => ({ dims: shape, ...at[i]!, dtype: typeOf(o), ...stridesOf(o, shape) }))
    return { kind: def.wire, attrs: wireAttrs(def, attrs), ins: known(ins, s.at.ins), outs: known(outs, s.at.outs) }
  }
  const starts = startsOf(def, attrs, s, [...ins, ...outs])
  const operand = ({ def: o, shape }: OperandShape): PlacedOperand => {
    const dtype = typeOf(o)
    if (shape.length !== 4 || o.role === 'whole')
      return { dims: shape, origin: shape.map(() => 0), extent: shape, dtype, ...stridesOf(o, shape) }
    const places = DIMS.map((d, i) => placeAlong(o, attrs, s, d, shape[i]!, starts[d]))
    return { dims: shape, origin: places.map((p) => p.origin), extent: places.map((p) => p.extent), dtype }
  }
  return { kind: def.wire, attrs: wireAttrs(def, attrs), ins: ins.map(operand), outs: outs.map(operand) }
}
