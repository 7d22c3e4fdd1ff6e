// A step that copies its inputs once. The copy stays on the device, and the next step's input takes the place of the first one. In: a graph. Out: the
// same step, whose first ops copy inputs for all their readers. Invariant: the computation is the same, so it has the fingerprint of the staged step.
// Values keep their ids, copies follow them, and the ids of ops grow by the number of copies.
// Worked example, ops [conv(x, w), …, conv_bwd_weights(x, dy)]: [take_channels(x) -> copy, conv(copy, w), …, conv_bwd_weights(copy, dy)].
import { onceFor } from '../core/remember'
import { takeChannels } from '../ops/concat'
import type { Graph, Op, Value, ValueId } from './graph'

/** Returns true if an op takes all channels of an input. */
const isCopy = (values: readonly Value[], { kind, attrs, ins }: Op): boolean => {
  if (kind !== takeChannels.kind) return false
  const { role, shape } = values[ins[0]!]!
  return role === 'input' && attrs['count'] === shape[1]
}

/** Returns the copied inputs by copy. */
export const copiesIn = onceFor(
  ({ values, ops }: Graph): ReadonlyMap<ValueId, ValueId> =>
    new Map(ops.flatMap((op) => (isCopy(values, op) ? [[op.outs[0]!, op.ins[0]!] as const] : []))),
)

/** Returns the inputs that several ops read. Bytes are converted once, so only one op reads them. */
export const readAgain = ({ values, ops }: Graph): readonly Value[] => {
  const readers = (v: ValueId): number => ops.filter((op) => op.ins.includes(v)).length
  return values.filter((v) => v.role === 'input' && v.dtype !== 'u8' && readers(v.id) > 1)
}

/** Returns the graph that copies these inputs. */
export const withCopies = (g: Graph, inputs: readonly Value[]): Graph => {
  const values = [...g.values]
  const copyOf = new Map<ValueId, ValueId>()
  const copies = inputs.map(({ id: x, name, shape, dtype }, id): Op => {
    const copy = values.length
    values.push({ id: copy, name: `${name}.copy`, role: 'activation', shape, dtype })
    copyOf.set(x, copy)
    const { layer } = g.ops.find((op) => op.ins.includes(x))!
    return { id, kind: takeChannels.kind, layer, phase: 'forward', attrs: { from: 0, count: shape[1]! }, ins: [x], outs: [copy] }
  })
  const ops = g.ops.map((op) => ({ ...op, ins: op.ins.map((v) => copyOf.get(v) ?? v) }))
  return { ...g, values, ops: [...copies, ...ops].map((op, id) => ({ ...op, id })) }
}
