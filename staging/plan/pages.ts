// Plan-time page tables. In: residencies without pages. Out: the same with runs of physical pages, and the peak. Any page can serve any residency, so
// the pool needs exactly as many pages as are held at the peak: fragmentation costs mappings, never memory. Best fit keeps the number of runs small.
// Worked example, pool of 4: a takes 0-1, b takes 2-3, a is released; c cannot take 3 pages; with 2 pages, c takes 0-1.
import { type Either, isLeft, isRight, left, right } from 'fp-ts/Either'
import { isForNext, keyOf } from './ahead'
import type { UnpagedResidency, PageRun, Point, Residency } from './plan'

/** Returns the pages held at the peak. At one point, releases come before acquires. */
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
  /** The point where data for the next step begin to take these pages. Other residencies must release them by then. */
  readonly until: Point
}

/** The free pages of the pool as sorted, disjoint runs; neighbours with one `until` are merged. */
class FreeRuns {
  private runs: FreeRun[]
  /** By page: its `until`. Empty if no data are loaded for the next step. */
  private readonly until = new Map<number, Point>()
  /** By page and count: lists of one run, shared, because plans have millions of residencies on few runs. */
  private readonly singleRuns = new Map<number, readonly [PageRun]>()

  constructor(private readonly pages: number) {
    this.runs = pages > 0 ? [{ page: 0, count: pages, until: Infinity }] : []
  }

  /** Marks these pages: after their next release, they are free only up to `until`. */
  reserve(runs: readonly PageRun[], until: Point): void {
    for (const { page, count } of runs) for (let p = page; p < page + count; p++) this.until.set(p, until)
  }

  /** Takes exactly these pages, which were reserved, and ends the reservation. */
  takeReserved(runs: readonly PageRun[]): void {
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

  /** Takes pages up to a release; undefined if too few are free until then. */
  take(count: number, release: Point): readonly PageRun[] | undefined {
    if (this.until.size > 0 && this.runs.reduce((n, r) => n + (r.until >= release ? r.count : 0), 0) < count) return undefined
    const first = this.takeRun(count, release)
    if (first.count === count) {
      const key = first.page * this.pages + count - 1
      const known = this.singleRuns.get(key)
      if (known) return known
      const made = [first] as const
      this.singleRuns.set(key, made)
      return made
    }
    const out = [first]
    for (let left = count - first.count; left > 0; left -= out.at(-1)!.count) out.push(this.takeRun(left, release))
    return out
  }

  /** Takes one run of `count` pages, or the longest run if that is shorter. */
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

  free({ page, count }: PageRun): void {
    const until = (p: number): Point => this.until.get(p) ?? Infinity
    const isOne = this.until.size === 0
    for (let from = page; from < page + count; ) {
      let to = isOne ? page + count : from + 1
      while (to < page + count && until(to) === until(from)) to++
      this.freeRun({ page: from, count: to - from, until: until(from) })
      from = to
    }
  }

  private freeRun(run: FreeRun): void {
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

/** Sorts residencies by `acquire`. At one `acquire`, the residency with the last release comes first, so that the free pages stay together. */
export const inOrder = (residencies: readonly UnpagedResidency[]): readonly UnpagedResidency[] =>
  [...residencies].sort((a, b) => a.acquire - b.acquire || b.release - a.release || a.storage - b.storage || a.from - b.from)

export interface Paged {
  readonly residencies: readonly Residency[]
  readonly peakPages: number
}

/** Assigns pages. Left: a residency that gets too few pages, because loads for the next step take them before its release. */
const assigned = (unpaged: readonly UnpagedResidency[], end: Point): Either<UnpagedResidency, Paged> => {
  const peakPages = peakOf(unpaged, end)
  const pool = new FreeRuns(peakPages)
  const loadedAt = new Map(unpaged.flatMap((r) => (isForNext(r, end) ? [[keyOf(r), r.acquire] as const] : [])))
  const crossing = new Map<string, readonly PageRun[]>()
  /** By point: the last residency that ends there. By residency: the one before it that ends at the same point. */
  const lastEnding = new Int32Array(end + 1).fill(-1)
  const endingBefore = new Int32Array(unpaged.length)
  const residencies: Residency[] = []
  let now = 0
  for (const d of inOrder(unpaged)) {
    for (; now <= d.acquire; now++)
      for (let i = lastEnding[now]!; i >= 0; i = endingBefore[i]!) for (const r of residencies[i]!.runs) pool.free(r)
    endingBefore[residencies.length] = lastEnding[d.release]!
    lastEnding[d.release] = residencies.length
    const known = isForNext(d, end) ? crossing.get(keyOf(d)) : undefined
    const runs = known ?? pool.take(d.to - d.from, d.release)
    if (!runs) return left(d)
    if (known) pool.takeReserved(known)
    else if (loadedAt.size > 0 && d.acquire === 0 && !d.swapIn && loadedAt.has(keyOf(d))) {
      pool.reserve(runs, loadedAt.get(keyOf(d))!)
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
 * Delays loads for the next step until all residencies have pages, because a residency that ends after such a load starts cannot have its pages.
 * Returns null if a load would start after the last call.
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
