// Whether an op of the table may stand in a graph with these operands: counts, roles, element types, attributes, shapes.
// In: kind, attributes, operand values. Out: the entry, its attributes in wire order and its output shapes, or a GraphError.
// Invariant: builder and codec both ask here, so what is built and what is read obey the same rules.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { GraphError } from '../core/errors'
import { type AnyAttrs, attrsCodec, inputDef, type OpDef, type OperandDef, shapeText } from '../ops/op'
import { type Element, elementOf, inputElements, storedAs } from '../ops/elements'
import { findOp, opDefs } from '../ops/registry'
import { type DType, DTYPES, type Float, FLOATS, PERSISTENT_ROLES, type Value, type ValueRole } from './graph'

type Shape = readonly number[]

export interface OpRequest {
  readonly kind: string
  readonly layer: string
  readonly attrs: AnyAttrs
  readonly ins: readonly Value[]
  /** Output shapes: due where the op table says `outputsGiven`. */
  readonly given: readonly Shape[]
}

export interface CheckedOp {
  readonly def: OpDef
  readonly attrs: AnyAttrs
  readonly outs: readonly Shape[]
}

const WHOLE_ROLES: readonly ValueRole[] = ['param', 'state', 'stat', 'gradient', 'loss']
const DATA_ROLES: readonly ValueRole[] = ['input', 'target', 'activation', 'gradient', 'stat']
const OVERWRITABLE: readonly ValueRole[] = PERSISTENT_ROLES

const countsOf = (operands: OpDef['ins'], variadic = false): readonly [least: number, most: number] => [
  operands.filter((o) => !o.optional).length,
  variadic ? Infinity : operands.length,
]
const countText = ([least, most]: readonly [number, number]): string =>
  most === Infinity ? `${least} or more` : least === most ? String(least) : `${least} to ${most}`

const rolesFor = (d: OpDef, o: OperandDef, i: number): readonly ValueRole[] =>
  d.mutates?.includes(i) ? OVERWRITABLE : o.role === 'whole' ? WHOLE_ROLES : DATA_ROLES

const operandFault = (r: OpRequest, d: OpDef, v: Value, i: number): GraphError | undefined => {
  const o = inputDef(d, i)
  const fault = (got: string, legal: string): GraphError => ({
    tag: 'OperandInvalid',
    layer: r.layer,
    kind: r.kind,
    operand: `${i} (${o.name})`,
    got,
    legal,
  })
  const roles = rolesFor(d, o, i)
  if (!roles.includes(v.role)) return fault(`'${v.name}', a value of role ${v.role}`, `a value of role ${roles.join(', ')}`)
  if (o.role === 'data' && v.shape.length !== 4) return fault(`'${v.name}' ${shapeText(v.shape)}`, 'a value [B,C,H,W]')
  const element = elementOf(d, o)
  return STORED[element].includes(v.dtype)
    ? undefined
    : fault(`'${v.name}' of element type ${v.dtype}`, `element type ${STORED[element].join(' or ')}`)
}

const STORED: Readonly<Record<Element, readonly DType[]>> = {
  real: FLOATS,
  i32: ['i32'],
  either: [...FLOATS, 'bf16'],
  bf16: ['bf16'],
  any: DTYPES,
}

/** Whether a call with these operands stores activations as bf16. */
export const isBf16 = (values: readonly { readonly dtype: DType }[]): boolean => values.some((v) => v.dtype === 'bf16')

/** The first operand that is not stored as a call with such operands has it. */
const mixedFault = (r: OpRequest, d: OpDef): GraphError | undefined => {
  const bf16 = isBf16(r.ins)
  const at = r.ins.findIndex((v, i) => v.dtype !== 'bf16' && storedAs(d, inputDef(d, i), bf16) === 'bf16')
  if (at < 0) return undefined
  const { name, dtype } = r.ins[at]!
  const operand = `${at} (${inputDef(d, at).name})`
  return {
    tag: 'OperandInvalid',
    layer: r.layer,
    kind: r.kind,
    operand,
    got: `'${name}' of element type ${dtype} beside a bf16 one`,
    legal: 'element type bf16',
  }
}

/** Whether an op is in bf16: its inputs say, or, where all of them are of the float type anyhow, what it makes. */
export const isBf16Op = (d: OpDef, ins: readonly Value[], outs: readonly Value[]): boolean =>
  d.bf16 === 'always' || isBf16(inputElements(d, ins.length).includes('either') ? ins : outs)

/** How an op stores what it makes, in a graph that computes in `float`. */
export const outputTypes = (d: OpDef, bf16: boolean, float: Float): readonly DType[] =>
  d.outs.map((o) => {
    const stored = storedAs(d, o, bf16)
    return stored === 'real' ? float : stored
  })

const attrsText = (d: OpDef): string =>
  Object.keys(d.fields).length === 0
    ? 'none'
    : Object.entries(d.fields)
        .map(([n, f]) => `${n}: ${f}`)
        .join(', ')

const inWireOrder = (d: OpDef, attrs: AnyAttrs): AnyAttrs => Object.fromEntries(Object.keys(d.fields).map((n) => [n, attrs[n]!]))

export const checkOp = (r: OpRequest): Either<GraphError, CheckedOp> => {
  const { layer, kind } = r
  const d = findOp(kind)
  if (!d || d.plumbing)
    return left({ tag: 'UnknownOp', layer, kind, legal: opDefs.filter((o) => !o.plumbing).map((o) => o.kind) })
  const counts = countsOf(d.ins, d.variadic)
  if (r.ins.length < counts[0] || r.ins.length > counts[1])
    return left({ tag: 'OperandCount', layer, kind, got: r.ins.length, legal: countText(counts) })
  if (!attrsCodec(d.fields).is(r.attrs)) return left({ tag: 'AttrsInvalid', layer, kind, got: r.attrs, legal: attrsText(d) })
  for (const [i, v] of r.ins.entries()) {
    const fault = operandFault(r, d, v, i)
    if (fault) return left(fault)
  }
  const mixed = mixedFault(r, d)
  if (mixed) return left(mixed)
  const outCounts = countsOf(d.outs)
  if (d.outputsGiven && (r.given.length < outCounts[0] || r.given.length > outCounts[1]))
    return left({
      tag: 'ShapeInvalid',
      layer,
      kind,
      reason: `${r.given.length} output shapes are given; legal are ${countText(outCounts)}`,
    })
  const outs = d.shape(
    r.attrs,
    r.ins.map((v) => v.shape),
    r.given,
  )
  if (isLeft(outs)) return left({ tag: 'ShapeInvalid', layer, kind, reason: outs.left })
  return right({ def: d, attrs: inWireOrder(d, r.attrs), outs: outs.right })
}

/** What is wrong with a value by itself, if anything. */
export const valueFault = (v: Pick<Value, 'name' | 'role' | 'shape' | 'init'>): GraphError | undefined => {
  const fault = (reason: string, legal: string): GraphError => ({ tag: 'ValueInvalid', name: v.name, reason, legal })
  const ranks: readonly [number, number] = v.role === 'input' || v.role === 'target' ? [4, 4] : [1, 4]
  if (v.name === '') return fault('a value has no name', 'a name of at least one letter')
  if (v.shape.length < ranks[0] || v.shape.length > ranks[1])
    return fault(`its shape is ${shapeText(v.shape)}`, ranks[0] === 4 ? 'a shape [B,C,H,W]' : 'a shape of 1 to 4 dimensions')
  if (!v.shape.every((d) => Number.isSafeInteger(d) && d > 0))
    return fault(`its shape is ${shapeText(v.shape)}`, 'a whole number of 1 or more in each dimension')
  // Byte counts, too, must be exact: eight bytes an element at most.
  if (v.shape.reduce((n, d) => n * d, 8) > Number.MAX_SAFE_INTEGER)
    return fault(`its shape is ${shapeText(v.shape)}`, 'at most 2^50 elements')
  if (v.init && !Number.isFinite(v.init.a)) return fault(`its start value is ${v.init.a}`, 'a finite number')
  return undefined
}
