// The starts of swaps in: the mirror image of swapouts.ts, one walk backward through the step. In: residencies, held pages at each call, the busy
// seconds of the link during each. Out: each residency's acquire: the latest without a wait, or as the budget allows. Worked example: x is needed at
// call 6 and takes two calls' time: it starts at point 4; if only point 5 has memory, call 6 waits. Data for
// the next step are needed at the end.
import type { Point } from '../plan/plan'
import { byPoint, type PlannedResidency } from './stays'
import type { SwapContext } from './swapouts'

interface SwapIn {
  readonly r: PlannedResidency
  readonly total: number
  left: number
  settled: boolean
}

/** Seconds of each call during which swaps in with a planner's times keep a lane busy. */
const timedBusy = (rs: readonly PlannedResidency[], lane: number, { calls, seconds, laneOf }: SwapContext): Float64Array => {
  const busy = new Float64Array(calls.length)
  if (!rs.some((r) => r.timed)) return busy
  const { starts, numbers } = byPoint(rs, calls.length, (r) => (r.timed && laneOf(r) === lane ? r.acquire : undefined))
  let left = 0
  for (let p = 0; p < calls.length; p++) {
    for (let k = starts[p]!; k < starts[p + 1]!; k++) left += seconds(rs[numbers[k]!]!)
    busy[p] = Math.min(left, calls[p]!.seconds)
    left -= busy[p]!
  }
  return busy
}

/** The waiting copies of a lane, which get their times in order from `head` on. A copy that is cut short gets its time earlier. */
class Queue {
  readonly copies: SwapIn[] = []
  private head = 0

  /** `busy`: seconds of each call that the lane has no time for these copies. */
  constructor(readonly busy: (call: number) => number) {}

  get first(): SwapIn | undefined {
    while (this.copies[this.head]?.settled) this.head++
    return this.copies[this.head]
  }
}

export const placeSwapIns = (
  rs: readonly PlannedResidency[],
  occ: Int32Array,
  outBusy: readonly Float64Array[],
  copies: SwapContext,
): void => {
  const { calls, budget, lanes, laneOf, seconds } = copies
  const swaps = (r: PlannedResidency): boolean => r.swapIn !== null && !r.timed
  const starting = byPoint(rs, calls.length + 1, (r) => (swaps(r) ? r.first : undefined))
  const earliest = byPoint(rs, calls.length + 1, (r) => (swaps(r) ? (r.previous?.release ?? 0) : undefined))
  const queues = lanes.map(({ fullDuplex }, lane) => {
    const inBusy = timedBusy(rs, lane, copies)
    return new Queue((p) => inBusy[p]! + (fullDuplex ? 0 : outBusy[lane]![p]!))
  })
  const copyOf = new Array<SwapIn | undefined>(rs.length)
  let held = 0
  const settle = (c: SwapIn, p: Point): void => {
    c.settled = true
    held -= c.r.pages
    c.r.acquire = p
  }
  /** The lane moves waiting copies, in order, for this time. */
  const drain = (queue: Queue, time: number, p: Point): void => {
    for (let c = queue.first; c; c = queue.first) {
      const moved = Math.min(c.left, time)
      c.left -= moved
      time -= moved
      if (c.left > 0) return
      settle(c, p)
    }
  }
  /** Starts the copy at p or later. Work of the lane for others before p then serves this copy. */
  const cutShort = (c: SwapIn, p: Point): void => {
    const first = queues[laneOf(c.r)]!.first!
    if (first !== c) first.left = Math.min(first.total, first.left + c.left)
    settle(c, p)
  }
  /** The copy that waits for the latest call. */
  const latest = (): SwapIn | undefined => {
    let found: SwapIn | undefined
    for (const { first } of queues) if (first && (!found || first.r.first > found.r.first)) found = first
    return found
  }
  for (let p = calls.length; p >= 0; p--) {
    if (p < calls.length) for (const queue of queues) drain(queue, Math.max(0, calls[p]!.seconds - queue.busy(p)), p)
    for (let k = starting.starts[p + 1]! - 1; k >= starting.starts[p]!; k--) {
      const r = rs[starting.numbers[k]!]!
      const total = seconds(r)
      const c = { r, total, left: total, settled: false }
      queues[laneOf(r)]!.copies.push(c)
      copyOf[starting.numbers[k]!] = c
      held += r.pages
    }
    for (let k = earliest.starts[p]!; k < earliest.starts[p + 1]!; k++) {
      const c = copyOf[earliest.numbers[k]!]
      if (c && !c.settled) cutShort(c, p)
    }
    for (let c = latest(); c && (p === 0 || occ[p - 1]! + held > budget); c = latest()) settle(c, p)
  }
}
