// A binary heap: push in any order, pop the foremost first; of equals, the one that was pushed first.
// In: items and which of two comes out before the other. Invariant: no item comes out before the one above it.

interface Entry<T> {
  readonly item: T
  readonly age: number
}

export class Heap<T> {
  private readonly entries: Entry<T>[] = []
  private pushed = 0

  constructor(private readonly before: (a: T, b: T) => boolean) {}

  get size(): number {
    return this.entries.length
  }

  push(item: T): void {
    this.entries.push({ item, age: this.pushed++ })
    for (let i = this.entries.length - 1; i > 0; ) {
      const above = (i - 1) >> 1
      if (!this.swapIfBefore(i, above)) return
      i = above
    }
  }

  pop(): T | undefined {
    const top = this.entries[0]
    const last = this.entries.pop()
    if (!top || !last || this.entries.length === 0) return top?.item
    this.entries[0] = last
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2]
      const next = right < this.entries.length && this.isBefore(right, left) ? right : left
      if (next >= this.entries.length || !this.swapIfBefore(next, i)) return top.item
      i = next
    }
  }

  private isBefore(i: number, j: number): boolean {
    const [a, b] = [this.entries[i]!, this.entries[j]!]
    return this.before(a.item, b.item) || (!this.before(b.item, a.item) && a.age < b.age)
  }

  private swapIfBefore(i: number, j: number): boolean {
    if (!this.isBefore(i, j)) return false
    const moved = this.entries[i]!
    this.entries[i] = this.entries[j]!
    this.entries[j] = moved
    return true
  }
}
