// `auto` beside every other strategy. In: swept networks. Out: for each other strategy, in how many of its cases `auto` takes
// less time, as much, or more. A case is a network, a size and a budget; one that the other has no plan for is one that `auto`
// has and it has not: below.
import type { SweptNetwork } from './network'

export interface Beside {
  readonly strategy: string
  readonly cases: number
  readonly below: number
  readonly same: number
  readonly above: number
}

export const autoBeside = (all: readonly SweptNetwork[], tolerance: number): readonly Beside[] => {
  const others = [...new Set(all.flatMap((n) => Object.keys(n.strategies)))].filter((s) => s !== 'auto')
  return others.map((strategy) => {
    const count = { below: 0, same: 0, above: 0 }
    for (const n of all)
      n.strategies['auto']!.ratios.forEach((mine, i) => {
        const of = n.strategies[strategy]
        // A sweep of before there was such a strategy says nothing of it.
        if (!of) return
        const other = of.ratios[i] ?? Infinity
        const auto = mine ?? Infinity
        if (auto === Infinity && other === Infinity) return
        count[auto > other * (1 + tolerance) ? 'above' : auto < other * (1 - tolerance) ? 'below' : 'same']++
      })
    return { strategy, ...count, cases: count.below + count.same + count.above }
  })
}
