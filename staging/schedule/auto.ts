// `auto`: mixtures of keeping, recomputing and swapping, for one budget. In: the training graph. Out: candidates: optimal
// recomputation in more memory than there is (optimal.ts), of which pages then leave as the budget demands.
// The memory given to the programme is the one number to choose: with all of it, everything that does not fit is swapped; with
// only the budget, nothing is. Between, recompute falls and traffic rises: the fastest is where compute and the link are both busy.
// Worked example, a third of in-core over PCIe: half of the excess is cheap norms and rectifiers made again, half moves.
import { right } from 'fp-ts/Either'
import { PAGE_BYTES } from '../core/bytes'
import type { Graph } from '../graph/graph'
import type { Link, Machine } from '../graph/machine'
import { type Candidate, type Planner, type Refiner, resident, spilling } from './candidate'
import { type OptimalChain, optimalOf } from './optimal'

/** The distance at which the search for the best memory begins, and the one at which it ends, in parts of the whole range. */
const COARSE = 1 / 6
const FINE = 1 / 60

/** The one that needs least. */
function* listed(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const optimal = optimalOf(graph, machine)
  yield optimal.candidate(optimal.steps[0]!, spilling)
}

export const auto: Planner = (graph, machine) => right(listed(graph, machine))

/** For each memory what the step takes at least: its compute, and the link's time for what does not fit. */
const estimates = (optimal: OptimalChain, budgetPages: number, link: Link): readonly number[] => {
  const { steps } = optimal
  const least = steps[0]!
  const besides = resident(optimal.layout(least)).least * PAGE_BYTES - optimal.bytes(least)
  return steps.map((m) => {
    const excess = Math.max(0, besides + optimal.bytes(m) - budgetPages * PAGE_BYTES)
    return Math.max(optimal.seconds(m), excess / link.outBytesPerSecond + excess / link.inBytesPerSecond)
  })
}

/** From the memory that the estimate prefers, both ways in steps that halve when they no longer help. */
function* mixtures(graph: Graph, machine: Machine, budgetPages: number): Generator<Candidate, void, number> {
  const optimal = optimalOf(graph, machine)
  const { steps } = optimal
  const estimate = estimates(optimal, budgetPages, machine.link)
  const tried = new Map<number, number>()
  let best = estimate.indexOf(Math.min(...estimate))
  tried.set(best, yield optimal.candidate(steps[best]!, spilling))
  for (let d = steps.length * COARSE; d > Math.max(1, steps.length * FINE); ) {
    const before = best
    for (const at of [Math.round(before - d), Math.round(before + d)]) {
      if (at < 0 || at >= steps.length || tried.has(at)) continue
      tried.set(at, yield optimal.candidate(steps[at]!, spilling))
      if (tried.get(at)! < tried.get(best)!) best = at
    }
    if (best === before) d /= 2
  }
}

export const refineAuto: Refiner = mixtures
