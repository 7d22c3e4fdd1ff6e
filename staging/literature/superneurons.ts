// `swap:superneurons` (Wang et al. 2018): only results of convolutions are moved, and only when memory runs short: a tensor cache that evicts the
// least recently used. A swapped value comes back while the backward of the convolution before runs. In: the in-core step. Out: one candidate.
// Without the cache every convolution's output leaves, as in the paper's first design. Recomputing the rest is hybrid. Worked example, convolutions a
// b c, memory for two: at c, a's output is the one that was used longest ago, and leaves.
import { right } from 'fp-ts/Either'
import type { Candidate, Planner } from '../schedule/candidate'
import { inCoreLayout } from '../schedule/incore'
import { convolutionOutputs, type LayerRuns, layerRuns } from './layers'
import type { Layout } from '../schedule/layout'
import { type Activation, activationsOf, indicesByValue } from '../schedule/activations'
import { prefetched } from './prefetch'
import { overSharedPages } from '../schedule/sharing'
import { leastSwapping } from '../schedule/stays'

export interface SuperneuronsOptions {
  /** Move only as the budget demands, the least recently used first. */
  readonly cache: boolean
  /** Fetch while the convolution before computes. */
  readonly prefetch: boolean
}

/** The start of the backward of the convolution that runs before `p`'s layer. */
const convolutionBefore = ({ runs, at }: LayerRuns, p: number): number => {
  for (let r = at[p]! - 1; r >= 0; r--) if (runs[r]!.convolves) return runs[r]!.first
  return p
}

export const SUPERNEURONS: SuperneuronsOptions = { cache: true, prefetch: true }

/** The cache decides which outputs of convolutions are swapped, for any layout. */
export const cached = (l: Layout, o: SuperneuronsOptions): Candidate => {
  const outputs = convolutionOutputs(l, indicesByValue(l))
  const layers = layerRuns(l)
  const oldest = activationsOf(l)
    .filter((a) => outputs.has(a.index))
    .sort((a, b) => a.read - b.read || a.index - b.index)
  const need = (k: number): number => leastSwapping(l.planned, l.calls.length, oldest.slice(0, k))
  const earliest = (a: Activation): number => (o.prefetch ? convolutionBefore(layers, a.needed) : a.needed)
  return {
    layout: l,
    least: need(oldest.length),
    fit: (budget) => {
      let [lo, hi] = [o.cache ? 0 : oldest.length, oldest.length]
      while (lo < hi) {
        const mid = (lo + hi) >> 1
        if (need(mid) <= budget) hi = mid
        else lo = mid + 1
      }
      const moved = oldest.slice(0, lo).map((a) => ({ ...a, earliest: earliest(a) }))
      return prefetched(
        l,
        moved.sort((a, b) => a.needed - b.needed),
        budget,
      )
    },
  }
}

export const superneurons =
  (o: Partial<SuperneuronsOptions> = {}): Planner =>
  (graph, machine) =>
    right([cached(inCoreLayout(graph, machine), { ...SUPERNEURONS, ...o })].values())

export const superneuronsSmall: Planner = overSharedPages(inCoreLayout, undefined, (l) => [cached(l, SUPERNEURONS)])
