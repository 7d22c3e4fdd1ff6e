// An address space whose free blocks are kept apart and joined again. In: sizes to place, from the low or the high end. Out:
// addresses. Invariant: free blocks are sorted, disjoint and, when coalescing, never touch each other.
// Worked example of best fit, free [0,4) [8,10): 2 goes to 8, then 3 to 0; given back, [0,4) and [8,10) are there again.

export interface Block {
  readonly at: number
  readonly bytes: number
}

export class Space {
  private free: Block[]

  constructor(
    readonly bytes: number,
    private readonly coalesce = true,
  ) {
    this.free = bytes > 0 ? [{ at: 0, bytes }] : []
  }

  get blocks(): readonly Block[] {
    return this.free
  }

  /** The smallest block that is large enough, cut from its low or its high end; undefined when there is none. */
  bestFit(bytes: number, end: 'low' | 'high' = 'low'): Block | undefined {
    let best = -1
    this.free.forEach((b, i) => {
      if (b.bytes >= bytes && (best < 0 || b.bytes < this.free[best]!.bytes)) best = i
    })
    return best < 0 ? undefined : this.cut(best, bytes, end)
  }

  /** The first block from one end that is large enough. */
  firstFit(bytes: number, end: 'low' | 'high'): Block | undefined {
    const fits = (b: Block): boolean => b.bytes >= bytes
    const at = end === 'low' ? this.free.findIndex(fits) : this.free.length - 1 - [...this.free].reverse().findIndex(fits)
    return at < 0 || at >= this.free.length ? undefined : this.cut(at, bytes, end)
  }

  private cut(i: number, bytes: number, end: 'low' | 'high'): Block {
    const b = this.free[i]!
    const rest = b.bytes - bytes
    const taken = { at: end === 'low' ? b.at : b.at + rest, bytes }
    if (rest === 0) this.free.splice(i, 1)
    else this.free[i] = { at: end === 'low' ? b.at + bytes : b.at, bytes: rest }
    return taken
  }

  give(block: Block): void {
    let i = this.free.findIndex((b) => b.at > block.at)
    if (i < 0) i = this.free.length
    this.free.splice(i, 0, block)
    if (!this.coalesce) return
    for (const k of [i, i - 1]) {
      const [a, b] = [this.free[k], this.free[k + 1]]
      if (a && b && a.at + a.bytes === b.at) this.free.splice(k, 2, { at: a.at, bytes: a.bytes + b.bytes })
    }
  }
}
