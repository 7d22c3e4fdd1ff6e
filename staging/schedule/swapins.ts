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

/** Seconds of each call during which swaps in with a planner's times keep the link busy. */
const timedBusy = (rs: readonly PlannedResidency[], { calls, seconds }: SwapContext): Float64Array => {
  const busy = new Float64Array(calls.length)
  if (!rs.some((r) => r.timed)) return busy
  const { starts, numbers } = byPoint(rs, calls.length, (r) => (r.timed ? r.acquire : undefined))
  let left = 0
  for (let p = 0; p < calls.length; p++) {
    for (let k = starts[p]!; k < starts[p + 1]!; k++) left += seconds(rs[numbers[k]!]!)
    busy[p] = Math.min(left, calls[p]!.seconds)
    left -= busy[p]!
  }
  return busy
}

export const placeSwapIns = (
  rs: readonly PlannedResidency[],
  occ: Int32Array,
  outBusy: Float64Array,
  copies: SwapContext,
): void => {
  const { calls, budget, link, seconds } = copies
  const swaps = (r: PlannedResidency): boolean => r.swapIn !== null && !r.timed
  const starting = byPoint(rs, calls.length + 1, (r) => (swaps(r) ? r.first : undefined))
  const earliest = byPoint(rs, calls.length + 1, (r) => (swaps(r) ? (r.previous?.release ?? 0) : undefined))
  const inBusy = timedBusy(rs, copies)
  const copyOf = new Array<SwapIn | undefined>(rs.length)
  const pending: SwapIn[] = []
  let head = 0
  let held = 0
  const settle = (c: SwapIn, p: Point): void => {
    c.settled = true
    held -= c.r.pages
    c.r.acquire = p
    while (pending[head]?.settled) head++
  }
  /** The link moves waiting copies, in order, for this time. */
  const drain = (time: number, p: Point): void => {
    while (head < pending.length) {
      const c = pending[head]!
      const moved = Math.min(c.left, time)
      c.left -= moved
      time -= moved
      if (c.left > 0) return
      settle(c, p)
    }
  }
  /** Starts no earlier than p: the link's work for others by then serves this one. */
  const cutShort = (c: SwapIn, p: Point): void => {
    const first = pending[head]!
    if (first !== c) first.left = Math.min(first.total, first.left + c.left)
    settle(c, p)
  }
  for (let p = calls.length; p >= 0; p--) {
    if (p < calls.length) drain(Math.max(0, calls[p]!.seconds - inBusy[p]! - (link.fullDuplex ? 0 : outBusy[p]!)), p)
    for (let k = starting.starts[p + 1]! - 1; k >= starting.starts[p]!; k--) {
      const r = rs[starting.numbers[k]!]!
      const total = seconds(r)
      const c = { r, total, left: total, settled: false }
      pending.push(c)
      copyOf[starting.numbers[k]!] = c
      held += r.pages
    }
    for (let k = earliest.starts[p]!; k < earliest.starts[p + 1]!; k++) {
      const c = copyOf[earliest.numbers[k]!]
      if (c && !c.settled) cutShort(c, p)
    }
    while (head < pending.length && (p === 0 || occ[p - 1]! + held > budget)) settle(pending[head]!, p)
  }
}
