// An address space with a list of free blocks. In: sizes to place, from the low or the high end. Out: addresses. Invariant: free blocks are sorted,
// disjoint and, when coalescing, never adjacent. Worked example of best fit, free [0,4) [8,10): 2 bytes are placed at 8, then 3 at 0. After both are
// freed, [0,4) and [8,10) are free.

export interface Block {
  readonly at: number
  readonly bytes: number
}

export class Space {
  private freeBlocks: Block[]

  constructor(
    readonly bytes: number,
    private readonly coalesce = true,
  ) {
    this.freeBlocks = bytes > 0 ? [{ at: 0, bytes }] : []
  }

  get blocks(): readonly Block[] {
    return this.freeBlocks
  }

  /** Returns the low or the high end of the smallest free block that is large enough; undefined if there is none. */
  bestFit(bytes: number, end: 'low' | 'high' = 'low'): Block | undefined {
    let best = -1
    this.freeBlocks.forEach((b, i) => {
      if (b.bytes >= bytes && (best < 0 || b.bytes < this.freeBlocks[best]!.bytes)) best = i
    })
    return best < 0 ? undefined : this.cut(best, bytes, end)
  }

  /** Returns a part of the first block, from one end, that is large enough; undefined if there is none. */
  firstFit(bytes: number, end: 'low' | 'high'): Block | undefined {
    const fits = (b: Block): boolean => b.bytes >= bytes
    const at =
      end === 'low'
        ? this.freeBlocks.findIndex(fits)
        : this.freeBlocks.length - 1 - [...this.freeBlocks].reverse().findIndex(fits)
    return at < 0 || at >= this.freeBlocks.length ? undefined : this.cut(at, bytes, end)
  }

  private cut(i: number, bytes: number, end: 'low' | 'high'): Block {
    const b = this.freeBlocks[i]!
    const rest = b.bytes - bytes
    const taken = { at: end === 'low' ? b.at : b.at + rest, bytes }
    if (rest === 0) this.freeBlocks.splice(i, 1)
    else this.freeBlocks[i] = { at: end === 'low' ? b.at + bytes : b.at, bytes: rest }
    return taken
  }

  free(block: Block): void {
    let i = this.freeBlocks.findIndex((b) => b.at > block.at)
    if (i < 0) i = this.freeBlocks.length
    this.freeBlocks.splice(i, 0, block)
    if (!this.coalesce) return
    for (const k of [i, i - 1]) {
      const [a, b] = [this.freeBlocks[k], this.freeBlocks[k + 1]]
      if (a && b && a.at + a.bytes === b.at) this.freeBlocks.splice(k, 2, { at: a.at, bytes: a.bytes + b.bytes })
    }
  }
}
