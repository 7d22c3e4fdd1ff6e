// The recompute cost of a set of dropped values, updated with each dropped value. In: stretches of ops, the kept values, the op that makes each
// value. Out: the seconds of all recomputation, and the additional seconds of one more dropped value.
// Invariant: a stretch never recomputes its own values. The arrays are flat because the cost is read very often. Worked example, conv1 [norm1 relu1]
// conv2 [norm2 relu2]: a stretch that reads relu2 makes norm2 and relu2 again; if conv2's output goes, conv2, norm1 and relu1 as well.
import { mapped } from '../core/mapped'
import type { Graph, Op, OpId, ValueId } from '../graph/graph'
import type { OpCost } from '../tile/footprint'

export class Going {
  private readonly there: Uint8Array
  /** For each stretch: the values that it finds, its recomputed ops, and their seconds. */
  private readonly found: ReadonlySet<ValueId>[] = []
  private readonly again: ReadonlySet<OpId>[] = []
  private readonly seconds: Float64Array
  private readonly users = new Map<ValueId, Set<number>>()
  /** For each stretch: its inputs that an op makes. */
  private readonly reads: readonly (readonly ValueId[])[]
  /** The op that makes a value, or -1. For each op: its inputs that an op makes. */
  private readonly maker: Int32Array
  private readonly made: readonly (readonly ValueId[])[]
  /** The number of the last query that recomputed an op. */
  private readonly making: Int32Array
  private looks = 0
  private readonly pending: ValueId[] = []
  /** The recompute seconds of all stretches. */
  total = 0

  constructor(
    graph: Graph,
    private readonly ops: readonly OpCost[],
    makers: ReadonlyMap<ValueId, Op>,
    stretches: readonly { readonly ops: readonly OpId[] }[],
    there: ReadonlySet<ValueId>,
  ) {
    this.there = new Uint8Array(graph.values.length)
    for (const v of there) this.there[v] = 1
    this.maker = Int32Array.from(graph.values, (v) => makers.get(v.id)?.id ?? -1)
    this.making = new Int32Array(graph.ops.length)
    const isMade = (v: ValueId): boolean => this.maker[v]! >= 0
    this.made = mapped(graph.ops, (op) => op.ins.filter(isMade))
    this.reads = mapped(stretches, (s) => {
      const own = new Set(s.ops.flatMap((id) => graph.ops[id]!.outs))
      return s.ops.flatMap((id) => this.made[id]!.filter((v) => !own.has(v)))
    })
    this.seconds = new Float64Array(stretches.length)
    stretches.forEach((_, i) => this.look(i))
  }

  /** Updates one stretch. */
  private look(i: number): void {
    const { ops, there, maker, made, pending } = this
    const again = new Set<OpId>()
    const found = new Set<ValueId>()
    let seconds = 0
    for (const v of this.reads[i]!) pending.push(v)
    for (let v = pending.pop(); v !== undefined; v = pending.pop()) {
      const op = maker[v]!
      if (there[v] === 1) found.add(v)
      else if (!again.has(op)) {
        again.add(op)
        seconds += ops[op]!.seconds
        for (const w of made[op]!) pending.push(w)
      }
    }
    for (const v of this.found[i] ?? []) this.users.get(v)!.delete(i)
    for (const v of found) {
      const users = this.users.get(v) ?? new Set<number>()
      users.add(i)
      this.users.set(v, users)
    }
    this.found[i] = found
    this.again[i] = again
    this.total += seconds - this.seconds[i]!
    this.seconds[i] = seconds
  }

  /** The additional seconds of a stretch if a value is dropped. */
  private without(v: ValueId, i: number): number {
    const { ops, there, maker, made, making, pending } = this
    const again = this.again[i]!
    const now = ++this.looks
    let seconds = 0
    pending.push(v)
    for (let w = pending.pop(); w !== undefined; w = pending.pop()) {
      const op = maker[w]!
      if ((w !== v && there[w] === 1) || making[op] === now || again.has(op)) continue
      making[op] = now
      seconds += ops[op]!.seconds
      for (const u of made[op]!) pending.push(u)
    }
    return seconds
  }

  /** The additional seconds of all stretches if a value is dropped. */
  price(v: ValueId): number {
    let more = 0
    for (const i of this.users.get(v) ?? []) more += this.without(v, i)
    return more
  }

  /** Drops a value. Returns the values whose price changes. */
  go(v: ValueId): ReadonlySet<ValueId> {
    const users = [...(this.users.get(v) ?? [])]
    this.there[v] = 0
    for (const i of users) this.look(i)
    return new Set(users.flatMap((i) => [...this.found[i]!]))
  }
}
