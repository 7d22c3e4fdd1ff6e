// What a planner offers: candidates, each a way to run the step that may or may not fit a budget. In: a layout and a rule
// for what leaves. Out: planned stays for a budget. compile.ts takes the fastest candidate that fits.
// Invariant: `least` does not depend on the budget and `fit` succeeds exactly from `least` pages on, so feasibility is monotone.
import type { Either } from 'fp-ts/Either'
import type { StageError } from '../core/errors'
import type { Graph } from '../graph/graph'
import { hasTier, type Link, type Machine } from '../graph/machine'
import type { Segment } from '../plan/plan'
import type { ChosenSegment } from '../tile/segmentation'
import { type Layout, packedAs } from './layout'
import { swapUntil } from './belady'
import { canSwap, isFedAgain, leastPages, leastSwappingAll, type PlannedStays } from './stays'

/** What a step takes at least, where its segments are known: atleast.ts. */
export interface AtLeast {
  readonly pages: number
  /** In a budget, on a link. */
  readonly seconds: (budgetPages: number, link: Link) => number
}

export interface Candidate {
  readonly layout: Layout
  readonly least: number
  readonly fit: (budgetPages: number) => readonly PlannedStays[]
  /** What its calls take, where that is known without laying it out: the search skips what cannot win. */
  readonly computeSeconds?: number
  /** A bound on `least` from below, where one is known without laying it out. */
  readonly atLeastPages?: number
  /** Nothing that these bounds rule out need be laid out. */
  readonly atLeast?: AtLeast | undefined
  /** The tiles of the step, where it is nothing but tiles: an improver may start from them. */
  readonly tiles?: readonly ChosenSegment[]
  /** Other segments, of this graph or another one, placed and moved as these are: an improver may change them. */
  readonly like?: (segments: readonly Segment[], graph?: Graph) => Candidate
}

/**
 * A planner lists its candidates; the list is finite and does not depend on the budget. The search answers each with
 * whether it fits and hardly waits: then a planner may skip those that only need less memory and compute more.
 */
export type Planner = (graph: Graph, machine: Machine) => Either<StageError, Iterator<Candidate, unknown, boolean>>

/**
 * Candidates made for one budget, asked for only where the planner's list has one that fits it: what is feasible stays the
 * list's to say. Each is answered with the seconds that it takes, Infinity where it does not fit or cannot be the fastest.
 * `toBeat`: seconds of the best plan before.
 */
export type Refiner = (
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  toBeat: number,
  /** Seconds of the search, as work. */
  effort?: number,
) => Iterator<Candidate, unknown, number>

/** Candidates made from the best one for a budget, whatever strategy it is of, and its seconds; answered like a refiner's. */
export type Improver = (
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  best: Candidate,
  seconds: number,
) => Iterator<Candidate, unknown, number>

/** As many calls as there is memory to plan; what it ends with is how many the next step of the list would have taken, if that was too many. */
export type Finest = (graph: Graph, machine: Machine, mostCalls: number) => Iterator<Candidate, number | undefined, boolean>

export interface Method {
  readonly planner: Planner
  /** What it lists where nothing of that fits. */
  readonly small?: Planner
  /** What it lists last of all, where nothing of any strategy fits: more calls, in less memory. */
  readonly finest?: Finest
  /** What it tries once the budget is known. */
  readonly refiner?: Refiner | undefined
  /** What it tries last, one after the other, each with the best plan by then. */
  readonly improvers?: readonly Improver[]
}

/** Nothing leaves the device: values need no pages of their own. */
export const resident = (loose: Layout): Candidate => {
  const tight = packedAs(loose, 'tight')
  const pages = (l: Layout): number => leastPages(l.planned, l.calls.length)
  const layout = pages(tight) <= pages(loose) ? tight : loose
  return { layout, least: pages(layout), fit: () => layout.planned }
}

/** Returns the test of pages that may leave the device: without a lower tier, only fed values. */
export const leavingOf = (machine: Machine): typeof canSwap => (hasTier(machine) ? canSwap : isFedAgain)

/** As much leaves as the budget demands, from this layout. */
export const inRows = (layout: Layout, machine: Machine): Candidate => {
  const may = leavingOf(machine)
  return {
    layout,
    least: leastSwappingAll(layout.planned, layout.calls.length, may),
    fit: (budget) => swapUntil(layout.planned, layout.calls, budget, may),
  }
}

/** As much leaves as the budget demands. Without a lower tier, values share pages if that takes less than feeding some again. */
export const swappingOnDemand = (layout: Layout, machine: Machine): Candidate => {
  const candidate = inRows(layout, machine)
  if (hasTier(machine)) return candidate
  const whole = resident(layout)
  return whole.least <= candidate.least ? whole : candidate
}

/** What is laid out only when the search asks for more than its bounds. */
export interface Deferred extends Candidate {
  readonly isLaidOut: boolean
}

export const deferred = (
  computeSeconds: number,
  make: () => Candidate,
  known: Pick<Candidate, 'atLeastPages' | 'tiles' | 'like'> & { readonly atLeast?: () => AtLeast } = {},
): Deferred => {
  let made: Candidate | undefined
  let least: AtLeast | undefined
  const { atLeast, ...others } = known
  const candidate = (): Candidate => {
    made ??= make()
    return made
  }
  return {
    computeSeconds,
    ...others,
    // Only when it is asked for: it takes as long as half a layout.
    get atLeast() {
      least ??= atLeast?.()
      return least
    },
    get isLaidOut() {
      return made !== undefined
    },
    get layout() {
      return candidate().layout
    },
    get least() {
      return candidate().least
    },
    fit: (budget) => candidate().fit(budget),
  }
}
