// A comparison as a plot. In: a comparison. Out: SVG: the step over its in-core compute, by budget, a line a strategy.
import { type Plot, plotSvg } from '../../report/lineplot'
import { showSize } from '../../report/format'
import type { Case, Comparison, FeasibleCase } from '../../stage/sweep'

const GIB = 1024 ** 3
const MIB = 1024 ** 2

/** One number of every feasible case, as a line over the budgets. */
export const linesOf = (cases: readonly Case[], of: (c: FeasibleCase) => number, unit = GIB): Plot['series'] =>
  [...new Set(cases.map((c) => c.strategy))].map((name) => ({
    name,
    points: cases
      .filter((c) => c.strategy === name)
      .map((c): readonly [number, number | undefined] => [c.budgetBytes / unit, c.feasible ? of(c) : undefined]),
  }))

/** The step over its in-core compute. */
const slowdown = (c: FeasibleCase): number => c.makespanSeconds / c.inCoreSeconds

export const comparisonPlot = (c: Comparison): string => {
  const feasible = c.cases.filter((x): x is FeasibleCase => x.feasible)
  // A replay does not change the step.
  const once = c.cases.filter((x) => !x.feasible || x.allocator === feasible[0]!.allocator)
  // One unit for the title and the axis.
  const [unit, called] = c.inCoreBytes >= GIB ? [GIB, 'GiB'] : [MIB, 'MiB']
  const bounds = new Map(feasible.map((x) => [x.budgetBytes, x.swapBoundSeconds / x.inCoreSeconds]))
  return plotSvg({
    title: `${c.model} on ${c.machine}, in-core ${showSize(c.inCoreBytes)}`,
    x: `budget, ${called}`,
    y: 'step / in-core compute',
    yFrom: 1,
    yTo: Math.min(4, Math.max(1.5, ...feasible.map(slowdown))),
    series: [
      ...linesOf(once, slowdown, unit),
      {
        name: 'bound of swapping',
        reference: true,
        points: [...bounds].sort((a, b) => a[0] - b[0]).map(([b, s]) => [b / unit, s]),
      },
    ],
  })
}
