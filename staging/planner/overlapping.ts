// The data of the next step, loaded while this step ends. In: the best step, which waits for its input or for parameters of the lower tier. Out: the
// same step, whose first fed pages and first parameters are loaded in the step before; the simulator chooses. Fed pages that the backward pass reads
// late are dropped and fed a second time, because the next step's data need them. Parameters are loaded after their update.
// Worked example: a convolution reads the images at call 0, its gradient reads them at call 98 of 100. They are released after call 0, fed again by
// call 98, and the next images are loaded into the first pages while calls 90 to 99 run.
import { bytesOf, FEED_BAND_BYTES } from '../core/bytes'
import { type Graph, valueBytes } from '../graph/graph'
import type { Link, Machine } from '../graph/machine'
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
 * Returns the parts of a kind that may be loaded ahead, in order of use. A sample that is read in bands is excluded: it would be read and decoded twice.
 * A parameter is excluded if it is used so late that the step ends before it is written and loaded.
 */
const offered = (
  { graph, cells, storages, calls }: Layout,
  { latencySeconds, outBytesPerSecond, inBytesPerSecond }: Link,
  planned: readonly PlannedStays[],
  kind: keyof Ahead,
): readonly PlannedStays[] => {
  const sampleBytes = ({ storage }: PlannedStays): number => {
    const value = graph.values[cells[storages[storage]!.cells[0]!]!.values[0]!]!
    return valueBytes(value) / value.shape[0]!
  }
  const before = secondsBefore(calls)
  const secondsLeft = ({ stays }: PlannedStays): number => before[calls.length]! - before[stays[stays.length - 1]!.last + 1]!
  const may = (t: PlannedStays): boolean =>
    kind === 'fed'
      ? !(isReadAgain(t) && sampleBytes(t) > FEED_BAND_BYTES)
      : secondsLeft(t) > 2 * latencySeconds + bytesOf(t.to - t.from) * (1 / outBytesPerSecond + 1 / inBytesPerSecond)
  return planned
    .filter((t) => t.kind === kind && t.ahead === undefined && may(t))
    .sort((a, b) => a.stays[0]!.first - b.stays[0]!.first)
}

/** The number of parts of each kind that are loaded in the step before. */
interface Ahead {
  readonly fed: number
  readonly home: number
}

/** Returns the stays with the first parts of each kind loaded in the step before. */
const loadedAhead = (layout: Layout, link: Link, planned: readonly PlannedStays[], count: Ahead): readonly PlannedStays[] => {
  const { calls } = layout
  const before = secondsBefore(calls)
  const chosen = new Set(KINDS.flatMap((kind) => offered(layout, link, planned, kind).slice(0, count[kind])))
  return planned.map((t) => {
    if (!chosen.has(t)) return t
    const dropped = t.kind === 'fed' && isReadAgain(t) ? longestGap(t, before) : -1
    const swapped = t.swapped.map((is, gap) => is || gap === dropped)
    return leavingIn(t, t.kind, { swapped, timing: t.timing, ahead: calls.length })
  })
}
const KINDS = ['fed', 'home'] as const

/** Returns the candidate with parts loaded in the step before; by default with all fed parts. */
export const ahead = (c: Candidate, link: Link, count: Ahead = { fed: Infinity, home: 0 }): Candidate => {
  const { layout, least, like } = c
  return {
    layout,
    least,
    fit: (pages) => loadedAhead(layout, link, c.fit(pages), count),
    ...(like ? { like: (segments, graph) => ahead(like(segments, graph), link, count) } : {}),
  }
}

function* overlappingSteps(
  _: Graph,
  { link }: Machine,
  budgetPages: number,
  best: Candidate,
): Generator<Candidate, void, number> {
  const planned = best.fit(budgetPages)
  let left = Math.floor(MOST_CALLS / best.layout.calls.length)
  const count = { fed: 0, home: 0 }
  let least = Infinity
  for (const kind of KINDS)
    for (let n = offered(best.layout, link, planned, kind).length; n >= 1 && left > 0; n = Math.floor(n / 2), left--) {
      const seconds = yield ahead(best, link, { ...count, [kind]: n })
      if (seconds < least) [least, count[kind]] = [seconds, n]
    }
}

export const overlapping: Improver = overlappingSteps
