// How near the bound of swapping (paper 5, Prop. 3) the methods of paper 5 are, on its networks, sizes and link. In: a claim to
// make. Out: claims over all cases. Budgets go evenly from the smallest that all three work with to in-core.
import { smallestOf, sweep } from '../../src/stage/sweep'
import { pagesIn } from '../../staging/core/bytes'
import { atLeastSeconds, paperBoundSeconds } from '../../staging/schedule/bound'
import { inCoreRows } from '../../staging/schedule/incore'
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
type Swapping = (typeof SWAPPING)[number]

export interface Bounded {
  readonly seconds: number
  /** Over paper 5's bound, and over the one that knows the copies that must end before the worst call and those that cannot begin before it. */
  readonly overPaper: number
  readonly overLeast: number
}
export type Ratios = Readonly<Record<Swapping, Bounded>>

export const boundRatios = (c: Shaped, budgets = BUDGETS): readonly Ratios[] => {
  const graph = mustGraph(c)
  const least = Math.max(...SWAPPING.map((s) => smallestOf(graph, on, s)))
  const layout = inCoreRows(graph, on)
  const bounded = (s: Swapping, budget: number): Bounded => {
    const seconds = stepSeconds(graph, s, budget)
    const over = (bound: typeof atLeastSeconds): number => seconds / bound(layout, pagesIn(budget), on.link)
    return { seconds, overPaper: over(paperBoundSeconds), overLeast: over(atLeastSeconds) }
  }
  return sweep(least, smallestOf(graph, on, 'in-core'), budgets).map(
    (budget) => Object.fromEntries(SWAPPING.map((s) => [s, bounded(s, budget)])) as Ratios,
  )
}

/** How far page by page is behind the better of the others. */
export const behind = (r: Ratios): number =>
  r['swap:fractional'].seconds / Math.min(r['swap:greedy'].seconds, r['swap:dynprog'].seconds)

export const bounds = (claim: Claiming): void => {
  const cases = PAPER_5.map((c) => ({ name: `${c[0]} at ${c[2]}`, ratios: boundRatios(c) }))
  const all = cases.flatMap((c) => c.ratios)
  const worst = (rs: readonly number[]): number => digits(Math.max(...rs))
  const figures = (rs: readonly number[]) => ({ cases: rs.length, median: digits(median(rs)), worst: worst(rs) })
  const over = (of: readonly Ratios[], s: Swapping, bound: 'overPaper' | 'overLeast') => of.map((r) => r[s][bound])
  const byCase = (bound: 'overPaper' | 'overLeast') =>
    Object.fromEntries(cases.map((c) => [c.name, worst(over(c.ratios, 'swap:dynprog', bound))]))
  const dynprog = over(all, 'swap:dynprog', 'overPaper')
  claim('bounds', 'swap:dynprog at most 1.2 times the bound in the median, and everywhere', Math.max(...dynprog) <= 1.2, {
    ...figures(dynprog),
    worstOfEach: byCase('overPaper'),
  })
  const least = over(all, 'swap:dynprog', 'overLeast')
  const what = 'swap:dynprog at most 1.2 times a lower bound from the calls before and after the worst one, everywhere'
  claim('bounds', what, Math.max(...least) <= 1.2, { ...figures(least), worstOfEach: byCase('overLeast') })
  const fractional = over(all, 'swap:fractional', 'overPaper')
  claim('bounds', 'swap:fractional at most 1.06 times the bound in the median', median(fractional) <= 1.06, figures(fractional))
  const most = Math.max(...all.map(behind))
  claim('bounds', 'swap:fractional at most 0.5 % behind swap:greedy and swap:dynprog', most <= 1.005, {
    cases: all.length,
    worst: digits(most),
  })
}
