// What stretches of ops make again while values go, kept up to date. In: stretches, what is there for them, what makes values, what a stretch
// costs by its seconds of making again, of what comes and of what leaves it. Out: what all cost, and how much more if a value goes, too.
// Invariant: what a stretch makes itself is there for it. Flat arrays, since it is asked very often. Worked example, conv1 [norm1 relu1]
// conv2 [norm2 relu2]: a stretch that reads relu2 makes norm2 and relu2 again; if conv2's output goes, conv2, norm1 and relu1 as well. Letting
// a sum go that a later stretch reads may leave it a term instead, as large: then that leaves, and waits to go in its turn.
import { mapped } from '../core/mapped'
import type { Graph, Op, OpId, ValueId } from '../graph/graph'
import type { OpCost } from '../tile/footprint'

const NO_STRETCH = -1

export interface Costing {
  /** What a stretch waits for each value that it finds whole. */
  readonly coming: Float64Array
  /** What it waits for each value of its own that another finds whole; and what of its own leaves whoever reads it. */
  readonly leaving: Float64Array
  readonly kept: Iterable<ValueId>
  /** Of the i-th stretch. */
  readonly cost: (i: number, againSeconds: number, comingSeconds: number, leavingSeconds: number) => number
}

export class Going {
  private readonly there: Uint8Array
  /** What each stretch finds whole, and the ops that it runs again; its seconds of making again, of what comes and of what leaves; and what it costs. */
  private readonly found: ReadonlySet<ValueId>[] = []
  private readonly again: ReadonlySet<OpId>[] = []
  private readonly againSeconds: Float64Array
  private readonly comingSeconds: Float64Array
  private readonly leavingSeconds: Float64Array
  private readonly costs: Float64Array
  private readonly users = new Map<ValueId, Set<number>>()
  /** The stretch that makes a value; what each makes that leaves for as long as somebody finds it whole. */
  private readonly home: Int32Array
  private readonly own: readonly ValueId[][]
  /** What each stretch reads that is made by an op. */
  private readonly reads: readonly (readonly ValueId[])[]
  /** The op that makes a value, and -1; of what each op reads, what is made by an op. */
  private readonly maker: Int32Array
  private readonly made: readonly (readonly ValueId[])[]
  /** In which look at what goes an op was last made again, and a value last found whole. */
  private readonly making: Int32Array
  private readonly seen: Int32Array
  private closures = 0
  private readonly pending: ValueId[] = []
  /** Of the last such look. */
  private more = { again: 0, coming: 0 }
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
    this.making = new Int32Array(graph.ops.length)
    this.seen = new Int32Array(graph.values.length)
    const isMade = (v: ValueId): boolean => this.maker[v]! >= 0
    this.made = mapped(graph.ops, (op) => op.ins.filter(isMade))
    this.reads = mapped(stretches, (s) => {
      const own = new Set(s.ops.flatMap((id) => graph.ops[id]!.outs))
      return s.ops.flatMap((id) => this.made[id]!.filter((v) => !own.has(v)))
    })
    this.againSeconds = new Float64Array(stretches.length)
    this.comingSeconds = new Float64Array(stretches.length)
    this.leavingSeconds = new Float64Array(stretches.length)
    this.costs = new Float64Array(stretches.length)
    this.home = new Int32Array(graph.values.length).fill(NO_STRETCH)
    this.own = mapped(stretches, () => [])
    if (costing) this.settle(graph, stretches, costing)
    stretches.forEach((_, i) => this.look(i))
    stretches.forEach((_, i) => this.charge(i))
  }

  private settle(graph: Graph, stretches: readonly { readonly ops: readonly OpId[] }[], { leaving, kept }: Costing): void {
    const stays = new Set(kept)
    stretches.forEach((s, i) => {
      for (const v of s.ops.flatMap((id) => graph.ops[id]!.outs)) {
        if (leaving[v] === 0) continue
        if (stays.has(v)) this.leavingSeconds[i]! += leaving[v]!
        else {
          this.home[v] = i
          this.own[i]!.push(v)
        }
      }
    })
  }

  /** What a stretch makes again, and finds whole. */
  private closure(i: number, found: Set<ValueId>): void {
    const { ops, there, maker, made, pending, costing } = this
    const again = new Set<OpId>()
    let [seconds, coming] = [0, 0]
    for (const v of this.reads[i]!) pending.push(v)
    for (let v = pending.pop(); v !== undefined; v = pending.pop()) {
      const op = maker[v]!
      if (there[v] === 1) {
        if (found.has(v)) continue
        found.add(v)
        if (costing) coming += costing.coming[v]!
      } else if (!again.has(op)) {
        again.add(op)
        seconds += ops[op]!.seconds
        for (const w of made[op]!) pending.push(w)
      }
    }
    this.again[i] = again
    this.againSeconds[i] = seconds
    this.comingSeconds[i] = coming
  }

  /** What it makes again, and waits for, more than that without a value that it finds; tells what it finds in its stead. */
  private without(v: ValueId, i: number, find: (v: ValueId) => void): void {
    const { ops, there, maker, made, making, seen, pending, costing } = this
    const found = this.found[i]!
    const again = this.again[i]!
    const now = ++this.closures
    let [seconds, coming] = [0, costing ? -costing.coming[v]! : 0]
    const make = (op: OpId): void => {
      if (making[op] === now || again.has(op)) return
      making[op] = now
      seconds += ops[op]!.seconds
      for (const w of made[op]!) pending.push(w)
    }
    make(maker[v]!)
    for (let w = pending.pop(); w !== undefined; w = pending.pop()) {
      if (there[w] === 0) make(maker[w]!)
      else if (seen[w] !== now && !found.has(w)) {
        seen[w] = now
        find(w)
        if (costing) coming += costing.coming[w]!
      }
    }
    this.more.again = seconds
    this.more.coming = coming
  }

  isFound(v: ValueId): boolean {
    return (this.users.get(v)?.size ?? 0) > 0
  }

  /** What it finds, more than before by now; the stretches out of which that is moved and was not before. */
  private look(i: number): readonly number[] {
    const found = new Set<ValueId>()
    this.closure(i, found)
    for (const v of this.found[i] ?? []) this.users.get(v)!.delete(i)
    const left: number[] = []
    for (const v of found) {
      const users = this.users.get(v) ?? new Set<number>()
      if (users.size === 0 && !this.found[i]?.has(v)) left.push(...this.movedOut(v, 1))
      users.add(i)
      this.users.set(v, users)
    }
    this.found[i] = found
    return left
  }

  /** The stretch out of which it is moved, if it is. */
  private movedOut(v: ValueId, times: 1 | -1): readonly number[] {
    const home = this.home[v]!
    if (home === NO_STRETCH) return []
    this.leavingSeconds[home]! += times * this.costing!.leaving[v]!
    return [home]
  }

  private costOf(i: number, again: number, coming: number, leaving: number): number {
    return this.costing ? this.costing.cost(i, again, coming, leaving) : again
  }

  private charge(i: number): void {
    const cost = this.costOf(i, this.againSeconds[i]!, this.comingSeconds[i]!, this.leavingSeconds[i]!)
    this.total += cost - this.costs[i]!
    this.costs[i] = cost
  }

  /** How much more it costs if a value goes, too: it is moved out no longer, but what is found whole in its stead is. */
  price(v: ValueId): number {
    const users = this.users.get(v) ?? new Set<number>()
    const { costing } = this
    let more = 0
    if (!costing) {
      for (const i of users) {
        this.without(v, i, () => {})
        more += this.more.again
      }
      return more
    }
    const left = new Map<number, number>()
    const movedOut = (w: ValueId, times: 1 | -1): void => {
      const home = this.home[w]!
      if (home !== NO_STRETCH) left.set(home, (left.get(home) ?? 0) + times * costing.leaving[w]!)
    }
    if (users.size > 0) movedOut(v, -1)
    const fresh = new Set<ValueId>()
    for (const i of users) {
      this.without(v, i, (w) => {
        if (this.isFound(w) || fresh.has(w)) return
        fresh.add(w)
        movedOut(w, 1)
      })
      left.set(i, left.get(i) ?? 0)
      const [again, coming] = [this.againSeconds[i]! + this.more.again, this.comingSeconds[i]! + this.more.coming]
      more += this.costOf(i, again, coming, this.leavingSeconds[i]!) - this.costs[i]!
    }
    for (const [i, seconds] of left) {
      if (seconds === 0) continue
      // Those that find it make more again than is noted of them: near enough for what is moved out of them beside.
      const at = (leaving: number): number => this.costOf(i, this.againSeconds[i]!, this.comingSeconds[i]!, leaving)
      more += at(this.leavingSeconds[i]! + seconds) - at(this.leavingSeconds[i]!)
    }
    return more
  }

  /** Lets it go: the values whose price that changes. */
  go(v: ValueId): ReadonlySet<ValueId> {
    const users = [...(this.users.get(v) ?? [])]
    this.there[v] = 0
    const touched = new Set(users)
    if (users.length > 0) for (const i of this.movedOut(v, -1)) touched.add(i)
    for (const i of users) for (const home of this.look(i)) touched.add(home)
    for (const i of touched) this.charge(i)
    return new Set([...touched].flatMap((i) => [...this.found[i]!, ...this.own[i]!]))
  }
}
