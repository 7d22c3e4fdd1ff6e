// The times of copies. In: planned stays with the gaps that are swapped, the budget and the link. Out: residencies without pages. All planners that
// swap share this code. They choose different gaps, and some choose times.
//
// No-wait order (paper 5, Prop. 1): swaps out start after the last write and are awaited only when their time is over or the memory is needed; swaps
// in are the mirror image, found by walking the step backwards in time. Worked example, budget 4 pages: x (2 pages) ends at call 1, y needs 2 and z
// 2: x's copy starts at point 2 while y is computed, and is awaited at point 3, where z needs the pages; if call 2 was shorter than the copy, that
// wait is a stall.
import { bytesOf } from '../core/bytes'
import type { Link } from '../graph/machine'
import { type Call, isOnDisk, type UnpagedResidency } from '../plan/plan'
import { goneFarther } from './farther'
import { placeSwapIns } from './swapins'
import { placeSwapOuts } from './swapouts'
import { awayIn, type Homes, mostInSlots, slotsOf, tierSlots, type TierSlots } from './tierslots'
import { type PlannedResidency, residenciesOf, occupancy, type PlannedStays, untimed } from './stays'

export interface Swaps {
  readonly residencies: readonly UnpagedResidency[]
  readonly tierBytes: number
  /** If the lower tier is host memory and a disk: the memory's bytes. */
  readonly hostBytes?: number
}

/** A residency that a neighbour may extend. */
type Growing = UnpagedResidency & { to: number }

const unpagedOf = (r: PlannedResidency, slots: TierSlots, end: number): Growing => {
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

/** The time of a copy beside calls, divided by the time of both alone. If they slow each other down, the copy starts earlier. */
const stretchOf = ({ beside }: Link): number => (beside ? beside.copies / beside.calls : 1)

/** Returns null if the budget is too small even when the step waits for each copy immediately. */
export const scheduleSwaps = (
  planned: readonly PlannedStays[],
  calls: readonly Call[],
  budgetPages: number,
  link: Link,
  homes?: Homes,
): Swaps | null => {
  const held = occupancy(planned, calls.length)
  for (let p = 0; p < calls.length; p++) if (held[p]! > budgetPages) return null
  const timed = (rs: readonly PlannedResidency[], lies: (part: PlannedStays) => Link): readonly PlannedResidency[] => {
    const occ = held.slice()
    const at =
      (rate: (l: Link) => number) =>
      (r: PlannedResidency): number => {
        const l = lies(r.stays)
        return (l.latencySeconds + bytesOf(r.pages) / rate(l)) * stretchOf(link)
      }
    const lanes = link.beyond?.apart ? [link, link.beyond] : [link]
    const copies = {
      calls,
      budget: budgetPages,
      lanes,
      laneOf: (r: PlannedResidency) => Math.max(0, lanes.indexOf(lies(r.stays))),
    }
    const busy = placeSwapOuts(rs, occ, { ...copies, seconds: at((l) => l.outBytesPerSecond) })
    placeSwapIns(rs, occ, busy, { ...copies, seconds: at((l) => l.inBytesPerSecond) })
    return rs
  }
  const swaps = (rs: readonly PlannedResidency[], slots: TierSlots): Swaps => ({
    residencies: mergeNeighbours(rs, (r) => unpagedOf(r, slots, calls.length), slots.hostBytes),
    tierBytes: slots.bytes,
    ...(link.beyond ? { hostBytes: slots.hostBytes } : {}),
  })
  const near = timed(residenciesOf(planned), () => link)
  const all = tierSlots(near, homes)
  const { bytes = Infinity, beyond } = link
  return all.bytes <= bytes || !beyond ? swaps(near, all) : inTwo(near, { calls, bytes, link, beyond, homes, timed, swaps })
}

/** Steps of the share of host memory that is filled. A slow part is away for longer, so memory that is full by plan could overflow. */
const SHARES = 64

interface InTwo {
  readonly calls: readonly Call[]
  readonly bytes: number
  readonly link: Link
  readonly beyond: Link
  readonly homes: Homes | undefined
  readonly timed: (rs: readonly PlannedResidency[], lies: (part: PlannedStays) => Link) => readonly PlannedResidency[]
  readonly swaps: (rs: readonly PlannedResidency[], slots: TierSlots) => Swaps
}

/** Host memory first, and the disk for the rest. A share that takes too much memory even without delays is not timed. */
const inTwo = (near: readonly PlannedResidency[], o: InTwo): Swaps => {
  const { calls, bytes, link, beyond, homes, timed, swaps } = o
  const goneFor = goneFarther(near, calls, bytes, homes)
  const soonest = awayIn(near, (r) => r.last + 1)
  const inMemory = homes ? homes.bytes : 0
  /** The swaps with this share of the memory, or null if they take more than all of it. */
  const filling = (share: number): Swaps | null => {
    const far = goneFor(share)
    const isNear = (part: PlannedStays): boolean => !far.has(part)
    const least = inMemory > bytes ? 0 : inMemory + mostInSlots(slotsOf(soonest, { isIn: isNear, areAlike: true }), calls.length)
    if (least > bytes && share > 0) return null
    const rs = timed(untimed(near), (part) => (far.has(part) ? beyond : link))
    const slots = tierSlots(rs, homes, { has: (part) => far.has(part), mostHomes: bytes })
    return slots.hostBytes <= bytes || share === 0 ? swaps(rs, slots) : null
  }
  let best = filling(1)
  if (best) return best
  for (let low = 0, high = SHARES; high - low > 1; ) {
    const middle = (low + high) >> 1
    const found = filling(middle / SHARES)
    if (found) [low, best] = [middle, found]
    else high = middle
  }
  return best ?? filling(0)!
}

/** Adjacent parts that are swapped at the same calls are one residency, unless they lie in different places or cross the border of two steps. */
const mergeNeighbours = (
  rs: readonly PlannedResidency[],
  unpaged: (r: PlannedResidency) => Growing,
  hostBytes: number,
): readonly UnpagedResidency[] => {
  const sorted = [...rs].sort((a, b) => a.stays.storage - b.stays.storage || a.acquire - b.acquire || a.stays.from - b.stays.from)
  const out: Growing[] = []
  let before: PlannedResidency | undefined
  for (const r of sorted) {
    const d = unpaged(r)
    const l = out[out.length - 1]
    const together =
      l &&
      !r.crosses &&
      !before?.crosses &&
      l.storage === d.storage &&
      l.to === d.from &&
      l.acquire === d.acquire &&
      l.release === d.release &&
      l.swapIn?.ready === d.swapIn?.ready &&
      l.swapIn?.from === d.swapIn?.from &&
      l.swapOut?.start === d.swapOut?.start &&
      l.swapOut?.to === d.swapOut?.to &&
      (l.tierOffset === undefined
        ? d.tierOffset === undefined
        : d.tierOffset === l.tierOffset + bytesOf(l.to - l.from) && isOnDisk({ hostBytes }, l) === isOnDisk({ hostBytes }, d))
    if (together) l.to = d.to
    else out.push(d)
    before = r
  }
  return out
}
