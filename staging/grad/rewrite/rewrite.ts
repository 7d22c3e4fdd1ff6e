// Rewrites steps before their gradients are made. In: an elaborated step, and a rule for an op and its only reader, or for single ops. Out: the step
// with the replacements, values and ops numbered anew. Invariant: a value is never removed or changed if another op or a loss reads it; nor is an op
// where gradients end. Worked example, `fuse bn_apply and relu`: [conv2d, bn_stats, bn_apply, relu] becomes [conv2d, bn_stats, bn_relu_apply].
import type { Graph, Op, Value, ValueId } from '../../graph/graph'
import { type ElaboratedStep, heldValues, renumbered } from '../objective'

export interface Rewrite {
  readonly name: string
  readonly apply: (s: ElaboratedStep) => ElaboratedStep
}

/** The replacement of a pair: its ops, in order, and the shape of the value between them if there are two ops. */
export interface Replacement {
  readonly ops: readonly Op[]
  readonly middle?: readonly number[]
}

/** Returns the replacement of a pair. `second` reads `first.outs[0]` as its first input, and no other op reads the value. */
export type PairRule = (first: Op, second: Op, g: Graph) => Replacement | undefined

export const readersOf = (ops: readonly Op[]): ReadonlyMap<ValueId, readonly Op[]> => {
  const readers = new Map<ValueId, Op[]>()
  for (const op of ops) for (const v of op.ins) readers.set(v, [...(readers.get(v) ?? []), op])
  return readers
}

/** Removes values without a maker or reader, and numbers the others anew. The inputs of losses stay last. */
const compacted = (s: ElaboratedStep, values: readonly Value[], ops: readonly Op[]): ElaboratedStep => {
  const used = new Set(ops.flatMap((o) => [...o.ins, ...o.outs]))
  const made = values.filter((v) => v.role === 'activation' || v.role === 'stat')
  const dropped = new Set(made.filter((v) => !used.has(v.id)).map((v) => v.id))
  const kept = values.filter((v) => !dropped.has(v.id))
  const ordered = [...kept.filter((v) => v.role !== 'target'), ...kept.filter((v) => v.role === 'target')]
  const numbers = new Map(ordered.map((v, id) => [v.id, id]))
  const at = (v: ValueId): ValueId => numbers.get(v)!
  const graph: Graph = {
    name: s.graph.name,
    values: ordered.map((v, id) => ({ ...v, id })),
    ops: ops.map((o, id) => ({ ...o, id, ins: o.ins.map(at), outs: o.outs.map(at) })),
  }
  return renumbered(s, graph, at)
}

/** The graph during a pass over single ops: the replaced ops so far, except for held values, and the readers of values. */
export interface PassState {
  readonly graph: Graph
  readonly values: readonly Value[]
  readonly maker: (v: ValueId) => Op | undefined
  readonly readers: (v: ValueId) => readonly Op[]
  readonly make: (v: Omit<Value, 'id'>) => ValueId
}

/** Returns the replacement of an op, or undefined. The outputs of the op are among its outputs. */
export type OpRule = (op: Op, state: PassState) => readonly Op[] | undefined

/** Applies a rule to each op. Ops whose results lost their last reader are removed. */
export const rewriteOps = (name: string, rule: () => OpRule): Rewrite => ({
  name,
  apply: (s) => {
    const { graph: g } = s
    const held = heldValues(s)
    const cut = new Set(s.detached.map((d) => d.reader))
    const readers = readersOf(g.ops)
    const values = [...g.values]
    const makers = new Map<ValueId, Op>()
    const ruled = rule()
    const state: PassState = {
      graph: g,
      values,
      maker: (v) => (held.has(v) ? undefined : makers.get(v)),
      readers: (v) => readers.get(v) ?? [],
      make: (v) => values.push({ ...v, id: values.length }) - 1,
    }
    let changed = false
    const ops = g.ops.flatMap((op) => {
      const replacement = cut.has(op.outs[0]!) ? undefined : ruled(op, state)
      changed ||= replacement !== undefined
      const now = replacement ?? [op]
      for (const o of now) for (const v of o.outs) makers.set(v, o)
      return now
    })
    return changed
      ? compacted(
          s,
          values,
          withoutUnread(ops, (v) => !held.has(v) && readers.has(v)),
        )
      : s
  },
})

const withoutUnread = (ops: readonly Op[], isDroppable: (v: ValueId) => boolean): readonly Op[] => {
  const read = new Set(ops.flatMap((o) => o.ins))
  const remaining = ops.filter((o) => o.outs.length === 0 || o.outs.some((v) => read.has(v) || !isDroppable(v)))
  return remaining.length === ops.length ? ops : withoutUnread(remaining, isDroppable)
}

export const rewritePairs = (name: string, rule: PairRule): Rewrite => ({
  name,
  apply: (s) => {
    const { graph: g } = s
    const held = heldValues(s)
    const readers = readersOf(g.ops)
    const replaced = new Map<number, readonly Op[]>()
    const values = [...g.values]
    for (const first of g.ops) {
      const middle = first.outs[0]
      if (middle === undefined || held.has(middle) || replaced.has(first.id)) continue
      const [second, ...others] = readers.get(middle) ?? []
      if (!second || others.length || second.ins[0] !== middle || second.ins.indexOf(middle, 1) > 0) continue
      const replacement = rule(first, second, g)
      if (!replacement) continue
      replaced.set(first.id, []).set(second.id, replacement.ops)
      if (replacement.middle) values[middle] = { ...values[middle]!, shape: replacement.middle }
    }
    if (replaced.size === 0) return s
    return compacted(
      s,
      values,
      g.ops.flatMap((o) => replaced.get(o.id) ?? [o]),
    )
  },
})
