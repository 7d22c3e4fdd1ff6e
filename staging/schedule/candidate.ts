// The candidates of planners: each is a way to run the step that may or may not fit a budget. In: a layout and a rule for swaps. Out: planned stays
// for a budget. compile.ts takes the fastest candidate that fits. Invariant: `least` does not depend on the budget and `fit` succeeds exactly from
// `least` pages on, so feasibility is monotone.
import type { Either } from 'fp-ts/Either'
import type { StageError } from '../core/errors'
import type { Graph } from '../graph/graph'
import { hasTier, type Link, type Machine } from '../graph/machine'
import type { Segment } from '../plan/plan'
import type { ChosenSegment } from '../tile/segmentation'
import { type Layout, packedAs } from './layout'
import { swapUntil } from './belady'
import { canSwap, isFedAgain, leastPages, leastSwappingAll, type PlannedStays } from './stays'

/** Lower bounds of a step with known segments: atleast.ts. */
export interface AtLeast {
  readonly pages: number
  /** In a budget, on a link. */
  readonly seconds: (budgetPages: number, link: Link) => number
}

export interface Candidate {
  readonly layout: Layout
  readonly least: number
  readonly fit: (budgetPages: number) => readonly PlannedStays[]
  /** The seconds of its calls, if they are known without a layout: the search skips steps that cannot win. */
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
 * Candidates for one budget, requested only if the planner's list has one that fits it: the list decides feasibility. The answer to each is its
 * seconds, Infinity if it does not fit or cannot be the fastest. `toBeat`: seconds of the best plan before.
 */
export type Refiner = (
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  toBeat: number,
  /** Seconds of the search, as work. */
  effort?: number,
) => Iterator<Candidate, unknown, number>

/** Candidates made from the best one of any strategy for a budget, and its seconds; with the same answers as a refiner's. */
export type Improver = (
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  best: Candidate,
  seconds: number,
) => Iterator<Candidate, unknown, number>

/** Up to the calls that the memory of the planner admits. It returns the calls of the next step of the list, if they were too many. */
export type Finest = (graph: Graph, machine: Machine, mostCalls: number) => Iterator<Candidate, number | undefined, boolean>

export interface Method {
  readonly planner: Planner
  /** Its list if nothing of that fits. */
  readonly small?: Planner
  /** Its last list, if nothing of any strategy fits: more calls, in less memory. */
  readonly finest?: Finest
  /** Its candidates for a known budget. */
  readonly refiner?: Refiner | undefined
  /** Its last candidates, one after the other, each with the best plan by then. */
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

/** A candidate that is laid out only if the search needs more than its bounds. */
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
