// Which activations of a chain to swap out: the dynamic programme of paper 5, section 5, for transfers that may be interrupted.
// In: a chain in units of memory. Out: the choice with the least idle time; null if none fits. F_i reads x_i and makes x_{i+1},
// B_i reads both. A state before F_i: units kept, backlog out, backlog in (negative: how long that direction has been idle).
// Invariant: of states that keep as much, one with no larger backlogs and no more idle time is as good for all that follows,
// so each keeps a Pareto front and the result is exact. Worked example: test/schedule/swapdp.test.ts.

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

interface State {
  readonly kept: number
  readonly out: number
  readonly in: number
  readonly idle: number
  readonly swappedOut: boolean
  readonly from: State | null
}

const positive = (x: number): number => Math.max(0, x)
const EPSILON = 1e-9

class Front {
  readonly byKept = new Map<number, State[]>()

  add(s: State): void {
    const list = this.byKept.get(s.kept)
    if (!list) {
      this.byKept.set(s.kept, [s])
      return
    }
    let kept = 0
    for (const o of list) {
      if (o.out <= s.out && o.in <= s.in && o.idle <= s.idle) return
      if (!(s.out <= o.out && s.in <= o.in && s.idle <= o.idle)) list[kept++] = o
    }
    list.length = kept
    list.push(s)
  }

  *states(): Generator<State> {
    for (const list of this.byKept.values()) yield* list
  }
}

/** Equations 1 to 8: the waits around F_i and B_i, and the state after them with x_i swapped out or not. */
const step = (c: SwapChain, i: number, s: State, next: Front): void => {
  const x = c.x[i]!
  const after = c.x[i + 1] ?? 0
  const short = s.kept + x + after - c.limit
  const shortOut = positive(short + positive(s.out) + c.forwardExtra[i]!)
  const shortIn = positive(short + positive(s.in) + c.backwardExtra[i]!)
  if (shortOut > positive(s.out) + EPSILON || shortIn > positive(s.in) + EPSILON) return
  const idle = s.idle + shortOut / c.out + shortIn / c.in
  const movedOut = shortOut + c.forward[i]!
  const movedIn = shortIn + c.backward[i]!
  next.add({ kept: s.kept + x, out: s.out - movedOut, in: s.in - movedIn, idle, swappedOut: false, from: s })
  next.add({
    kept: s.kept,
    out: positive(s.out) + x - movedOut,
    in: x + positive(s.in - movedIn),
    idle,
    swappedOut: true,
    from: s,
  })
}

/** Equations 9 and 10: the wait between F_L and B_L. While one direction still works the other's ops may run, if they have room. */
const turn = (c: SwapChain, s: State): number => {
  if (s.out <= 0 && s.in <= 0) return 0
  if (s.out > 0 && s.in > 0) return s.out / c.out + s.in / c.in
  const leaving = s.out > 0
  const [backlog, rate, otherIdle] = leaving ? [s.out, c.out, -s.in / c.in] : [s.in, c.in, -s.out / c.out]
  const [moves, extra, otherRate] = leaving ? [c.backward, c.backwardExtra, c.in] : [c.forward, c.forwardExtra, c.out]
  let wait = positive(backlog / rate - otherIdle)
  let past = 0
  let gone = 0
  for (let j = c.x.length - 1; j >= 0 && past < otherIdle; j--) {
    // x_i with i > j + 1 is gone by B_j, or not yet made at F_j.
    if (j + 2 < c.x.length) gone += c.x[j + 2]!
    wait = Math.max(wait, (s.kept + backlog + extra[j]! - gone - c.limit) / rate - past)
    past += moves[j]! / otherRate
  }
  return wait
}

export const chooseSwaps = (c: SwapChain): SwapChoice | null => {
  let front = new Front()
  front.add({ kept: 0, out: 0, in: 0, idle: 0, swappedOut: false, from: null })
  for (let i = 0; i < c.x.length; i++) {
    const next = new Front()
    for (const s of front.states()) step(c, i, s, next)
    front = next
  }
  let best: State | null = null
  let least = Infinity
  for (const s of front.states()) {
    const idle = s.idle + turn(c, s)
    if (idle < least) {
      best = s
      least = idle
    }
  }
  if (!best) return null
  const swapOut: boolean[] = []
  for (let s = best; s.from; s = s.from) swapOut.unshift(s.swappedOut)
  return { swapOut, idleSeconds: least }
}
