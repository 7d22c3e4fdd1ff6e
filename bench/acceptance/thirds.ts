// The cost of `auto` at a third of the in-core memory. In: a claim. Out: a claim for each network, with the smallest budget that works and the cost
// of swapping alone, if it works. A third of vgg16's memory for 32 images is less than its parameters, momenta and fc6's gradient, which every plan
// needs: so it is here with 64.
import { smallestOf } from '../../src/stage/sweep'
import { mib } from '../../staging/core/bytes'
import { computeSeconds } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { digits, mustGraph, on, type Shaped, shareOfInCore, stepSeconds } from './cases'
import type { Claiming } from './claims'

const THIRDS: readonly Shaped[] = [
  ['resnet50', 64, 224],
  ['resnet152', 32, 224],
  ['densenet121', 32, 224],
  ['vgg16', 64, 224],
  ['inception4', 32, 299],
]
const LIMIT = 1.2

export const thirds = (claim: Claiming): void => {
  for (const c of THIRDS) {
    const graph = mustGraph(c)
    const budget = shareOfInCore(graph, 1 / 3)
    const compute = computeSeconds(inCoreLayout(graph, on))
    const over = (strategy: string): { readonly smallestMiB: number; readonly ratio: number | null } => {
      const smallest = smallestOf(graph, on, strategy)
      return {
        smallestMiB: smallest / mib(1),
        ratio: smallest > budget ? null : digits(stepSeconds(graph, strategy, budget) / compute),
      }
    }
    const auto = over('auto')
    const what = `auto at a third of in-core at most ${LIMIT} times the compute: ${c[0]}, batch ${c[1]} at ${c[2]}`
    claim('thirds', what, auto.ratio !== null && auto.ratio <= LIMIT, {
      budgetMiB: budget / mib(1),
      auto,
      'swap:fractional': over('swap:fractional'),
      'checkpoint:optimal': over('checkpoint:optimal'),
      tiled: over('tiled'),
    })
  }
}
