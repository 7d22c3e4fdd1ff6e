// A graph without the parts that an ONNX file lacks: the names of layers without parameters, initial weights, dropout. In: a forward graph and its
// output. Out: a graph that is equal for networks with the same computation and parameters. Only used by tests.
import type { Forward } from '../../src/exchange/export'
import type { Graph, Op } from '../../staging/graph/graph'

const LEFT_OUT = ['dropout', 'drop_images']

/** Sums whose first summand is a sum that nothing else reads are one sum: they add in the same order. */
const flattened = (ops: readonly Op[]): readonly Op[] => {
  const readers = new Map<number, number>()
  for (const v of ops.flatMap((o) => o.ins)) readers.set(v, (readers.get(v) ?? 0) + 1)
  const sums = new Map<number, Op>()
  const inner = new Set<Op>()
  const merged = ops.map((op) => {
    const first = op.kind === 'add' && readers.get(op.ins[0]!) === 1 ? sums.get(op.ins[0]!) : undefined
    const whole = first ? { ...op, ins: [...first.ins, ...op.ins.slice(1)] } : op
    if (first) inner.add(first)
    if (op.kind === 'add') sums.set(op.outs[0]!, whole)
    return whole
  })
  return merged.filter((op) => !inner.has(op))
}

export const bare = ({ graph, output }: Forward): Graph => {
  const as = new Map(graph.ops.filter((o) => LEFT_OUT.includes(o.kind)).map((o) => [o.outs[0]!, o.ins[0]!]))
  const kept = flattened(graph.ops.filter((o) => !LEFT_OUT.includes(o.kind)))
  const weights = graph.values.filter((v) => v.role === 'param' || v.role === 'state').map((v) => v.name)
  const order = [...weights].sort()
  const place = new Map<number, number>()
  const put = (id: number): number => (as.has(id) ? put(as.get(id)!) : (place.get(id) ?? place.set(id, place.size).get(id)!))
  for (const name of order) put(graph.values.find((v) => v.name === name && v.role !== 'activation')!.id)
  for (const op of kept) for (const v of [...op.ins, ...op.outs]) put(v)
  put(output)
  const values = [...place.entries()].map(([from, id]) => {
    const { init: _, ...v } = graph.values[from]!
    return { ...v, id, name: v.role === 'param' || v.role === 'state' ? v.name : '' }
  })
  const ops = kept.map((o, id) => ({ ...o, id, layer: '', ins: o.ins.map(put), outs: o.outs.map(put) }))
  return { name: '', values, ops }
}
