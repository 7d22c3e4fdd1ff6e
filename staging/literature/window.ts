// `swap:window` (paper 1): a window of bytes slides over the sequence of variables that the calls touch. An entering variable is prefetched, if
// memory is free; a used one leaves, unless the window holds its next use; swaps out are awaited, the oldest first, if memory is needed. A first use
// that only writes copies nothing, a variable without another use is dropped. The paper backtracks after a failed reservation; this only takes memory
// that no call until the use needs, so it never fails. Worked example, uses a b c b a of 2 pages each, window 4: after its first use b is held for
// its second, a leaves for c.
import { isRight, right } from 'fp-ts/Either'
import type { Point } from '../plan/plan'
import type { Candidate, Planner } from '../schedule/candidate'
import { swapAll } from '../schedule/belady'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { atHome, type Layout } from '../schedule/layout'
import { eachUseLayout } from '../schedule/activations'
import { prefetched, type Wish } from './prefetch'
import { onceFor } from '../schedule/remember'
import { overSharedPages } from '../schedule/sharing'
import { canSwap, leastPages } from '../schedule/stays'

export interface WindowOptions {
  /** Windows to try, as shares of the budget; the simulator chooses. The paper's best for ResNet-50 was 1.5. */
  readonly shares: readonly number[]
  /** The values in the window are not moved. */
  readonly skipRedundant: boolean
  /** Large parameters and state are in the sequence, too: they are in the lower tier between their uses. */
  readonly parameters: boolean
}
export const WINDOW: WindowOptions = { shares: [0.25, 0.5, 1, 1.5, 2, 4, 8, 16], skipRedundant: true, parameters: false }

/** Pages of variables that the calls before a point touch, each use counted. */
const touchedBefore = (l: Layout): Float64Array => {
  const before = new Float64Array(l.calls.length + 1)
  for (const t of l.planned) {
    if (!canSwap(t)) continue
    for (const s of t.stays) for (let p = s.first; p <= s.last; p++) before[p + 1]! += t.to - t.from
  }
  for (let p = 0; p < l.calls.length; p++) before[p + 1]! += before[p]!
  return before
}

/** The first call whose window of this number of pages holds all touched values up to and with a use. */
const entersAt = (before: Float64Array, use: Point, pages: number): Point => {
  let [lo, hi] = [0, use]
  while (lo < hi) {
    const mid = (lo + hi) >> 1
    if (before[use + 1]! - before[mid]! <= pages) hi = mid
    else lo = mid + 1
  }
  return lo
}

export const windowSwaps = (
  l: Layout,
  windowPages: number,
  budgetPages: number,
  o: Pick<WindowOptions, 'skipRedundant'> = WINDOW,
) => {
  const before = touchedBefore(l)
  const wishes = l.planned.flatMap((t, index): readonly Wish[] =>
    canSwap(t)
      ? t.stays.slice(1).map((s, gap) => {
          const enters = entersAt(before, s.first, windowPages)
          return { index, gap, earliest: o.skipRedundant ? enters : Math.max(enters, t.stays[gap]!.last + 2) }
        })
      : [],
  )
  const use = (w: Wish): Point => l.planned[w.index]!.stays[w.gap + 1]!.first
  return prefetched(
    l,
    wishes.sort((a, b) => use(a) - use(b)),
    budgetPages,
  )
}

const candidate = (l: Layout, least: number, share: number, o: WindowOptions): Candidate => ({
  layout: l,
  least,
  fit: (budget) => windowSwaps(l, share * budget, budget, o),
})

/** Every value that a call uses, parameters included. */
const sequenceLayout = onceFor((graph, machine): Layout => atHome(eachUseLayout(graph, machine), 'apart', 'run'))

const candidates = (l: Layout, o: WindowOptions): readonly Candidate[] => {
  const least = leastPages(swapAll(l.planned), l.calls.length)
  return o.shares.map((share) => candidate(l, least, share, o))
}

export const window =
  (options: Partial<WindowOptions> = {}): Planner =>
  (graph, machine) => {
    const o = { ...WINDOW, ...options }
    return right(candidates((o.parameters ? sequenceLayout : eachUseLayout)(graph, machine), o).values())
  }

const shared = overSharedPages(eachUseLayout, 'run', (l) => candidates(l, WINDOW))

/** If nothing else fits: over shared pages, and with parameters in the sequence, as the paper has them throughout. */
export const windowSmall: Planner = (graph, machine) => right(small(graph, machine))

function* small(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const listed = shared(graph, machine)
  if (isRight(listed)) for (let next = listed.right.next(false); !next.done; next = listed.right.next(false)) yield next.value
  yield* candidates(sequenceLayout(graph, machine), WINDOW)
}
