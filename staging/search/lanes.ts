// The copies of a step in the model. In: the bytes that come and leave in each loop. Out: seconds that a loop waits for them. A lane is the queue of
// one link. If the lower tier has two places, each has a lane: the value that is read last goes to the second place (`Places`).
// Worked example, 4 GiB of host memory and a disk: three values of 2 GiB leave one after the other and return in reverse order. The first one is
// away for the longest time, so it goes to the disk.
import type { ValueId } from '../graph/graph'
import type { Link } from '../graph/machine'
import type { TierLack } from '../schedule/candidate'

type Rates = Pick<Link, 'inBytesPerSecond' | 'outBytesPerSecond' | 'fullDuplex'>

export class Lane {
  /** By loop: bytes that must be there, and bytes that leave. */
  readonly comes: Float64Array
  readonly leaves: Float64Array
  /** By loop: its results that leave, in this loop or later. */
  readonly released: Float64Array
  /** Seconds of copies that a loop waits for, after `look`. */
  coming = 0
  leaving = 0
  private readonly releasedUpTo: Float64Array
  private ahead = 0
  private left = 0
  private owed = 0

  constructor(
    loops: number,
    private readonly rates: Rates,
  ) {
    this.comes = new Float64Array(loops)
    this.leaves = new Float64Array(loops)
    this.released = new Float64Array(loops)
    this.releasedUpTo = new Float64Array(loops)
  }

  clear(): void {
    this.comes.fill(0)
    this.leaves.fill(0)
    this.released.fill(0)
  }

  /** Before the first of these loops. */
  start(heads: readonly number[]): void {
    let all = 0
    for (const i of heads) {
      all += this.released[i]!
      this.releasedUpTo[i] = all
    }
    this.ahead = this.left = this.owed = 0
  }

  /** Copies out run in the order of their loops. `due`: the last loop whose results must have left, or -1. */
  private behind(due: number): number {
    return due < 0 ? 0 : Math.max(0, this.releasedUpTo[due]! - this.left)
  }

  /** Before a loop with this number of free bytes. */
  look(i: number, free: number, due: number): void {
    this.owed += this.leaves[i]!
    this.coming = Math.max(0, this.comes[i]! - this.ahead) / this.rates.inBytesPerSecond
    const { owed } = this
    this.leaving = owed > free / 2 ? ((this.behind(due) / this.rates.outBytesPerSecond) * (owed - free / 2)) / owed : 0
  }

  get moving(): number {
    return this.rates.fullDuplex ? Math.max(this.coming, this.leaving) : this.coming + this.leaving
  }

  /** After a loop of these seconds. */
  pass(i: number, free: number, seconds: number, due: number): void {
    const { inBytesPerSecond: into, outBytesPerSecond: out, fullDuplex } = this.rates
    const before = this.left
    const outSeconds = fullDuplex ? seconds : Math.max(0, seconds - this.coming)
    this.left = Math.min(this.releasedUpTo[i]!, before + outSeconds * out)
    const inSeconds = fullDuplex ? seconds : seconds - (this.left - before) / out
    this.ahead = Math.min(free / 2, Math.max(0, this.ahead + inSeconds * into - this.comes[i]!))
    this.owed = Math.min(this.owed, this.behind(due))
  }

  /** Seconds of copies out after the last loop. */
  get rest(): number {
    return Math.max(0, this.owed) / this.rates.outBytesPerSecond
  }

  get allLeave(): number {
    return this.leaves.reduce((n, b) => n + b, 0)
  }

  copySeconds(i: number): number {
    return Math.max(this.comes[i]! / this.rates.inBytesPerSecond, this.leaves[i]! / this.rates.outBytesPerSecond)
  }
}

/** A copy of a value in the lower tier: from the loop after which it leaves to the last loop that reads it there. */
interface Slot {
  readonly from: number
  to: number
  bytes: number
  /** Bytes in the second place, and bytes that find no place. */
  far: number
  lacking: number
}

interface Copy {
  readonly slot: Slot
  readonly loop: number
  readonly bytes: number
  /** The loop that makes the bytes; -1 if they come. */
  readonly made: number
}

/** A limited first place, and a second one beyond it. */
export class Places {
  readonly far: Lane
  /** By loop: the bytes that it reads and that find no place. */
  readonly lacks: Float64Array
  private copies: Copy[] = []
  private readonly slotOf: (Slot | undefined)[]
  /** The shares of parameters in the second place and without a place. */
  private homesFar = 0
  private homesLacking = 0
  /** Bytes for other values. */
  private space = 0
  private farSpace = 0
  /** By loop: the slots that begin after it, those in the first place that end before it, the bytes that end before it in each place. */
  private readonly begins: Slot[][]
  private readonly ends: Slot[][]
  private readonly nearEnds: Float64Array
  private readonly farEnds: Float64Array

  constructor(
    loops: number,
    values: number,
    private readonly link: Link,
    private readonly lane: Lane,
  ) {
    this.far = new Lane(loops, link.beyond ?? link)
    this.lacks = new Float64Array(loops)
    this.slotOf = new Array<undefined>(values).fill(undefined)
    this.begins = Array.from({ length: loops }, () => [])
    this.ends = Array.from({ length: loops }, () => [])
    this.nearEnds = new Float64Array(loops)
    this.farEnds = new Float64Array(loops)
  }

  /** Before the first loop. Parameters have permanent places before all other values. */
  start(homeBytes: number, reserves: Readonly<Record<TierLack['of'], number>>): void {
    const { bytes = Infinity, beyond } = this.link
    const farBytes = beyond ? (beyond.bytes ?? Infinity) : 0
    const farHomes = Math.min(farBytes, Math.max(0, homeBytes - bytes))
    const lacking = Math.max(0, homeBytes - bytes - farHomes)
    this.homesFar = farHomes / Math.max(1, homeBytes)
    this.homesLacking = lacking / Math.max(1, homeBytes)
    this.space = Math.max(0, bytes - homeBytes - reserves['host memory'])
    this.farSpace = Math.max(0, farBytes - farHomes - reserves['the disk'])
    this.far.clear()
    this.lacks.fill(0)
    this.slotOf.fill(undefined)
    this.copies = []
    for (const slots of this.begins) slots.length = 0
  }

  comes(value: ValueId, loop: number, bytes: number): void {
    const slot = this.slotOf[value]
    if (!slot) return
    slot.to = Math.max(slot.to, loop)
    this.copies.push({ slot, loop, bytes, made: -1 })
  }

  /** Part of a parameter's copy: `bytes` in, or out if a loop made them. */
  home(loop: number, bytes: number, made = -1): void {
    if (this.homesFar > 0) this.shift(loop, this.homesFar * bytes, made)
    if (made < 0) this.lacks[loop]! += this.homesLacking * bytes
  }

  /** The copy of a value is no longer valid. */
  drop(value: ValueId): void {
    this.slotOf[value] = undefined
  }

  /** A value leaves in a loop, for the next one that reads it. Its copy begins after the loop that last touched it. */
  leaves(
    value: ValueId,
    { loop, touched, made, next, bytes }: { loop: number; touched: number; made: number; next: number; bytes: number },
  ): void {
    let slot = this.slotOf[value]
    if (!slot) {
      slot = { from: touched, to: next, bytes: 0, far: 0, lacking: 0 }
      this.slotOf[value] = slot
      this.begins[touched]!.push(slot)
    }
    slot.to = Math.max(slot.to, next)
    slot.bytes += bytes
    this.copies.push({ slot, loop, bytes, made })
  }

  private shift(loop: number, bytes: number, made: number): void {
    const { lane, far } = this
    if (made < 0) {
      lane.comes[loop]! -= bytes
      far.comes[loop]! += bytes
      return
    }
    lane.leaves[loop]! -= bytes
    far.leaves[loop]! += bytes
    lane.released[made]! -= bytes
    far.released[made]! += bytes
  }

  /** After the last loop: gives each copy a place, and moves the copies of the second place to its lane. Each copy of a value has the same share. */
  settle(heads: readonly number[]): void {
    this.place(heads)
    for (const { slot, loop, bytes, made } of this.copies) {
      if (slot.far > 0) this.shift(loop, (bytes * slot.far) / slot.bytes, made)
      if (made < 0) this.lacks[loop]! += (bytes * slot.lacking) / slot.bytes
    }
  }

  /** If the first place is full, the slot that ends last goes to the second one. */
  private place(heads: readonly number[]): void {
    const { begins, ends, nearEnds, farEnds, space, farSpace } = this
    for (const slots of ends) slots.length = 0
    nearEnds.fill(0)
    farEnds.fill(0)
    let [near, far, last] = [0, 0, -1]
    for (const i of heads) {
      near -= nearEnds[i]!
      far -= farEnds[i]!
      for (const slot of begins[i]!) {
        near += slot.bytes
        nearEnds[slot.to]! += slot.bytes
        ends[slot.to]!.push(slot)
        last = Math.max(last, slot.to)
      }
      while (near > space && last > i) {
        const slot = ends[last]!.at(-1)
        if (!slot) {
          last--
          continue
        }
        const here = slot.bytes - slot.far - slot.lacking
        const part = Math.min(here, near - space)
        const toFar = Math.min(part, Math.max(0, farSpace - far))
        slot.far += toFar
        slot.lacking += part - toFar
        near -= part
        nearEnds[last]! -= part
        far += toFar
        farEnds[last]! += toFar
        if (part === here) ends[last]!.pop()
      }
    }
  }
}
