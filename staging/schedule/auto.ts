// `auto`: mixtures of keeping, recomputing and swapping, for one budget. In: the training graph. Out: candidates: optimal
// recomputation in more memory than there is (optimal.ts), of which pages then leave as the budget demands.
// The memory given to the programme is the one number to choose: with all of it, everything that does not fit is swapped; with
// only the budget, nothing is. Between, recompute falls and traffic rises: the fastest is where compute and the link are both busy.
// Worked example, a third of in-core over PCIe: half of the excess is cheap norms and rectifiers made again, half moves.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Candidate, type Planner, type Refiner, spilling } from './candidate'
import { optimalOf, spread } from './optimal'

/** Memories that are tried before the neighbourhood of the best is. */
const COARSE = 7
/** Two memories this close (in parts of the whole) differ by less than the simulator can tell. */
const FINEST = 1 / 64

/** Leaves by least memory: so that what is feasible does not depend on the budget. */
function* listed(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const optimal = optimalOf(graph, machine)
  for (const slots of spread(optimal.steps, 3)) yield spilling(optimal.layout(slots))
}

export const auto: Planner = (graph, machine) => right(listed(graph, machine))

/** Finds the best memory: some over the whole range, then halving the distance on both sides of the best. */
function* mixtures(graph: Graph, machine: Machine): Generator<Candidate, void, number> {
  const optimal = optimalOf(graph, machine)
  const { steps } = optimal
  const tried = new Map<number, number>()
  const best = (): number => [...tried].reduce((a, b) => (b[1] < a[1] ? b : a))[0]
  for (const at of spread([...steps.keys()], COARSE)) tried.set(at, yield spilling(optimal.layout(steps[at]!)))
  for (;;) {
    const order = [...tried.keys()].sort((a, b) => a - b)
    const i = order.indexOf(best())
    const between = [order[i - 1], order[i + 1]]
      .filter((n) => n !== undefined && Math.abs(n - order[i]!) > Math.max(1, FINEST * steps.length))
      .map((n) => (n! + order[i]!) >> 1)
    if (!between.length) return
    for (const at of between) tried.set(at, yield spilling(optimal.layout(steps[at]!)))
  }
}

export const refineAuto: Refiner = mixtures
