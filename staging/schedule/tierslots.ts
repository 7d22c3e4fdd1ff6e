// Where in the lower tier pages go. In: residencies with their times. Out: offsets, and the tier's size.
// Invariant: parts side by side that leave have slots side by side, from the first swap out to the last swap in of any of them, so that
// those that move together move as one; slots of runs of parts that are away at different times share bytes.
// Worked example, a storage of parts a b c d of which a, b and d leave: a and b share a slot, d has its own.
import { bytesOf } from '../core/bytes'
import { packByLifetime } from '../memory/place'
import type { Point } from '../plan/plan'
import type { PlannedResidency, PlannedStays } from './stays'

export interface TierSlots {
  readonly offset: (r: PlannedResidency) => number | undefined
  readonly bytes: number
}

export interface Homes {
  readonly bytes: number
  readonly of: (storage: number) => number | undefined
}

interface Slot {
  readonly storage: number
  readonly from: number
  to: number
  first: Point
  last: Point
}

const isToTier = (r: PlannedResidency): boolean => r.swapOut && !r.handsOut

/** For each part that leaves: when its pages are in the tier, or on their way. */
const awayTimes = (rs: readonly PlannedResidency[]): ReadonlyMap<PlannedStays, { first: Point; last: Point }> => {
  const away = new Map<PlannedStays, { first: Point; last: Point }>()
  for (const r of rs) {
    if (!isToTier(r)) continue
    const t = away.get(r.stays)
    away.set(r.stays, { first: Math.min(t?.first ?? r.settled, r.settled), last: Math.max(t?.last ?? 0, r.release) })
  }
  for (const r of rs) {
    const t = r.swapIn === 'tier' ? away.get(r.stays) : undefined
    if (t) t.last = Math.max(t.last, r.first)
  }
  return away
}

/** `homes`: where each storage that has one is at home, and the bytes that homes take; all other slots lie behind them. */
export const tierSlots = (rs: readonly PlannedResidency[], homes: Homes = { bytes: 0, of: () => undefined }): TierSlots => {
  const away = awayTimes(rs.filter((r) => r.stays.kind !== 'home'))
  const slots: Slot[] = []
  const slotOf = new Map<PlannedStays, number>()
  for (const part of [...away.keys()].sort((a, b) => a.storage - b.storage || a.from - b.from)) {
    const { first, last } = away.get(part)!
    const before = slots[slots.length - 1]
    if (before && before.storage === part.storage && before.to === part.from) {
      before.to = part.to
      before.first = Math.min(before.first, first)
      before.last = Math.max(before.last, last)
    } else slots.push({ storage: part.storage, from: part.from, to: part.to, first, last })
    slotOf.set(part, slots.length - 1)
  }
  const packed = packByLifetime(slots.map((s) => ({ bytes: bytesOf(s.to - s.from), first: s.first, last: s.last })))
  const offsetOf = (part: PlannedStays): number => {
    const slot = slotOf.get(part)!
    return homes.bytes + packed.offsets[slot]! + bytesOf(part.from - slots[slot]!.from)
  }
  const atHome = (part: PlannedStays): number => homes.of(part.storage)! + bytesOf(part.from)
  return {
    offset: (r) =>
      r.stays.kind === 'home' ? atHome(r.stays) : isToTier(r) || r.swapIn === 'tier' ? offsetOf(r.stays) : undefined,
    bytes: homes.bytes + packed.bytes,
  }
}
