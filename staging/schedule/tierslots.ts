// Where in the lower tier a storage's pages go. In: intervals with their moves. Out: offsets, and the tier's size.
// Invariant: one slot for all chunks of a storage that leave, from the first save to the last load; slots of storages that
// are away at different times share bytes.
import { PAGE_BYTES } from '../core/bytes'
import { packByLifetime } from '../memory/place'
import type { Point } from '../plan/plan'
import type { Interval } from './tracks'

export interface TierSlots {
  readonly offset: (iv: Interval) => number | undefined
  readonly bytes: number
}

export const tierSlots = (ivs: readonly Interval[]): TierSlots => {
  const slots = new Map<number, { from: number; to: number; first: Point; last: Point }>()
  for (const iv of ivs) {
    if (!iv.save) continue
    const { storage, from, to } = iv.track
    const s = slots.get(storage)
    slots.set(storage, {
      from: Math.min(s?.from ?? from, from), to: Math.max(s?.to ?? to, to),
      first: Math.min(s?.first ?? iv.settled, iv.settled), last: Math.max(s?.last ?? 0, iv.release),
    })
  }
  for (const iv of ivs) {
    const s = slots.get(iv.track.storage)
    if (s && iv.load === 'tier') s.last = Math.max(s.last, iv.first)
  }
  const list = [...slots]
  const packed = packByLifetime(list.map(([, s]) => ({ bytes: (s.to - s.from) * PAGE_BYTES, first: s.first, last: s.last })))
  const base = new Map(list.map(([storage, s], i) => [storage, packed.offsets[i]! - s.from * PAGE_BYTES]))
  return {
    offset: (iv) => (iv.save || iv.load === 'tier' ? base.get(iv.track.storage)! + iv.track.from * PAGE_BYTES : undefined),
    bytes: packed.bytes,
  }
}
