// When pages come and go. In: tracks with the gaps in which they leave, the budget and the link. Out: residencies without
// pages. The same code serves every planner that swaps: they differ in the gaps they choose, and some in when.
//
// No-wait order (paper 5, Prop. 1): swaps out start as soon as the last write is over and are waited for only when their time
// is over or the memory is needed; swaps in are the mirror image, found by walking the step backwards in time.
// Worked example, budget 4 pages: x (2 pages) ends at call 1, y needs 2 and z 2: x's copy starts at point 2 while y is
// computed, and is waited for at point 3, where z needs the pages; if call 2 was shorter than the copy, that wait is a stall.
import { bytesOf } from '../core/bytes'
import type { Link } from '../graph/machine'
import type { Call, Draft } from '../plan/plan'
import { placeSwapIns } from './swapins'
import { placeSwapOuts } from './swapouts'
import { tierSlots, type TierSlots } from './tierslots'
import { type Interval, intervalsOf, occupancy, type Track } from './tracks'

export interface Swaps {
  readonly drafts: readonly Draft[]
  readonly tierBytes: number
}

const draftOf = (iv: Interval, slots: TierSlots, end: number): Draft => {
  const tierOffset = slots.offset(iv)
  return {
    storage: iv.track.storage,
    from: iv.track.from,
    to: iv.track.to,
    acquire: iv.acquire,
    release: iv.track.kind === 'persistent' ? end : iv.release,
    ...(iv.swapIn ? { swapIn: { ready: Math.max(iv.acquire, iv.ready), from: iv.swapIn } } : {}),
    ...(iv.swapOut ? { swapOut: { start: iv.settled } } : {}),
    ...(tierOffset === undefined ? {} : { tierOffset }),
  }
}

/** How many calls' time a copy takes beside calls, over what both take alone: where they slow each other down, it starts earlier. */
const stretchOf = ({ beside }: Link): number => (beside ? beside.copies / beside.calls : 1)

/** Null when even with each copy waited for at once the budget is too small. */
export const scheduleSwaps = (
  tracks: readonly Track[],
  calls: readonly Call[],
  budgetPages: number,
  link: Link,
): Swaps | null => {
  const ivs = tracks.flatMap(intervalsOf)
  const occ = occupancy(tracks, calls.length)
  for (let p = 0; p < calls.length; p++) if (occ[p]! > budgetPages) return null
  const at =
    (rate: number) =>
    (iv: Interval): number =>
      (link.latencySeconds + bytesOf(iv.pages) / rate) * stretchOf(link)
  const copies = { calls, budget: budgetPages, link }
  const busy = placeSwapOuts(ivs, occ, { ...copies, seconds: at(link.outBytesPerSecond) })
  placeSwapIns(ivs, occ, busy, { ...copies, seconds: at(link.inBytesPerSecond) })
  const slots = tierSlots(ivs)
  return { drafts: mergeNeighbours(ivs.map((iv) => draftOf(iv, slots, calls.length))), tierBytes: slots.bytes }
}

/** Chunks side by side that come and go together are one residency. */
const mergeNeighbours = (drafts: readonly Draft[]): readonly Draft[] => {
  const sorted = [...drafts].sort((a, b) => a.storage - b.storage || a.acquire - b.acquire || a.from - b.from)
  const out: Draft[] = []
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
      (l.tierOffset === undefined ? d.tierOffset === undefined : d.tierOffset === l.tierOffset + bytesOf(l.to - l.from))
    if (together) out[out.length - 1] = { ...l, to: d.to }
    else out.push(d)
  }
  return out
}
