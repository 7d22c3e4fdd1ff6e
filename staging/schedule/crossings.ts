// What each stretch of a joint plan makes again, where what crosses between stretches has to move: each decides for itself. A value may
// stand, and a stretch that waits for the link make it again all the same; what one makes again, a later one may find. In: stretches in the
// order in which they run, what each makes again to begin with, the link. Out: better decisions, by annealing: one of them is turned at a
// time, and stays so where the step takes less, or hardly more; less and less more as it goes on.
// Worked example: two stretches of the backward read a value of 25 GiB, two seconds away. The first waits for the link anyway and makes it
// again in one second; the second computes for three seconds beside its copies, and finds it.
import { randomFrom } from '../core/random'
import { type Op, type OpId, type ValueId, valueBytes } from '../graph/graph'
import { type Joint, type Makes, mayMake, type Stretch } from './joint'
import { costOfStretch, type Moving, movedBytes } from './passing'

/** What a stretch does about a value: nothing, since it does not need it; or one of two. */
const IGNORES = 0
const FINDS = 1
const MAKES = 2

/**
 * A value's ways from one stretch that has it to the next that finds it, behind each other: from, to, and whether it had left before. All its
 * bytes come each time, and leave once.
 */
type Trips = number[]

/** Of what moves from one stretch to the next, what lies in the lower tier at a time. */
const NEXT_LIES = 0.5

/** Where the lower tier is too small and nothing lies behind it, what is too much costs as much as on a link so much slower. */
const NO_ROOM = 1 / 100

/** Nearly e^-x, and the same on every processor. */
const likely = (x: number): number => {
  const y = Math.max(0, 1 - x / 16)
  const square = y * y
  const fourth = square * square
  const eighth = fourth * fourth
  return eighth * eighth
}

/** A set of small numbers, in the order in which they came; emptied and filled again and again. */
class Marks {
  count = 0
  readonly list: Int32Array
  private readonly at: Int32Array
  private time = 1

  constructor(most: number) {
    this.list = new Int32Array(most)
    this.at = new Int32Array(most)
  }

  clear(): void {
    this.count = 0
    this.time++
  }

  has(n: number): boolean {
    return this.at[n] === this.time
  }

  /** Whether it is new. */
  add(n: number): boolean {
    if (this.at[n] === this.time) return false
    this.at[n] = this.time
    this.list[this.count++] = n
    return true
  }
}

export class Crossings {
  readonly stretches: readonly Stretch[]
  /** What all stretches cost, and what does not fit into the lower tier. */
  total = 0
  private readonly values: number
  private readonly count: number
  /** All that leaves may stand. */
  private readonly isRoomy: boolean
  /** By value and stretch. What it would do if it needed it; whether it has the choice; what it does. */
  private readonly makes: Uint8Array
  private readonly may: Uint8Array
  private readonly does: Uint8Array
  /** What each stretch reads of others; and needs by now, for what it makes again as well. */
  private readonly reads: readonly (readonly ValueId[])[]
  private readonly needs: ValueId[][]
  /** The op that makes a value; of what each op reads, what is made by an op. */
  private readonly maker: readonly (Op | undefined)[]
  private readonly made: readonly (readonly ValueId[])[]
  /** Of a value. */
  private readonly bytes: Float64Array
  private readonly moved: Float64Array
  private readonly trips: Trips[]
  /** The stretches that find or make it, in order. */
  private readonly users: number[][]
  /** Of a stretch. */
  private readonly ownSeconds: Float64Array
  private readonly againSeconds: Float64Array
  private readonly coming: Float64Array
  private readonly leaving: Float64Array
  private readonly costs: Float64Array
  /** Bytes that stand between it and the next. */
  private readonly standing: Float64Array
  private tooMuch = 0
  /** Of the look under way. */
  private readonly ops: Marks
  private readonly seen: Marks
  private readonly pending: ValueId[] = []
  /** Of the update under way. */
  private readonly changed: Marks
  private readonly touched: Marks
  /** Before the last look: what its stretch did about each value that changed, what it needed, and its seconds. */
  private readonly did: Uint8Array
  private needed: ValueId[] = []
  private seconds = 0

  constructor(
    private readonly j: Joint,
    private readonly moving: Moving,
    start: Makes,
  ) {
    const { graph } = j
    this.stretches = [...j.forward, ...j.backward]
    const { stretches } = this
    const count = stretches.length
    this.count = count
    this.isRoomy = moving.link.bytes === undefined
    this.values = graph.values.length
    this.makes = new Uint8Array(count * this.values)
    this.may = new Uint8Array(count * this.values)
    this.does = new Uint8Array(count * this.values)
    const makers = new Map(graph.ops.filter((op) => op.phase !== 'update').flatMap((op) => op.outs.map((v) => [v, op] as const)))
    this.maker = graph.values.map(({ id }) => makers.get(id))
    this.made = graph.ops.map((op) => op.ins.filter((v) => makers.has(v)))
    this.bytes = Float64Array.from(graph.values, valueBytes)
    this.moved = this.bytes.map((b) => movedBytes(moving, b))
    this.trips = graph.values.map(() => [])
    this.users = graph.values.map(() => [])
    this.ownSeconds = Float64Array.from(stretches, (s) => s.ops.reduce((n, id) => n + j.costs[id]!.seconds, 0))
    this.againSeconds = new Float64Array(count)
    this.coming = new Float64Array(count)
    this.leaving = new Float64Array(count)
    this.costs = new Float64Array(count)
    this.standing = new Float64Array(count)
    this.ops = new Marks(graph.ops.length)
    this.seen = new Marks(this.values)
    this.changed = new Marks(this.values)
    this.touched = new Marks(count)
    this.did = new Uint8Array(this.values)
    this.needs = stretches.map(() => [])
    this.reads = stretches.map((s, i) => this.settle(s, i, start))
    this.update(stretches.keys())
  }

  /** What it makes itself, and where it has the choice; tells what it reads of others. */
  private settle(s: Stretch, i: number, start: Makes): readonly ValueId[] {
    const { j, values, count, maker, may, makes } = this
    const own = (id: OpId): readonly ValueId[] => j.graph.ops[id]!.outs.filter((v) => maker[v])
    const mine = new Set([...s.ops, ...s.after].flatMap(own))
    for (const v of mine) this.set(v, i, MAKES)
    for (let v = 0; v < values; v++) {
      if (mine.has(v) || !mayMake(j, s, v)) continue
      may[v * count + i] = 1
      makes[v * count + i] = start(s, v) ? 1 : 0
    }
    return [...new Set(s.ops.flatMap((id) => this.made[id]!).filter((v) => !mine.has(v)))]
  }

  private set(v: ValueId, i: number, it: number): void {
    const k = v * this.count + i
    const before = this.does[k]!
    this.does[k] = it
    if (before !== IGNORES && it !== IGNORES) return
    const users = this.users[v]!
    if (it === IGNORES) users.splice(users.indexOf(i), 1)
    else {
      let at = users.length
      while (at > 0 && users[at - 1]! > i) at--
      users.splice(at, 0, i)
    }
  }

  /** After decisions of these changed. */
  private update(some: Iterable<number>): void {
    const { touched, changed } = this
    touched.clear()
    changed.clear()
    for (const i of some) touched.add(i)
    for (let k = 0, { count } = touched; k < count; k++) this.look(touched.list[k]!)
    this.charged()
  }

  /** Takes back the last update, of the one stretch whose decisions are what they were before. */
  private undo(i: number): void {
    const { touched, changed, did } = this
    touched.clear()
    touched.add(i)
    for (let k = 0; k < changed.count; k++) this.set(changed.list[k]!, i, did[k]!)
    this.keepNeeds(i)
    this.againSeconds[i] = this.seconds
    this.charged()
  }

  /** What it needs by now is what is noted beside; that is what it needed before. */
  private keepNeeds(i: number): void {
    const before = this.needs[i]!
    this.needs[i] = this.needed
    this.needed = before
  }

  /** What the values that changed cost the stretches that move them, and those that were looked at. */
  private charged(): void {
    const { touched, changed, moving } = this
    const { inBytesPerSecond, outBytesPerSecond } = moving.link
    for (let k = 0; k < changed.count; k++) this.stand(changed.list[k]!)
    for (let k = 0; k < touched.count; k++) {
      const i = touched.list[k]!
      const computing = this.ownSeconds[i]! + this.againSeconds[i]!
      const cost = costOfStretch(moving, computing, this.coming[i]! / inBytesPerSecond, this.leaving[i]! / outBytesPerSecond)
      this.total += cost - this.costs[i]!
      this.costs[i] = cost
    }
    const tooMuch = this.secondsTooMuch()
    this.total += tooMuch - this.tooMuch
    this.tooMuch = tooMuch
  }

  /** What it needs, and does about that. */
  private look(i: number): void {
    const { maker, made, ops, seen, pending, may, does, makes, j, changed, count, did } = this
    let again = 0
    ops.clear()
    seen.clear()
    for (const v of this.reads[i]!) pending.push(v)
    for (let v = pending.pop(); v !== undefined; v = pending.pop()) {
      const k = v * count + i
      const isOwn = may[k] === 0 && does[k] === MAKES
      if (isOwn || !seen.add(v)) continue
      const it = makes[k] === 1 ? MAKES : FINDS
      const { id } = maker[v]!
      if (it === MAKES && ops.add(id)) {
        again += j.costs[id]!.seconds
        for (const w of made[id]!) pending.push(w)
      }
      if (does[k] === it) continue
      did[changed.count] = does[k]!
      changed.add(v)
      this.set(v, i, it)
    }
    for (const v of this.needs[i]!)
      if (!seen.has(v)) {
        did[changed.count] = does[v * count + i]!
        changed.add(v)
        this.set(v, i, IGNORES)
      }
    const { needed } = this
    while (needed.length > seen.count) needed.pop()
    for (let k = 0; k < seen.count; k++) needed[k] = seen.list[k]!
    this.keepNeeds(i)
    this.seconds = this.againSeconds[i]!
    this.againSeconds[i] = again
  }

  /** From one stretch that has it to the next that finds it, it leaves and comes, but for what stays in between. */
  private stand(v: ValueId): void {
    const { does, count } = this
    if (this.moved[v] === 0 && this.isRoomy) return
    this.charge(v, -1)
    const trips = this.trips[v]!
    let length = 0
    let from = -1
    let isOut = 0
    for (const i of this.users[v]!) {
      const finds = does[v * count + i] === FINDS
      if (finds && from < 0) continue
      if (finds) {
        trips[length++] = from
        trips[length++] = i
        trips[length++] = isOut
      }
      from = i
      isOut = finds ? 1 : 0
    }
    while (trips.length > length) trips.pop()
    this.charge(v, 1)
  }

  private charge(v: ValueId, sign: 1 | -1): void {
    const trips = this.trips[v]!
    const moved = sign * this.moved[v]!
    for (let t = 0; t < trips.length; t += 3) {
      const [from, to] = [trips[t]!, trips[t + 1]!]
      this.leaving[from]! += trips[t + 2] === 1 ? 0 : moved
      this.coming[to]! += moved
      this.touched.add(from)
      this.touched.add(to)
      if (this.isRoomy) continue
      const lies = sign * (to === from + 1 ? NEXT_LIES : 1) * this.bytes[v]!
      for (let i = from; i < to; i++) this.standing[i]! += lies
    }
  }

  private secondsTooMuch(): number {
    const { link } = this.moving
    const { bytes = Infinity, beyond } = link
    if (this.isRoomy) return 0
    let most = 0
    for (const n of this.standing) if (n > most) most = n
    if (most <= bytes) return 0
    const rate = (r: 'outBytesPerSecond' | 'inBytesPerSecond'): number => beyond?.[r] ?? NO_ROOM * link[r]
    return (most - bytes) * (1 / rate('outBytesPerSecond') + 1 / rate('inBytesPerSecond'))
  }

  /** Steps in which decisions are turned; the first now and then accept what takes `hot` seconds more, the last ones what takes a tenth of that. */
  anneal(steps: number, hot: number): void {
    const random = randomFrom(steps)
    const below = (n: number): number => Math.floor(random() * n)
    let best = this.total
    /** What was decided at the best; absent while that is so now. */
    let makes: Uint8Array | undefined
    let heat = hot
    for (let step = 0; step < steps; step++) {
      heat -= (COOLS * heat) / steps
      const i = this.dearer(below(this.stretches.length), below(this.stretches.length))
      const needs = this.needs[i]!
      if (needs.length === 0) continue
      const v = needs[below(needs.length)]!
      if (this.may[v * this.count + i] === 0) continue
      const before = this.total
      const turned = this.turn(i, v, random)
      this.update([i])
      const more = this.total - before
      if (more > 0 && random() >= likely(more / heat)) {
        for (const k of turned) this.makes[k]! ^= 1
        this.undo(i)
      } else if (this.total < best - NEARLY * best) {
        best = this.total
        makes = undefined
      } else if (more > 0 && !makes) {
        makes = this.makes.slice()
        for (const k of turned) makes[k]! ^= 1
      }
    }
    if (makes) this.makes.set(makes)
    this.update(this.stretches.keys())
  }

  private dearer(i: number, k: number): number {
    return this.costs[i]! >= this.costs[k]! ? i : k
  }

  /** Its decision on a value; what it needs to make it again, and nothing else so far, it all finds or all makes now and then. */
  private turn(i: number, v: ValueId, random: () => number): readonly number[] {
    const { makes, may, does, count } = this
    const first = v * count + i
    const turned = [first]
    makes[first]! ^= 1
    if (makes[first] === 1 && random() < 0.5) {
      const all = random() < 0.5 ? 0 : 1
      for (const w of this.made[this.maker[v]!.id]!) {
        const k = w * count + i
        if (may[k] === 0 || does[k] !== IGNORES || makes[k] === all) continue
        makes[k] = all
        turned.push(k)
      }
    }
    return turned
  }

  /** What each makes again of what it needs. */
  decided(): Makes {
    const again = new Map(
      this.stretches.map((s, i) => [s, new Set(this.needs[i]!.filter((v) => this.does[v * this.count + i] === MAKES))] as const),
    )
    return (s, v) => again.get(s)!.has(v)
  }
}

/** Of the total: no less is worth noting. */
const NEARLY = 1e-9
/** Steps for each stretch; and of what a stretch costs in the mean, how much more the first accept. */
const STEPS = 3000
const HOT = 1 / 10
/** In all steps, to a tenth: the logarithm of ten. */
const COOLS = 2.3

/** What each stretch of a joint plan, uncut, makes again. */
export const decisionsOf = (j: Joint, moving: Moving, start: Makes): Makes => {
  const crossings = new Crossings(j, moving, start)
  const { length } = crossings.stretches
  crossings.anneal(STEPS * length, (HOT * crossings.total) / length)
  return crossings.decided()
}
