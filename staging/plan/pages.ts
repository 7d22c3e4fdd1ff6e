// Plan-time page tables. In: residencies without pages. Out: the same with runs of physical pages, and the
// peak. Since every page serves every residency, the pool needs exactly as many pages as are held at the worst moment:
// fragmentation costs mappings, never memory. Best fit keeps the runs few.
// Worked example, pool of 4: a takes 0-1, b takes 2-3, a goes, c (3 pages) cannot be; c (2 pages) takes 0-1.
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

/** The free pages of the pool as sorted, disjoint, merged runs. */
class FreeRuns {
  private runs: { page: number; count: number }[]
  /** By page and count: plans have millions of residencies, in few places. */
  private readonly alone = new Map<number, readonly [PageRun]>()

  constructor(private readonly pages: number) {
    this.runs = pages > 0 ? [{ page: 0, count: pages }] : []
  }

  take(count: number): readonly PageRun[] {
    const first = this.takeRun(count)
    if (first.count === count) {
      const key = first.page * this.pages + count - 1
      const known = this.alone.get(key)
      if (known) return known
      const made = [first] as const
      this.alone.set(key, made)
      return made
    }
    const out = [first]
    for (let left = count - first.count; left > 0; left -= out.at(-1)!.count) out.push(this.takeRun(left))
    return out
  }

  /** This number of pages in one run, or the longest run. */
  private takeRun(count: number): PageRun {
    const fit = this.bestFit(count)
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

  /** The smallest run that is large enough, else the largest. */
  private bestFit(count: number): number {
    let best = -1
    for (let i = 0; i < this.runs.length; i++) {
      const c = this.runs[i]!.count
      const b = best < 0 ? -1 : this.runs[best]!.count
      if (best < 0 || (c >= count ? b < count || c < b : b < count && c > b)) best = i
    }
    return best
  }

  give(run: PageRun): void {
    let i = this.runs.findIndex((r) => r.page > run.page)
    if (i < 0) i = this.runs.length
    this.runs.splice(i, 0, { ...run })
    for (const k of [i, i - 1]) {
      const a = this.runs[k]
      const b = this.runs[k + 1]
      if (a && b && a.page + a.count === b.page) {
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

export const assignPages = (unpaged: readonly UnpagedResidency[], end: Point): Paged => {
  const peakPages = peakOf(unpaged, end)
  const free = new FreeRuns(peakPages)
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
    residencies.push({ runs: free.take(d.to - d.from), ...d })
  }
  return { residencies, peakPages }
}
