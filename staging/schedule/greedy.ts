// `swap:greedy` (paper 5, section 4.2): the no-wait, ordered, eager schedule that offloads the first k activations whole,
// k being the least number that meets the budget. Out in order of production, back in reverse order.
// General graphs: activations in order of production, whatever reads them.
import { pipe } from 'fp-ts/function'
import { map, mapLeft } from 'fp-ts/Either'
import type { Candidate, Planner } from './candidate'
import { canLeave, leastPages, type Track } from './tracks'
import { inCoreSegments } from './incore'
import { type Layout, layOut } from './layout'
import { tileFailed } from './tilefailed'

const offloadFirst = (layout: Layout, order: readonly number[], k: number): readonly Track[] => {
  const out = new Set(order.slice(0, k))
  return layout.tracks.map((t, i) => (out.has(i) ? { ...t, leaves: t.leaves.map(() => true) } : t))
}

const greedyCandidate = (layout: Layout): Candidate => {
  const order = layout.tracks
    .map((t, i) => ({ t, i }))
    .filter(({ t }) => canLeave(t) && t.stays.length > 1)
    .sort((a, b) => a.t.stays[0]!.first - b.t.stays[0]!.first)
    .map(({ i }) => i)
  const need = (k: number): number => leastPages(offloadFirst(layout, order, k), layout.calls.length)
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
      return offloadFirst(layout, order, lo)
    },
  }
}

export const swapGreedy: Planner = (graph, machine) =>
  pipe(inCoreSegments(graph), mapLeft(tileFailed('swap:greedy')), map((segments) => [greedyCandidate(layOut(graph, segments, machine))].values()))
