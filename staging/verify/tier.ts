// The lower tier while the step runs: the pages of each storage there, their places, times and contents. In: swaps out and in, in the order of their
// points. Out: the contents of a swap in, or the reason why it is illegal. Invariant: a range of the tier holds its last swap out; earlier contents
// are lost.
import { pagesIn } from '../core/bytes'

export interface Stored {
  readonly storage: number
  readonly page: number
  readonly lo: number
  readonly hi: number
  /** The point where the swap out starts. */
  readonly start: number
  /** Cells whose bytes in this page were intact then. */
  readonly intact: readonly number[]
  /** A swap in from here may run until this point. */
  readUntil: number
}

export interface Tier {
  /** False when a swap in from an overlapping range may still be running. */
  readonly swapOut: (entry: Stored) => boolean
  readonly find: (storage: number, page: number, offset: number) => Stored | undefined
}

export const emptyTier = (): Tier => {
  /** The contents of each page of the tier; a copy meets two at the most. */
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
