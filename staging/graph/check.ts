// Checks an op of the table with its operands: counts, roles, element types, attributes, shapes. In: kind, attributes, operand values. Out: the
// entry, its attributes in wire order and its output shapes, or a GraphError. Invariant: builder and codec both call it, so built and decoded graphs
// obey the same rules.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { GraphError } from '../core/errors'
import {
  type AnyAttrs,
  attrNames,
  attrsCodec,
  type Half,
  HALVES,
  inputDef,
  isHalf,
  type OpDef,
  type OperandDef,
  type Shapes,
  shapeText,
  type Sizes,
} from '../ops/op'
import { type Element, elementOf, inputElements, storedAs } from '../ops/elements'
import { findOp, opDefs } from '../ops/registry'
import { type DType, DTYPES, type Float, FLOATS, isLaid, PERSISTENT_ROLES, type Value, type ValueRole } from './graph'

export interface OpRequest {
  readonly kind: string
  readonly layer: string
  readonly attrs: AnyAttrs
  readonly ins: readonly Value[]
  /** Output shapes, required if the op table says `outputsGiven`. */
  readonly given: readonly Sizes[]
}

export interface CheckedOp {
  readonly def: OpDef
  readonly attrs: AnyAttrs
  readonly outs: readonly Sizes[]
}

const WHOLE_ROLES: readonly ValueRole[] = ['param', 'state', 'stat', 'gradient', 'loss']
const DATA_ROLES: readonly ValueRole[] = ['input', 'target', 'activation', 'output', 'gradient', 'stat']
const OVERWRITABLE: readonly ValueRole[] = PERSISTENT_ROLES
/** An update may also overwrite a part that a rank took of a weight: the part is written back (graph/ranks.ts). */
const PARTS: readonly ValueRole[] = [...OVERWRITABLE, 'stat']

const countsOf = (operands: OpDef['ins'], variadic = false): readonly [least: number, most: number] => [
  operands.filter((o) => !o.optional).length,
  variadic ? Infinity : operands.length,
]
const isWithin = ([least, most]: readonly [number, number], n: number): boolean => n >= least && n <= most
const countText = ([least, most]: readonly [number, number]): string =>
  most === Infinity ? `${least} or more` : least === most ? String(least) : `${least} to ${most}`

const rolesFor = (d: OpDef, o: OperandDef, i: number, { part }: Value): readonly ValueRole[] =>
  d.mutates?.includes(i) ? (part ? PARTS : OVERWRITABLE) : o.role === 'whole' ? WHOLE_ROLES : DATA_ROLES

/** Returns a function that checks the role, the rank and the stored type of an operand. */
const checkedOperand =
  (r: OpRequest, d: OpDef, half = halfOf(r.ins)) =>
  (i: number, v: Value): Either<GraphError, Value> => {
    const o = inputDef(d, i)
    const wrong = (got: string, legal: string): Either<GraphError, never> =>
      left({ tag: 'OperandInvalid', layer: r.layer, kind: r.kind, operand: `${i} (${o.name})`, got: `'${v.name}'${got}`, legal })
    const roles = rolesFor(d, o, i, v)
    if (!roles.includes(v.role)) return wrong(`, a value of role ${v.role}`, `a value of role ${roles.join(', ')}`)
    if (o.role === 'data' && v.shape.length !== 4) return wrong(` ${shapeText(v.shape)}`, 'a value [B,C,H,W]')
    const laid = isLaid(v)
    const types = storedTypes(elementOf(d, o), laid)
    if (!types.includes(v.dtype)) return wrong(` of element type ${v.dtype}`, `element type ${types.join(' or ')}`)
    const due = storedAs(d, o, half, laid)
    return isHalf(due) && v.dtype !== due
      ? wrong(` of element type ${v.dtype} beside a ${due} one`, `element type ${due}`)
      : right(v)
  }

const STORED: Readonly<Record<Exclude<Element, 'weight'>, readonly DType[]>> = {
  real: FLOATS,
  i32: ['i32'],
  either: [...FLOATS, ...HALVES],
  bf16: ['bf16'],
  f16: ['f16'],
  u8: ['u8'],
  any: DTYPES,
  laid: [...FLOATS, ...HALVES],
}
const storedTypes = (e: Element, laid: boolean): readonly DType[] => STORED[e === 'weight' ? (laid ? 'laid' : 'real') : e]

/** Returns the 16-bit type of the activations of a call with these operands, or undefined. */
export const halfOf = (values: readonly { readonly dtype: DType }[]): Half | undefined => {
  for (const { dtype } of values) if (isHalf(dtype)) return dtype
  return undefined
}

/** Returns the 16-bit type of an op. Its inputs decide; if they all have the float type in each case, its outputs decide. */
export const halfOfOp = (d: OpDef, ins: readonly Value[], outs: readonly Value[]): Half | undefined =>
  d.half !== undefined && d.half !== 'may' ? d.half : halfOf(inputElements(d, ins.length).includes('either') ? ins : outs)

/** Returns the stored types of an op's results in a graph that computes in `float`. */
export const outputTypes = (d: OpDef, half: Half | undefined, float: Float): readonly DType[] =>
  d.outs.map((o) => {
    const stored = storedAs(d, o, half)
    return stored === 'real' ? float : stored
  })

const attrsText = (d: OpDef): string => {
  const fields = Object.entries(d.fields).map(([n, f]) => `${n}: ${f}`)
  const listed = Object.keys(d.rest ?? {})
  const all =
    listed.length > 0 ? [...fields, `${[0, 1].flatMap((i) => listed.map((n) => `${n}${i}`)).join(', ')}, ...: float`] : fields
  return all.length === 0 ? 'none' : all.join(', ')
}

const inWireOrder = (d: OpDef, attrs: AnyAttrs): AnyAttrs => {
  const names = attrNames(d, attrs)
  const given = Object.keys(attrs)
  return names.every((n, i) => n === given[i]) ? attrs : Object.fromEntries(names.map((n) => [n, attrs[n]!]))
}

const shapesOf = (r: OpRequest, d: OpDef): Shapes => {
  const counts = countsOf(d.outs)
  const ins = r.ins.map((v) => v.shape)
  return !d.outputsGiven || isWithin(counts, r.given.length)
    ? d.shape(r.attrs, ins, r.given)
    : left(`it has ${r.given.length} output shapes; allowed: ${countText(counts)}`)
}

export const checkOp = (r: OpRequest): Either<GraphError, CheckedOp> => {
  const { layer, kind, attrs } = r
  const def = findOp(kind)
  if (!def || def.plumbing)
    return left({ tag: 'UnknownOp', layer, kind, legal: opDefs.filter((o) => !o.plumbing).map((o) => o.kind) })
  const counts = countsOf(def.ins, def.variadic)
  if (!isWithin(counts, r.ins.length))
    return left({ tag: 'OperandCount', layer, kind, got: r.ins.length, legal: countText(counts) })
  if (!attrsCodec(def).is(attrs)) return left({ tag: 'AttrsInvalid', layer, kind, got: attrs, legal: attrsText(def) })
  const invalid = (reason: string): GraphError => ({ tag: 'ShapeInvalid', layer, kind, reason })
  const checked = checkedOperand(r, def)
  for (const [i, v] of r.ins.entries()) {
    const operand = checked(i, v)
    if (isLeft(operand)) return operand
  }
  const outs = shapesOf(r, def)
  return isLeft(outs) ? left(invalid(outs.left)) : right({ def, attrs: inWireOrder(def, attrs), outs: outs.right })
}

/** Returns a value if its name, shape and initial value are legal. */
export const checkedValue = (v: Pick<Value, 'name' | 'role' | 'shape' | 'init'>): Either<GraphError, typeof v> => {
  const wrong = (reason: string, legal: string): Either<GraphError, never> =>
    left({ tag: 'ValueInvalid', name: v.name, reason, legal })
  const misshapen = (legal: string): Either<GraphError, never> => wrong(`its shape is ${shapeText(v.shape)}`, legal)
  const isImage = v.role === 'input' || v.role === 'target'
  if (v.name === '') return wrong('a value has no name', 'a name of at least one character')
  if (v.shape.length < (isImage ? 4 : 1) || v.shape.length > 4)
    return misshapen(isImage ? 'a shape [B,C,H,W]' : 'a shape of 1 to 4 dimensions')
  if (!v.shape.every((d) => Number.isSafeInteger(d) && d > 0)) return misshapen('a whole number of 1 or more in each dimension')
  // Byte counts must be exact, too. An element has at most eight bytes.
  if (v.shape.reduce((n, d) => n * d, 8) > Number.MAX_SAFE_INTEGER) return misshapen('at most 2^50 elements')
  return v.init && !Number.isFinite(v.init.a) ? wrong(`its start value is ${v.init.a}`, 'a finite number') : right(v)
}
