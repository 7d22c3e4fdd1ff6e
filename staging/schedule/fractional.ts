// `swap:fractional` (paper 5, section 4): the optimal greedy rule, which the paper leaves open in practice. Activations leave
// in chunks of pages; since pages are independent, so much of one leaves as the budget demands, and each chunk's pages are
// free as soon as it is out. In: the in-core step. Out: two candidates; simulation takes the faster.
//  eager  the first Q pages in order of production, Q the least that meets the budget: optimal for chains with one peak
//  belady wherever there is too little room, the chunk that is read again last has left: for steps with several peaks
// Worked example, activations of 3, 2, 2 pages, one page too many: one page of the first leaves.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Candidate, type Planner, spilling } from './candidate'
import { inCoreLayout } from './incore'
import { eachUseLayout, eager, inChunks } from './offload'

export interface FractionalOptions {
  /** Chunks of pages; else whole activations. */
  readonly chunks: boolean
  readonly eager: boolean
  readonly belady: boolean
  /** Pages may leave between any two uses, not only between the forward and the backward pass. */
  readonly eachUse: boolean
}
export const FRACTIONAL: FractionalOptions = { chunks: true, eager: true, belady: true, eachUse: true }

const candidates = (graph: Graph, machine: Machine, o: FractionalOptions): readonly Candidate[] => {
  const cut = (layout: ReturnType<typeof inCoreLayout>) => (o.chunks ? inChunks(layout, machine.link) : layout)
  const hull = cut(inCoreLayout(graph, machine))
  return [
    ...(o.eager || !o.belady ? [eager(hull)] : []),
    ...(o.belady ? [spilling(hull)] : []),
    ...(o.belady && o.eachUse ? [spilling(cut(eachUseLayout(graph, machine)))] : []),
  ]
}

export const fractional = (o: Partial<FractionalOptions> = {}): Planner => (graph, machine) =>
  right(candidates(graph, machine, { ...FRACTIONAL, ...o }).values())
