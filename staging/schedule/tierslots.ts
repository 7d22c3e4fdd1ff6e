// Where in the lower tier pages go. In: intervals with their moves. Out: offsets, and the tier's size.
// Invariant: chunks side by side that leave have slots side by side, from the first swap out to the last swap in of any of them, so that
// those that move together move as one; slots of runs of chunks that are away at different times share bytes.
// Worked example, a storage of chunks a b c d of which a, b and d leave: a and b share a slot, d has its own.
import { bytesOf } from '../core/bytes'
import { packByLifetime } from '../memory/place'
import type { Point } from '../plan/plan'
import type { Interval, Track } from './tracks'

export interface TierSlots {
  readonly offset: (iv: Interval) => number | undefined
  readonly bytes: number
}

interface Slot {
  readonly storage: number
  readonly from: number
  to: number
  first: Point
  last: Point
}

/** For each chunk that leaves: when its pages are in the tier, or on their way. */
const awayTimes = (ivs: readonly Interval[]): ReadonlyMap<Track, { first: Point; last: Point }> => {
  const away = new Map<Track, { first: Point; last: Point }>()
  for (const iv of ivs) {
    if (!iv.swapOut) continue
    const t = away.get(iv.track)
    away.set(iv.track, { first: Math.min(t?.first ?? iv.settled, iv.settled), last: Math.max(t?.last ?? 0, iv.release) })
  }
  for (const iv of ivs) {
    const t = iv.swapIn === 'tier' ? away.get(iv.track) : undefined
    if (t) t.last = Math.max(t.last, iv.first)
  }
  return away
}

export const tierSlots = (ivs: readonly Interval[]): TierSlots => {
  const away = awayTimes(ivs)
  const slots: Slot[] = []
  const slotOf = new Map<Track, number>()
  for (const track of [...away.keys()].sort((a, b) => a.storage - b.storage || a.from - b.from)) {
    const { first, last } = away.get(track)!
    const before = slots[slots.length - 1]
    if (before && before.storage === track.storage && before.to === track.from) {
      before.to = track.to
      before.first = Math.min(before.first, first)
      before.last = Math.max(before.last, last)
    } else slots.push({ storage: track.storage, from: track.from, to: track.to, first, last })
    slotOf.set(track, slots.length - 1)
  }
  const packed = packByLifetime(slots.map((s) => ({ bytes: bytesOf(s.to - s.from), first: s.first, last: s.last })))
  const offsetOf = (track: Track): number => {
    const slot = slotOf.get(track)!
    return packed.offsets[slot]! + bytesOf(track.from - slots[slot]!.from)
  }
  return { offset: (iv) => (iv.swapOut || iv.swapIn === 'tier' ? offsetOf(iv.track) : undefined), bytes: packed.bytes }
}
