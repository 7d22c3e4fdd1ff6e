// Which activations of a chain to swap out: the dynamic programme of paper 5, section 5, for transfers that may be interrupted.
// In: a chain in units of memory. Out: the choice with the least idle time; null if none fits. F_i reads x_i and makes x_{i+1},
// B_i reads both. A state before F_i: units kept, backlog out, backlog in (negative: how long that direction has been idle).
// Invariant: of states that keep as much, one with no larger backlogs and no more idle time is as good for all that follows,
// so each keeps a Pareto front and the result is exact. Worked example: test/literature/swapdp.test.ts.

export interface SwapChain {
  readonly x: readonly number[]
  /** Units that the link can move while F_i and B_i run. */
  readonly forward: readonly number[]
  readonly backward: readonly number[]
  readonly forwardExtra: readonly number[]
  readonly backwardExtra: readonly number[]
  /** Units a second. */
  readonly out: number
  readonly in: number
  readonly limit: number
}

export interface SwapChoice {
  readonly swapOut: readonly boolean[]
  readonly idleSeconds: number
}

const positive = (x: number): number => Math.max(0, x)
const EPSILON = 1e-9

interface Column<A> {
  readonly length: number
  readonly constructor: unknown
  set(from: A): void
}
const longer = <A extends Column<A>>(column: A): A => {
  const twice: A = new (column.constructor as new (n: number) => A)(2 * column.length)
  twice.set(column)
  return twice
}

/** A state is a row of columns: there are hundreds of thousands, and each is kept for those that come from it. */
class States {
  kept = new Float64Array(1024)
  out = new Float64Array(1024)
  into = new Float64Array(1024)
  idle = new Float64Array(1024)
  swappedOut = new Uint8Array(1024)
  /** The row that it comes from, -1 for the first. */
  from = new Int32Array(1024)
  private count = 0

  push(kept: number, out: number, into: number, idle: number, swappedOut: boolean, from: number): number {
    const at = this.count++
    if (at === this.kept.length) this.grow()
    this.kept[at] = kept
    this.out[at] = out
    this.into[at] = into
    this.idle[at] = idle
    this.swappedOut[at] = swappedOut ? 1 : 0
    this.from[at] = from
    return at
  }

  private grow(): void {
    this.kept = longer(this.kept)
    this.out = longer(this.out)
    this.into = longer(this.into)
    this.idle = longer(this.idle)
    this.swappedOut = longer(this.swappedOut)
    this.from = longer(this.from)
  }
}

/** Rows of the states before one F_i, by their kept values. */
class Front {
  private readonly byKept = new Map<number, number[]>()

  constructor(readonly states: States) {}

  add(kept: number, out: number, into: number, idle: number, swappedOut: boolean, from: number): void {
    const { states } = this
    const list = this.byKept.get(kept)
    if (!list) {
      this.byKept.set(kept, [states.push(kept, out, into, idle, swappedOut, from)])
      return
    }
    let left = 0
    for (const o of list) {
      const [oOut, oIn, oIdle] = [states.out[o]!, states.into[o]!, states.idle[o]!]
      if (oOut <= out && oIn <= into && oIdle <= idle) return
      if (!(out <= oOut && into <= oIn && idle <= oIdle)) list[left++] = o
    }
    list.length = left
    list.push(states.push(kept, out, into, idle, swappedOut, from))
  }

  each(f: (row: number) => void): void {
    for (const list of this.byKept.values()) for (let k = 0; k < list.length; k++) f(list[k]!)
  }
}

/** Equations 1 to 8: the waits around F_i and B_i, and the state after them with x_i swapped out or not. */
const step = (c: SwapChain, i: number, s: number, next: Front): void => {
  const { states } = next
  const [kept, out, into] = [states.kept[s]!, states.out[s]!, states.into[s]!]
  const x = c.x[i]!
  const after = c.x[i + 1] ?? 0
  const short = kept + x + after - c.limit
  const shortOut = positive(short + positive(out) + c.forwardExtra[i]!)
  const shortIn = positive(short + positive(into) + c.backwardExtra[i]!)
  if (shortOut > positive(out) + EPSILON || shortIn > positive(into) + EPSILON) return
  const idle = states.idle[s]! + shortOut / c.out + shortIn / c.in
  const movedOut = shortOut + c.forward[i]!
  const movedIn = shortIn + c.backward[i]!
  next.add(kept + x, out - movedOut, into - movedIn, idle, false, s)
  next.add(kept, positive(out) + x - movedOut, x + positive(into - movedIn), idle, true, s)
}

/** Equations 9 and 10: the wait between F_L and B_L. While one direction still works the other's ops may run, if they have room. */
const turn = (c: SwapChain, s: { readonly kept: number; readonly out: number; readonly in: number }): number => {
  if (s.out <= 0 && s.in <= 0) return 0
  if (s.out > 0 && s.in > 0) return s.out / c.out + s.in / c.in
  const leaving = s.out > 0
  const [backlog, rate, otherIdle] = leaving ? [s.out, c.out, -s.in / c.in] : [s.in, c.in, -s.out / c.out]
  const [moves, extra, otherRate] = leaving ? [c.backward, c.backwardExtra, c.in] : [c.forward, c.forwardExtra, c.out]
  let wait = positive(backlog / rate - otherIdle)
  let past = 0
  let dropped = 0
  for (let j = c.x.length - 1; j >= 0 && past < otherIdle; j--) {
    // At B_j, x_i with i > j + 1 has been released; at F_j, it is not computed yet.
    if (j + 2 < c.x.length) dropped += c.x[j + 2]!
    wait = Math.max(wait, (s.kept + backlog + extra[j]! - dropped - c.limit) / rate - past)
    past += moves[j]! / otherRate
  }
  return wait
}

export const chooseSwaps = (c: SwapChain): SwapChoice | null => {
  const states = new States()
  let front = new Front(states)
  front.add(0, 0, 0, 0, false, -1)
  for (let i = 0; i < c.x.length; i++) {
    const next = new Front(states)
    front.each((s) => step(c, i, s, next))
    front = next
  }
  let best = -1
  let least = Infinity
  front.each((s) => {
    const idle = states.idle[s]! + turn(c, { kept: states.kept[s]!, out: states.out[s]!, in: states.into[s]! })
    if (idle < least) {
      best = s
      least = idle
    }
  })
  if (best < 0) return null
  const swapOut: boolean[] = []
  for (let s = best; states.from[s]! >= 0; s = states.from[s]!) swapOut.unshift(states.swappedOut[s] === 1)
  return { swapOut, idleSeconds: least }
}
