// `swap:greedy` (paper 5, section 4.2): the no-wait, ordered, eager schedule that swaps out the first k activations whole, k being the least number
// that meets the budget. Out in order of production, back in reverse order. General graphs: activations in order of production, with any readers;
// each stays until its last use in the forward pass. Worked example, activations of 3, 2, 2 pages, one page too many: the first leaves, though the
// second would do.
import { right } from 'fp-ts/Either'
import type { Planner } from '../schedule/candidate'
import { inCoreRows } from '../schedule/incore'
import { activationsOf, always, eager, swapping } from '../schedule/activations'
import { overSharedPages } from '../schedule/sharing'

export interface GreedyOptions {
  /** Swap out as many as the budget demands; else all. */
  readonly asNeeded: boolean
}
export const GREEDY: GreedyOptions = { asNeeded: true }

export const swapGreedy =
  (options: Partial<GreedyOptions> = {}): Planner =>
  (graph, machine) => {
    const { asNeeded } = { ...GREEDY, ...options }
    const l = inCoreRows(graph, machine)
    return right([asNeeded ? eager(l) : always(l, swapping(l, activationsOf(l)))].values())
  }

export const greedySmall: Planner = overSharedPages(inCoreRows, undefined, (l) => [eager(l)])
