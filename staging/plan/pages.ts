// Plan-time page tables. In: residencies without pages. Out: the same with runs of physical pages, and the
// peak. Since every page serves every residency, the pool needs exactly as many pages as are held at the worst moment:
// fragmentation costs mappings, never memory. Best fit keeps the runs few.
// Worked example, pool of 4: a takes 0-1, b takes 2-3, a goes, c (3 pages) cannot be; c (2 pages) takes 0-1.
import { type Either, isLeft, isRight, left, right } from 'fp-ts/Either'
import { isForNext, keyOf } from './ahead'
import type { UnpagedResidency, PageRun, Point, Residency } from './plan'

/** Pages held at the worst moment; releases at a point come before acquires. */
export const peakOf = (rs: readonly UnpagedResidency[], end: Point): number => {
  const delta = new Int32Array(end + 2)
  for (const r of rs) {
    delta[r.acquire]! += r.to - r.from
    delta[r.release]! -= r.to - r.from
  }
  let held = 0
  let peak = 0
  for (let p = 0; p <= end; p++) {
    held += delta[p]!
    peak = Math.max(peak, held)
  }
  return peak
}

interface FreeRun extends PageRun {
  page: number
  count: number
  /** Data for the next step take these pages then; others release them by then. */
  readonly until: Point
}

/** The free pages of the pool as sorted, disjoint runs; neighbours with one `until` are merged. */
class FreeRuns {
  private runs: FreeRun[]
  /** By page; empty where no data are loaded for the next step. */
  private readonly until = new Map<number, Point>()
  /** By page and count: plans have millions of residencies, in few places. */
  private readonly alone = new Map<number, readonly [PageRun]>()

  constructor(private readonly pages: number) {
    this.runs = pages > 0 ? [{ page: 0, count: pages, until: Infinity }] : []
  }

  /** From their next release on, these pages are free only up to a point. */
  reserve(runs: readonly PageRun[], until: Point): void {
    for (const { page, count } of runs) for (let p = page; p < page + count; p++) this.until.set(p, until)
  }

  /** Exactly these pages, which were reserved up to now. */
  takeAgain(runs: readonly PageRun[]): void {
    for (const { page, count } of runs)
      for (let p = page; p < page + count; p++) {
        const i = this.runs.findIndex((r) => r.page <= p && p < r.page + r.count)
        const { page: from, count: of, until } = this.runs[i]!
        const left = [
          { page: from, count: p - from, until },
          { page: p + 1, count: from + of - p - 1, until },
        ]
        this.runs.splice(i, 1, ...left.filter((r) => r.count > 0))
        this.until.delete(p)
      }
  }

  /** Pages up to a release; undefined if too few are free for so long. */
  take(count: number, release: Point): readonly PageRun[] | undefined {
    if (this.until.size > 0 && this.runs.reduce((n, r) => n + (r.until >= release ? r.count : 0), 0) < count) return undefined
    const first = this.takeRun(count, release)
    if (first.count === count) {
      const key = first.page * this.pages + count - 1
      const known = this.alone.get(key)
      if (known) return known
      const made = [first] as const
      this.alone.set(key, made)
      return made
    }
    const out = [first]
    for (let left = count - first.count; left > 0; left -= out.at(-1)!.count) out.push(this.takeRun(left, release))
    return out
  }

  /** This number of pages in one run, or the longest run. */
  private takeRun(count: number, release: Point): PageRun {
    const fit = this.bestFit(count, release)
    const run = this.runs[fit]
    if (!run) throw new Error(`the page pool lacks ${count} pages`)
    const taken = { page: run.page, count: Math.min(count, run.count) }
    if (taken.count === run.count) this.runs.splice(fit, 1)
    else {
      run.page += taken.count
      run.count -= taken.count
    }
    return taken
  }

  /** Returns the smallest run that is large enough, else the largest, among those with the earliest legal `until`. */
  private bestFit(count: number, release: Point): number {
    let best = -1
    for (let i = 0; i < this.runs.length; i++) {
      const { count: c, until } = this.runs[i]!
      if (until < release) continue
      const { count: b, until: u } = this.runs[best] ?? { count: -1, until: Infinity }
      if (best < 0 || until < u || (until === u && (c >= count ? b < count || c < b : b < count && c > b))) best = i
    }
    return best
  }

  give({ page, count }: PageRun): void {
    const until = (p: number): Point => this.until.get(p) ?? Infinity
    const isOne = this.until.size === 0
    for (let from = page; from < page + count; ) {
      let to = isOne ? page + count : from + 1
      while (to < page + count && until(to) === until(from)) to++
      this.giveRun({ page: from, count: to - from, until: until(from) })
      from = to
    }
  }

  private giveRun(run: FreeRun): void {
    let i = this.runs.findIndex((r) => r.page > run.page)
    if (i < 0) i = this.runs.length
    this.runs.splice(i, 0, run)
    for (const k of [i, i - 1]) {
      const a = this.runs[k]
      const b = this.runs[k + 1]
      if (a && b && a.until === b.until && a.page + a.count === b.page) {
        a.count += b.count
        this.runs.splice(k + 1, 1)
      }
    }
  }
}

/** Among those that come together the one that stays longest is first, so that freed pages leave no holes. */
export const inOrder = (residencies: readonly UnpagedResidency[]): readonly UnpagedResidency[] =>
  [...residencies].sort((a, b) => a.acquire - b.acquire || b.release - a.release || a.storage - b.storage || a.from - b.from)

export interface Paged {
  readonly residencies: readonly Residency[]
  readonly peakPages: number
}

/** Assigns pages. Left: a residency for which too few pages are free up to its release. */
const assigned = (unpaged: readonly UnpagedResidency[], end: Point): Either<UnpagedResidency, Paged> => {
  const peakPages = peakOf(unpaged, end)
  const free = new FreeRuns(peakPages)
  const loadedAt = new Map(unpaged.flatMap((r) => (isForNext(r, end) ? [[keyOf(r), r.acquire] as const] : [])))
  const crossing = new Map<string, readonly PageRun[]>()
  /** For each point the last residency that ends there, and for each residency the one before it that ends there too. */
  const lastEnding = new Int32Array(end + 1).fill(-1)
  const endingBefore = new Int32Array(unpaged.length)
  const residencies: Residency[] = []
  let now = 0
  for (const d of inOrder(unpaged)) {
    for (; now <= d.acquire; now++)
      for (let i = lastEnding[now]!; i >= 0; i = endingBefore[i]!) for (const r of residencies[i]!.runs) free.give(r)
    endingBefore[residencies.length] = lastEnding[d.release]!
    lastEnding[d.release] = residencies.length
    const known = isForNext(d, end) ? crossing.get(keyOf(d)) : undefined
    const runs = known ?? free.take(d.to - d.from, d.release)
    if (!runs) return left(d)
    if (known) free.takeAgain(known)
    else if (loadedAt.size > 0 && d.acquire === 0 && !d.swapIn && loadedAt.has(keyOf(d))) {
      free.reserve(runs, loadedAt.get(keyOf(d))!)
      crossing.set(keyOf(d), runs)
    }
    residencies.push({ runs, ...d })
  }
  return right({ residencies, peakPages })
}

export const assignPages = (unpaged: readonly UnpagedResidency[], end: Point): Paged => {
  const paged = assigned(unpaged, end)
  if (isLeft(paged)) throw new Error(`the page pool lacks ${paged.left.to - paged.left.from} pages`)
  return paged.right
}

/**
 * Delays loads for the next step until all residencies have pages: those that end after such a load cannot have its pages. Null if a load would start
 * after the last call.
 */
export const withPagesAhead = (unpaged: readonly UnpagedResidency[], end: Point): readonly UnpagedResidency[] | null => {
  if (!unpaged.some((r) => isForNext(r, end))) return unpaged
  if (unpaged.some((r) => isForNext(r, end) && r.acquire >= end)) return null
  const paged = assigned(unpaged, end)
  if (isRight(paged)) return unpaged
  const { release } = paged.left
  return withPagesAhead(
    unpaged.map((r) => (isForNext(r, end) && r.acquire < release ? { ...r, acquire: release } : r)),
    end,
  )
}
