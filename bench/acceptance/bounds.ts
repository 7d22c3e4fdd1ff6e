// How near the bound of swapping (paper 5, Prop. 3) the methods of paper 5 are, on its networks, sizes and link. In: a claim to
// make. Out: claims over all cases. Budgets go evenly from the smallest that all three work with to in-core.
import { smallestOf, sweep } from '../../src/cli/compare/sweep'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { atLeastSeconds } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { digits, median, mustGraph, on, type Shaped, stepSeconds } from './cases'
import type { Claiming } from './claims'

const RESNETS = ['resnet18', 'resnet34', 'resnet50', 'resnet101', 'resnet152']
const DENSENETS = ['densenet121', 'densenet161', 'densenet169', 'densenet201']
const BUDGETS = 8

/** The networks of paper 5's figures at three sizes. */
export const PAPER_5: readonly Shaped[] = [
  ...[...RESNETS, ...DENSENETS].flatMap((name): readonly Shaped[] => [
    [name, 32, 224],
    [name, 8, 500],
    [name, 2, 1000],
  ]),
  ['inception3', 32, 299],
  ['inception3', 8, 500],
  ['inception3', 2, 1000],
]

const SWAPPING = ['swap:fractional', 'swap:greedy', 'swap:dynprog'] as const

/** Times the bound. */
export interface BoundRatios {
  readonly fractional: number
  readonly greedy: number
  readonly dynprog: number
}

export const boundRatios = (c: Shaped, budgets = BUDGETS): readonly BoundRatios[] => {
  const graph = mustGraph(c)
  const least = Math.max(...SWAPPING.map((s) => smallestOf(graph, on, s)))
  const layout = inCoreLayout(graph, on)
  return sweep(least, smallestOf(graph, on, 'in-core'), budgets).map((budget) => {
    const [fractional, greedy, dynprog] = SWAPPING.map(
      (s) => stepSeconds(graph, s, budget) / atLeastSeconds(layout, budget / PAGE_BYTES, on.link),
    ) as [number, number, number]
    return { fractional, greedy, dynprog }
  })
}

/** How far page by page is behind the better of the others. */
export const behind = (r: BoundRatios): number => r.fractional / Math.min(r.greedy, r.dynprog)

export const bounds = (claim: Claiming): void => {
  const cases = PAPER_5.map((c) => ({ name: `${c[0]} at ${c[2]}`, ratios: boundRatios(c) }))
  const all = cases.flatMap((c) => c.ratios)
  const worst = (rs: readonly number[]): number => digits(Math.max(...rs))
  const dynprog = all.map((r) => r.dynprog)
  const fractional = all.map((r) => r.fractional)
  const figures = (rs: readonly number[]) => ({ cases: rs.length, median: digits(median(rs)), worst: worst(rs) })
  const byCase = Object.fromEntries(cases.map((c) => [c.name, worst(c.ratios.map((r) => r.dynprog))]))
  claim('planners', 'swap:dynprog at most 1.2 times the bound in the median, and everywhere', Math.max(...dynprog) <= 1.2, {
    ...figures(dynprog),
    worstOfEach: byCase,
  })
  claim('planners', 'swap:fractional at most 1.06 times the bound in the median', median(fractional) <= 1.06, figures(fractional))
  const most = Math.max(...all.map(behind))
  claim('planners', 'swap:fractional at most 0.5 % behind swap:greedy and swap:dynprog', most <= 1.005, {
    cases: all.length,
    worst: digits(most),
  })
}
