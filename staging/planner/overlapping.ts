// The input of the next step, loaded while this step ends. In: the best step, which waits for its input. Out: the same step, whose first fed pages are
// loaded in the step before; the simulator chooses. Pages that the backward pass reads late are dropped and fed a second time, because the next
// step's data need them. Worked example: a convolution reads the images at call 0, its gradient reads them at call 98 of 100. They are released
// after call 0, fed again by call 98, and the next images are loaded into the first pages while calls 90 to 99 run.
import { FEED_BAND_BYTES } from '../core/bytes'
import { type Graph, valueBytes } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { Call } from '../plan/plan'
import type { Candidate, Improver } from '../schedule/candidate'
import type { Layout } from '../schedule/layout'
import { leavingIn, type PlannedStays } from '../schedule/stays'

/** The most calls of all tried steps together. */
const MOST_CALLS = 400_000

/** Returns the gap with the longest compute, or -1 if the compute after the last read is longer: the next data arrive then. */
const longestGap = ({ stays }: PlannedStays, before: Float64Array): number => {
  const end = before[before.length - 1]!
  const seconds = (gap: number): number => (stays[gap + 1] ? before[stays[gap + 1]!.first]! : end) - before[stays[gap]!.last + 1]!
  let longest = stays.length - 1
  for (let gap = 0; gap < stays.length - 1; gap++) if (seconds(gap) > seconds(longest)) longest = gap
  return longest < stays.length - 1 ? longest : -1
}

const secondsBefore = (calls: readonly Call[]): Float64Array => {
  const before = new Float64Array(calls.length + 1)
  calls.forEach((c, p) => {
    before[p + 1] = before[p]! + c.seconds
  })
  return before
}

/** Returns true if the backward pass reads pages again that the next step's data need. */
const isReadAgain = ({ swapped, stays }: PlannedStays): boolean => stays.length > 1 && !swapped.includes(true)

/**
 * Returns the fed parts that may be loaded ahead, in order of use. A sample that is read in bands is excluded: it would be read and decoded twice.
 */
const offered = ({ graph, cells, storages }: Layout, planned: readonly PlannedStays[]): readonly PlannedStays[] => {
  const sampleBytes = ({ storage }: PlannedStays): number => {
    const value = graph.values[cells[storages[storage]!.cells[0]!]!.values[0]!]!
    return valueBytes(value) / value.shape[0]!
  }
  return planned
    .filter((t) => t.kind === 'fed' && !(isReadAgain(t) && sampleBytes(t) > FEED_BAND_BYTES))
    .sort((a, b) => a.stays[0]!.first - b.stays[0]!.first)
}

/** Returns the stays with the first `count` of these parts loaded in the step before. */
const loadedAhead = (layout: Layout, planned: readonly PlannedStays[], count: number): readonly PlannedStays[] => {
  const { calls } = layout
  const before = secondsBefore(calls)
  const chosen = new Set(offered(layout, planned).slice(0, count))
  return planned.map((t) => {
    if (!chosen.has(t)) return t
    const dropped = isReadAgain(t) ? longestGap(t, before) : -1
    const swapped = t.swapped.map((is, gap) => is || gap === dropped)
    return leavingIn(t, t.kind, { swapped, timing: t.timing, ahead: calls.length })
  })
}

/** Returns the candidate with its first `count` parts loaded in the step before, or with all of them. */
export const ahead = (c: Candidate, count = Infinity): Candidate => {
  const { layout, least, like } = c
  return {
    layout,
    least,
    fit: (pages) => loadedAhead(layout, c.fit(pages), count),
    ...(like ? { like: (segments, graph) => ahead(like(segments, graph), count) } : {}),
  }
}

function* overlappingSteps(_: Graph, __: Machine, budgetPages: number, best: Candidate): Generator<Candidate, void, number> {
  const parts = offered(best.layout, best.fit(budgetPages)).length
  let left = Math.floor(MOST_CALLS / best.layout.calls.length)
  for (let count = parts; count >= 1 && left > 0; count = Math.floor(count / 2), left--) yield ahead(best, count)
}

export const overlapping: Improver = overlappingSteps
