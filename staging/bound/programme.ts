// A linear programme whose optimum is a lower bound of each plan. In: a training graph, a simulated machine, a budget, a chain of barriers. Out: the
// programme; sizes in MiB, times in milliseconds. docs/internals/bound.md has the proof. The columns of the interval between two barriers are the
// share of each op that runs, and the share of each value that is copied out or in. The columns of each barrier are the share of each value on the
// device without a copy in the lower tier, the share with a copy, and all copies. Worked example: a value of 12 GB takes 0.5 s to recompute. Half of
// it fits, the link has 12 GB/s: recomputing a part hides copying the rest.
import { ROW_EXCHANGES } from '../graph/bands'
import { type Graph, isFed, isPersistent, type Op, type OpId, type ValueId, valueBytes } from '../graph/graph'
import { lastLink, type Link, type Machine } from '../graph/machine'
import { COLLECTIVES } from '../graph/ranks'
import { SMALL_BYTES } from '../memory/place'
import type { CallShapes } from '../ops/op'
import { opDef } from '../ops/registry'
import { callShapes } from '../plan/callcosts'
import { inCoreLayout } from '../schedule/incore'
import { onceFor } from '../schedule/remember'
import { operandsOf } from '../tile/slices'
import { coverageOf } from './coverage'
import { type Barriers, barriersOf, neededOf } from './barriers'
import { ProgrammeBuilder, type LinearProgramme, type Term } from './linear'

const MIB = 2 ** 20
/** The upper bound of the step's time, as a multiple of the compute. A slower step is not below the bound either. */
export const MOST_TIMES = 100

/** The number of intervals after its own for which the programme follows a gradient. More of them raise no bound of `plans --suite bounds` by 0.1 %. */
const FOLLOWED = 2

/**
 * A value whose shares on the device and in the lower tier are columns. Parameters, sums and statistics have none, because each tile needs all of
 * them.
 */
interface Tracked {
  readonly mib: number
  /** Absent for fed values. */
  readonly maker?: OpId
  /** The most of the value that is made for each share of its maker that runs. */
  readonly gain: number
  /** The intervals of its first maker and its last reader. */
  readonly first: number
  last: number
  /**
   * Columns by interval: at its start, the shares on the device without a copy, on the device with a copy, and in the lower tier; in it, the shares
   * copied out and copied in.
   */
  readonly bare: Columns
  readonly copied: Columns
  readonly away: Columns
  readonly out: Columns
  readonly into: Columns
  /** Copies that are dropped while the value is on the device. Only if the lower tier is limited. */
  readonly dropped: Columns
  /** For a fed value: the shares of the next step's data that this step loads. The next step begins with them on the device. */
  readonly ahead: Columns
}

type Columns = (number | undefined)[]

/** An op touches at least this share of the values together. */
interface Reading {
  readonly values: readonly ValueId[]
  readonly share: number
}

const isExchange = ({ kind }: Op): boolean => COLLECTIVES.includes(kind) || ROW_EXCHANGES.includes(kind)

/** Returns the seconds of a call without elements. */
const launchOf = (machine: Machine): number => machine.seconds('copy', {}, { ins: [[0, 1, 1, 1]], outs: [[0, 1, 1, 1]] })

/** Returns the rates of the link in MiB/ms. A disk behind it may add its rate or replace the link's. */
const ratesOf = (link: Link): { readonly out: number; readonly into: number } => {
  const { beyond } = link
  const rate = (of: 'outBytesPerSecond' | 'inBytesPerSecond'): number =>
    (beyond ? (beyond.apart ? link[of] + beyond[of] : Math.max(link[of], beyond[of])) : link[of]) / MIB / 1e3
  return { out: rate('outBytesPerSecond'), into: rate('inBytesPerSecond') }
}

const tierMiB = (link: Link): number => ((link.bytes ?? Infinity) + (link.beyond ? (lastLink(link).bytes ?? Infinity) : 0)) / MIB

/** Returns the least MiB that a call on all of an op holds. */
const heldBy = (graph: Graph, op: Op): number => {
  const factors = coverageOf(graph, op)
  const all = [...op.ins, ...op.outs]
  const { ins } = operandsOf(graph, op)
  /** Returns true for partial gradients, which may cover less than the op. */
  const isPart = (k: number): boolean => ins[k]?.access?.H.tag === 'inside'
  const mib = (k: number): number => {
    const c = factors[k]
    return c && !isPart(k) && all.indexOf(all[k]!) === k ? (c.reads * valueBytes(graph.values[all[k]!]!)) / MIB : 0
  }
  const reused = (opDef(op.kind).inPlace ?? []).length > 0 ? mib(op.ins.length) : 0
  return all.reduce((n, _, k) => n + mib(k), 0) - reused
}

/** Returns the seconds of each op in the fewest tiles, without the rows that strides skip. */
const leastSeconds = onceFor((graph, machine): Float64Array => {
  const seconds = new Float64Array(graph.ops.length)
  for (const { op, kind, attrs, ins, outs, seconds: whole } of inCoreLayout(graph, machine).calls) {
    if (op < 0) continue
    const least = coverageOf(graph, graph.ops[op]!)
    const isTrimmed = least.some((c) => c && c.reads < 1)
    const { at: _, ...shapes } = callShapes(graph, ins, outs)
    const trimmed = (all: CallShapes['ins'], from: number): CallShapes['ins'] => all.map((s, i) => least[from + i]?.least ?? s)
    seconds[op] = isTrimmed
      ? Math.min(
          whole,
          machine.seconds(kind, attrs, { ...shapes, ins: trimmed(shapes.ins, 0), outs: trimmed(shapes.outs, ins.length) }),
        )
      : whole
  }
  return seconds
})

/** Returns the seconds of all ops, each run once, without exchanges between ranks, which may run beside them. */
export const leastSecondsOf = (graph: Graph, machine: Machine): number => {
  const needed = neededOf(graph, barriersOf(graph).due)
  const least = leastSeconds(graph, machine)
  return graph.ops.reduce((n, op) => n + (isExchange(op) ? 0 : needed[op.id]! * least[op.id]!), 0)
}

class Programme {
  private readonly lp = new ProgrammeBuilder()
  private readonly last: number
  private readonly needed: Float64Array
  private readonly tracked = new Map<ValueId, Tracked>()
  private readonly readings: readonly (readonly Reading[])[]
  /** By op: the last interval with a useful run; the share that runs in each interval, and the share that runs for the first time. */
  private readonly useful: Int32Array
  private readonly runs: readonly Columns[]
  private readonly firsts: readonly Columns[]
  private readonly ms: readonly number[]
  private readonly freeMiB: number
  private readonly tierMiB: number
  /** Parameters and state that may be in the lower tier. */
  private readonly large: { readonly read: number; readonly written: number }

  constructor(
    private readonly graph: Graph,
    private readonly machine: Machine,
    budgetMiB: number,
    private readonly barriers: Barriers,
  ) {
    this.last = barriers.ops.length
    this.needed = neededOf(graph, barriers.due)
    const read = new Set(graph.ops.flatMap((op) => op.ins))
    const persistents = graph.values.filter((v) => isPersistent(v) && read.has(v.id))
    const mib = (of: (v: Graph['values'][number]) => boolean): number =>
      persistents.reduce((n, v) => n + (of(v) ? valueBytes(v) / MIB : 0), 0)
    const written = new Set(graph.ops.flatMap((op) => (opDef(op.kind).mutates ?? []).map((i) => op.ins[i]!)))
    const isLarge = (v: Graph['values'][number]): boolean => valueBytes(v) >= SMALL_BYTES
    this.large = { read: mib(isLarge), written: mib((v) => isLarge(v) && written.has(v.id)) }
    this.freeMiB = Math.max(0, budgetMiB - mib((v) => !isLarge(v)))
    this.tierMiB = tierMiB(machine.link)
    const launch = launchOf(machine)
    const least = leastSeconds(graph, machine)
    this.ms = graph.ops.map((op) => {
      const calls = Math.max(1, heldBy(graph, op) / this.freeMiB)
      return isExchange(op) ? 0 : 1e3 * (least[op.id]! + (calls - 1) * launch)
    })
    this.useful = new Int32Array(graph.ops.length)
    this.runs = graph.ops.map(() => [])
    this.firsts = graph.ops.map(() => [])
    this.trackValues()
    this.readings = graph.ops.map((op) => this.readingsOf(op))
    this.setUseful()
    this.addColumns()
    for (const op of graph.ops) if (this.isRun(op)) this.addRuns(op)
    for (const t of this.tracked.values()) this.addPlaces(t)
    for (let i = 1; i <= this.last; i++) this.addWindow(i)
    this.addTimes()
  }

  get built(): LinearProgramme | null {
    return this.freeMiB > 0 ? this.lp.built : null
  }

  private isRun(op: Op): boolean {
    return op.phase !== 'update' && this.needed[op.id]! > 0
  }

  private trackValues(): void {
    const none = (): Columns => []
    const track = (v: ValueId, maker: OpId | undefined, gain: number, first: number): void => {
      const columns = { bare: none(), copied: none(), away: none(), out: none(), into: none(), dropped: none(), ahead: none() }
      const mib = valueBytes(this.graph.values[v]!) / MIB
      this.tracked.set(v, { mib, ...(maker === undefined ? {} : { maker }), gain, first, last: -1, ...columns })
    }
    for (const v of this.graph.values) if (isFed(v)) track(v.id, undefined, 0, 0)
    for (const op of this.graph.ops) {
      if (!this.isRun(op)) continue
      const factors = coverageOf(this.graph, op)
      op.outs.forEach((v, k) => {
        const c = factors[op.ins.length + k]
        if (c && c.needs > 0) track(v, op.id, 1 / c.needs, this.barriers.before[op.id]!)
      })
    }
  }

  private readingsOf(op: Op): readonly Reading[] {
    if (!this.isRun(op)) return []
    const factors = coverageOf(this.graph, op)
    const { ins } = operandsOf(this.graph, op)
    const readings: Reading[] = []
    /** Sums of partial gradients may read their inputs one after the other. */
    const together: ValueId[] = []
    ins.forEach(({ value, access }, k) => {
      const c = factors[k]
      if (!c || !access || !this.tracked.has(value)) return
      if (access.H.tag === 'inside') together.push(value)
      else readings.push({ values: [value], share: c.reads })
    })
    const parts = ins.filter((o) => o.access?.H.tag === 'inside').length
    return together.length === parts && parts > 0 ? [...readings, { values: together, share: parts }] : readings
  }

  /** Sets the last useful interval of each op and value. After its first run, an op is useful only while its results are still read. */
  private setUseful(): void {
    const { due } = this.barriers
    const lastReadOf = new Int32Array(this.graph.values.length).fill(-1)
    for (let i = this.graph.ops.length - 1; i >= 0; i--) {
      const op = this.graph.ops[i]!
      if (!this.isRun(op)) continue
      const reads = op.outs.map((v) => (this.tracked.has(v) ? Math.min(lastReadOf[v]!, this.latest(v)) : -1))
      const most = Math.max(-1, ...reads)
      this.useful[i] = Math.max(most, due[i]!)
      for (const v of op.ins) lastReadOf[v] = Math.max(lastReadOf[v]!, this.useful[i]!)
    }
    for (const [v, t] of this.tracked) t.last = Math.min(lastReadOf[v]!, this.latest(v))
  }

  /** Returns the last interval in which the programme follows a value. Later, gradients count as available, so that the programme stays small. */
  private latest(v: ValueId): number {
    return this.graph.values[v]!.role === 'gradient' ? this.tracked.get(v)!.first + FOLLOWED : this.last
  }

  /** Returns the readings whose values the programme follows in an interval. */
  private followed(op: Op, i: number): readonly Reading[] {
    return this.readings[op.id]!.filter(({ values }) => values.every((v) => i <= this.tracked.get(v)!.last))
  }

  private addColumns(): void {
    for (const op of this.graph.ops)
      if (this.isRun(op))
        for (let i = this.barriers.before[op.id]!; i <= this.useful[op.id]!; i++) this.runs[op.id]![i] = this.lp.column(1)
    for (const t of this.tracked.values()) {
      const isMade = t.maker !== undefined
      if (!isMade) for (let i = 0; i <= this.last; i++) t.ahead[i] = this.lp.column(1)
      for (let i = t.first; i <= t.last; i++) {
        if (i > t.first || !isMade) t.copied[i] = this.lp.column(1)
        if (i > t.first && isMade) {
          t.bare[i] = this.lp.column(1)
          t.away[i] = this.lp.column(1)
        }
        if (i > t.first || !isMade) t.into[i] = this.lp.column(1)
        if (isMade && i < t.last) t.out[i] = this.lp.column(1)
        if (isMade && i > t.first && i < t.last && Number.isFinite(this.tierMiB)) t.dropped[i] = this.lp.column(1)
      }
    }
  }

  /** Returns the shares of a value on the device at the start of an interval. */
  private held(v: ValueId, i: number, factor = 1): readonly Term[] {
    const t = this.tracked.get(v)!
    return [...term(t.bare[i], factor), ...term(t.copied[i], factor)]
  }

  /** Returns the shares of a value that are copied in or made in an interval. */
  private added(v: ValueId, i: number, factor = 1): readonly Term[] {
    const t = this.tracked.get(v)!
    return [...term(t.into[i], factor), ...(t.maker === undefined ? [] : term(this.runs[t.maker]![i], factor * t.gain))]
  }

  /** Adds rows for the runs of an op. Its inputs are on the device, and it runs once in full before it is due. */
  private addRuns(op: Op): void {
    const runs = this.runs[op.id]!
    const first = this.barriers.before[op.id]!
    const due = Math.min(this.barriers.due[op.id]!, this.useful[op.id]!)
    const isOnce = due === this.useful[op.id]! && due > first && this.followed(op, due).length === this.readings[op.id]!.length
    const firsts = this.firsts[op.id]!
    for (let i = first; i <= due; i++) firsts[i] = due === first || isOnce ? runs[i] : this.lp.column(1)
    this.lp.row(terms(firsts), this.needed[op.id]!)
    for (let i = first; i <= this.useful[op.id]!; i++) {
      if (firsts[i] !== undefined && firsts[i] !== runs[i]) this.lp.row([...term(runs[i], 1), ...term(firsts[i], -1)])
      if (isOnce) continue
      for (const { values, share } of this.followed(op, i))
        this.lp.row([...term(runs[i], -share), ...values.flatMap((v) => [...this.held(v, i), ...this.added(v, i)])])
    }
    if (due > first) for (const reading of this.followed(op, due)) this.addStock(reading, firsts, first, due)
  }

  /** Adds rows for the shares of values that are on the device and that the first run of an op has not read, so that no share counts twice. */
  private addStock({ values, share }: Reading, firsts: Columns, first: number, due: number): void {
    let before: number | undefined
    for (let i = first; i <= due; i++) {
      const held = values.flatMap((v) => this.held(v, i))
      const isHeld = held.length > 0
      before = isHeld ? (before ?? this.lp.column(values.length)) : undefined
      if (before !== undefined) this.lp.row([...held, [before, -1]])
      const after: number | undefined = i < due ? this.lp.column(values.length) : undefined
      this.lp.row([
        ...term(before, 1),
        ...values.flatMap((v) => this.added(v, i)),
        ...term(firsts[i], -share),
        ...term(after, -1),
      ])
      before = after
    }
  }

  /**
   * Adds rows for distinct shares from an interval to the end: for an op, the shares that run; for a value, the shares that are copied in. So a share
   * that stays on the device cannot count in two intervals as two shares.
   */
  private addWindow(from: number): void {
    const distinct = new Map<OpId, number>()
    const ops = this.graph.ops.filter((op) => this.isRun(op) && this.useful[op.id]! >= from)
    const isWhole = (op: OpId): boolean => this.barriers.before[op]! >= from
    for (const op of ops) if (!isWhole(op.id)) distinct.set(op.id, this.lp.column(1))
    const loaded = new Map<ValueId, number>()
    for (const [v, t] of this.tracked)
      if (t.first < from && t.last >= from) {
        const column = this.lp.column(1)
        loaded.set(v, column)
        this.lp.row([[column, -1], ...t.into.slice(from).flatMap((c) => term(c, 1))])
        if (t.maker !== undefined) this.lp.row([[column, -1], ...term(t.away[from], 1), ...term(t.copied[from], -1)])
        else this.lp.row([[column, -1], ...term(t.copied[from], -1)], -1)
      }
    for (const op of ops) {
      const own = distinct.get(op.id)
      if (own !== undefined) {
        this.lp.row([[own, -1], ...this.runs[op.id]!.slice(from).flatMap((c) => term(c, 1))])
        const firsts = this.firsts[op.id]!.slice(from).flatMap((c) => term(c, -1))
        if (firsts.length > 0) this.lp.row([[own, 1], ...firsts])
      }
      for (const { values, share } of this.followed(op, from)) {
        const tracked = values.map((v) => this.tracked.get(v)!)
        if (tracked.some((t) => t.maker !== undefined && isWhole(t.maker))) continue
        const have = values.flatMap((v, k) => [
          ...this.held(v, from),
          ...term(loaded.get(v), 1),
          ...(tracked[k]!.maker === undefined ? [] : term(distinct.get(tracked[k]!.maker!), tracked[k]!.gain)),
        ])
        if (own === undefined) this.lp.row(have, share * this.needed[op.id]!)
        else this.lp.row([...have, [own, -share]])
      }
    }
  }

  /** Adds rows by which the places of a value at the start of each interval follow from the interval before. */
  private addPlaces(t: Tracked): void {
    if (t.maker === undefined) this.lp.row([...terms(t.ahead), ...term(t.copied[0], -1)])
    for (let i = t.first; i <= t.last; i++) {
      if (i > t.first) {
        const into = term(t.into[i - 1], 1)
        const copied = [...term(t.copied[i], -1), ...term(t.copied[i - 1], 1), ...into]
        if (t.maker === undefined) this.lp.row(copied)
        else this.addMoves(t, t.maker, i, copied)
      }
      // Only shares that are not on the device are copied in.
      const loaded = [...term(t.into[i], -1), ...term(t.copied[i], -1)]
      if (t.into[i] !== undefined) this.lp.row([...loaded, ...term(t.away[i], 1)], t.maker === undefined ? -1 : 0)
    }
  }

  private addMoves(t: Tracked, maker: OpId, i: number, copied: readonly Term[]): void {
    const run = term(this.runs[maker]![i - 1], t.gain)
    const out = (sign: number): readonly Term[] => term(t.out[i - 1], sign)
    const dropped = (sign: number): readonly Term[] => term(t.dropped[i - 1], sign)
    const bare = term(t.bare[i], -1)
    this.lp.row([...bare, ...term(t.bare[i - 1], 1), ...run, ...out(-1), ...dropped(1)])
    this.lp.row([...copied, ...out(1), ...dropped(-1)])
    this.lp.row([...term(t.away[i], -1), ...term(t.away[i - 1], 1), ...out(1), ...dropped(-1)])
    this.lp.row([...term(t.copied[i], -1), ...term(t.away[i], 1)])
    this.lp.row([...bare, ...term(t.copied[i], -1)], -1)
  }

  private addTimes(): void {
    const { out, into } = ratesOf(this.machine.link)
    const { parts, before } = this.barriers
    const total = this.ms.reduce((n, ms) => n + ms, 0)
    const intervals = Array.from({ length: this.last + 1 }, (_, i) => i)
    /** Parts of the batch pass their barriers at different times, so only sums over all intervals bound their time. */
    const groups = parts === 1 ? intervals.map((i) => [i]) : [intervals]
    const updates = intervals.map(() => 0)
    for (const op of this.graph.ops) if (op.phase === 'update') updates[before[op.id]!]! += this.ms[op.id]!
    const resident = this.large.read > 0 ? this.lp.column(1) : undefined
    const times = groups.map((group) => {
      const time = this.lp.column(MOST_TIMES * total, 1)
      const updating = this.lp.column(total)
      const [paramsOut, paramsIn] = [this.lp.column(this.large.written), this.lp.column(this.large.read)]
      const runs = group.flatMap((i) => this.graph.ops.flatMap((op) => term(this.runs[op.id]![i], -this.ms[op.id]!)))
      const moved = (of: 'out' | 'into' | 'ahead', rate: number): readonly Term[] =>
        group.flatMap((i) => [...this.tracked.values()].flatMap((t) => term(t[of][i], -t.mib / rate)))
      const outs = [...moved('out', out), [paramsOut, -1 / out] as const]
      const ins = [...moved('into', into), ...moved('ahead', into), [paramsIn, -1 / into] as const]
      this.lp.row([[time, 1], [updating, -1], ...runs])
      if (this.machine.link.fullDuplex) {
        this.lp.row([[time, 1], ...outs])
        this.lp.row([[time, 1], ...ins])
      } else this.lp.row([[time, 1], ...outs, ...ins])
      return { group, updating, paramsOut, paramsIn }
    })
    // Updates run after the barriers that they need.
    updates.forEach((_, from) => {
      const due = updates.slice(from).reduce((n, ms) => n + ms, 0)
      const later = times.filter(({ group }) => group.some((i) => i >= from))
      if (updates[from]! > 0)
        this.lp.row(
          later.map(({ updating }) => [updating, 1]),
          due,
        )
    })
    // Parameters that are not on the device for the whole step are copied in and, if updated, copied out.
    this.lp.row([...times.map(({ paramsIn }): Term => [paramsIn, 1]), ...term(resident, this.large.read)], this.large.read)
    this.lp.row(
      [...times.map(({ paramsOut }): Term => [paramsOut, 1]), ...term(resident, this.large.written)],
      this.large.written,
    )
    this.addMemory(resident)
  }

  /** Adds rows for the capacities of the device and of the lower tier at the start of each interval. */
  private addMemory(resident: number | undefined): void {
    const { parts } = this.barriers
    const { read } = this.large
    const all = [...this.tracked.values()]
    for (let i = 1; i <= this.last; i++) {
      const held = all.flatMap((t) => [
        ...term(t.bare[i], -t.mib),
        ...term(t.copied[i], -t.mib),
        ...t.ahead.slice(0, i).flatMap((c) => term(c, -t.mib)),
      ])
      this.lp.row([...held, ...term(resident, -parts * read)], -parts * this.freeMiB)
      if (!Number.isFinite(this.tierMiB)) continue
      const away = all.flatMap((t) => term(t.away[i], -t.mib))
      this.lp.row([...away, ...term(resident, parts * read)], parts * (read - this.tierMiB))
    }
  }
}

const term = (column: number | undefined, factor: number): readonly Term[] => (column === undefined ? [] : [[column, factor]])
const terms = (columns: Columns): readonly Term[] => columns.flatMap((c) => term(c, 1))

/** Returns the programme, whose optimum bounds the milliseconds of a step; null if parameters that cannot be swapped exceed the budget. */
export const programmeOf = (graph: Graph, machine: Machine, budgetBytes: number, barriers: Barriers): LinearProgramme | null => {
  const programme = new Programme(graph, machine, budgetBytes / MIB, barriers)
  return programme.built
}
