// `hybrid:superneurons` (Wang et al. 2018): what convolutions make is swapped through the tensor cache, everything cheap (norms,
// rectifiers, pooling, concatenations, sums) is made again. In: the training graph. Out: candidates, from the least recomputed:
// cost-aware, the values that free most bytes for a second of computing go first, and only so many as the budget demands.
// Where the paper recomputes across a join, the value that alone crosses between two blocks stays (else one gradient would run
// the whole forward pass again). Worked example, [conv norm relu conv + ] relu: norm and relu inside the block are made again.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Candidate, deferred, type Planner } from './candidate'
import type { Layout } from './layout'
import { spread } from './optimal'
import { byWorth, type Recomputation, recomputableOf, recomputing } from './recomputed'
import { overSharedPages } from './sharing'
import { cached, SUPERNEURONS, type SuperneuronsOptions } from './superneurons'

export interface HybridSuperneuronsOptions extends SuperneuronsOptions {
  /** Make again only part of what is cheap; else all of it. */
  readonly costAware: boolean
}

const AMOUNTS = 5

/** Steps that make more and more again. */
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
