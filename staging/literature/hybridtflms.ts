// `hybrid:tflms` (paper 2): recomputation first, then swapping. Convolutions are the checkpoints (`recomp` by type); the checkpoint list names those
// whose later values are dropped and recomputed; the edited step is then swapped as TFLMS swaps it, tuned anew. In: the training graph. Out:
// candidates; for a budget, lists of several lengths, each tuned. The paper leaves choosing the list to people. Here: droppable values in order of
// bytes freed for a second of computing, a number of the first ones. Worked example: of norm, rectifier and pooling after conv1 and conv2, conv1's
// free four times the bytes.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Candidate, deferred, type Planner, type Refiner } from '../schedule/candidate'
import { atLeastSeconds } from '../schedule/bound'
import type { Layout } from '../schedule/layout'
import { byWorth, type Droppable, type Recomputation, recomputableOf, recomputing } from './recomputed'
import { spread } from '../schedule/optimal'
import { overSharedPages } from '../schedule/sharing'
import { EVERYTHING, TFLMS, Tflms, type TflmsOptions, tuned } from './tflms'

export interface HybridTflmsOptions extends TflmsOptions {
  /** Choose the checkpoint list; else all of them are on it. */
  readonly chooseList: boolean
  /** Rank by bytes a second; else in order of the forward pass. */
  readonly rank: boolean
}
export const HYBRID_TFLMS: HybridTflmsOptions = { ...TFLMS, thresholds: [1], chooseList: true, rank: true }

/** Lengths of the list that are tried. */
const LISTS = 5

const listsOf = (graph: Graph, machine: Machine, o: HybridTflmsOptions): readonly (readonly Droppable[])[] => {
  const { droppable } = recomputableOf(graph, machine)
  const order = o.rank ? byWorth(droppable) : droppable
  if (!o.chooseList) return [order]
  return spread(
    Array.from({ length: order.length + 1 }, (_, n) => n),
    LISTS,
  ).map((n) => order.slice(0, n))
}

/** With the least memory. It is laid out only when it is read. */
const leastOf = (step: Recomputation): Candidate =>
  deferred(step.seconds, () => new Tflms(step.layout()).candidate(EVERYTHING), { atLeast: step.atLeast })

function* listed(graph: Graph, machine: Machine, o: HybridTflmsOptions): Generator<Candidate, void, boolean> {
  for (const list of listsOf(graph, machine, o)) yield leastOf(recomputing(graph, machine, list))
}

export const hybridTflms =
  (options: Partial<HybridTflmsOptions> = {}): Planner =>
  (graph, machine) =>
    right(listed(graph, machine, { ...HYBRID_TFLMS, ...options }))

function* layouts(graph: Graph, machine: Machine): Generator<Layout> {
  for (const list of listsOf(graph, machine, HYBRID_TFLMS)) yield recomputing(graph, machine, list).layout()
}

export const hybridTflmsSmall: Planner = overSharedPages(layouts, 'run', (l) => [new Tflms(l).candidate(EVERYTHING)])

export const refineHybridTflms = (options: Partial<HybridTflmsOptions> = {}): Refiner =>
  function* (graph, machine, pages, toBeat) {
    const o = { ...HYBRID_TFLMS, ...options }
    let best = toBeat
    for (const list of listsOf(graph, machine, o)) {
      const step = recomputing(graph, machine, list)
      // If no setting of the list can fit or be the fastest, none is laid out.
      if (step.seconds >= best || step.atLeast().seconds(pages, machine.link) >= best) continue
      if (atLeastSeconds(step.layout(), pages, machine.link) >= best) continue
      const t = new Tflms(step.layout())
      if (t.candidate(EVERYTHING).least > pages) continue
      for (const setting of tuned(t, pages, o)) best = Math.min(best, yield setting)
    }
  }
