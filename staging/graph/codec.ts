// Graphs from untrusted files. The io-ts codec refuses any graph that the builder cannot make: ids out of range, unknown operators, wrong attributes
// or shapes, reads before writes. In: any JSON value. Out: a Graph that is safe to plan, or GraphFormat with the place and the reason. Unknown fields
// are dropped.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { sameShape } from '../core/box'
import { count, faultOf, list, names, record, wholeFrom, words } from '../core/codecs'
import { type GraphError, renderError } from '../core/errors'
import { HALVES, type OperandDef, outputDef, shapeText } from '../ops/op'
import { findOp } from '../ops/registry'
import { trainedByCodec } from '../ops/updates'
import { inWholeShapes, putsPart, ranksFault } from './ranks'
import { checkedValue, checkOp, halfOfOp, outputTypes } from './check'
import { type Counts, weightsInParts } from './weightparts'
import {
  DISTRIBUTIONS,
  type DType,
  DTYPES,
  type Float,
  floatOf,
  type Graph,
  isLaid,
  type Op,
  PHASES,
  ROLES,
  type Value,
  type ValueId,
  type ValueRole,
} from './graph'

// ---------------------------------------------------------------- structure

const valueCodec = record(
  { id: count, name: words, role: names(ROLES), shape: list(count), dtype: names(DTYPES) },
  {
    init: record({ dist: names(DISTRIBUTIONS), a: t.number }),
    gradOf: count,
    rows: record({ from: count, of: wholeFrom(1) }),
    part: list(count),
  },
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
const structure = record(
  { name: words, values: list(valueCodec), ops: list(opCodec) },
  {
    trainedBy: trainedByCodec,
    ranks: wholeFrom(2),
    norms: t.literal('local'),
    shard: names(['optimizer', 'gradients'] as const),
    alone: list(count),
    bands: record({ at: count, of: wholeFrom(2) }),
    /** For weights in parts: the number of parts of each. The graph with parts follows from the whole graph and these numbers. */
    parts: t.record(t.string, wholeFrom(2)),
  },
)

// ---------------------------------------------------------------- meaning

type Fault = Extract<GraphError, { tag: 'GraphFormat' }>
const faultAt =
  (at: string) =>
  (reason: string): Fault => ({ tag: 'GraphFormat', at, reason })
const numbered = <T extends { readonly id: number }>(item: T, i: number): Either<string, T> =>
  item.id === i ? E.right(item) : E.left(`its id is ${item.id}; allowed: ${i}`)

const LEAVES: readonly ValueRole[] = ['param', 'state', 'input', 'target']
const DATA_RESULTS: readonly ValueRole[] = ['activation', 'output', 'gradient']
const WHOLE_RESULTS: readonly ValueRole[] = ['stat', 'loss', 'gradient']
const isLeaf = (v: Value): boolean => LEAVES.includes(v.role)

const checkedStart = (v: Value): Either<string, Value> => {
  const persistent = v.role === 'param' || v.role === 'state'
  if (persistent && !v.init) return E.left(`${v.role} '${v.name}' has no start value`)
  return !persistent && v.init ? E.left(`'${v.name}' has a start value; only parameters and states have one`) : E.right(v)
}

const checkedGradient = (g: Graph, v: Value): Either<string, Value> => {
  if (v.gradOf === undefined) return E.right(v)
  const of = g.values[v.gradOf]
  if (v.role !== 'gradient') return E.left(`'${v.name}' of role ${v.role} is a gradient; its role must be gradient`)
  if (!of) return E.left(`gradOf is ${v.gradOf}; allowed: 0 to ${g.values.length - 1}`)
  return sameShape(of.shape, v.shape) ? E.right(v) : E.left(`the shapes of the gradient '${v.name}' and of '${of.name}' differ`)
}

/**
 * Returns the legal types of a value. Class labels and results on whole numbers are i32. Inputs may be bytes. Inputs, layers' results and laid
 * weights may be halves.
 */
const typesOf = (v: Value, float: DType, integers: ReadonlySet<number>): readonly DType[] =>
  v.role === 'target'
    ? [float, 'i32']
    : integers.has(v.id)
      ? ['i32']
      : v.role === 'input'
        ? [float, ...HALVES, 'u8']
        : ['activation', 'gradient'].includes(v.role) || isLaid(v)
          ? [float, ...HALVES]
          : [float]

const checkedValues = (g: Graph): Either<Fault, unknown> => {
  const integers = new Set(g.ops.flatMap((op) => op.outs.filter((_, i) => findOp(op.kind)?.outs[i]?.dtype === 'i32')))
  const float = floatOf(g)
  /** The first leaf of each name. */
  const leaves = new Map([...g.values.filter(isLeaf)].reverse().map((v) => [v.name, v]))
  const typed = (v: Value): Either<string, Value> => {
    const types = typesOf(v, float, integers)
    if (!types.includes(v.dtype)) return E.left(`'${v.name}' of role ${v.role} is ${v.dtype}; allowed: ${types.join(' or ')}`)
    return isLeaf(v) && leaves.get(v.name) !== v ? E.left(`two inputs or parameters are named '${v.name}'`) : E.right(v)
  }
  return pipe(
    g.values,
    E.traverseReadonlyArrayWithIndex((i, v) =>
      pipe(
        numbered(v, i),
        E.tap(() => E.mapLeft(renderError)(checkedValue(v))),
        E.chain(typed),
        E.chain(checkedStart),
        E.chain((sound) => checkedGradient(g, sound)),
        E.mapLeft(faultAt(`values[${i}]`)),
      ),
    ),
  )
}

/** Checks that an op's result has the shape, type and role of the op table. */
const checkedResult = (v: Value, def: OperandDef, shape: readonly number[], type: DType): Either<string, Value> => {
  if (!sameShape(v.shape, shape)) return E.left(`'${v.name}' has shape ${shapeText(v.shape)}; allowed: ${shapeText(shape)}`)
  if (v.dtype !== type) return E.left(`'${v.name}' is ${v.dtype}; allowed: ${type}`)
  const roles = def.role === 'data' && def.merge !== 'moments' ? DATA_RESULTS : WHOLE_RESULTS
  return roles.includes(v.role) ? E.right(v) : E.left(`'${v.name}' has role ${v.role}; allowed: ${roles.join(', ')}`)
}

/** Checks the ops in order. It records the values that are computed and those that are overwritten so far. */
class Walk {
  private readonly written = new Set<number>()
  private readonly overwritten = new Set<number>()
  private readonly float: Float

  constructor(private readonly g: Graph) {
    this.float = floatOf(g)
    for (const v of g.values) if (isLeaf(v)) this.written.add(v.id)
  }

  /** Checks an op after those before it. */
  checkNext(i: number, op: Op): Either<Fault, unknown> {
    return pipe(
      numbered(op, i),
      E.chain(() => E.traverseReadonlyArrayWithIndex((k, v: ValueId) => this.checkRead(v, putsPart(op, k)))(op.ins)),
      E.bindTo('ins'),
      E.bind('outs', () => E.traverseArray((v: ValueId) => this.checkWritten(v))(op.outs)),
      E.chain(({ ins, outs }) => this.checkResults(op, ins, outs)),
      E.mapLeft(faultAt(`ops[${i}]`)),
    )
  }

  private named(v: ValueId, does: string): Either<string, Value> {
    return E.fromNullable(`it ${does} value ${v}; allowed: 0 to ${this.g.values.length - 1}`)(this.g.values[v])
  }

  private checkRead(v: ValueId, updated: boolean): Either<string, Value> {
    return pipe(
      this.named(v, 'reads'),
      E.filterOrElse(
        () => this.written.has(v),
        ({ name }: Value) => `it reads '${name}' before it is computed`,
      ),
      E.filterOrElse(
        () => updated || !this.overwritten.has(v),
        ({ name }: Value) => `it reads '${name}' after its update`,
      ),
    )
  }

  private checkWritten(v: ValueId): Either<string, Value> {
    return pipe(
      this.named(v, 'writes'),
      E.filterOrElse(
        () => !this.written.has(v),
        ({ name }: Value) => `it writes '${name}', which is already computed`,
      ),
      E.tap(() => E.right(this.written.add(v))),
    )
  }

  /** Checks that the roles, types and shapes of the results are those of the op table. */
  private checkResults(op: Op, ins: readonly Value[], outs: readonly Value[]): Either<string, unknown> {
    return pipe(
      checkOp({ ...op, ins, given: outs.map((v) => v.shape) }),
      E.mapLeft(renderError),
      E.filterOrElse(
        (c) => c.outs.length === outs.length,
        (c) => `it has ${outs.length} outputs; allowed: ${c.outs.length}`,
      ),
      E.tap(({ def, outs: shapes }) => {
        const types = outputTypes(def, halfOfOp(def, ins, outs), this.float)
        return E.traverseReadonlyArrayWithIndex((i, v: Value) =>
          checkedResult(v, outputDef(def, i), shapes[i]!, types[Math.min(i, types.length - 1)]!),
        )(outs)
      }),
      E.filterOrElse(
        ({ def }) => !def.mutates || op.phase === 'update',
        () => `${op.kind} overwrites its inputs; its phase must be update`,
      ),
      E.map(({ def }) => def.mutates?.forEach((i) => op.ins[i] !== undefined && this.overwritten.add(op.ins[i]!))),
    )
  }

  /** Checks that each value is computed by an op or is a leaf. */
  checkAllComputed(): Either<Fault, unknown> {
    const orphan = this.g.values.find((v) => !this.written.has(v.id))
    const words = orphan && `no operator computes '${orphan.name}' of role ${orphan.role}`
    return words === undefined ? E.right(this.g) : E.left(faultAt(`values[${orphan!.id}]`)(words))
  }
}

const checkedRanks = (g: Graph): Either<Fault, unknown> =>
  pipe(
    ranksFault(g),
    E.fromPredicate(
      (fault) => fault === undefined,
      (fault) => faultAt('graph')(fault!),
    ),
  )

/** Checks a graph. The rules of the op table are about shapes in the whole batch. */
export const checkedGraph = (g: Graph): Either<GraphError, Graph> => {
  const whole = inWholeShapes(g)
  const walk = new Walk(whole)
  return pipe(
    checkedValues(whole),
    E.chain(() => E.traverseReadonlyArrayWithIndex((i, op: Op) => walk.checkNext(i, op))(whole.ops)),
    E.chain(() => walk.checkAllComputed()),
    E.chain(() => checkedRanks(g)),
    E.map(() => g),
  )
}

// ---------------------------------------------------------------- the codec

/** Returns a graph, or the reason why it is illegal, with its place. */
export const decodeGraph = (u: unknown): Either<GraphError, Graph> =>
  pipe(
    structure.decode(u),
    E.mapLeft((errors): Fault => ({ tag: 'GraphFormat', ...faultOf('graph', errors) })),
    E.chainW(({ parts, ...g }) => pipe(checkedGraph(g), E.chain(parts ? split(parts) : E.right))),
  )

const split =
  (parts: Counts) =>
  (g: Graph): Either<GraphError, Graph> =>
    E.fromNullable<GraphError>(faultAt('parts')('a weight is missing, or has no such number of parts'))(weightsInParts(g, parts))

/** Returns a graph in the form of files. */
export const filedGraph = ({ inParts, ...g }: Graph): Graph & { readonly parts?: Counts } =>
  inParts ? { ...inParts.whole, parts: inParts.counts } : g

/** The same as an io-ts codec, for use inside others (plan files). */
export const graphCodec: t.Type<Graph, Graph, unknown> = new t.Type<Graph, Graph, unknown>(
  'Graph',
  (u): u is Graph => E.isRight(decodeGraph(u)),
  (u, c) => E.orElse((e: GraphError) => t.failure<Graph>(u, c, renderError(e)))(decodeGraph(u)),
  t.identity,
)
