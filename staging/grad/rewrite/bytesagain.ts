// Numbers that were made of bytes are made again for the backward pass, not kept until then: a byte for each instead of four, and fed bytes are never
// written back. In: a training graph. Out: the same step. Invariant: the bits are the same. Worked example: from_bytes(x) -> y, conv2d(y), …,
// conv2d_bwd_weights(y, dy) becomes from_bytes(x) -> y, conv2d(y), …, from_bytes(x) -> y2, conv2d_bwd_weights(y2, dy).
import type { Graph, Op, Value, ValueId } from '../../graph/graph'

export const withBytesAgain = (g: Graph): Graph => {
  const makers = new Map<ValueId, Op>(g.ops.flatMap((op) => (op.kind === 'from_bytes' ? [[op.outs[0]!, op] as const] : [])))
  if (makers.size === 0) return g
  const values: Value[] = [...g.values]
  const again = new Map<ValueId, ValueId>()
  const ops: Op[] = []
  const made = (v: ValueId, maker: Op): ValueId => {
    const known = again.get(v)
    if (known !== undefined) return known
    const id = values.length
    values.push({ ...values[v]!, id, name: `${values[v]!.name}.again` })
    ops.push({ ...maker, phase: 'backward', outs: [id] })
    again.set(v, id)
    return id
  }
  for (const op of g.ops) {
    const ins = op.phase === 'backward' ? op.ins.map((v) => (makers.has(v) ? made(v, makers.get(v)!) : v)) : op.ins
    ops.push({ ...op, ins })
  }
  return again.size === 0 ? g : { ...g, values, ops: ops.map((op, id) => ({ ...op, id })) }
}
