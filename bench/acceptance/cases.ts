// The common part of claims about planners. In: names of networks, batches, sizes. Out: training graphs, budgets and seconds on a V100 of 16 GB
// behind PCIe in simulation; throws for an unknown name.
import { isLeft } from 'fp-ts/Either'
import { smallestOf } from '../../src/stage/sweep'
import type { LocalMachine } from '../../src/machine/localmachine'
import { compile } from '../../staging/compile'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Plan } from '../../staging/plan/plan'
import { simulate } from '../../staging/sim/simulate'
import { graphOf, machine } from '../lab/steps'

export type Shaped = readonly [network: string, batch: number, size: number]

export const on: LocalMachine = machine('v100-pcie-16g')

export const mustGraph = ([name, batch, size]: Shaped): Graph => {
  const graph = graphOf(name, on, batch, size)
  if (!graph) throw new Error(`${name} cannot be built at ${size}`)
  return graph
}

export const mustPlan = (graph: Graph, strategy: string, budgetBytes: number): Plan => {
  const plan = compile(graph, { strategy, budgetBytes, machine: on })
  if (isLeft(plan)) throw new Error(`${graph.name}, ${strategy}: ${renderError(plan.left)}`)
  return plan.right
}

export const stepSeconds = (graph: Graph, strategy: string, budgetBytes: number): number =>
  simulate(mustPlan(graph, strategy, budgetBytes), on.link).makespanSeconds

/** A share of the in-core memory, in whole pages. */
export const shareOfInCore = (graph: Graph, share: number): number => bytesOf(pagesIn(smallestOf(graph, on, 'in-core') * share))

export const median = (xs: readonly number[]): number => [...xs].sort((a, b) => a - b)[xs.length >> 1] ?? Number.NaN
export const digits = (x: number): number => Number(x.toPrecision(5))
