// How long finished stays keep their pages while their swaps out run: one walk forward through the step. In: intervals,
// what is held at each call, the budget. Out: each interval's release; what that holds in addition, added to `occ`; for each
// call, how long the link is busy during it.
// Worked example: see swaptimes.ts.
import type { Link } from '../graph/machine'
import type { Call, Point } from '../plan/plan'
import { byPoint, type Interval } from './tracks'

export interface Copies {
  readonly calls: readonly Call[]
  readonly budget: number
  readonly link: Link
  readonly seconds: (iv: Interval) => number
}

interface Copy {
  readonly iv: Interval
  readonly end: number
}

export const placeSwapOuts = (ivs: readonly Interval[], occ: Int32Array, { calls, budget, seconds }: Copies): Float64Array => {
  const swaps = ivs.filter((iv) => iv.swapOut)
  const starting = byPoint(swaps, (iv) => iv.settled)
  const ending = byPoint(swaps, (iv) => iv.last + 1)
  const due = byPoint(
    swaps.filter((iv) => iv.goneBy < Infinity),
    (iv) => iv.goneBy,
  )
  const returning = byPoint(
    ivs.filter((iv) => iv.previous?.swapOut),
    (iv) => iv.acquire,
  )
  const ends = new Map<Interval, number>()
  const late = new Int32Array(occ.length)
  const busy = new Float64Array(calls.length)
  /** Copies whose stays are over, in order of their ends, from `head` on: their pages are held for nothing else. */
  const pending: Copy[] = []
  let head = 0
  let held = 0
  let time = 0
  let linkFree = 0
  /** Waits for all copies that end by then. */
  const waitUntil = (end: number, p: Point): void => {
    time = Math.max(time, end)
    for (; head < pending.length && pending[head]!.end <= time; head++) {
      const { iv } = pending[head]!
      held -= iv.pages
      iv.release = p
      late[iv.last + 1]! += iv.pages
      late[p]! -= iv.pages
    }
  }
  for (let p = 0; p < calls.length; p++) {
    for (const iv of starting.get(p) ?? []) {
      linkFree = Math.max(time, linkFree) + seconds(iv)
      ends.set(iv, linkFree)
    }
    for (const iv of ending.get(p) ?? []) {
      const copy = { iv, end: ends.get(iv)! }
      let at = pending.length
      while (at > head && pending[at - 1]!.end > copy.end) at--
      pending.splice(at, 0, copy)
      held += iv.pages
    }
    waitUntil(time, p)
    for (const iv of due.get(p) ?? []) waitUntil(ends.get(iv)!, p)
    for (const iv of returning.get(p) ?? []) waitUntil(ends.get(iv.previous!)!, p)
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
