// Free gaps between placed items, each with bytes and a lifetime. In: items in any order. Out: the lowest offset that is free throughout a lifetime.
// Each new item is compared with all placed items, perhaps tens of thousands. So placed items are in blocks, in order of offset. A block is skipped
// if no item of it is alive at the time, or if it has no gap that is large enough. Long lives (values that wait for the backward pass) and short ones
// (scratch) are in separate layers, so that the items of a block are alike. An offset is free if it is free in each layer. Worked example, items at
// offsets 0, 2 and 4, each of size 1 and alive [0,9]: the lowest offset is 1 for a size of 1, and 5 for a size of 2.

/** A block of this number of items is split. */
const BLOCK = 64

/** Lives of at most this number of points are in the first layer, lives of at most its square in the second. */
const SHORT = 256

/** The step is divided into this number of parts, one for each bit of a number. */
const PARTS = 32

/** Returns the part of the step that contains a point. */
type PartOf = (point: number) => number

/** Returns a number with the bits of the parts from `first` to `last`. */
const bitsOf = (first: number, last: number): number => (-1 << first) & (-1 >>> (PARTS - 1 - last))

/** Some of the placed items, in order of offset, with totals over them. */
class Block {
  readonly offset: number[] = []
  readonly end: number[] = []
  readonly first: number[] = []
  readonly last: number[] = []
  /** By item: the parts of the step during its life, one bit each. */
  private readonly partsOf: number[] = []
  /** The parts of the step during the life of any item, one bit each. */
  parts = 0
  /** The last of the first points, and the first of the last points: between the two, all items are alive. */
  firstOfAll = -Infinity
  lastOfAll = Infinity
  mostEnd = 0
  /** The largest gap between two items, if all are alive. */
  mostGap = 0

  constructor(private readonly partOf: PartOf) {}

  get count(): number {
    return this.offset.length
  }

  insert(offset: number, end: number, first: number, last: number): void {
    let at = this.count
    while (at > 0 && this.offset[at - 1]! > offset) at--
    this.offset.splice(at, 0, offset)
    this.end.splice(at, 0, end)
    this.first.splice(at, 0, first)
    this.last.splice(at, 0, last)
    this.partsOf.splice(at, 0, bitsOf(this.partOf(first), this.partOf(last)))
    this.sum()
  }

  /** Keeps the lower half and returns a block of the upper half. */
  split(): Block {
    const upper = new Block(this.partOf)
    const half = this.count >> 1
    upper.offset.push(...this.offset.splice(half))
    upper.end.push(...this.end.splice(half))
    upper.first.push(...this.first.splice(half))
    upper.last.push(...this.last.splice(half))
    upper.partsOf.push(...this.partsOf.splice(half))
    this.sum()
    upper.sum()
    return upper
  }

  private sum(): void {
    this.parts = 0
    this.lastOfAll = Infinity
    this.firstOfAll = -Infinity
    this.mostEnd = this.end[0]!
    this.mostGap = 0
    for (let j = 0; j < this.count; j++) {
      this.parts |= this.partsOf[j]!
      if (this.first[j]! > this.firstOfAll) this.firstOfAll = this.first[j]!
      if (this.last[j]! < this.lastOfAll) this.lastOfAll = this.last[j]!
      if (this.offset[j]! - this.mostEnd > this.mostGap) this.mostGap = this.offset[j]! - this.mostEnd
      if (this.end[j]! > this.mostEnd) this.mostEnd = this.end[j]!
    }
  }
}

/** The items with lives of similar length. */
class Layer {
  private readonly blocks: Block[]
  /** The first block that the current search has not passed. The offset of a search only rises. */
  private next = 0

  constructor(private readonly partOf: PartOf) {
    this.blocks = [new Block(partOf)]
  }

  /** Begins a search from offset 0. */
  begin(): void {
    this.next = 0
  }

  /** Returns the lowest offset, at least `from`, at which `size` bytes are free throughout a life. */
  lowestFree(from: number, size: number, first: number, last: number): number {
    let at = from
    const parts = bitsOf(this.partOf(first), this.partOf(last))
    for (; this.next < this.blocks.length; this.next++) {
      const block = this.blocks[this.next]!
      if ((block.parts & parts) === 0 || (block.mostEnd <= at && size > 0)) continue
      if (block.mostGap < size && block.firstOfAll <= last && block.lastOfAll >= first) {
        if (at + size <= block.offset[0]!) return at
        if (block.mostEnd > at) at = block.mostEnd
        continue
      }
      for (let j = 0; j < block.count; j++) {
        if (block.last[j]! < first || block.first[j]! > last) continue
        if (at + size <= block.offset[j]!) return at
        if (block.end[j]! > at) at = block.end[j]!
      }
    }
    return at
  }

  put(offset: number, size: number, first: number, last: number): void {
    let lo = 0
    for (let hi = this.blocks.length - 1; lo < hi; ) {
      const middle = (lo + hi + 1) >> 1
      if (this.blocks[middle]!.offset[0]! <= offset) lo = middle
      else hi = middle - 1
    }
    const block = this.blocks[lo]!
    block.insert(offset, offset + size, first, last)
    if (block.count === BLOCK) this.blocks.splice(lo + 1, 0, block.split())
  }
}

/** All placed items. */
export class Gaps {
  private readonly layers: Layer[] = []
  private readonly partOf: PartOf

  /** Lifetimes are points below `points`. */
  constructor(points: number) {
    const perPart = Math.ceil(points / PARTS)
    this.partOf = (point) => Math.floor(point / perPart)
  }

  /** Returns the lowest offset at which `size` bytes are free throughout a life. */
  lowestFree(size: number, first: number, last: number): number {
    for (const layer of this.layers) layer.begin()
    let at = 0
    for (let before = -1; at !== before; ) {
      before = at
      for (const layer of this.layers) at = layer.lowestFree(at, size, first, last)
    }
    return at
  }

  put(offset: number, size: number, first: number, last: number): void {
    let layer = 0
    for (let points = last - first; points > SHORT; points /= SHORT) layer++
    while (this.layers.length <= layer) this.layers.push(new Layer(this.partOf))
    this.layers[layer]!.put(offset, size, first, last)
  }
}
