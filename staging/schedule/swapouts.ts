// How long finished stays keep their pages while their swaps out run: one walk forward through the step. In: residencies,
// what is held at each call, the budget. Out: each residency's release; what that holds in addition, added to `occ`; for each
// call, how long the link is busy during it.
// Worked example: see swaptimes.ts.
import type { Link } from '../graph/machine'
import type { Call, Point } from '../plan/plan'
import { byPoint, type PlannedResidency } from './stays'

export interface SwapContext {
  readonly calls: readonly Call[]
  readonly budget: number
  readonly link: Link
  readonly seconds: (r: PlannedResidency) => number
}

interface SwapOut {
  readonly r: PlannedResidency
  readonly end: number
}

export const placeSwapOuts = (
  rs: readonly PlannedResidency[],
  occ: Int32Array,
  { calls, budget, seconds }: SwapContext,
): Float64Array => {
  const swaps = rs.filter((r) => r.swapOut)
  const starting = byPoint(swaps, (r) => r.settled)
  const ending = byPoint(swaps, (r) => r.last + 1)
  const due = byPoint(
    swaps.filter((r) => r.swappedOutBy < Infinity),
    (r) => r.swappedOutBy,
  )
  const returning = byPoint(
    rs.filter((r) => r.previous?.swapOut),
    (r) => r.acquire,
  )
  const ends = new Map<PlannedResidency, number>()
  const late = new Int32Array(occ.length)
  const busy = new Float64Array(calls.length)
  /** Copies whose stays are over, in order of their ends, from `head` on: their pages are held for nothing else. */
  const pending: SwapOut[] = []
  let head = 0
  let held = 0
  let time = 0
  let linkFree = 0
  /** Waits for all copies that end by then. */
  const waitUntil = (end: number, p: Point): void => {
    time = Math.max(time, end)
    for (; head < pending.length && pending[head]!.end <= time; head++) {
      const { r } = pending[head]!
      held -= r.pages
      r.release = p
      late[r.last + 1]! += r.pages
      late[p]! -= r.pages
    }
  }
  for (let p = 0; p < calls.length; p++) {
    for (const r of starting.get(p) ?? []) {
      linkFree = Math.max(time, linkFree) + seconds(r)
      ends.set(r, linkFree)
    }
    for (const r of ending.get(p) ?? []) {
      const copy = { r, end: ends.get(r)! }
      let at = pending.length
      while (at > head && pending[at - 1]!.end > copy.end) at--
      pending.splice(at, 0, copy)
      held += r.pages
    }
    waitUntil(time, p)
    for (const r of due.get(p) ?? []) waitUntil(ends.get(r)!, p)
    for (const r of returning.get(p) ?? []) waitUntil(ends.get(r.previous!)!, p)
    while (head < pending.length && occ[p]! + held > budget) waitUntil(pending[head]!.end, p)
    busy[p] = Math.min(calls[p]!.seconds, Math.max(0, linkFree - time))
    time += calls[p]!.seconds
  }
  waitUntil(Infinity, calls.length)
  for (let p = 0, more = 0; p < occ.length; p++) {
    more += late[p]!
    occ[p]! += more
  }
  return busy
}
