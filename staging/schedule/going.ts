// What stretches of ops make again while values go, kept up to date. In: stretches, what is there for them, what makes values, what a stretch
// costs by the seconds of what it makes again and of what it waits for. Out: what all of them cost, and how much more if a value goes, too.
// Invariant: what a stretch makes itself is there for it. Flat arrays, since it is asked very often.
// Worked example, conv1 [norm1 relu1] conv2 [norm2 relu2]: a stretch that reads relu2 makes norm2 and relu2 again; if conv2's output goes,
// conv2, norm1 and relu1 as well.
import type { Graph, Op, OpId, ValueId } from '../graph/graph'
import type { OpCost } from '../tile/footprint'

const NO_VALUE = -1

export interface Costing {
  /** What a stretch waits for each value that it finds whole. */
  readonly coming: Float64Array
  /** Of the i-th stretch. */
  readonly cost: (i: number, againSeconds: number, comingSeconds: number) => number
}

export class Going {
  private readonly there: Uint8Array
  /** What each stretch finds whole, and what it costs. */
  private readonly found: ReadonlySet<ValueId>[] = []
  private readonly costs: number[] = []
  private readonly users = new Map<ValueId, Set<number>>()
  /** What each stretch reads that is made by an op. */
  private readonly reads: readonly (readonly ValueId[])[]
  /** The op that makes a value, and -1; of what each op reads, what is made by an op. */
  private readonly maker: Int32Array
  private readonly made: readonly (readonly ValueId[])[]
  /** In which closure an op was last made again, and a value last found whole. */
  private readonly again: Int32Array
  private readonly seen: Int32Array
  private closures = 0
  private readonly pending: ValueId[] = []
  /** What all stretches cost. */
  total = 0

  constructor(
    graph: Graph,
    private readonly ops: readonly OpCost[],
    makers: ReadonlyMap<ValueId, Op>,
    stretches: readonly { readonly ops: readonly OpId[] }[],
    there: ReadonlySet<ValueId>,
    private readonly costing?: Costing,
  ) {
    this.there = new Uint8Array(graph.values.length)
    for (const v of there) this.there[v] = 1
    this.maker = Int32Array.from(graph.values, (v) => makers.get(v.id)?.id ?? -1)
    this.again = new Int32Array(graph.ops.length)
    this.seen = new Int32Array(graph.values.length)
    const isMade = (v: ValueId): boolean => this.maker[v]! >= 0
    this.made = graph.ops.map((op) => op.ins.filter(isMade))
    this.reads = stretches.map((s) => {
      const own = new Set(s.ops.flatMap((id) => graph.ops[id]!.outs))
      return s.ops.flatMap((id) => this.made[id]!.filter((v) => !own.has(v)))
    })
    stretches.forEach((_, i) => this.look(i))
  }

  /** What a stretch costs without a value; tells what it finds whole. */
  private closure(i: number, without: ValueId, found?: Set<ValueId>): number {
    const { ops, there, maker, made, again, seen, pending, costing } = this
    const now = ++this.closures
    let [seconds, coming] = [0, 0]
    for (const v of this.reads[i]!) pending.push(v)
    for (let v = pending.pop(); v !== undefined; v = pending.pop()) {
      const op = maker[v]!
      if (v !== without && there[v] === 1) {
        if (seen[v] === now) continue
        seen[v] = now
        found?.add(v)
        if (costing) coming += costing.coming[v]!
      } else if (again[op] !== now) {
        again[op] = now
        seconds += ops[op]!.seconds
        for (const w of made[op]!) pending.push(w)
      }
    }
    return costing ? costing.cost(i, seconds, coming) : seconds
  }

  private look(i: number): void {
    const found = new Set<ValueId>()
    const cost = this.closure(i, NO_VALUE, found)
    for (const v of this.found[i] ?? []) this.users.get(v)!.delete(i)
    for (const v of found) {
      const users = this.users.get(v) ?? new Set<number>()
      users.add(i)
      this.users.set(v, users)
    }
    this.total += cost - (this.costs[i] ?? 0)
    this.found[i] = found
    this.costs[i] = cost
  }

  /** How much more it costs if a value goes, too. */
  price(v: ValueId): number {
    let more = 0
    for (const i of this.users.get(v) ?? []) more += this.closure(i, v) - this.costs[i]!
    return more
  }

  /** Lets it go: the values whose price that changes. */
  go(v: ValueId): ReadonlySet<ValueId> {
    const users = [...(this.users.get(v) ?? [])]
    this.there[v] = 0
    for (const i of users) this.look(i)
    return new Set(users.flatMap((i) => [...this.found[i]!]))
  }
}
