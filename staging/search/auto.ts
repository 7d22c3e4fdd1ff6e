// `auto`: one search over loops, tiles, recomputation and places. In: a training graph. Out: candidates. A few simple plans show if
// a budget suffices: a chain of stages, swaps without recomputation, then tiles. If one of them fits, the search begins.
// Worked example, a budget below the smallest chain: small tiles fit, and the search finds fewer and larger ones that recompute less.
import { isRight, right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import { hasTier, type Machine } from '../graph/machine'
import { type Candidate, type Planner, type Refiner, swappingOnDemand } from '../schedule/candidate'
import { ALL_RULES } from '../schedule/chaindp'
import { inCoreRows } from '../schedule/incore'
import { atHome, type Layout } from '../schedule/layout'
import { cutForLink, eachUseLayout, eachUseRows } from '../schedule/activations'
import { DEFAULT_EFFORT, effortOf, LEAST_EFFORT } from './limits'
import { refine } from './search'
import { smallTiles } from '../schedule/jointsearch'
import { mostThatFits, type OptimalChain, optimalOf } from '../schedule/optimal'
import { tiled, tiledSmall } from '../schedule/tiled'

const chainFor = (graph: Graph, machine: Machine): OptimalChain => optimalOf(graph, machine, { ...ALL_RULES, options: true })

/** Pages leave as the budget demands, in parts that suit the link. */
const ruleFor =
  (machine: Machine) =>
  (layout: Layout): Candidate =>
    swappingOnDemand(cutForLink(layout, machine.link), machine)

/** No recomputation: values leave between any two uses, or between the forward and the backward pass. */
const swapped = (graph: Graph, machine: Machine): readonly Candidate[] => [
  ruleFor(machine)(eachUseRows(graph, machine)),
  ruleFor(machine)(inCoreRows(graph, machine)),
]

/** The smallest chain that does not recompute values many times, and steps that only swap. */
export const auto: Planner = (graph, machine) => {
  const optimal = chainFor(graph, machine)
  return right([optimal.candidate(optimal.leastWorthwhile, ruleFor(optimal.machine)), ...swapped(graph, machine)].values())
}

/** Plans for smaller budgets: the smallest chain, tiles, and large parameters in the lower tier. */
function* small(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const optimal = chainFor(graph, machine)
  const least = optimal.steps[0]!
  if (least !== optimal.leastWorthwhile) yield optimal.candidate(least, ruleFor(optimal.machine))
  yield* smallTiles(graph, machine)
  for (const planner of [tiled(), tiledSmall]) {
    const listed = planner(graph, machine)
    if (isRight(listed)) for (let next = listed.right.next(false); !next.done; next = listed.right.next(false)) yield next.value
  }
  if (hasTier(machine)) yield ruleFor(machine)(atHome(eachUseLayout(graph, machine), 'rows', 'run'))
}

export const autoSmall: Planner = (graph, machine) => right(small(graph, machine))

/** The fastest chain that fits without swaps, then the search, if there is effort for it. */
export const refineAuto: Refiner = function* (graph, machine, pages, toBeat, effort = DEFAULT_EFFORT) {
  const seconds = yield* mostThatFits(chainFor(graph, machine), pages, toBeat)
  if (effort >= LEAST_EFFORT) yield* refine(graph, machine, pages, Math.min(toBeat, seconds), effortOf(effort))
}
