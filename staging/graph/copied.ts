// A step that copies its inputs once. The copy stays on the device, and the next step's input takes the place of the first one. In: a graph. Out: the
// same step, whose first ops copy inputs for all their readers. Invariant: the computation is the same, so it has the fingerprint of the staged step.
// Values keep their ids, copies follow them, and the ids of ops grow by the number of copies.
// Worked example, ops [conv(x, w), …, conv_bwd_weights(x, dy)]: [take_channels(x) -> copy, conv(copy, w), …, conv_bwd_weights(copy, dy)].
import { onceFor } from '../core/remember'
import { takeChannels } from '../ops/concat'
import { type Graph, type Op, trains, type Value, valueBytes, type ValueId } from './graph'
import { ranksOf } from './ranks'

const copyName = (input: string): string => `${input}.copy`

/** Returns true if an op copies an input. (A network may take all channels of its input itself, under another name.) */
const isCopy = (values: readonly Value[], { kind, attrs, ins, outs }: Op): boolean => {
  if (kind !== takeChannels.kind) return false
  const { role, name, shape } = values[ins[0]!]!
  return role === 'input' && attrs['count'] === shape[1] && values[outs[0]!]!.name === copyName(name)
}

/** Returns the copied inputs by copy. */
export const copiesIn = onceFor(
  ({ values, ops }: Graph): ReadonlyMap<ValueId, ValueId> =>
    new Map(ops.flatMap((op) => (isCopy(values, op) ? [[op.outs[0]!, op.ins[0]!] as const] : []))),
)

/**
 * Returns the inputs that a step in this budget may copy: those that several ops read. (Bytes are converted once, so only one op reads them.) The copy
 * and the next input need memory. Ranks must run one list of ops, and files of weights in parts hold the graph before the split: neither copies.
 */
export const copyableIn = (g: Graph, budgetBytes: number): readonly Value[] => {
  if (!trains(g) || ranksOf(g) > 1 || g.inParts) return []
  const readers = (v: ValueId): number => g.ops.filter((op) => op.ins.includes(v)).length
  const inputs = g.values.filter((v) => v.role === 'input' && v.dtype !== 'u8' && readers(v.id) > 1)
  return 2 * inputs.reduce((n, v) => n + valueBytes(v), 0) > budgetBytes ? [] : inputs
}

/** Returns the graph that copies these inputs. */
export const withCopies = (g: Graph, inputs: readonly Value[]): Graph => {
  const values = [...g.values]
  const copyOf = new Map<ValueId, ValueId>()
  const copies = inputs.map(({ id: x, name, shape, dtype }, id): Op => {
    const copy = values.length
    values.push({ id: copy, name: copyName(name), role: 'activation', shape, dtype })
    copyOf.set(x, copy)
    const { layer } = g.ops.find((op) => op.ins.includes(x))!
    return { id, kind: takeChannels.kind, layer, phase: 'forward', attrs: { from: 0, count: shape[1]! }, ins: [x], outs: [copy] }
  })
  const ops = g.ops.map((op) => ({ ...op, ins: op.ins.map((v) => copyOf.get(v) ?? v) }))
  return { ...g, values, ops: [...copies, ...ops].map((op, id) => ({ ...op, id })) }
}
