// `hybrid:superneurons` (Wang et al. 2018): results of convolutions are swapped through the tensor cache, everything cheap (norms, rectifiers,
// pooling, concatenations, sums) is recomputed. In: the training graph. Out: candidates, from the least recomputed: cost-aware, the values with the
// most freed bytes for a second of computing are dropped first, as far as the budget demands. If the paper recomputes across a join, the single
// crossing value between two blocks stays (otherwise one gradient would run the whole forward pass again). Worked example, [conv norm relu conv + ]
// relu: norm and relu inside the block are recomputed.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Candidate, deferred, type Planner } from '../schedule/candidate'
import type { Layout } from '../schedule/layout'
import { spread } from '../schedule/optimal'
import { byWorth, type Recomputation, recomputableOf, recomputing } from './recomputed'
import { overSharedPages } from '../schedule/sharing'
import { cached, SUPERNEURONS, type SuperneuronsOptions } from './superneurons'

export interface HybridSuperneuronsOptions extends SuperneuronsOptions {
  /** Recompute only a part of the cheap values; otherwise all of them. */
  readonly costAware: boolean
}

const AMOUNTS = 5

/** Steps that recompute more and more. */
function* steps(graph: Graph, machine: Machine, costAware: boolean): Generator<Recomputation> {
  const order = byWorth(recomputableOf(graph, machine).droppable)
  const amounts = costAware
    ? spread(
        Array.from({ length: order.length + 1 }, (_, n) => n),
        AMOUNTS,
      )
    : [order.length]
  for (const n of amounts) yield recomputing(graph, machine, order.slice(0, n))
}

function* listed(graph: Graph, machine: Machine, o: HybridSuperneuronsOptions): Generator<Candidate, void, boolean> {
  for (const step of steps(graph, machine, o.costAware))
    yield deferred(step.seconds, () => cached(step.layout(), o), { atLeast: step.atLeast })
}

function* layouts(graph: Graph, machine: Machine): Generator<Layout> {
  for (const step of steps(graph, machine, true)) yield step.layout()
}

export const hybridSuperneuronsSmall: Planner = overSharedPages(layouts, 'run', (l) => [cached(l, SUPERNEURONS)])

export const hybridSuperneurons =
  (options: Partial<HybridSuperneuronsOptions> = {}): Planner =>
  (graph, machine) =>
    right(listed(graph, machine, { ...SUPERNEURONS, costAware: true, ...options }))
