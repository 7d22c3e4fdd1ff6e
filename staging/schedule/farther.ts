// The values on a disk if host memory cannot hold all swapped ones. In: residencies with their times, the memory's bytes. Out: the parts on the disk.
// Memory is given by the number of moves of a part for each second that it is away, because a part that is away shortly frees its place for others.
// Homes, which are permanent, come first: each is written in each step. Worked example, memory of 4 pages: x (4 pages) is away for 1 s, y (4) for the
// 2 s after it, z (4) for all 4 s: z is on the disk.
import { pagesIn } from '../core/bytes'
import { Highest } from '../core/highest'
import type { Call } from '../plan/plan'
import type { PlannedResidency, PlannedStays } from './stays'
import { awayIn, type Homes, homesWithin, type Slot, slotsOf } from './tierslots'

/** A slot is cut so that one of a large value need not lie on the disk as a whole. */
const MOST_PAGES = 32

const startsOf = (calls: readonly Call[]): Float64Array => {
  const starts = new Float64Array(calls.length + 1)
  calls.forEach((c, p) => {
    starts[p + 1] = starts[p]! + c.seconds
  })
  return starts
}

/** The number of copies of each part in a step. */
const movesOf = (rs: readonly PlannedResidency[]): ReadonlyMap<PlannedStays, number> => {
  const moves = new Map<PlannedStays, number>()
  for (const r of rs) moves.set(r.stays, (moves.get(r.stays) ?? 0) + (r.swapOut ? 1 : 0) + (r.swapIn === 'tier' ? 1 : 0))
  return moves
}

/** The filled shares of the memory that are tried. */
export const goneFarther = (
  rs: readonly PlannedResidency[],
  calls: readonly Call[],
  bytes: number,
  homes: Homes = { bytes: 0, of: () => undefined },
): ((share: number) => ReadonlySet<PlannedStays>) => {
  const starts = startsOf(calls)
  const moves = movesOf(rs)
  const within = homesWithin(rs, homes, bytes)
  const farHomes = rs.flatMap((r) => (r.stays.kind === 'home' && homes.of(r.stays.storage)! >= within ? r.stays : []))
  const worth = ({ parts, first, last }: Slot): number =>
    parts.reduce((n, part) => n + moves.get(part)!, 0) /
    parts.length /
    (starts[Math.min(last, calls.length)]! - starts[first]! + 1e-9)
  const slots = slotsOf(awayIn(rs), { mostPages: MOST_PAGES })
    .map((slot) => ({ slot, worth: worth(slot) }))
    .sort((a, b) => b.worth - a.worth)
  return (share) => {
    const far = new Set(farHomes)
    const space = homes.bytes > bytes ? 0 : pagesIn(share * (bytes - homes.bytes))
    const held = new Highest(calls.length + 1)
    for (const { slot } of slots) {
      const pages = slot.to - slot.from
      const last = Math.min(slot.last, calls.length)
      // A swap at the end of the step overlaps with no other.
      const fits = pages <= space && (slot.first > last || held.mostIn(slot.first, last) + pages <= space)
      if (fits) held.add(slot.first, last, pages)
      else for (const part of slot.parts) far.add(part)
    }
    return far
  }
}
