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
import { canSwap, isFedAgain, type PlannedStays, tightestSwappingAll } from './stays'

/** Lower bounds of a step with known segments: atleast.ts. */
export interface AtLeast {
  readonly pages: number
  /** The seconds for a budget and a link. */
  readonly seconds: (budgetPages: number, link: Link) => number
}

/** A resource of the lower tier that is too small for a plan, in bytes. */
export interface TierLack {
  readonly of: 'host memory' | 'the disk' | 'writes'
  readonly needs: number
  readonly has: number
}

export interface Candidate {
  readonly layout: Layout
  readonly least: number
  readonly fit: (budgetPages: number) => readonly PlannedStays[]
  /** If set, `least` is the need of a step that swaps out all of these parts in every gap. */
  readonly leaving?: typeof canSwap | undefined
  /** The seconds of its calls, if they are known without a layout. The search skips steps that cannot win. */
  readonly computeSeconds?: number
  /** A lower bound on `least`, if one is known without a layout. */
  readonly atLeastPages?: number
  /** Candidates that these bounds exclude are not laid out. */
  readonly atLeast?: AtLeast | undefined
  /** The tiles of the step, if the plan has only tiles. Improvers start from them. */
  readonly tiles?: readonly ChosenSegment[]
  /** A candidate with other segments, of this graph or another one, and the same rules for places and swaps. Improvers use it. */
  readonly like?: (segments: readonly Segment[], graph?: Graph) => Candidate
  /** Called if the plan needs more of the lower tier than there is. The answer is then Infinity. */
  readonly onLack?: (lack: TierLack) => void
}

/**
 * A planner lists its candidates. The list is finite and does not depend on the budget. The search answers each candidate with true if it fits and
 * hardly waits. The planner may then skip candidates that need less memory and compute more.
 */
export type Planner = (graph: Graph, machine: Machine) => Either<StageError, Iterator<Candidate, unknown, boolean>>

/**
 * Candidates for one budget, requested only if a listed candidate of the planner fits it. So the list decides feasibility. The answer to each is its
 * seconds, Infinity if it does not fit or cannot be the fastest. `toBeat`: seconds of the best plan before.
 */
export type Refiner = (
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  toBeat: number,
  /** The effort of the search, in seconds of counted work. */
  effort?: number,
) => Iterator<Candidate, unknown, number>

/** Candidates made from the best one of all strategies for a budget, its graph and its seconds. The answers are those of a refiner. */
export type Improver = (
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  best: Candidate,
  seconds: number,
  /** The effort of the search, in seconds of counted work. */
  effort?: number,
) => Iterator<Candidate, unknown, number>

/** Lists candidates up to a number of calls, which the planner's memory limits. If the next one has more calls, it returns their number. */
export type Finest = (graph: Graph, machine: Machine, mostCalls: number) => Iterator<Candidate, number | undefined, boolean>

export interface Method {
  readonly planner: Planner
  /** The list that follows if no candidate of the first one fits. */
  readonly small?: Planner
  /** The list that follows if no candidate of any strategy fits: more calls, in less memory. */
  readonly finest?: Finest
  /** Candidates for a known budget. */
  readonly refiner?: Refiner | undefined
  /** Improvers, in order. Each gets the best plan so far. */
  readonly improvers?: readonly Improver[]
}

/** Nothing is swapped, so values share pages. */
export const resident = (loose: Layout): Candidate => {
  const tight = packedAs(loose, 'tight')
  const pages = (l: Layout): number => tightestSwappingAll(l.alike, l.calls.length, nothingLeaves).pages
  const layout = pages(tight) <= pages(loose) ? tight : loose
  return { layout, least: pages(layout), fit: () => layout.planned, leaving: nothingLeaves }
}

const nothingLeaves: typeof canSwap = () => false

/** Returns the test of pages that may be swapped or dropped. Without a lower tier, only fed values may. */
export const leavingOf = (machine: Machine): typeof canSwap => (hasTier(machine) ? canSwap : isFedAgain)

/** Swaps out as much as the budget demands, from this layout. */
export const inRows = (layout: Layout, machine: Machine): Candidate => {
  const may = leavingOf(machine)
  return {
    layout,
    least: tightestSwappingAll(layout.alike, layout.calls.length, may).pages,
    fit: (budget) => swapUntil(layout.planned, layout.calls, budget, may),
    leaving: may,
  }
}

/** Swaps out as much as the budget demands. Without a lower tier, values share pages if that takes fewer pages than feeding some values again. */
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
    // Only on the first read: it takes half as long as a layout.
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
    get leaving() {
      return candidate().leaving
    },
  }
}
