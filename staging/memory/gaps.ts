// Gaps between what is placed, each item with bytes and a life. In: items in any order. Out: the lowest offset that is free throughout a life.
// Every new item looks at all that is placed, of which there may be tens of thousands: what is placed lies in blocks, in order of offset, and
// of a block of which nothing lives then, or all of it without a large enough gap, nothing more need be looked at.
// Worked example, at offsets 0, 2 and 4, each of size 1 and alive [0,9]: 1 is the lowest for a size of 1, 5 for a size of 2.

/** Items in a block, when it becomes two. */
const BLOCK = 64

/** Some of what is placed, in order of offset, and what is known of all of it. */
class Block {
  readonly offset: number[] = []
  readonly end: number[] = []
  readonly first: number[] = []
  readonly last: number[] = []
  /** The first and the last that any of it lives, and from when to when all of it does. */
  firstOfAny = Infinity
  lastOfAny = -Infinity
  firstOfAll = -Infinity
  lastOfAll = Infinity
  mostEnd = 0
  /** No gap between two of them is larger. */
  mostGap = 0

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
    this.sum()
  }

  /** Leaves one half, and gives the other. */
  split(): Block {
    const upper = new Block()
    const half = this.count >> 1
    upper.offset.push(...this.offset.splice(half))
    upper.end.push(...this.end.splice(half))
    upper.first.push(...this.first.splice(half))
    upper.last.push(...this.last.splice(half))
    this.sum()
    upper.sum()
    return upper
  }

  private sum(): void {
    this.firstOfAny = this.lastOfAll = Infinity
    this.lastOfAny = this.firstOfAll = -Infinity
    this.mostEnd = this.end[0]!
    this.mostGap = 0
    for (let j = 0; j < this.count; j++) {
      const [first, last] = [this.first[j]!, this.last[j]!]
      if (first < this.firstOfAny) this.firstOfAny = first
      if (first > this.firstOfAll) this.firstOfAll = first
      if (last > this.lastOfAny) this.lastOfAny = last
      if (last < this.lastOfAll) this.lastOfAll = last
      if (this.offset[j]! - this.mostEnd > this.mostGap) this.mostGap = this.offset[j]! - this.mostEnd
      if (this.end[j]! > this.mostEnd) this.mostEnd = this.end[j]!
    }
  }
}

/** What is placed so far. */
export class Gaps {
  private readonly blocks: Block[] = [new Block()]

  /** The lowest offset at which `size` bytes are free throughout a life. */
  lowestFree(size: number, first: number, last: number): number {
    let at = 0
    for (const block of this.blocks) {
      if (block.lastOfAny < first || block.firstOfAny > last || (block.mostEnd <= at && size > 0)) continue
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
