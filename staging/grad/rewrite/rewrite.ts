// Rewriting forward graphs before their gradients are made. In: a forward graph, its output value, a rule for an op and the
// only op that reads it. Out: the graph with each such pair replaced, values and ops numbered anew.
// Invariant: a value that anything else reads, and the network's output, are never taken away or changed.
// Worked example, `fuse bn_apply and relu`: [conv2d, bn_stats, bn_apply, relu] becomes [conv2d, bn_stats, bn_relu_apply].
import type { Graph, Op, Value, ValueId } from '../../graph/graph'

export interface Rewritten {
  readonly graph: Graph
  readonly output: ValueId
}

export interface Rewrite {
  readonly name: string
  readonly apply: (g: Graph, output: ValueId) => Rewritten
}

/** What stands in place of a pair: its ops, in order, and the shape of the value between them where they are two. */
export interface Replacement {
  readonly ops: readonly Op[]
  readonly middle?: readonly number[]
}

/** `first` makes value `first.outs[0]`, which `second` reads as its first input, and nothing else reads at all. */
export type PairRule = (first: Op, second: Op, g: Graph) => Replacement | undefined

const readersOf = (g: Graph): ReadonlyMap<ValueId, readonly Op[]> => {
  const readers = new Map<ValueId, Op[]>()
  for (const op of g.ops) for (const v of op.ins) readers.set(v, [...(readers.get(v) ?? []), op])
  return readers
}

/** Values that no op makes or reads any more go; the others move up. */
const compacted = (values: readonly Value[], ops: readonly Op[], name: string, output: ValueId): Rewritten => {
  const used = new Set(ops.flatMap((o) => [...o.ins, ...o.outs]))
  const made = values.filter((v) => v.role === 'activation' || v.role === 'stat')
  const gone = new Set(made.filter((v) => !used.has(v.id)).map((v) => v.id))
  const kept = values.filter((v) => !gone.has(v.id))
  const renamed = new Map(kept.map((v, id) => [v.id, id]))
  const at = (v: ValueId): ValueId => renamed.get(v)!
  return {
    graph: {
      name,
      values: kept.map((v, id) => ({ ...v, id })),
      ops: ops.map((o, id) => ({ ...o, id, ins: o.ins.map(at), outs: o.outs.map(at) })),
    },
    output: at(output),
  }
}

/** What a rule for single ops sees of the graph: what the pass has made of the ops before, and who reads what. */
export interface Draft {
  readonly graph: Graph
  readonly values: readonly Value[]
  readonly maker: (v: ValueId) => Op | undefined
  readonly readers: (v: ValueId) => readonly Op[]
  readonly make: (v: Omit<Value, 'id'>) => ValueId
}

/** The ops that stand in an op's place, with outputs that are its own at the end. */
export type OpRule = (op: Op, draft: Draft) => readonly Op[] | undefined

/** Each op by a rule; what then makes only values that nothing reads any more goes, if something read them before. */
export const rewriteOps = (name: string, rule: () => OpRule): Rewrite => ({
  name,
  apply: (g, output) => {
    const readers = readersOf(g)
    const values = [...g.values]
    const makers = new Map<ValueId, Op>()
    const ruled = rule()
    const draft: Draft = {
      graph: g,
      values,
      maker: (v) => makers.get(v),
      readers: (v) => readers.get(v) ?? [],
      make: (v) => values.push({ ...v, id: values.length }) - 1,
    }
    let changed = false
    const ops = g.ops.flatMap((op) => {
      const replacement = ruled(op, draft)
      changed ||= replacement !== undefined
      const now = replacement ?? [op]
      for (const o of now) for (const v of o.outs) makers.set(v, o)
      return now
    })
    return changed
      ? compacted(
          values,
          withoutUnread(ops, (v) => v !== output && readers.has(v)),
          g.name,
          output,
        )
      : { graph: g, output }
  },
})

const withoutUnread = (ops: readonly Op[], mayGo: (v: ValueId) => boolean): readonly Op[] => {
  const read = new Set(ops.flatMap((o) => o.ins))
  const left = ops.filter((o) => o.outs.length === 0 || o.outs.some((v) => read.has(v) || !mayGo(v)))
  return left.length === ops.length ? ops : withoutUnread(left, mayGo)
}

export const rewritePairs = (name: string, rule: PairRule): Rewrite => ({
  name,
  apply: (g, output) => {
    const readers = readersOf(g)
    const replaced = new Map<number, readonly Op[]>()
    const values = [...g.values]
    for (const first of g.ops) {
      const middle = first.outs[0]
      if (middle === undefined || middle === output || replaced.has(first.id)) continue
      const [second, ...others] = readers.get(middle) ?? []
      if (!second || others.length || second.ins[0] !== middle || second.ins.indexOf(middle, 1) > 0) continue
      const replacement = rule(first, second, g)
      if (!replacement) continue
      replaced.set(first.id, []).set(second.id, replacement.ops)
      if (replacement.middle) values[middle] = { ...values[middle]!, shape: replacement.middle }
    }
    if (replaced.size === 0) return { graph: g, output }
    return compacted(
      values,
      g.ops.flatMap((o) => replaced.get(o.id) ?? [o]),
      g.name,
      output,
    )
  },
})
