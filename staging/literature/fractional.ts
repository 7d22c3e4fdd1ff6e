// `swap:fractional` (paper 5, section 4): the optimal greedy rule, which the paper leaves open in practice. Pages are independent: the part of an
// activation that the budget demands leaves, and its pages are free as soon as it is out. In: the in-core step. Out: candidates; simulation takes
// the fastest. `eager`: the first Q pages made, Q the least that meets the budget, which is optimal for chains with one peak. `belady`, for several
// peaks: at each lack of memory, the part with the last next read has left. `chosen`: the same for the choice of `swap:dynprog`.
// Worked example, activations of 3, 2, 2 pages, one page too many: one page of the first leaves.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Candidate, type Planner, type Refiner, swappingOnDemand } from '../schedule/candidate'
import { choices, DYNPROG, inParts } from './dynprog'
import { inCoreRows } from '../schedule/incore'
import type { Layout } from '../schedule/layout'
import { activationsOf, eachUseRows, eager, cutForLink, indicesUnder } from '../schedule/activations'
import { overSharedPages } from '../schedule/sharing'

export interface FractionalOptions {
  /** In parts; else whole activations. */
  readonly parts: boolean
  readonly eager: boolean
  readonly belady: boolean
  readonly chosen: boolean
  /** Pages may leave between any two uses, not only between the forward and the backward pass. */
  readonly eachUse: boolean
}
export const FRACTIONAL: FractionalOptions = { parts: true, eager: true, belady: true, chosen: true, eachUse: true }

const cutter =
  (machine: Machine, o: FractionalOptions) =>
  (layout: Layout): Layout =>
    o.parts ? cutForLink(layout, machine.link) : layout

const candidates = (graph: Graph, machine: Machine, o: FractionalOptions): readonly Candidate[] => {
  const cut = cutter(machine, o)
  const hull = cut(inCoreRows(graph, machine))
  return [
    ...(o.eager || !o.belady ? [eager(hull)] : []),
    ...(o.belady ? [swappingOnDemand(hull, machine)] : []),
    ...(o.belady && o.eachUse ? [swappingOnDemand(cut(eachUseRows(graph, machine)), machine)] : []),
  ]
}

export const fractional =
  (o: Partial<FractionalOptions> = {}): Planner =>
  (graph, machine) =>
    right(candidates(graph, machine, { ...FRACTIONAL, ...o }).values())

export const fractionalSmall: Planner = overSharedPages(eachUseRows, 'run', (l, machine) => [
  swappingOnDemand(cutForLink(l, machine.link), machine),
])

export const refineFractional = (options: Partial<FractionalOptions> = {}): Refiner =>
  function* (graph, machine, pages) {
    const o = { ...FRACTIONAL, ...options }
    const whole = inParts(inCoreRows(graph, machine), DYNPROG.share)
    const layout = cutter(machine, o)(whole)
    const activations = activationsOf(layout)
    for (const out of o.chosen ? choices(whole, machine.link, pages) : []) {
      const under = indicesUnder(
        layout,
        out.map((a) => whole.planned[a.index]!),
      )
      yield eager(
        layout,
        activations.filter((a) => under.has(a.index)),
      )
    }
  }
