// Prefetches as early as memory admits. In: gaps that leave, for each the earliest start of its swap in, in the order of their claims; a budget. Out:
// planned stays with their swap-in times. Invariant: no prefetch takes memory from a call's need, so a budget that admits the moves without
// prefetching admits them with it. If memory is free back to the start of the gap, the pages stay. Worked example, budget 4: x (2 pages) is needed at
// call 6 and may come at 2; calls 3 and 4 hold 3 pages: it comes at 5.
import type { Point } from '../plan/plan'
import type { Layout } from '../schedule/layout'
import { swapping } from '../schedule/activations'
import { occupancy, type Timing, type PlannedStays } from '../schedule/stays'

export interface Wish {
  readonly index: number
  readonly gap: number
  readonly earliest: Point
  readonly timing?: Timing
}

export const prefetched = (l: Layout, wishes: readonly Wish[], budgetPages: number): readonly PlannedStays[] => {
  const needed = (w: Wish): Point => l.planned[w.index]!.stays[w.gap + 1]!.first
  const idle = wishes.filter((w) => l.planned[w.index]!.stays[w.gap]!.last + 1 < needed(w))
  const occ = occupancy(swapping(l, idle), l.calls.length)
  const gaps = idle.flatMap((w) => {
    const { stays, from, to } = l.planned[w.index]!
    const start = stays[w.gap]!.last + 1
    const earliest = Math.max(start, w.earliest)
    let swapInAt = needed(w)
    while (swapInAt > earliest && occ[swapInAt - 1]! + to - from <= budgetPages) occ[--swapInAt]! += to - from
    return swapInAt === start ? [] : [{ ...w, timing: { ...w.timing, swapInAt } }]
  })
  return swapping(l, gaps)
}
