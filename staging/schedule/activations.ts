// The common part of swapping planners: the in-core step with stays of either rule, its activations in order of production, and candidates that swap
// some of them out. In: a graph and a machine. Out: layouts, orders, candidates. Invariant: an activation is a value that is made in the forward pass
// and read again in the backward pass; its gap is the one between the two.
import { mapped } from '../core/mapped'
import { bytesOf, pagesOf } from '../core/bytes'
import type { ValueId } from '../graph/graph'
import type { Link } from '../graph/machine'
import type { PageStays } from '../memory/touches'
import type { Point } from '../plan/plan'
import type { Candidate } from './candidate'
import { inCoreSegments } from './incore'
import { cutInto, type Layout, layOut, packedAs } from './layout'
import { onceFor } from './remember'
import { canSwap, leavingIn, leastSwapping, leastPages, type Timing, type PlannedStays } from './stays'

/** In-core, with a stay for each run of calls: pages may be swapped out between any two uses. */
export const eachUseLayout = onceFor((graph, machine): Layout => layOut(graph, inCoreSegments(graph), machine, { rule: 'run' }))

/** The same, with values of similar lifetimes side by side. */
export const eachUseRows = onceFor((graph, machine): Layout => packedAs(eachUseLayout(graph, machine), 'rows', 'run'))

export interface Activation {
  readonly index: number
  readonly gap: number
  readonly pages: number
  /** The calls at which its bytes are final, its last use in the forward pass ends, and its first use in the backward pass begins. */
  readonly made: Point
  readonly read: Point
  readonly needed: Point
}

/** The first call of the backward pass. */
export const turningPoint = (l: Layout): Point => {
  const p = l.calls.findIndex((c) => l.segments[c.segment]!.phase === 'backward')
  return p < 0 ? l.calls.length : p
}

/** The activations in order of production. */
export const activationsOf = (l: Layout): readonly Activation[] => {
  const turn = turningPoint(l)
  return l.planned
    .flatMap((t, index): readonly Activation[] => {
      const gap = t.stays.findIndex((s, i) => s.last < turn && (t.stays[i + 1]?.first ?? -1) >= turn)
      if (!canSwap(t) || gap < 0) return []
      const made = Math.max(t.stays[0]!.first, ...mapped(t.stays.slice(0, gap + 1), (s) => s.lastWrite + 1))
      return [{ index, gap, pages: t.to - t.from, made, read: t.stays[gap]!.last + 1, needed: t.stays[gap + 1]!.first }]
    })
    .sort((a, b) => a.made - b.made || a.index - b.index)
}

/** The planned stays of the pages on which a value lies. */
export const indicesByValue = (l: Layout): ReadonlyMap<ValueId, readonly number[]> => {
  const byStorage = new Map<number, number[]>()
  l.planned.forEach((t, i) => {
    const known = byStorage.get(t.storage)
    if (known) known.push(i)
    else byStorage.set(t.storage, [i])
  })
  return new Map(
    l.cells.flatMap((c) => {
      const { storage, offset } = l.places[c.id]!
      const [from, to] = pagesOf(offset, c.bytes)
      const under = (byStorage.get(storage) ?? []).filter((i) => l.planned[i]!.from < to && from < l.planned[i]!.to)
      return mapped(c.values, (v) => [v, under] as const)
    }),
  )
}

/** The planned stays of the pages of these parts, which may be cut finer. */
export const indicesUnder = (l: Layout, parts: readonly PageStays[]): ReadonlySet<number> => {
  const chosen = new Map<number, PageStays[]>()
  for (const c of parts) chosen.set(c.storage, [...(chosen.get(c.storage) ?? []), c])
  const isIn = (t: PlannedStays): boolean => chosen.get(t.storage)?.some((c) => c.from <= t.from && t.to <= c.to) ?? false
  return new Set(l.planned.flatMap((t, i) => (isIn(t) ? [i] : [])))
}

/** Swaps these gaps, at times that the planner may choose. */
export const swapping = (
  l: Layout,
  gaps: readonly { readonly index: number; readonly gap: number; readonly timing?: Timing }[],
): readonly PlannedStays[] => {
  const of = new Map<number, { swapped: boolean[]; timing: (Timing | undefined)[] }>()
  for (const { index, gap, timing } of gaps) {
    const t = of.get(index) ?? {
      swapped: [...l.planned[index]!.swapped],
      timing: mapped(l.planned[index]!.swapped, () => undefined),
    }
    t.swapped[gap] = true
    t.timing[gap] = timing
    of.set(index, t)
  }
  return mapped(l.planned, (t, i) => (of.has(i) ? leavingIn(t, t.kind, of.get(i)!) : t))
}

/** The same swaps for each sufficient budget. */
export const always = (layout: Layout, planned: readonly PlannedStays[]): Candidate => ({
  layout,
  least: leastPages(planned, layout.calls.length),
  fit: () => planned,
})

/** Swaps out the first k activations, with the least k that meets the budget. */
export const eager = (layout: Layout, order: readonly Activation[] = activationsOf(layout)): Candidate => {
  const first = (k: number): readonly PlannedStays[] => swapping(layout, order.slice(0, k))
  const need = (k: number): number => leastSwapping(layout.planned, layout.calls.length, order.slice(0, k))
  return {
    layout,
    least: need(order.length),
    fit: (budget) => {
      let [lo, hi] = [0, order.length]
      while (lo < hi) {
        const mid = (lo + hi) >> 1
        if (need(mid) <= budget) hi = mid
        else lo = mid + 1
      }
      return first(lo)
    },
  }
}

/** The largest share of the latency in a part's time on the link. */
const LATENCY_SHARE = 0.003

/** Parts as small as the latency of the link allows. */
export const cutForLink = (layout: Layout, link: Link): Layout => {
  const rate = Math.max(link.outBytesPerSecond, link.inBytesPerSecond)
  const pages = Math.max(1, Math.ceil((link.latencySeconds * rate) / bytesOf(LATENCY_SHARE)))
  return cutInto(layout, pages)
}
