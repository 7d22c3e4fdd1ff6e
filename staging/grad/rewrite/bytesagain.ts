// Recomputes, for the backward pass, numbers that were made from bytes: a byte is kept for each number instead of four, and fed bytes are never
// written back. In: a training graph. Out: the same step. Invariant: the bits are the same. Worked example: from_bytes(x) -> y, conv2d(y), …,
// conv2d_bwd_weights(y, dy) becomes from_bytes(x) -> y, conv2d(y), …, from_bytes(x) -> y2, conv2d_bwd_weights(y2, dy).
import type { Graph, Op, Value, ValueId } from '../../graph/graph'

export const withRecomputedBytes = (g: Graph): Graph => {
  const makers = new Map<ValueId, Op>(g.ops.flatMap((op) => (op.kind === 'from_bytes' ? [[op.outs[0]!, op] as const] : [])))
  if (makers.size === 0) return g
  const values: Value[] = [...g.values]
  const recomputed = new Map<ValueId, ValueId>()
  const ops: Op[] = []
  const made = (v: ValueId, maker: Op): ValueId => {
    const known = recomputed.get(v)
    if (known !== undefined) return known
    const id = values.length
    values.push({ ...values[v]!, id, name: `${values[v]!.name}.again` })
    ops.push({ ...maker, phase: 'backward', outs: [id] })
    recomputed.set(v, id)
    return id
  }
  for (const op of g.ops) {
    const ins = op.phase === 'backward' ? op.ins.map((v) => (makers.has(v) ? made(v, makers.get(v)!) : v)) : op.ins
    ops.push({ ...op, ins })
  }
  return recomputed.size === 0 ? g : { ...g, values, ops: ops.map((op, id) => ({ ...op, id })) }
}
