// When pages come and go. In: planned stays with the gaps in which pages leave, the budget and the link. Out: residencies without
// pages. The same code serves every planner that swaps: they differ in the gaps they choose, and some in when.
//
// No-wait order (paper 5, Prop. 1): swaps out start as soon as the last write is over and are waited for only when their time
// is over or the memory is needed; swaps in are the mirror image, found by walking the step backwards in time.
// Worked example, budget 4 pages: x (2 pages) ends at call 1, y needs 2 and z 2: x's copy starts at point 2 while y is
// computed, and is waited for at point 3, where z needs the pages; if call 2 was shorter than the copy, that wait is a stall.
import { bytesOf } from '../core/bytes'
import type { Link } from '../graph/machine'
import type { Call, UnpagedResidency } from '../plan/plan'
import { placeSwapIns } from './swapins'
import { placeSwapOuts } from './swapouts'
import { type Homes, tierSlots, type TierSlots } from './tierslots'
import { type PlannedResidency, residenciesOf, occupancy, type PlannedStays } from './stays'

export interface Swaps {
  readonly residencies: readonly UnpagedResidency[]
  readonly tierBytes: number
}

const unpagedOf = (r: PlannedResidency, slots: TierSlots, end: number): UnpagedResidency => {
  const tierOffset = slots.offset(r)
  return {
    storage: r.stays.storage,
    from: r.stays.from,
    to: r.stays.to,
    acquire: r.acquire,
    release: r.stays.kind === 'persistent' ? end : r.release,
    ...(r.swapIn ? { swapIn: { ready: Math.max(r.acquire, r.ready), from: r.swapIn } } : {}),
    ...(r.swapOut ? { swapOut: { start: r.settled, ...(r.handsOut ? { to: 'sink' as const } : {}) } } : {}),
    ...(tierOffset === undefined ? {} : { tierOffset }),
  }
}

/** How many calls' time a copy takes beside calls, over what both take alone: where they slow each other down, it starts earlier. */
const stretchOf = ({ beside }: Link): number => (beside ? beside.copies / beside.calls : 1)

/** Null when even with each copy waited for at once the budget is too small. */
export const scheduleSwaps = (
  planned: readonly PlannedStays[],
  calls: readonly Call[],
  budgetPages: number,
  link: Link,
  homes?: Homes,
): Swaps | null => {
  const rs = planned.flatMap(residenciesOf)
  const occ = occupancy(planned, calls.length)
  for (let p = 0; p < calls.length; p++) if (occ[p]! > budgetPages) return null
  const at =
    (rate: number) =>
    (r: PlannedResidency): number =>
      (link.latencySeconds + bytesOf(r.pages) / rate) * stretchOf(link)
  const copies = { calls, budget: budgetPages, link }
  const busy = placeSwapOuts(rs, occ, { ...copies, seconds: at(link.outBytesPerSecond) })
  placeSwapIns(rs, occ, busy, { ...copies, seconds: at(link.inBytesPerSecond) })
  const slots = tierSlots(rs, homes)
  return { residencies: mergeNeighbours(rs.map((r) => unpagedOf(r, slots, calls.length))), tierBytes: slots.bytes }
}

/** Parts side by side that come and go together are one residency. */
const mergeNeighbours = (residencies: readonly UnpagedResidency[]): readonly UnpagedResidency[] => {
  const sorted = [...residencies].sort((a, b) => a.storage - b.storage || a.acquire - b.acquire || a.from - b.from)
  const out: UnpagedResidency[] = []
  for (const d of sorted) {
    const l = out[out.length - 1]
    const together =
      l &&
      l.storage === d.storage &&
      l.to === d.from &&
      l.acquire === d.acquire &&
      l.release === d.release &&
      l.swapIn?.ready === d.swapIn?.ready &&
      l.swapIn?.from === d.swapIn?.from &&
      l.swapOut?.start === d.swapOut?.start &&
      l.swapOut?.to === d.swapOut?.to &&
      (l.tierOffset === undefined ? d.tierOffset === undefined : d.tierOffset === l.tierOffset + bytesOf(l.to - l.from))
    if (together) out[out.length - 1] = { ...l, to: d.to }
    else out.push(d)
  }
  return out
}
