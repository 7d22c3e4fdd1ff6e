// The places of pages in the lower tier. In: residencies with their times, those of them on a disk behind the host's memory. Out: offsets, and the
// tier's size. Invariant: parts side by side that leave have slots side by side, from the first swap out to the last swap in of any of them, so that
// those that move together move as one; slots of runs of parts that are away at different times share bytes. Homes come first, then memory, then the
// disk. Worked example, a storage of parts a b c d with a, b and d leaving: a and b share a slot, d has its own.
import { bytesOf, mostHeld } from '../core/bytes'
import { packByLifetime, type Packed } from '../memory/place'
import type { Point } from '../plan/plan'
import type { PlannedResidency, PlannedStays } from './stays'

export interface TierSlots {
  readonly offset: (r: PlannedResidency) => number | undefined
  readonly bytes: number
  /** The first slots are in host memory. */
  readonly hostBytes: number
}

export interface Homes {
  readonly bytes: number
  readonly of: (storage: number) => number | undefined
}

export interface Slot {
  readonly storage: number
  readonly from: number
  readonly parts: PlannedStays[]
  to: number
  first: Point
  last: Point
}

const NOWHERE: Homes = { bytes: 0, of: () => undefined }

const isToTier = (r: PlannedResidency): boolean => r.swapOut && !r.handsOut

/** The time during which the pages of a part are in the tier, or on their way. */
export interface Away {
  readonly part: PlannedStays
  readonly first: Point
  readonly last: Point
}

/**
 * Each part that leaves and has no home, in order of storage and pages. In: residencies, those of a part after each other; the time when each swapped
 * one has left the device.
 */
export const awayIn = (
  rs: readonly PlannedResidency[],
  goneAt: (r: PlannedResidency) => Point = (r) => r.release,
): readonly Away[] => {
  const away: Away[] = []
  for (let i = 0; i < rs.length; ) {
    const part = rs[i]!.stays
    let [goes, first, last, returns] = [false, Infinity, 0, 0]
    for (; i < rs.length && rs[i]!.stays === part; i++) {
      const r = rs[i]!
      if (isToTier(r)) {
        goes = true
        first = Math.min(first, r.settled)
        last = Math.max(last, goneAt(r))
      }
      if (r.swapIn === 'tier') returns = Math.max(returns, r.first)
    }
    if (goes && part.kind !== 'home') away.push({ part, first, last: Math.max(last, returns) })
  }
  return away.sort((a, b) => a.part.storage - b.part.storage || a.part.from - b.part.from)
}

interface SlotRules {
  readonly isIn?: ((part: PlannedStays) => boolean) | undefined
  readonly mostPages?: number
  /** Only parts that are away at the same time are in one slot, so that no part takes memory for longer. */
  readonly areAlike?: boolean
}

/** Adjacent parts in one slot. */
export const slotsOf = (
  away: readonly Away[],
  { isIn = () => true, mostPages = Infinity, areAlike = false }: SlotRules = {},
): readonly Slot[] => {
  const slots: Slot[] = []
  for (const { part, first, last } of away) {
    if (!isIn(part)) continue
    const before = slots[slots.length - 1]
    const alike = !areAlike || (before?.first === first && before.last === last)
    if (alike && before && before.storage === part.storage && before.to === part.from && part.to - before.from <= mostPages) {
      before.to = part.to
      before.parts.push(part)
      before.first = Math.min(before.first, first)
      before.last = Math.max(before.last, last)
    } else slots.push({ storage: part.storage, from: part.from, to: part.to, parts: [part], first, last })
  }
  return slots
}

/** The peak of the bytes of slots: no choice of places takes less. */
export const mostInSlots = (slots: readonly Slot[], points: number): number => {
  const pages = new Float64Array(points + 2)
  for (const { from, to, first, last } of slots) {
    pages[first]! += to - from
    pages[Math.min(last, points) + 1]! -= to - from
  }
  return bytesOf(mostHeld(pages, points + 1))
}

/** The places of slots, one after another from a first byte on. */
const placed = (slots: readonly Slot[], from: number, into: Map<PlannedStays, number>): number => {
  const packed: Packed = packByLifetime(slots.map((s) => ({ bytes: bytesOf(s.to - s.from), first: s.first, last: s.last })))
  slots.forEach((s, i) => {
    for (const part of s.parts) into.set(part, from + packed.offsets[i]! + bytesOf(part.from - s.from))
  })
  return from + packed.bytes
}

/** The homes that fit in this number of bytes of memory, each of them whole. */
export const homesWithin = (rs: readonly PlannedResidency[], homes: Homes, bytes: number): number => {
  if (homes.bytes <= bytes) return homes.bytes
  const starts = rs.flatMap((r) => (r.stays.kind === 'home' ? homes.of(r.stays.storage)! : []))
  return starts.reduce((n, start) => (start <= bytes ? Math.max(n, start) : n), 0)
}

/**
 * `homes`: the home of each storage that has one, and the bytes of homes; all other slots follow them. `beyond`: the parts on the disk, and the most
 * bytes of homes in memory; absent: all is in one place.
 */
export const tierSlots = (
  rs: readonly PlannedResidency[],
  homes: Homes = NOWHERE,
  beyond?: { readonly has: (part: PlannedStays) => boolean; readonly mostHomes: number },
): TierSlots => {
  const offsets = new Map<PlannedStays, number>()
  const away = awayIn(rs)
  const near = placed(
    beyond ? slotsOf(away, { isIn: (part) => !beyond.has(part), areAlike: true }) : slotsOf(away),
    homes.bytes,
    offsets,
  )
  const bytes = beyond ? placed(slotsOf(away, { isIn: beyond.has }), near, offsets) : near
  const atHome = (part: PlannedStays): number => homes.of(part.storage)! + bytesOf(part.from)
  return {
    offset: (r) =>
      r.stays.kind === 'home' ? atHome(r.stays) : isToTier(r) || r.swapIn === 'tier' ? offsets.get(r.stays)! : undefined,
    bytes,
    hostBytes: beyond && beyond.mostHomes < homes.bytes ? homesWithin(rs, homes, beyond.mostHomes) : near,
  }
}
