// Exchanges between ranks with immediate readers (statistics of norms, the norms' two sums) begun early, so that other ops need not wait: an order of
// whole ops with something independent between such an exchange and its reader. In: the ops of a step's runs, the seconds of each. Out: the same ops,
// in runs of the same phases. Invariant: each op comes after the makers, and before the overwriters, of its operands; of the ops before an exchange
// only independent ones come later, up to the exchange's time. Worked example, backward: [dw3, dx3, reduce2 -> s, all_sums s, norm2(s)] becomes [dx3,
// reduce2 -> s, all_sums s, dw3, norm2(s)]. Forward, a shortcut's convolution runs beside the statistics of the branch, and independent running
// statistics beside those of the next norm.
import type { Graph, Op, OpId, ValueId } from '../graph/graph'
import { ROW_EXCHANGES } from '../graph/bands'
import { COLLECTIVES, mayStartEarly } from '../graph/ranks'
import { mutated } from '../tile/liveness'
import type { Run } from '../tile/segments'

/** The largest distance of a move beside an exchange, in ops. After a longer one its operands would be held for too long. */
const REACH = 40

const isExchange = ({ kind }: Op): boolean => COLLECTIVES.includes(kind) || ROW_EXCHANGES.includes(kind)

class Ordering {
  /** Ops that already run beside an exchange keep their place. */
  private readonly placed = new Set<Op>()

  constructor(
    private readonly graph: Graph,
    private readonly seconds: (op: Op) => number,
  ) {}

  /** `idle`: ops that may run at any point after their operands. Used ones are removed. */
  ordered(ops: readonly Op[], idle: Op[]): readonly Op[] {
    const list = [...ops]
    const made = new Set<ValueId>()
    for (let i = 0; i < list.length; i++) {
      if (mayStartEarly(list[i]!)) i = this.fill(list, i, made, idle)
      for (const v of list[i]!.outs) made.add(v)
    }
    return list
  }

  /** Covers the exchange at i with ops before it that it does not need, ops after it that do not need it, and idle ones. Returns its new place. */
  private fill(list: Op[], i: number, made: ReadonlySet<ValueId>, idle: Op[]): number {
    const x = list[i]!
    let left = this.seconds(x) - this.coveredBehind(list, i)
    const take = (op: Op): void => {
      left -= this.covering(op)
      this.placed.add(op)
    }
    const later = left > 0 ? this.unneeded(list, i, left) : []
    later.forEach(take)
    const from = Math.max(0, i - REACH)
    const before = list.slice(from, i).filter((op) => !later.includes(op))
    list.splice(from, i - from + 1, ...before, x, ...later)
    let end = i + 1
    const put = (op: Op): void => {
      list.splice(end++, 0, op)
      take(op)
    }
    while (left > 0) {
      const sooner = this.independent(list, i - later.length, end)
      if (sooner.length === 0) break
      list.splice(list.indexOf(sooner[0]!), sooner.length)
      sooner.forEach(put)
    }
    while (left > 0) {
      const next = idle.findIndex((op) => op.ins.every((v) => made.has(v) || mutated(this.graph, op.id).includes(v)))
      if (next < 0) break
      idle.splice(next, 1).forEach(put)
    }
    return i - later.length
  }

  /** The seconds of an op beside an exchange in flight. */
  private covering(op: Op): number {
    return isExchange(op) ? 0 : this.seconds(op)
  }

  private coveredBehind(list: readonly Op[], i: number): number {
    const touched = new Set([...list[i]!.ins, ...list[i]!.outs])
    let seconds = 0
    for (let k = i + 1; k < list.length && !list[k]!.ins.some((v) => touched.has(v)); k++) seconds += this.covering(list[k]!)
    return seconds
  }

  /** The last ops before an exchange that it does not need, in order, with at most its time. */
  private unneeded(list: readonly Op[], i: number, seconds: number): readonly Op[] {
    const needed = new Set(list[i]!.ins)
    const overwritten = new Set<ValueId>()
    const found: Op[] = []
    let left = seconds
    for (let k = i - 1; k >= Math.max(0, i - REACH) && left > 0; k--) {
      const op = list[k]!
      const overwrites = mutated(this.graph, op.id)
      const stays = this.placed.has(op) || (isExchange(op) && op.attrs['beside'] !== 1)
      if (stays || [...op.outs, ...overwrites].some((v) => needed.has(v)) || op.ins.some((v) => overwritten.has(v))) {
        for (const v of op.ins) needed.add(v)
        for (const v of overwrites) overwritten.add(v)
      } else {
        found.unshift(op)
        left -= this.covering(op)
      }
    }
    return left < seconds ? found : []
  }

  /** The first op from `end` on that needs nothing in between and is followed by the exchange of its result. */
  private independent(list: readonly Op[], i: number, end: number): readonly Op[] {
    const written = new Set(list[i]!.outs)
    const touched = new Set(list[i]!.ins)
    for (let k = end; k < Math.min(list.length, end + REACH); k++) {
      const op = list[k]!
      const overwrites = mutated(this.graph, op.id)
      const isFree = !op.ins.some((v) => written.has(v)) && !overwrites.some((v) => touched.has(v))
      if (isFree && !isExchange(op) && !this.placed.has(op)) {
        const next = list[k + 1]
        return next && mayStartEarly(next) && next.ins.some((v) => op.outs.includes(v)) ? [op, next] : [op]
      }
      for (const v of [...op.outs, ...overwrites]) written.add(v)
      for (const v of op.ins) touched.add(v)
    }
    return []
  }
}

/** Ops that update values without other readers: running statistics. */
const idleOps = (graph: Graph): readonly Op[] => {
  const touching = new Map<ValueId, number>()
  for (const op of graph.ops) for (const v of new Set([...op.ins, ...op.outs])) touching.set(v, (touching.get(v) ?? 0) + 1)
  return graph.ops.filter((op) => {
    const own = mutated(graph, op.id)
    return op.phase === 'update' && op.outs.length === 0 && own.every((v) => touching.get(v) === 1) && !isExchange(op)
  })
}

/** The runs of a step without tiles, forward first, with early exchanges; undefined if none can begin earlier. */
export const withEarlyExchanges = (
  graph: Graph,
  runs: readonly Run[],
  seconds: (op: Op) => number,
): readonly Run[] | undefined => {
  if (!graph.ops.some(mayStartEarly)) return undefined
  const ordering = new Ordering(graph, seconds)
  const idle = [...idleOps(graph)]
  const early = new Set<OpId>(idle.map((op) => op.id))
  return runs.map((r, i) => {
    const own = r.ops.filter((id) => i === 0 || !early.has(id)).map((id) => graph.ops[id]!)
    const ops = ordering.ordered(own, i === 0 ? idle : []).map((op) => op.id)
    if (i === 0) for (const op of idle) early.delete(op.id)
    return { ...r, ops }
  })
}
