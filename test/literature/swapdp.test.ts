// Paper 5's dynamic programme against the best schedule that a search over all of them finds: every choice of activations,
// every instant at which a transfer or an operation could start. Units move in a second each; one transfer at a time.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { chooseSwaps, type SwapChain } from '../../staging/literature/swapdp'

/** The state of a schedule: begun ops, seconds left of the running one, units swapped out and in. */
interface Instant {
  readonly begun: number
  readonly left: number
  readonly out: number
  readonly back: number
}

class Search {
  private readonly ops: number
  private readonly total: number

  constructor(
    private readonly c: SwapChain,
    private readonly swapOut: readonly boolean[],
  ) {
    this.ops = 2 * c.x.length
    this.total = c.x.reduce((n, x, i) => n + (swapOut[i] ? x : 0), 0)
  }

  private size(i: number): number {
    return this.c.x[i] ?? 0
  }
  private seconds(op: number): number {
    const n = this.c.x.length
    return op < n ? this.c.forward[op]! : this.c.backward[2 * n - 1 - op]!
  }

  /** Units of activations swapped out before the i-th: the order of their swaps. */
  private before(i: number): number {
    return this.c.x.slice(0, i).reduce((n, x, j) => n + (this.swapOut[j] ? x : 0), 0)
  }

  /** Units on the device; an op's scratch counts while it runs. */
  private held({ begun, left, out, back }: Instant): number {
    const n = this.c.x.length
    const running = left > 0 ? begun - 1 : -1
    const done = left > 0 ? begun - 1 : begun
    // x_{i+1} is there from the start of F_i to the end of B_i.
    let units = 0
    for (let i = 0; i < n; i++) {
      const made = i === 0 || begun >= i
      const gone = done >= 2 * n - (i === 0 ? 0 : i - 1)
      if (made && !gone) units += this.size(i)
    }
    const returned = Math.min(back, this.total)
    const extra = running < 0 ? 0 : running < n ? this.c.forwardExtra[running]! : this.c.backwardExtra[2 * n - 1 - running]!
    // Units that came back and were used are counted as gone with their activation; so are those that left.
    let away = 0
    for (let i = 0; i < n; i++) {
      if (!this.swapOut[i] || done >= 2 * n - (i === 0 ? 0 : i - 1)) continue
      // F_i reads x_i whole: its swapped part is freed after F_i.
      const went = done > i ? Math.max(0, Math.min(this.size(i), out - this.before(i))) : 0
      const after = this.total - this.before(i) - this.size(i)
      const came = Math.max(0, Math.min(this.size(i), returned - after))
      away += went - came
    }
    return units - away + extra
  }

  private mayStart(i: Instant): boolean {
    const n = this.c.x.length
    const op = i.begun
    if (op >= n) {
      const j = 2 * n - 1 - op
      // B_j reads x_j, which must be back or never have left; a partly swapped one must have left whole before it comes back.
      if (this.swapOut[j] && i.back < this.total - this.before(j)) return false
    }
    return this.held({ ...i, begun: op + 1, left: Math.max(1, this.seconds(op)) }) <= this.c.limit
  }

  /** The least number of seconds of the step. */
  makespan(): number {
    let now = new Map<string, Instant>()
    const key = (i: Instant): string => `${i.begun} ${i.left} ${i.out} ${i.back}`
    const start: Instant = { begun: 0, left: 0, out: 0, back: 0 }
    now.set(key(start), start)
    for (let t = 0; t < 200; t++) {
      // Ops that take no time, and starts.
      const open = [...now.values()]
      for (let i = open.pop(); i; i = open.pop()) {
        if (i.left > 0) continue
        if (i.begun === this.ops && i.out === this.total && i.back === this.total) return t
        if (i.begun === this.ops || !this.mayStart(i)) continue
        const next = { ...i, begun: i.begun + 1, left: this.seconds(i.begun) }
        if (now.has(key(next))) continue
        now.set(key(next), next)
        open.push(next)
      }
      const later = new Map<string, Instant>()
      for (const i of now.values())
        for (const [out, back] of [
          [0, 0],
          [1, 0],
          [0, 1],
        ] as const) {
          const moved = { begun: i.begun, left: Math.max(0, i.left - 1), out: i.out + out, back: i.back + back }
          if (moved.out > this.total || moved.back > this.total) continue
          if (out && !this.canLeave(i)) continue
          // One direction, then the other: a returning value has left.
          if (back && (i.out < this.total || this.held({ ...i, back: i.back + 1 }) > this.c.limit)) continue
          later.set(key(moved), moved)
        }
      now = later
    }
    return Infinity
  }

  /** The next unit to leave belongs to an activation that is made. */
  private canLeave(i: Instant): boolean {
    const n = this.c.x.length
    const finished = i.left > 0 ? i.begun - 1 : i.begun
    for (let j = 0; j < n; j++)
      if (this.swapOut[j] && i.out >= this.before(j) && i.out < this.before(j) + this.size(j)) return j === 0 || finished >= j
    return false
  }
}

const choices = (n: number): readonly (readonly boolean[])[] =>
  Array.from({ length: 2 ** n }, (_, bits) => Array.from({ length: n }, (_, i) => (bits & (1 << i)) !== 0))

const computeOf = (c: SwapChain): number => [...c.forward, ...c.backward].reduce((a, b) => a + b, 0)

const small = (n: number): fc.Arbitrary<SwapChain> => {
  const list = (min: number, max: number) => fc.array(fc.integer({ min, max }), { minLength: n, maxLength: n })
  return fc.record({
    x: list(1, 3),
    forward: list(1, 3),
    backward: list(1, 3),
    forwardExtra: list(0, 1),
    backwardExtra: list(0, 2),
    limit: fc.integer({ min: 5, max: 9 }),
    out: fc.constant(1),
    in: fc.constant(1),
  })
}

test('the worked example: of 2 2 2 in a limit of 5, the first leaves', () => {
  const c = {
    x: [2, 2, 2],
    forward: [2, 2, 2],
    backward: [2, 2, 2],
    forwardExtra: [0, 0, 0],
    backwardExtra: [0, 0, 0],
    out: 1,
    in: 1,
    limit: 5,
  }
  // It is out by the end of F_0. While B_1 runs only one unit of it has room: B_0 waits a second for the other.
  assert.equal(chooseSwaps(c), { swapOut: [true, false, false], idleSeconds: 1 })
  assert.is(new Search(c, [true, false, false]).makespan(), 13)
  const slow = { ...c, forward: [1, 1, 1], backward: [1, 1, 1] }
  const choice = chooseSwaps(slow)!
  assert.is(new Search(slow, choice.swapOut).makespan(), 6 + choice.idleSeconds)
})

test('too small a limit has no choice', () => {
  const c = { x: [3, 3], forward: [1, 1], backward: [1, 1], forwardExtra: [0, 0], backwardExtra: [0, 0], out: 1, in: 1, limit: 5 }
  assert.is(chooseSwaps(c), null)
  assert.ok(choices(2).every((o) => new Search(c, o).makespan() === Infinity))
})

test('the choice is the best of all choices, and its time is as stated', () => {
  let solved = 0
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 4 }).chain(small), (c) => {
      const best = Math.min(...choices(c.x.length).map((o) => new Search(c, o).makespan()))
      const choice = chooseSwaps(c)
      if (!choice) {
        assert.is(best, Infinity)
        return
      }
      solved++
      assert.is(computeOf(c) + choice.idleSeconds, best, JSON.stringify(choice))
    }),
    { numRuns: process.env['SPILLWAY_FULL'] === '1' ? 2000 : 150, seed: 11 },
  )
  assert.ok(solved > 50)
})

test.run()
