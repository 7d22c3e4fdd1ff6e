// Fetching early as far as memory admits. In: gaps that leave, for each how early its swap in may start, in the order in
// which they get room; a budget. Out: tracks with the times at which they come.
// Invariant: nothing that is fetched early takes room from what a call needs, so a budget that admits the moves without
// fetching early admits them with it. Where the room reaches back to the start of the gap, the pages stay.
// Worked example, budget 4: x (2 pages) is needed at call 6 and may come at 2; calls 3 and 4 hold 3 pages: it comes at 5.
import type { Point } from '../plan/plan'
import type { Layout } from './layout'
import { leaving } from './activations'
import { occupancy, type Timing, type Track } from './tracks'

export interface Wish {
  readonly track: number
  readonly gap: number
  readonly earliest: Point
  readonly timing?: Timing
}

export const prefetched = (l: Layout, wishes: readonly Wish[], budgetPages: number): readonly Track[] => {
  const needed = (w: Wish): Point => l.tracks[w.track]!.stays[w.gap + 1]!.first
  const idle = wishes.filter((w) => l.tracks[w.track]!.stays[w.gap]!.last + 1 < needed(w))
  const occ = occupancy(leaving(l, idle), l.calls.length)
  const gaps = idle.flatMap((w) => {
    const { stays, from, to } = l.tracks[w.track]!
    const start = stays[w.gap]!.last + 1
    const earliest = Math.max(start, w.earliest)
    let comeAt = needed(w)
    while (comeAt > earliest && occ[comeAt - 1]! + to - from <= budgetPages) occ[--comeAt]! += to - from
    return comeAt === start ? [] : [{ ...w, timing: { ...w.timing, comeAt } }]
  })
  return leaving(l, gaps)
}
