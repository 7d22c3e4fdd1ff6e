// Graphs from untrusted files: an io-ts codec whose decoding refuses, with the place and the reason, anything that the
// builder could not have made: ids out of range, unknown operators, wrong attributes or shapes, reads before writes.
// In: any JSON value. Out: a Graph that is safe to plan, or GraphFormat. Unknown fields are dropped.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { sameShape } from '../core/box'
import { count, faultOf, list, names, record, words } from '../core/codecs'
import { type GraphError, renderError } from '../core/errors'
import { findOp } from '../ops/registry'
import { checkOp, isBf16Op, outputTypes, valueFault } from './check'
import {
  DISTRIBUTIONS,
  type DType,
  DTYPES,
  type Float,
  floatOf,
  type Graph,
  type Op,
  PHASES,
  ROLES,
  type Value,
  type ValueRole,
} from './graph'

// ---------------------------------------------------------------- structure

const valueCodec = record(
  { id: count, name: words, role: names(ROLES), shape: list(count), dtype: names(DTYPES) },
  { init: record({ dist: names(DISTRIBUTIONS), a: t.number }), gradOf: count },
)
const opCodec = record({
  id: count,
  kind: words,
  layer: words,
  phase: names(PHASES),
  attrs: t.record(t.string, t.number),
  ins: list(count),
  outs: list(count),
})
const structure = record({ name: words, values: list(valueCodec), ops: list(opCodec) })

// ---------------------------------------------------------------- meaning

type Fault = Extract<GraphError, { tag: 'GraphFormat' }>
const faultAt = (at: string, reason: string): Fault => ({ tag: 'GraphFormat', at, reason })

const LEAVES: readonly ValueRole[] = ['param', 'state', 'input', 'target']
const DATA_RESULTS: readonly ValueRole[] = ['activation', 'gradient']
const WHOLE_RESULTS: readonly ValueRole[] = ['stat', 'loss', 'gradient']
const isLeaf = (v: Value): boolean => LEAVES.includes(v.role)

const startFault = (v: Value): string | undefined => {
  const persistent = v.role === 'param' || v.role === 'state'
  if (persistent && !v.init) return `${v.role} '${v.name}' does not say how it starts`
  return !persistent && v.init ? `'${v.name}' has a start value; legal are start values of parameters and states` : undefined
}

const gradientFault = (g: Graph, v: Value): string | undefined => {
  if (v.gradOf === undefined) return undefined
  const of = g.values[v.gradOf]
  if (v.role !== 'gradient') return `'${v.name}' of role ${v.role} is a gradient; legal is role gradient`
  if (!of) return `gradOf is ${v.gradOf}; legal are 0 to ${g.values.length - 1}`
  return sameShape(of.shape, v.shape) ? undefined : `the gradient '${v.name}' has another shape than '${of.name}'`
}

/** Class labels and what ops make of whole numbers are i32; what is fed and what layers make may be bf16. */
const typesOf = (v: Value, float: DType, integers: ReadonlySet<number>): readonly DType[] =>
  v.role === 'target'
    ? [float, 'i32']
    : integers.has(v.id)
      ? ['i32']
      : ['input', 'activation', 'gradient'].includes(v.role)
        ? [float, 'bf16']
        : [float]

const valuesFault = (g: Graph): Fault | undefined => {
  const leafNames = new Set<string>()
  const integers = new Set(g.ops.flatMap((op) => op.outs.filter((_, i) => findOp(op.kind)?.outs[i]?.dtype === 'i32')))
  const float = floatOf(g)
  for (const [i, v] of g.values.entries()) {
    const at = `values[${i}]`
    const alone = valueFault(v)
    const reason =
      v.id !== i
        ? `its id is ${v.id}; legal is ${i}`
        : alone
          ? renderError(alone)
          : !typesOf(v, float, integers).includes(v.dtype)
            ? `'${v.name}' of role ${v.role} is ${v.dtype}; legal is ${typesOf(v, float, integers).join(' or ')}`
            : isLeaf(v) && leafNames.has(v.name)
              ? `a second leaf named '${v.name}'`
              : (startFault(v) ?? gradientFault(g, v))
    if (reason !== undefined) return faultAt(at, reason)
    if (isLeaf(v)) leafNames.add(v.name)
  }
  return undefined
}

/** Walks the ops in order; knows which values are there and which are overwritten by then. */
class Walk {
  private readonly written = new Set<number>()
  private readonly overwritten = new Set<number>()
  private readonly float: Float

  constructor(private readonly g: Graph) {
    this.float = floatOf(g)
    for (const v of g.values) if (isLeaf(v)) this.written.add(v.id)
  }

  reading(op: Op): string | undefined {
    for (const v of op.ins) {
      if (v >= this.g.values.length) return `it reads value ${v}; legal are 0 to ${this.g.values.length - 1}`
      if (!this.written.has(v)) return `it reads '${this.g.values[v]!.name}' before it is computed`
      if (this.overwritten.has(v)) return `it reads '${this.g.values[v]!.name}' after its update`
    }
    return undefined
  }

  writing(op: Op): string | undefined {
    for (const v of op.outs) {
      if (v >= this.g.values.length) return `it writes value ${v}; legal are 0 to ${this.g.values.length - 1}`
      if (this.written.has(v)) return `it writes '${this.g.values[v]!.name}', which is there already`
      this.written.add(v)
    }
    return undefined
  }

  /** Roles and shapes of what it writes are those that the op table gives. */
  applying(op: Op): string | undefined {
    const outs = op.outs.map((v) => this.g.values[v]!)
    const c = checkOp({ ...op, ins: op.ins.map((v) => this.g.values[v]!), given: outs.map((v) => v.shape) })
    if (isLeft(c)) return renderError(c.left)
    const { def, outs: shapes } = c.right
    if (shapes.length !== outs.length) return `it has ${outs.length} outputs; legal are ${shapes.length}`
    const odd = outs.find((v, i) => !sameShape(v.shape, shapes[i]!))
    if (odd) return `'${odd.name}' has shape [${odd.shape.join(',')}]; legal is [${shapes[outs.indexOf(odd)]!.join(',')}]`
    const types = outputTypes(
      def,
      isBf16Op(
        def,
        op.ins.map((v) => this.g.values[v]!),
        outs,
      ),
      this.float,
    )
    const mistyped = outs.find((v, i) => v.dtype !== types[i])
    if (mistyped) return `'${mistyped.name}' is ${mistyped.dtype}; legal is ${types[outs.indexOf(mistyped)]}`
    const roles = (i: number): readonly ValueRole[] =>
      def.outs[i]!.role === 'data' && def.outs[i]!.merge !== 'moments' ? DATA_RESULTS : WHOLE_RESULTS
    const misfit = outs.find((v, i) => !roles(i).includes(v.role))
    if (misfit) return `'${misfit.name}' has role ${misfit.role}; legal are ${roles(outs.indexOf(misfit)).join(', ')}`
    if (def.mutates && op.phase !== 'update') return `${op.kind} overwrites its inputs; legal is phase update`
    for (const i of def.mutates ?? []) if (op.ins[i] !== undefined) this.overwritten.add(op.ins[i]!)
    return undefined
  }

  unwritten(): Value | undefined {
    return this.g.values.find((v) => !this.written.has(v.id))
  }
}

const opsFault = (g: Graph): Fault | undefined => {
  const walk = new Walk(g)
  for (const [i, op] of g.ops.entries()) {
    const reason = op.id !== i ? `its id is ${op.id}; legal is ${i}` : (walk.reading(op) ?? walk.writing(op) ?? walk.applying(op))
    if (reason !== undefined) return faultAt(`ops[${i}]`, reason)
  }
  const orphan = walk.unwritten()
  return orphan && faultAt(`values[${orphan.id}]`, `nothing computes '${orphan.name}' of role ${orphan.role}`)
}

export const graphFault = (g: Graph): GraphError | undefined => valuesFault(g) ?? opsFault(g)

// ---------------------------------------------------------------- the codec

/** A graph, or why not, in words that say where. */
export const decodeGraph = (u: unknown): Either<GraphError, Graph> => {
  const s = structure.decode(u)
  if (isLeft(s)) {
    const { at, reason } = faultOf(s.left)
    return left(faultAt(at === '' ? 'graph' : at, reason))
  }
  const fault = graphFault(s.right)
  return fault ? left(fault) : right(s.right)
}

/** The same as an io-ts codec, to stand inside others (plan files). */
export const graphCodec: t.Type<Graph, Graph, unknown> = new t.Type<Graph, Graph, unknown>(
  'Graph',
  (u): u is Graph => !isLeft(decodeGraph(u)),
  (u, c) => {
    const g = decodeGraph(u)
    return isLeft(g) ? t.failure(u, c, renderError(g.left)) : t.success(g.right)
  },
  t.identity,
)
