// The input of the next step, loaded while this step ends. In: the best step, which waits for its input. Out: the same step, whose first fed pages are
// loaded in the step before; the simulator chooses. Pages that the backward pass reads again are dropped and fed a second time, because the next
// step's data need their own. Worked example: a convolution reads the images at call 0, its gradient reads them at call 98 of 100. They are released
// after call 0, fed again by call 98, and the next images are loaded into the first pages while calls 90 to 99 run.
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { Call } from '../plan/plan'
import type { Candidate, Improver } from '../schedule/candidate'
import { leavingIn, type PlannedStays } from '../schedule/stays'

/** Calls of all tried steps together. */
const MOST_CALLS = 400_000

/** The gap with the longest compute. */
const longestGap = ({ stays }: PlannedStays, before: Float64Array): number => {
  const seconds = (gap: number): number => before[stays[gap + 1]!.first]! - before[stays[gap]!.last + 1]!
  let longest = 0
  for (let gap = 1; gap < stays.length - 1; gap++) if (seconds(gap) > seconds(longest)) longest = gap
  return longest
}

const secondsBefore = (calls: readonly Call[]): Float64Array => {
  const before = new Float64Array(calls.length + 1)
  calls.forEach((c, p) => {
    before[p + 1] = before[p]! + c.seconds
  })
  return before
}

/** The first `count` fed parts, in order of use, loaded in the step before. */
const loadedAhead = (planned: readonly PlannedStays[], calls: readonly Call[], count: number): readonly PlannedStays[] => {
  const before = secondsBefore(calls)
  const chosen = new Set(
    planned
      .filter((t) => t.kind === 'fed')
      .sort((a, b) => a.stays[0]!.first - b.stays[0]!.first)
      .slice(0, count),
  )
  return planned.map((t) => {
    if (!chosen.has(t)) return t
    const dropped = t.swapped.includes(true) || t.stays.length === 1 ? -1 : longestGap(t, before)
    const swapped = t.swapped.map((is, gap) => is || gap === dropped)
    return leavingIn(t, t.kind, { swapped, timing: t.timing, ahead: calls.length })
  })
}

/** The candidate with its first fed parts loaded in the step before. */
const ahead = (c: Candidate, count: number): Candidate => {
  const { layout, least, like } = c
  return {
    layout,
    least,
    fit: (pages) => loadedAhead(c.fit(pages), layout.calls, count),
    ...(like ? { like: (segments, graph) => ahead(like(segments, graph), count) } : {}),
  }
}

function* overlappingSteps(_: Graph, __: Machine, budgetPages: number, best: Candidate): Generator<Candidate, void, number> {
  const { calls } = best.layout
  const parts = best.fit(budgetPages).filter((t) => t.kind === 'fed').length
  let left = Math.floor(MOST_CALLS / calls.length)
  for (let count = parts; count >= 1 && left > 0; count = Math.floor(count / 2), left--) yield ahead(best, count)
}

export const overlapping: Improver = overlappingSteps
