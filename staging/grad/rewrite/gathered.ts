// Groups updates of small parameters, for devices that run several in one launch: a launch costs more than the work. In: a training graph. Out: the
// same ops, with such updates later and side by side. Invariant: an update is still after all ops that touch its operands, and the gradients that
// wait take at most MOST_TOGETHER times SMALL_BYTES. Worked example: dgamma2, sgd(gamma2), dw2, sgd(w2), dgamma1, sgd(gamma1) becomes dgamma2, dw2,
// sgd(w2), dgamma1, sgd(gamma2), sgd(gamma1).
import { valueBytes, type Graph, type Op } from '../../graph/graph'

const SMALL_BYTES = 64 * 1024
/** The most updates that a device runs in one launch. */
const MOST_TOGETHER = 64

const isSmallUpdate = (g: Graph, op: Op): boolean => {
  const param = g.values[op.ins[0]!]!
  return op.phase === 'update' && param.role === 'param' && valueBytes(param) <= SMALL_BYTES
}

/** Returns a key that updates must share to run together. */
const ruleOf = (op: Op): string => `${op.kind} ${op.ins.length} ${JSON.stringify(op.attrs)}`

export const withGatheredUpdates = (g: Graph): Graph => {
  const waiting = new Map<string, Op[]>()
  const ops: Op[] = []
  for (const op of g.ops) {
    if (!isSmallUpdate(g, op)) {
      ops.push(op)
      continue
    }
    const rule = ruleOf(op)
    const others = [...(waiting.get(rule) ?? []), op]
    if (others.length === MOST_TOGETHER) ops.push(...others)
    waiting.set(rule, others.length === MOST_TOGETHER ? [] : others)
  }
  for (const others of waiting.values()) ops.push(...others)
  return { ...g, ops: ops.map((op, id) => ({ ...op, id })) }
}
