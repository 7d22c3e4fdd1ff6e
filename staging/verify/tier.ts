// The copies in the lower tier while the step runs: page, byte range, times and intact cells of each. In: swaps out and in, in the order of their
// points. Out: the copy that a swap in reads, if there is one. Invariant: a range of the tier holds its last swap out, and no earlier one.
import { pagesIn } from '../core/bytes'

export interface Stored {
  readonly storage: number
  readonly page: number
  readonly lo: number
  readonly hi: number
  /** The point where the swap out starts. */
  readonly start: number
  /** Cells whose bytes in this page were intact at `start`. */
  readonly intact: readonly number[]
  /** A swap in that reads this copy may run until this point. */
  readUntil: number
}

export interface Tier {
  /** Returns false if a swap in from an overlapping range may still be running. */
  readonly swapOut: (entry: Stored) => boolean
  readonly find: (storage: number, page: number, offset: number) => Stored | undefined
}

export const emptyTier = (): Tier => {
  /** The copies in each page of the tier. A copy overlaps at most two pages of the tier. */
  const buckets = new Map<number, Stored[]>()
  const eachBucket = (e: Stored, does: (bucket: Stored[]) => boolean): boolean => {
    const last = pagesIn(e.hi - 1)
    for (let page = pagesIn(e.lo); page <= last; page++) {
      const bucket = buckets.get(page) ?? []
      buckets.set(page, bucket)
      if (!does(bucket)) return false
    }
    return true
  }
  const meets = (a: Stored, b: Stored): boolean => a.lo < b.hi && b.lo < a.hi
  const drop = (e: Stored): boolean =>
    eachBucket(e, (bucket) => {
      bucket.splice(bucket.indexOf(e), 1)
      return true
    })
  const swapOut = (entry: Stored): boolean =>
    eachBucket(entry, (bucket) => {
      for (let i = bucket.length - 1; i >= 0; i--) {
        const e = bucket[i]!
        if (!meets(e, entry)) continue
        if (e.readUntil >= entry.start) return false
        drop(e)
      }
      return true
    }) && eachBucket(entry, (bucket) => bucket.push(entry) > 0)
  const find = (storage: number, page: number, offset: number): Stored | undefined =>
    buckets.get(pagesIn(offset))?.find((e) => e.lo === offset && e.storage === storage && e.page === page)
  return { swapOut, find }
}
