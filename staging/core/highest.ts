// The held amount at each of many points, with fast maxima over long ranges and fast additions to them. In: points. Out: sums. A tree of halves: each
// node has the most below it, and the sum of additions to all of it. Worked example, 4 points: 2 added to [0,3], 3 to [1,1]: the most of [0,1] is 5,
// of [2,3] it is 2.

export class Highest {
  private readonly most: Int32Array
  private readonly added: Int32Array
  private readonly size: number

  constructor(points: number) {
    this.size = 2 ** Math.ceil(Math.log2(Math.max(1, points)))
    this.most = new Int32Array(2 * this.size)
    this.added = new Int32Array(2 * this.size)
  }

  /** The largest amount at the points from `first` to `last`. */
  mostIn(first: number, last: number): number {
    return this.look(1, 0, this.size - 1, first, last)
  }

  add(first: number, last: number, amount: number): void {
    this.change(1, 0, this.size - 1, first, last, amount)
  }

  private look(node: number, lo: number, hi: number, first: number, last: number): number {
    if (first <= lo && hi <= last) return this.most[node]!
    const middle = (lo + hi) >> 1
    const below =
      last <= middle
        ? this.look(2 * node, lo, middle, first, last)
        : first > middle
          ? this.look(2 * node + 1, middle + 1, hi, first, last)
          : Math.max(this.look(2 * node, lo, middle, first, last), this.look(2 * node + 1, middle + 1, hi, first, last))
    return below + this.added[node]!
  }

  private change(node: number, lo: number, hi: number, first: number, last: number, amount: number): void {
    if (first > hi || last < lo) return
    if (first <= lo && hi <= last) {
      this.most[node]! += amount
      this.added[node]! += amount
      return
    }
    const middle = (lo + hi) >> 1
    this.change(2 * node, lo, middle, first, last, amount)
    this.change(2 * node + 1, middle + 1, hi, first, last, amount)
    this.most[node] = Math.max(this.most[2 * node]!, this.most[2 * node + 1]!) + this.added[node]!
  }
}
