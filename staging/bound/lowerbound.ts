// The lower bound of a step in a budget, for all plans of a graph on a machine. In: a training graph, a machine, a budget, a solver of linear
// programmes. Out: seconds; or undefined on a machine with measured times, where tiles may be faster than the whole. Invariant: it does not depend on
// a plan, and no tolerance of the solver raises it (linear.ts).
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { barriersOf, chosenOf } from './barriers'
import { type LinearProgramme, provenBy } from './linear'
import { leastSecondsOf, MOST_TIMES, programmeOf } from './programme'

/** Returns multipliers of the rows, near the optimum for a good bound; undefined if the solver fails. */
export type Solver = (programme: LinearProgramme) => ArrayLike<number> | undefined

/** The most barriers. More of them raise no bound of `plans --suite bounds` by 0.5 %. */
const MOST_BARRIERS = 12
/** The most barriers times ops. This number takes one to two processor seconds. */
const MOST_WORK = 4000
/** The most ops. With more, the programme of a single barrier takes seconds. */
const MOST_OPS = 8000

/** A bound differs from the compute if it is larger by more than this share. */
const ROUNDING = 1e-9

export interface LowerBound {
  readonly seconds: number
  /** True if the bound is only the compute of all ops, each run once. */
  readonly isCompute: boolean
}

/** Returns the lower bound. Without a solver, it is the compute. */
export const lowerBoundOf = (
  graph: Graph,
  machine: Machine,
  budgetBytes: number,
  solve?: Solver,
  mostBarriers = MOST_BARRIERS,
): LowerBound | undefined => {
  if (!machine.simulated) return undefined
  const compute = leastSecondsOf(graph, machine)
  const onlyCompute = { seconds: compute, isCompute: true }
  const barriers = barriersOf(graph)
  if (!solve || barriers.ops.length === 0 || graph.ops.length > MOST_OPS) return onlyCompute
  const count = Math.max(1, Math.min(mostBarriers, Math.floor(MOST_WORK / graph.ops.length)))
  const provenWith = (n: number): number => {
    const programme = programmeOf(graph, machine, budgetBytes, chosenOf(graph, barriers, n))
    const multipliers = programme && solve(programme)
    return programme && multipliers ? provenBy(programme, multipliers) / 1e3 : 0
  }
  // Each chain of barriers proves a bound. A single barrier is cheap, and some networks have no better chain.
  const proven = Math.max(...[...new Set([1, count])].map(provenWith))
  // The programme does not model slower steps.
  const seconds = Math.min(proven, MOST_TIMES * compute)
  return seconds > compute * (1 + ROUNDING) ? { seconds, isCompute: false } : onlyCompute
}
