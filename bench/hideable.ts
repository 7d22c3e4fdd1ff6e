// The part of a step's exchanges between ranks that no schedule can hide. In: a plan. Out: the seconds that could run during compute at most. An
// exchange can run beside ops that are independent of it. A call can be beside one alone of several dependent exchanges, because others are computed
// between them: along such a chain it is the largest flow from exchanges to the ops independent of them. Worked example: exchanges of 3 s and 2 s,
// one after the other, both independent of one op of 4 s and nothing else: 3 of 5 s can be hidden.
import { ROW_EXCHANGES } from '../staging/graph/bands'
import { COLLECTIVES } from '../staging/graph/ranks'
import type { UnpagedPlan } from '../staging/plan/plan'

/** The largest flow: `from` and `to` are the capacities of the ends, `joined` the pairs that meet. */
export const largestFlow = (
  from: readonly number[],
  to: readonly number[],
  joined: (i: number, k: number) => boolean,
): number => {
  const left = [...from]
  const room = [...to]
  const flow = from.map(() => new Float64Array(to.length))
  const TINY = 1e-12
  let total = 0
  for (;;) {
    // The shortest way from an end with a rest to one with free capacity; back over present flows.
    const came = new Int32Array(to.length).fill(-1)
    const cameBack = new Int32Array(from.length).fill(-1)
    const seen = left.map((s) => s > TINY)
    const queue = left.flatMap((s, i) => (s > TINY ? [i] : []))
    let end = -1
    for (let q = 0; q < queue.length && end < 0; q++) {
      const i = queue[q]!
      for (let k = 0; k < to.length; k++) {
        if (came[k]! >= 0 || !joined(i, k)) continue
        came[k] = i
        if (room[k]! > TINY) {
          end = k
          break
        }
        for (let j = 0; j < from.length; j++)
          if (!seen[j] && flow[j]![k]! > TINY) {
            seen[j] = true
            cameBack[j] = k
            queue.push(j)
          }
      }
    }
    if (end < 0) return total
    const way: (readonly [number, number, 1 | -1])[] = [[came[end]!, end, 1]]
    let source = came[end]!
    let most = room[end]!
    for (let back = cameBack[source]!; back >= 0; back = cameBack[source]!) {
      most = Math.min(most, flow[source]![back]!)
      way.push([source, back, -1], [came[back]!, back, 1])
      source = came[back]!
    }
    most = Math.min(most, left[source]!)
    for (const [i, k, sign] of way) flow[i]![k]! += sign * most
    left[source]! -= most
    room[end]! -= most
    total += most
  }
}

export const mostHiddenSeconds = ({ graph, calls }: UnpagedPlan): number => {
  const words = Math.ceil(graph.ops.length / 32)
  const maker = new Map(graph.ops.flatMap((op) => op.outs.map((v) => [v, op.id] as const)))
  const needs = graph.ops.map(() => new Uint32Array(words))
  for (const op of graph.ops)
    for (const v of op.ins) {
      const by = maker.get(v)
      if (by === undefined) continue
      needs[op.id]![by >> 5]! |= 1 << (by & 31)
      for (let w = 0; w < words; w++) needs[op.id]![w]! |= needs[by]![w]!
    }
  const isNeeded = (op: number, by: number): boolean => (needs[by]![op >> 5]! & (1 << (op & 31))) !== 0
  const seconds = new Map<number, number>()
  for (const c of calls) if (c.op >= 0) seconds.set(c.op, (seconds.get(c.op) ?? 0) + (c.beside?.seconds ?? c.seconds))
  const isExchange = (op: number): boolean => [...COLLECTIVES, ...ROW_EXCHANGES].includes(graph.ops[op]!.kind)
  const exchanges = [...seconds.keys()].filter(isExchange)
  const others = [...seconds.keys()].filter((op) => !isExchange(op))
  const apart = (a: number, b: number): boolean => !isNeeded(a, b) && !isNeeded(b, a)
  const chains: number[][] = []
  for (const op of exchanges) {
    const chain = chains.find((c) => isNeeded(c.at(-1)!, op))
    if (chain) chain.push(op)
    else chains.push([op])
  }
  const hidden = (chain: readonly number[]): number =>
    largestFlow(
      chain.map((op) => seconds.get(op)!),
      others.map((op) =>
        Math.min(seconds.get(op)!, Math.max(0, ...chain.filter((x) => apart(op, x)).map((x) => seconds.get(x)!))),
      ),
      (i, k) => apart(chain[i]!, others[k]!),
    )
  return chains.reduce((n, chain) => n + hidden(chain), 0)
}
