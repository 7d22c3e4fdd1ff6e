// The ends of finished stays' pages while their swaps out run: one walk forward through the step. In: residencies, held pages at each call, the
// budget. Out: each residency's release; the additional pages, added to `occ`; for each lane and call, the busy seconds of the lane during it.
// Invariant: residencies of a part follow each other, so the one before one that returns is its number less one. Worked example: see swaptimes.ts.
import { mapped } from '../core/mapped'
import type { Link } from '../graph/machine'
import type { Call, Point } from '../plan/plan'
import { byPoint, type PlannedResidency } from './stays'

export interface SwapContext {
  readonly calls: readonly Call[]
  readonly budget: number
  readonly seconds: (r: PlannedResidency) => number
  /** The link, and a second one if it has its own queue. */
  readonly lanes: readonly Pick<Link, 'fullDuplex'>[]
  /** The number of its lane. */
  readonly laneOf: (r: PlannedResidency) => number
}

interface SwapOut {
  readonly r: PlannedResidency
  readonly end: number
}

export const placeSwapOuts = (
  rs: readonly PlannedResidency[],
  occ: Int32Array,
  { calls, budget, seconds, lanes, laneOf }: SwapContext,
): readonly Float64Array[] => {
  const points = calls.length
  const starting = byPoint(rs, points, (r) => (r.swapOut ? r.settled : undefined))
  const ending = byPoint(rs, points, (r) => (r.swapOut ? r.last + 1 : undefined))
  const due = byPoint(rs, points, (r) => (r.swapOut ? r.swappedOutBy : undefined))
  const returning = byPoint(rs, points, (r) => (r.previous?.swapOut ? r.acquire : undefined))
  const ends = new Float64Array(rs.length)
  const late = new Int32Array(occ.length)
  const busy = mapped(lanes, () => new Float64Array(calls.length))
  /** Copies whose stays have ended, in order of their ends, from `head` on. Only the copy still holds their pages. */
  const pending: SwapOut[] = []
  let head = 0
  let held = 0
  let time = 0
  /** The time at which a lane has finished all copies. */
  const freeAt = new Float64Array(lanes.length)
  /** Waits for all copies that end by a point. */
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
    for (let k = starting.starts[p]!; k < starting.starts[p + 1]!; k++) {
      const i = starting.numbers[k]!
      const lane = laneOf(rs[i]!)
      ends[i] = freeAt[lane] = Math.max(time, freeAt[lane]!) + seconds(rs[i]!)
    }
    for (let k = ending.starts[p]!; k < ending.starts[p + 1]!; k++) {
      const r = rs[ending.numbers[k]!]!
      const end = ends[ending.numbers[k]!]!
      let at = pending.length
      while (at > head && pending[at - 1]!.end > end) at--
      if (at === pending.length) pending.push({ r, end })
      else pending.splice(at, 0, { r, end })
      held += r.pages
    }
    waitUntil(time, p)
    for (let k = due.starts[p]!; k < due.starts[p + 1]!; k++) waitUntil(ends[due.numbers[k]!]!, p)
    for (let k = returning.starts[p]!; k < returning.starts[p + 1]!; k++) waitUntil(ends[returning.numbers[k]! - 1]!, p)
    while (head < pending.length && occ[p]! + held > budget) waitUntil(pending[head]!.end, p)
    busy.forEach((b, lane) => {
      b[p] = Math.min(calls[p]!.seconds, Math.max(0, freeAt[lane]! - time))
    })
    time += calls[p]!.seconds
  }
  waitUntil(Infinity, calls.length)
  for (let p = 0, more = 0; p < occ.length; p++) {
    more += late[p]!
    occ[p]! += more
  }
  return busy
}
