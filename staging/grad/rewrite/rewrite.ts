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
    return compacted(values, g.ops.flatMap((o) => replaced.get(o.id) ?? [o]), g.name, output)
  },
})
