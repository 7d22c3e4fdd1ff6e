// The copies of a step in the model. In: the bytes that come and leave in each loop. Out: seconds that a loop waits for them. A lane is the queue of
// one link. If the lower tier has two places, each has a lane: the value with the farthest next reader goes to the second place (`Places`).
// Worked example, 4 GiB of host memory and a disk: three values of 2 GiB leave one after the other and return in reverse order. The first one is
// away for the longest time, so it goes to the disk.
import type { ValueId } from '../graph/graph'
import type { Link } from '../graph/machine'

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
    this.left = Math.min(this.releasedUpTo[i]!, before + seconds * out)
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

interface Copy {
  readonly value: ValueId
  readonly loop: number
  readonly bytes: number
  /** The loop that makes the bytes; -1 if they come. */
  readonly made: number
}

/** A limited first place, and the place beyond it. Without a disk, the bytes beyond it count as a lack. */
export class Places {
  readonly far: Lane
  /** Bytes of the first place. */
  private readonly bytes: number
  private copies: Copy[] = []
  private held = 0
  private farthest = -1
  private space = 0
  private homesShare = 0
  /** By value: bytes in either place, and bytes that ever left. */
  private readonly near: Float64Array
  private readonly beyond: Float64Array
  private readonly sent: Float64Array
  /** Linked lists of the values in the first place, by their next reader. */
  private readonly first: Int32Array
  private readonly behind: Int32Array

  constructor(
    loops: number,
    values: number,
    link: Link,
    private readonly lane: Lane,
  ) {
    this.far = new Lane(loops, link.beyond ?? link)
    this.bytes = link.bytes!
    this.near = new Float64Array(values)
    this.beyond = new Float64Array(values)
    this.sent = new Float64Array(values)
    this.first = new Int32Array(loops)
    this.behind = new Int32Array(values)
  }

  /** Before the first loop. Parameters have permanent places before all other values. */
  start(homeBytes: number): void {
    this.far.clear()
    this.copies = []
    this.held = 0
    this.farthest = -1
    this.homesShare = homeBytes > this.bytes ? 1 - this.bytes / homeBytes : 0
    this.space = Math.max(0, this.bytes - homeBytes)
    this.near.fill(0)
    this.beyond.fill(0)
    this.sent.fill(0)
    this.first.fill(-1)
  }

  /** All values with this next reader follow one after the other. */
  reach(i: number): void {
    this.first[i] = -1
  }

  comes(value: ValueId, loop: number, bytes: number): void {
    this.copies.push({ value, loop, bytes, made: -1 })
  }

  /** Part of a parameter's copy: `bytes` in, or out if a loop made them. */
  home(loop: number, bytes: number, made = -1): void {
    const part = this.homesShare * bytes
    if (part > 0) this.shift(loop, part, made)
  }

  /** Now another loop is the next reader of a value, or none (-1). */
  reads(value: ValueId, next: number): void {
    if (this.near[value] === 0) return
    if (next >= 0) this.insert(value, next)
    else this.drop(value)
  }

  /** The copy of a value is no longer valid. */
  drop(value: ValueId): void {
    this.held -= this.near[value]!
    this.near[value] = 0
  }

  private insert(value: ValueId, next: number): void {
    this.behind[value] = this.first[next]!
    this.first[next] = value
    if (next > this.farthest) this.farthest = next
  }

  leaves(value: ValueId, loop: number, made: number, next: number, bytes: number): void {
    this.copies.push({ value, loop, bytes, made })
    if (this.near[value] === 0) this.insert(value, next)
    this.near[value]! += bytes
    this.sent[value]! += bytes
    this.held += bytes
    while (this.held > this.space && this.farthest > loop) {
      const other = this.first[this.farthest]!
      if (other < 0) {
        this.farthest--
        continue
      }
      const part = Math.min(this.near[other]!, this.held - this.space)
      this.near[other]! -= part
      this.beyond[other]! += part
      this.held -= part
      if (this.near[other] === 0) this.first[this.farthest] = this.behind[other]!
    }
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

  /** After the last loop: moves the copies of the second place to its lane. Each copy of a value has the same share. */
  settle(): void {
    const { beyond, sent } = this
    for (const { value, loop, bytes, made } of this.copies)
      if (beyond[value]! > 0) this.shift(loop, (bytes * beyond[value]!) / sent[value]!, made)
  }
}
