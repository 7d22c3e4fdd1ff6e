// The seconds of a step without a layout. In: decisions, bytes of the device. Out: the seconds of the step and of each loop.
// A loop computes its ops; each further tile adds launches. Memory is a fluid: the value with the farthest next reader leaves first. Each link
// is a queue. A value may arrive before its loop in half of the free memory. A change of one loop updates only the loops that it concerns.
// Worked example: a loop computes for 4 ms and needs 100 MiB from the host at 12 GiB/s. It takes 8 ms, less the time of prefetching.
import type { ValueId } from '../graph/graph'
import { hasTier, lastLink } from '../graph/machine'
import { Bodies, type Body, haloOf, PART, type LoopTotals } from './bodies'
import type { Decisions } from './decisions'
import { Lane, Places } from './lanes'
import { FULL, LACK, WASTE } from './limits'
import { alignUp, PAGE_BYTES } from '../core/bytes'
import { SMALL_BYTES } from '../memory/place'
import type { TierLack } from '../schedule/candidate'
import type { Loop, Problem } from './problem'

/** Loops that find or make a value, in order. An entry is twice the number of the loop, plus 1 if the loop makes the value. */
type Events = number[]

const insert = (events: Events, event: number): void => {
  let k = events.length
  while (k > 0 && events[k - 1]! > event) k--
  events.splice(k, 0, event)
}
const remove = (events: Events, event: number): void => void events.splice(events.indexOf(event), 1)

/** Corrections of a loop by layouts: bytes of its working set in tiles, bytes without tiles, seconds. */
interface Correction {
  readonly tiled: number
  readonly whole: number
  readonly seconds: number
}

/** A loop whose tile size changed, and one whose ops or whose values' readers changed. */
const RESIZED = 1
const CHANGED = 2

const UNCORRECTED: Correction = { tiled: 0, whole: 0, seconds: 0 }

export class Model {
  readonly bodies: Bodies
  /** The current loops, in order. Numbers of a loop stand at its first atom. */
  heads: readonly number[] = []
  readonly loops: (Loop | undefined)[]
  /** The current decisions, by loop. */
  readonly bits: Uint8Array[] = []
  readonly away: Uint8Array
  /** Bytes of parameters, state and copied inputs that are on the device for the whole step. Small values share their last page. */
  resident: number
  readonly tileBytes: Float64Array
  readonly reserves: Float64Array
  /** Bytes of small values. They stay on the device. */
  smallBytes: number
  /** Bytes that layouts needed beyond the model: without a lower tier, nothing can leave instead. */
  reserveBytes = 0
  /** Counts the loops and ops that the model visits. */
  work = 0
  /** Bytes that a value wastes in its last page. */
  private wasteBytes = 0
  /** The bytes of each value, with its share of wasted pages. */
  private readonly standing: Float64Array
  readonly running: (LoopTotals | undefined)[] = []
  readonly tiles: Float64Array
  readonly seconds: Float64Array
  readonly compute: Float64Array
  private readonly working: Float64Array
  private readonly lane: Lane
  /** Absent if the lower tier is unlimited. */
  readonly places: Places | undefined
  private readonly held: Float64Array
  private readonly corrections = new Map<Loop, Correction>()
  private readonly isAway: Uint8Array
  /** By loop: its parameters of the lower tier. */
  private readonly homes: Loop['homes'][]
  private readonly body: (Body | undefined)[] = []
  private readonly events: Events[]
  /** By loop: which of its numbers are out of date. */
  private readonly isDue: Uint8Array
  /** The number of loops that are out of date. */
  private due = 0
  /** Bytes of inputs and of results in the working set. */
  private readonly inputBytes: Float64Array
  private readonly resultBytes: Float64Array
  private readonly wholeBytes: Float64Array
  private readonly needs: Float64Array
  /** The latest maker of the bytes that must have left after each loop. */
  private readonly lastDue: Int32Array
  /** By loop: inputs, parameters of the lower tier, results. For each of these the next loop that reads it, or -1. */
  private readonly touched: ValueId[][] = []
  private readonly next: number[][] = []
  /** By loop: the number of values that must arrive, and the index of the first written one. */
  private readonly comers: Int32Array
  private readonly firstWritten: Int32Array
  private readonly here: Float64Array
  private readonly copied: Float64Array
  private readonly copiedAtFirst: Float64Array
  private readonly madeIn: Int32Array
  private readonly touchedIn: Int32Array
  /** Bytes that plans needed beyond the model. */
  private readonly tierReserves = { 'host memory': 0, 'the disk': 0, writes: 0 }
  /** Linked lists of the values on the device, by the next loop that finds them. */
  private readonly first: Int32Array
  private readonly behind: Int32Array

  constructor(
    readonly p: Problem,
    private readonly bytes: number,
  ) {
    const [loops, values] = [p.atoms, p.graph.values.length]
    this.bodies = new Bodies(p)
    this.loops = new Array<undefined>(loops).fill(undefined)
    this.homes = new Array<Loop['homes']>(loops).fill([])
    this.away = new Uint8Array(p.units.length).fill(1)
    this.isAway = new Uint8Array(values)
    for (const v of p.units.flat(2)) this.isAway[v] = 1
    this.resident = p.alwaysBytes
    this.smallBytes = p.smallBytes
    const perLoop = (): Float64Array => new Float64Array(loops)
    this.tileBytes = perLoop()
    this.reserves = perLoop()
    this.tiles = perLoop()
    this.seconds = perLoop()
    this.compute = perLoop()
    this.working = perLoop()
    const { link } = p.machine
    this.lane = new Lane(loops, link)
    this.places = hasTier(p.machine) && link.bytes !== undefined ? new Places(loops, values, link, this.lane) : undefined
    this.held = perLoop()
    this.inputBytes = perLoop()
    this.resultBytes = perLoop()
    this.needs = perLoop()
    this.comers = new Int32Array(loops)
    this.firstWritten = new Int32Array(loops)
    this.lastDue = new Int32Array(loops)
    this.isDue = new Uint8Array(loops)
    this.events = Array.from({ length: values }, () => [])
    this.first = new Int32Array(loops)
    this.behind = new Int32Array(values)
    this.here = new Float64Array(values)
    this.copied = new Float64Array(values)
    this.standing = new Float64Array(values)
    this.copiedAtFirst = new Float64Array(values)
    this.wholeBytes = perLoop()
    this.setWaste(WASTE)
    this.madeIn = new Int32Array(values)
    this.touchedIn = new Int32Array(values)
  }

  /** Bytes of the pages that are never free. */
  get alwaysBytes(): number {
    return alignUp(this.resident + this.smallBytes, PAGE_BYTES)
  }

  /** Bytes of parameters and state in the lower tier. */
  private get homeBytes(): number {
    return this.p.homeBytes + this.p.alwaysBytes - this.resident
  }

  /** Bytes of the other pages of the device. */
  get movableBytes(): number {
    return this.bytes - this.alwaysBytes - this.p.nextBytes
  }

  /** Sets the part of a page that a value wastes. */
  setWaste(waste: number): void {
    const { p, standing } = this
    this.wasteBytes = waste * PAGE_BYTES
    for (let v = 0; v < standing.length; v++) {
      standing[v] = p.bytes[v]! + (p.bytes[v]! < SMALL_BYTES ? 0 : waste * PAGE_BYTES)
      this.copiedAtFirst[v] = p.hasCopy[v] === 1 ? standing[v]! : 0
    }
    for (const i of this.heads) {
      this.wholeBytes[i] = this.wholeOf(this.homes[i]!)
      this.resize(i)
    }
    this.settle(p.atoms - 1)
  }

  /** Makes these the current decisions. Returns their seconds. */
  load(d: Decisions): number {
    this.tileBytes.set(d.tileBytes)
    this.reserves.set(d.reserves)
    this.setEnds(0, d.ends)
    d.away.forEach((away, unit) => {
      if (away !== this.away[unit]) this.setAway(unit, away)
    })
    for (const i of this.heads) {
      this.setBits(i, d.repeats[i]!)
      this.resize(i)
    }
    this.settle(this.p.atoms - 1)
    return this.price()
  }

  /** Changes the loops of the atoms from this one on. Their bits must be set then. */
  setEnds(from: number, ends: ArrayLike<number>): void {
    for (let k = 0; k < ends.length; k++) {
      const i = from + k
      const loop = ends[k] === 0 ? undefined : this.p.loopOf(i, ends[k]!)!
      if (this.loops[i] === loop) continue
      this.loops[i] = loop
      if (!loop) this.clear(i)
      this.setHomes(i)
    }
    const heads: number[] = []
    for (let i = 0; i < this.loops.length; i++) if (this.loops[i]) heads.push(i)
    this.heads = heads
  }

  /** The ends of the loops of some atoms, as in `Decisions`. */
  endsOf(from: number, to: number): Int32Array {
    return Int32Array.from({ length: to - from }, (_, k) => this.loops[from + k]?.to ?? 0)
  }

  /** An atom that no longer begins a loop touches nothing. */
  private clear(i: number): void {
    for (const v of this.body[i]?.crossing ?? []) this.forget(v, 2 * i + 1)
    for (const v of this.running[i]?.inputs ?? []) this.forget(v, 2 * i)
    this.body[i] = undefined
    this.running[i] = undefined
    this.touched[i] = []
    this.next[i] = []
    this.mark(i, 0)
  }

  /** Bytes of parameters of the lower tier that a loop holds at once. */
  private wholeOf(homes: Loop['homes']): number {
    return homes.reduce(
      (n, { value, most }) => n + Math.min(most, this.p.bytes[value]!) + this.standing[value]! - this.p.bytes[value]!,
      0,
    )
  }

  private setHomes(i: number): void {
    for (const { value } of this.homes[i]!) this.forget(value, 2 * i)
    const homes = (this.loops[i]?.homes ?? []).filter((h) => this.isAway[h.value] === 1)
    this.homes[i] = homes
    for (const { value } of homes) this.note(value, 2 * i)
    this.wholeBytes[i] = this.wholeOf(homes)
    if (this.loops[i]) this.mark(i, CHANGED)
  }

  /** Moves a unit of parameters to the lower tier, or to the device. `settle` must follow. */
  setAway(unit: number, away: number): void {
    const { p, isAway } = this
    const values = p.units[unit]!.flat()
    this.away[unit] = away
    for (const v of values) {
      isAway[v] = away
      this.resident += (away ? -1 : 1) * p.bytes[v]!
    }
    for (const i of this.heads) if (this.loops[i]!.homes.some((h) => values.includes(h.value))) this.setHomes(i)
  }

  /** The calls of a layout, without those of small ops between loops. */
  get calls(): number {
    return this.heads.reduce((n, i) => n + this.tiles[i]! * this.running[i]!.calls, 0)
  }

  /** A copy of the current decisions. */
  get decisions(): Decisions {
    const { bits, tileBytes, reserves, away, p } = this
    return {
      ends: this.endsOf(0, p.atoms),
      repeats: [...bits],
      tileBytes: tileBytes.slice(),
      reserves: reserves.slice(),
      away: away.slice(),
    }
  }

  /** Sets the bits of a loop. `settle` must follow. */
  setBits(i: number, bits: Uint8Array): void {
    this.bits[i] = bits
    const body = this.bodies.of(this.loops[i]!, bits)
    this.work += body.ops.length
    const before = this.body[i]
    if (before === body) return
    this.body[i] = body
    if (before) for (const v of before.crossing) if (!body.crossing.includes(v)) this.forget(v, 2 * i + 1)
    for (const v of body.crossing) if (!before?.crossing.includes(v)) this.note(v, 2 * i + 1)
    this.mark(i, CHANGED)
  }

  setTileBytes(i: number, bytes: number): void {
    this.tileBytes[i] = bytes
    this.resize(i)
  }

  /** Marks a loop whose ops and values are as before. */
  private resize(i: number): void {
    if (this.isDue[i] === 0) this.mark(i, RESIZED)
  }

  private mark(i: number, due: number): void {
    this.due += Math.sign(due) - Math.sign(this.isDue[i]!)
    this.isDue[i] = due
  }

  /** The tile size with which a loop has this number of tiles. */
  bytesFor(i: number, tiles: number): number {
    return (this.running[i]!.bytes / tiles) * (1 + 1e-9)
  }

  private note(v: ValueId, event: number): void {
    insert(this.events[v]!, event)
    this.look(v, event)
  }

  private forget(v: ValueId, event: number): void {
    remove(this.events[v]!, event)
    this.look(v, event)
  }

  /** Marks the loop before an event: its next reader has changed. */
  private look(v: ValueId, event: number): void {
    const events = this.events[v]!
    for (let k = events.length - 1; k >= 0; k--)
      if (events[k]! < event) {
        this.mark(events[k]! >> 1, CHANGED)
        return
      }
  }

  /** The next loop that reads a value after loop i, or -1 if it is recomputed before. */
  private nextAfter(v: ValueId, i: number): number {
    const events = this.events[v]!
    for (let k = 0; k < events.length; k++) {
      const event = events[k]!
      if (event >> 1 > i) return event & 1 ? -1 : event >> 1
    }
    return -1
  }

  /** Updates all marked loops, from this one back to the first. */
  settle(last: number): void {
    for (let i = last; i >= 0 && this.due > 0; i--)
      if (this.isDue[i]! > 0) {
        const isChanged = this.isDue[i] === CHANGED
        this.mark(i, 0)
        this.work += this.body[i]!.ops.length
        if (isChanged) this.rerun(i)
        this.size(i)
      }
  }

  private rerun(i: number): void {
    const r = this.body[i]!.running((v) => this.nextAfter(v, i) >= 0)
    const before = this.running[i]
    if (before !== r) {
      this.running[i] = r
      if (before) for (const v of before.inputs) if (!r.inputs.includes(v)) this.forget(v, 2 * i)
      for (const v of r.inputs) if (!before?.inputs.includes(v)) this.note(v, 2 * i)
    }
    this.link(i, r)
  }

  /** The tiles of a loop, with its seconds and its working set. */
  private size(i: number): void {
    const { p } = this
    const r = this.running[i]!
    const loop = this.loops[i]!
    const { tiles: isTiled, most } = loop
    const more = this.corrections.get(loop) ?? UNCORRECTED
    const { bytes } = r
    const wanted = isTiled && bytes > this.tileBytes[i]! ? Math.ceil(bytes / this.tileBytes[i]!) : 1
    let tiles = Math.min(wanted, most.B)
    let [haloSeconds, haloBytes] = [0, 0]
    if (wanted > most.B) {
      const halo = haloOf(p, r, this.body[i]!.expands)
      const bands = halo.seconds === Infinity ? 1 : Math.min(most.H, Math.ceil(wanted / most.B))
      if (bands > 1) [haloSeconds, haloBytes] = [halo.seconds * (bands - 1), halo.bytes / most.B]
      tiles = most.B * bands
    }
    this.tiles[i] = tiles
    const part = 1 / tiles
    this.inputBytes[i] = r.inputBytes * part + (tiles > 1 ? r.inputParts * (1 - part) : this.wasteBytes * r.inputCount)
    this.resultBytes[i] = r.resultBytes * part + (tiles > 1 ? r.resultParts * (1 - part) : this.wasteBytes * r.resultCount)
    // Untiled loops need neither fills nor sums.
    const launches = tiles > 1 ? (tiles - 1) * r.calls + 2 * r.sums : 0
    this.compute[i] = r.seconds + loop.afterSeconds + launches * p.launch + haloSeconds + more.seconds
    // A tile holds whole parts of the values that an op touches.
    this.working[i] =
      loop.gradients +
      (tiles > 1
        ? more.tiled +
          bytes / tiles +
          haloBytes +
          r.scratch +
          (r.inputParts + r.resultParts + (PART / 2) * (r.inputCount + r.resultCount)) * (1 - 1 / tiles)
        : more.whole + r.peak + this.wasteBytes * (r.inputCount + r.resultCount))
  }

  private link(i: number, { inputs: finds, results: leaves, isRecomputed: remakes }: LoopTotals): void {
    const homes = this.homes[i]!
    const touched = this.touched[i] ?? []
    const next = this.next[i] ?? []
    this.touched[i] = touched
    this.next[i] = next
    touched.length = next.length = finds.length + homes.length + leaves.length
    this.comers[i] = finds.length + homes.length
    let k = 0
    const put = (v: ValueId, at: number): void => {
      touched[k] = v
      next[k++] = at
    }
    // If the loop also recomputes an input, later loops read the new one.
    finds.forEach((v, n) => put(v, remakes[n] === 1 ? -1 : this.nextAfter(v, i)))
    for (const { value, writes } of homes) if (!writes) put(value, this.nextAfter(value, i))
    this.firstWritten[i] = k
    for (const { value, writes } of homes) if (writes) put(value, this.nextAfter(value, i))
    for (const v of leaves) put(v, this.nextAfter(v, i))
  }

  /** Adds corrections of a loop. */
  correct(i: number, seconds: number, bytes: number): void {
    const loop = this.loops[i]!
    const { tiled, whole, seconds: before } = this.corrections.get(loop) ?? UNCORRECTED
    const inTiles = this.tiles[i]! > 1
    this.corrections.set(loop, {
      tiled: tiled + (inTiles ? bytes : 0),
      whole: whole + (inTiles ? 0 : bytes),
      seconds: before + seconds,
    })
    this.resize(i)
    this.settle(i)
  }

  /** Bytes that a loop needs and the device does not have. */
  private lackOf(i: number): number {
    const working = this.working[i]!
    return Math.max(
      0,
      this.wholeBytes[i]! + (this.tiles[i]! > 1 ? working / FULL : working) - this.movableBytes + this.reserveBytes,
    )
  }

  /** Corrects the working sets of a plan that fits. */
  fitLoops(): void {
    for (const i of this.heads) {
      const lack = this.lackOf(i)
      if (lack > 0) this.correct(i, 0, this.tiles[i]! > 1 ? -FULL * lack : -lack)
    }
  }

  /** After a price: the filled share of the device in a loop, and the seconds of its copies. */
  usage(i: number): { readonly filled: number; readonly copySeconds: number } {
    return {
      filled: (this.held[i]! + this.needs[i]!) / this.movableBytes,
      copySeconds: Math.max(this.lane.copySeconds(i), this.places?.far.copySeconds(i) ?? 0),
    }
  }

  /** The working set of a loop with its parameters. */
  holds(i: number): number {
    return this.working[i]! + this.wholeBytes[i]!
  }

  /** After each loop and without swaps: bytes and number of the values that later loops find. */
  standingAfter(): { readonly bytes: Float64Array; readonly count: Float64Array } {
    const { p } = this
    const [bytes, count] = [new Float64Array(p.atoms + 1), new Float64Array(p.atoms + 1)]
    for (const i of this.heads)
      this.touched[i]!.forEach((v, k) => {
        const next = this.next[i]![k]!
        if (next < 0) return
        bytes[i]! += p.bytes[v]!
        bytes[next]! -= p.bytes[v]!
        count[i]! += 1
        count[next]! -= 1
      })
    for (let i = 1; i < p.atoms; i++) {
      bytes[i]! += bytes[i - 1]!
      count[i]! += count[i - 1]!
    }
    return { bytes, count }
  }

  /** The seconds of the step, or Infinity if they exceed a limit. */
  price(limit = Infinity): number {
    let compute = 0
    for (const i of this.heads) compute += this.compute[i]!
    this.work += compute > limit ? 1 : this.heads.length
    if (compute > limit) return Infinity
    this.fill()
    return this.flow(compute, limit)
  }

  /** The traffic of each loop, from the first to the last. */
  private fill(): void {
    const { p, here, copied, madeIn, touchedIn, lane, places, working, first, behind, wholeBytes, lastDue } = this
    const { comes, leaves, released } = lane
    const { standing: bytes } = this
    const { hasCopy } = p
    const { heads } = this
    here.fill(0)
    lane.clear()
    places?.start(this.homeBytes, this.tierReserves)
    first.fill(-1)
    lastDue.fill(-1)
    copied.set(this.copiedAtFirst)
    const free = this.movableBytes - this.reserveBytes
    let total = 0
    /** The farthest next reader of all values on the device. */
    let farthest = -1
    for (let h = 0; h < heads.length; h++) {
      const i = heads[h]!
      const touched = this.touched[i]!
      const nexts = this.next[i]!
      const comers = this.comers[i]!
      const firstWritten = this.firstWritten[i]!
      const {
        inputs: { length: finds },
        peak,
        beside,
        inputBytes,
      } = this.running[i]!
      /** Found values that stay. */
      let stays = 0
      for (let v = first[i]!; v >= 0; v = behind[v]!) total -= here[v]!
      first[i] = -1
      for (let k = 0; k < touched.length; k++) {
        const v = touched[k]!
        const next = nexts[k]!
        if (k < comers) {
          const coming = bytes[v]! - here[v]!
          comes[i]! += coming
          if (k >= finds) places?.home(i, coming)
          else if (coming > 0 && hasCopy[v] === 0) places?.comes(v, i, coming)
        }
        if (k >= firstWritten) {
          copied[v] = 0
          madeIn[v] = i
          places?.drop(v)
        }
        // A value stays until its next reader. Without one it is dropped, and written parameters leave.
        if (next >= 0) {
          here[v] = bytes[v]!
          touchedIn[v] = i
          total += bytes[v]!
          if (k < finds) stays += bytes[v]!
          behind[v] = first[next]!
          first[next] = v
          if (next > farthest) farthest = next
          continue
        }
        here[v] = 0
        const dirty = hasCopy[v] === 1 ? bytes[v]! - copied[v]! : 0
        if (dirty === 0) continue
        if (madeIn[v]! > lastDue[i]!) lastDue[i] = madeIn[v]!
        released[madeIn[v]!]! += dirty
        leaves[i]! += dirty
        places?.home(i, dirty, madeIn[v]!)
        copied[v] = bytes[v]!
      }
      // The values that stay after the loop are on the device beside the values that only the loop needs.
      const inside =
        this.tiles[i]! > 1
          ? working[i]! - this.resultBytes[i]!
          : working[i]! - peak + beside - (p.unplaced > 0 ? stays : Math.min(stays, inputBytes))
      const needs = Math.max(inside + wholeBytes[i]!, h + 1 < heads.length ? this.needsBefore(heads[h + 1]!) : 0)
      this.needs[i] = needs
      const space = Math.max(0, (1 - this.reserves[i]!) * free - needs)
      while (total > space && farthest > i) {
        const v = first[farthest]!
        if (v < 0) {
          farthest--
          continue
        }
        const part = Math.min(here[v]!, total - space)
        const dirty = Math.max(0, part - Math.max(0, copied[v]! - (bytes[v]! - here[v]!)))
        if (dirty > 0) {
          if (madeIn[v]! > lastDue[i]!) lastDue[i] = madeIn[v]!
          copied[v]! += dirty
          released[madeIn[v]!]! += dirty
          leaves[i]! += dirty
          if (hasCopy[v] === 1) places?.home(i, dirty, madeIn[v]!)
          else places?.leaves(v, { loop: i, touched: touchedIn[v]!, made: madeIn[v]!, next: farthest, bytes: dirty })
        }
        here[v]! -= part
        total -= part
        if (here[v] === 0) first[farthest] = behind[v]!
      }
      this.held[i] = total
    }
  }

  /** Bytes that must be free before a loop begins. */
  private needsBefore(i: number): number {
    const { here } = this
    let bytes = this.working[i]! + this.wholeBytes[i]!
    for (const { value, most } of this.homes[i]!) bytes -= Math.min(most, here[value]!)
    // The values that an op touches are counted once.
    let heldBytes = 0
    for (const v of this.running[i]!.inputs) heldBytes += here[v]!
    // In tiles, only parts of them are counted.
    const all = this.p.unplaced > 0 && this.tiles[i] === 1
    return Math.max(0, bytes - (all ? heldBytes : Math.min(heldBytes, this.inputBytes[i]!)))
  }

  /** The seconds of each loop, with its waits for the links. */
  private flow(computeSeconds: number, limit: number): number {
    const movableBytes = this.movableBytes - this.reserveBytes
    const { p, held, lane, places, seconds, compute, tiles, needs, lastDue, heads } = this
    const { inBytesPerSecond: into, beyond } = p.machine.link
    places?.settle(heads)
    const lacks = this.tierLacks()
    const far = beyond && places?.far
    lane.start(heads)
    far?.start(heads)
    let [time, due] = [0, -1]
    // The seconds if no later loop waits.
    let least = computeSeconds
    for (const i of heads) {
      const free = Math.max(0, movableBytes - needs[i]! - held[i]!)
      if (lastDue[i]! > due) due = lastDue[i]!
      const lack = this.lackOf(i)
      lane.look(i, free, due)
      let [coming, moving, moved] = [lane.coming, lane.moving, lane.comes[i]! + lane.leaves[i]!]
      if (far) {
        far.look(i, free, due)
        coming = Math.max(coming, far.coming)
        moving = beyond && !beyond.apart ? moving + far.moving : Math.max(moving, far.moving)
        moved += far.comes[i]! + far.leaves[i]!
      }
      const overlap = tiles[i]! > 1 ? Math.min(1, (free * tiles[i]!) / Math.max(1, moved)) : 0.5
      const t =
        Math.max(compute[i]!, moving) +
        (1 - overlap) * Math.min(compute[i]!, coming) +
        Math.max(LACK / into, p.graphSeconds / Math.max(1, movableBytes)) * lack +
        p.unplaced * lane.leaves[i]!
      lane.pass(i, free, t, due)
      far?.pass(i, free, t, due)
      const all = t + lacks(i)
      seconds[i] = all
      time += all
      least += all - compute[i]!
      if (least > limit) return Infinity
    }
    const { writesPerSecond = Infinity } = lastLink(p.machine.link)
    return Math.max(time + Math.max(lane.rest, far?.rest ?? 0), this.lastLane.allLeave / writesPerSecond)
  }

  /** The lane of the last place of the lower tier. */
  private get lastLane(): Lane {
    return (this.p.machine.link.beyond && this.places?.far) || this.lane
  }

  /** Keeps the bytes free that plans needed beyond the model. */
  reserveTier({ of, needs, has }: TierLack): void {
    this.tierReserves[of] += needs - has
  }

  /** By loop: the price of bytes that it reads although the lower tier has no place for them, or may not write them. */
  private tierLacks(): (i: number) => number {
    const { places, p, lastLane } = this
    const { writesPerStep = Infinity, outBytesPerSecond } = lastLink(p.machine.link)
    const written = lastLane.allLeave
    const may = writesPerStep - this.tierReserves.writes
    const excess = written > may ? 1 - may / written : 0
    if (!places && excess === 0) return () => 0
    return (i) => (LACK * ((places?.lacks[i] ?? 0) + excess * lastLane.comes[i]!)) / outBytesPerSecond
  }
}
