// The recompute cost of a set of dropped values, updated with each dropped value. In: loops of ops, the kept values, the op that makes each
// value. Out: the seconds of all recomputation, and the additional seconds of one more dropped value.
// Invariant: a loop never recomputes its own values. The arrays are flat because the cost is read very often. Worked example, conv1 [norm1 relu1]
// conv2 [norm2 relu2]: a loop that reads relu2 recomputes norm2 and relu2; if conv2's output is dropped, also conv2, norm1 and relu1.
import { mapped } from '../core/mapped'
import type { Graph, Op, OpId, ValueId } from '../graph/graph'
import type { OpCost } from '../tile/footprint'

export class RecomputeCost {
  private readonly kept: Uint8Array
  /** For each loop: the kept values that it reads, its recomputed ops, and their seconds. */
  private readonly keptInputs: ReadonlySet<ValueId>[] = []
  private readonly recomputed: ReadonlySet<OpId>[] = []
  private readonly seconds: Float64Array
  private readonly readers = new Map<ValueId, Set<number>>()
  /** For each loop: its inputs that an op makes. */
  private readonly inputs: readonly (readonly ValueId[])[]
  /** The op that makes a value, or -1. For each op: its inputs that an op makes. */
  private readonly maker: Int32Array
  private readonly madeInputs: readonly (readonly ValueId[])[]
  /** The number of the last query that recomputed an op. */
  private readonly lastQuery: Int32Array
  private queries = 0
  private readonly pending: ValueId[] = []
  /** The recompute seconds of all loops. */
  total = 0

  constructor(
    graph: Graph,
    private readonly ops: readonly OpCost[],
    makers: ReadonlyMap<ValueId, Op>,
    loops: readonly { readonly ops: readonly OpId[] }[],
    kept: ReadonlySet<ValueId>,
  ) {
    this.kept = new Uint8Array(graph.values.length)
    for (const v of kept) this.kept[v] = 1
    this.maker = Int32Array.from(graph.values, (v) => makers.get(v.id)?.id ?? -1)
    this.lastQuery = new Int32Array(graph.ops.length)
    const isMade = (v: ValueId): boolean => this.maker[v]! >= 0
    this.madeInputs = mapped(graph.ops, (op) => op.ins.filter(isMade))
    this.inputs = mapped(loops, (s) => {
      const own = new Set(s.ops.flatMap((id) => graph.ops[id]!.outs))
      return s.ops.flatMap((id) => this.madeInputs[id]!.filter((v) => !own.has(v)))
    })
    this.seconds = new Float64Array(loops.length)
    loops.forEach((_, i) => this.update(i))
  }

  /** Updates one loop. */
  private update(i: number): void {
    const { ops, kept, maker, madeInputs, pending } = this
    const recomputed = new Set<OpId>()
    const keptInputs = new Set<ValueId>()
    let seconds = 0
    for (const v of this.inputs[i]!) pending.push(v)
    for (let v = pending.pop(); v !== undefined; v = pending.pop()) {
      const op = maker[v]!
      if (kept[v] === 1) keptInputs.add(v)
      else if (!recomputed.has(op)) {
        recomputed.add(op)
        seconds += ops[op]!.seconds
        for (const w of madeInputs[op]!) pending.push(w)
      }
    }
    for (const v of this.keptInputs[i] ?? []) this.readers.get(v)!.delete(i)
    for (const v of keptInputs) {
      const readers = this.readers.get(v) ?? new Set<number>()
      readers.add(i)
      this.readers.set(v, readers)
    }
    this.keptInputs[i] = keptInputs
    this.recomputed[i] = recomputed
    this.total += seconds - this.seconds[i]!
    this.seconds[i] = seconds
  }

  /** The additional seconds of a loop if a value is dropped. */
  private secondsWithout(v: ValueId, i: number): number {
    const { ops, kept, maker, madeInputs, lastQuery, pending } = this
    const recomputed = this.recomputed[i]!
    const now = ++this.queries
    let seconds = 0
    pending.push(v)
    for (let w = pending.pop(); w !== undefined; w = pending.pop()) {
      const op = maker[w]!
      if ((w !== v && kept[w] === 1) || lastQuery[op] === now || recomputed.has(op)) continue
      lastQuery[op] = now
      seconds += ops[op]!.seconds
      for (const u of madeInputs[op]!) pending.push(u)
    }
    return seconds
  }

  /** The additional seconds of all loops if a value is dropped. */
  price(v: ValueId): number {
    let more = 0
    for (const i of this.readers.get(v) ?? []) more += this.secondsWithout(v, i)
    return more
  }

  /** Drops a value. Returns the values whose price changes. */
  drop(v: ValueId): ReadonlySet<ValueId> {
    const readers = [...(this.readers.get(v) ?? [])]
    this.kept[v] = 0
    for (const i of readers) this.update(i)
    return new Set(readers.flatMap((i) => [...this.keptInputs[i]!]))
  }
}
