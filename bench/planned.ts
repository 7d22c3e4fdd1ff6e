// The memory of a training step on a machine that is simulated. In: graphs. Out: MiB in-core and of the smallest budget of `auto`.
import { isLeft } from 'fp-ts/Either'
import { compile } from '../staging/compile'
import { bytesOf, mib, PAGE_BYTES } from '../staging/core/bytes'
import type { Graph } from '../staging/graph/graph'
import type { LocalMachine } from '../src/machine/localmachine'
import { resident } from '../staging/schedule/candidate'
import { inCoreLayout } from '../staging/schedule/incore'

export interface Sizes {
  readonly inCoreMiB: number
  readonly smallestMiB: number
}

export const inCoreMiB = (graph: Graph, on: LocalMachine): number => bytesOf(resident(inCoreLayout(graph, on)).least) / mib(1)

/** The memory of a graph in-core, and its smallest budget: no plan fits one page, so the refusal names it. */
export const sizesOf = (graph: Graph, on: LocalMachine): Sizes => {
  const plan = compile(graph, { strategy: 'auto', machine: on, budgetBytes: PAGE_BYTES })
  if (!isLeft(plan) || plan.left.tag !== 'BudgetInfeasible') throw new Error(`${graph.name}: a plan fits one page`)
  return { inCoreMiB: inCoreMiB(graph, on), smallestMiB: plan.left.smallestBytes / mib(1) }
}
