// The lower tier while the step runs: which pages of which storage lie where, since when, and what they were worth.
// In: swaps out and in, in the order of their points. Out: what a swap in brings back, or why it cannot.
// Invariant: a range of the tier holds what was swapped out to there last; what it held before is gone.
import { pagesIn } from '../core/bytes'

export interface Stored {
  readonly storage: number
  readonly page: number
  readonly lo: number
  readonly hi: number
  /** The point where the swap out starts. */
  readonly start: number
  /** Cells whose bytes in this page were intact then. */
  readonly intact: ReadonlySet<number>
  /** A swap in from here may run until this point. */
  readUntil: number
}

export interface Tier {
  /** False when a swap in from an overlapping range may still be running. */
  readonly swapOut: (entry: Stored) => boolean
  readonly find: (storage: number, page: number, offset: number) => Stored | undefined
}

export const emptyTier = (): Tier => {
  const buckets = new Map<number, Stored[]>()
  const bucketsOf = (e: Stored): readonly number[] => {
    const [first, last] = [pagesIn(e.lo), pagesIn(e.hi - 1)]
    return first === last ? [first] : [first, last]
  }
  const drop = (e: Stored): void => {
    for (const b of bucketsOf(e))
      buckets.set(
        b,
        buckets.get(b)!.filter((x) => x !== e),
      )
  }
  const swapOut = (entry: Stored): boolean => {
    const hit = new Set(bucketsOf(entry).flatMap((b) => (buckets.get(b) ?? []).filter((e) => e.lo < entry.hi && entry.lo < e.hi)))
    for (const e of hit) {
      if (e.readUntil >= entry.start) return false
      drop(e)
    }
    for (const b of bucketsOf(entry)) buckets.set(b, [...(buckets.get(b) ?? []), entry])
    return true
  }
  const find = (storage: number, page: number, offset: number): Stored | undefined =>
    buckets.get(pagesIn(offset))?.find((e) => e.lo === offset && e.storage === storage && e.page === page)
  return { swapOut, find }
}
