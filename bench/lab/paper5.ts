// Paper 5 (optimal swapping): Figures 5 to 19. In: nothing. Out: for each network and image size the step over the lower bound
// (Prop. 3) by memory, from the smallest budget of the swapping methods to in-core, on a V100 behind PCIe.
import { linesOf } from '../../src/cli/compare/plot'
import { compareGraph, type FeasibleCase, smallestOf, sweep } from '../../src/stage/sweep'
import { plotSvg } from '../../src/report/lineplot'
import type { Experiment, Section } from './page'
import { full, graphOf, known, machine, rounded } from './steps'

const SWAPS = known([
  'swap:greedy',
  'swap:dynprog',
  'swap:fractional',
  'swap:vdnn-conv',
  'swap:vdnn++',
  'swap:tflms',
  'swap:autoswap',
  'swap:dymem',
  'swap:window',
])
const METHODS = [...SWAPS, ...known(['checkpoint:optimal', 'auto'])]
const BUDGETS = full ? 10 : 6

/** Network, image size, batch. */
const CASES: readonly (readonly [string, number, number])[] = full
  ? [
      ...[
        'resnet18',
        'resnet34',
        'resnet50',
        'resnet101',
        'resnet152',
        'densenet121',
        'densenet161',
        'densenet169',
        'densenet201',
      ].flatMap(
        (m) =>
          [
            [m, 224, 32],
            [m, 500, 8],
            [m, 1000, 2],
          ] as const,
      ),
      ['inception3', 299, 32],
      ['inception3', 500, 8],
      ['inception3', 1000, 2],
    ]
  : [
      ['resnet50', 224, 32],
      ['resnet101', 500, 8],
      ['densenet121', 224, 32],
      ['inception3', 299, 32],
    ]

const median = (xs: readonly number[]): number | null =>
  xs.length ? rounded([...xs].sort((a, b) => a - b)[xs.length >> 1]) : null

interface Swept {
  readonly name: string
  readonly section: Section
  readonly feasible: readonly FeasibleCase[]
}

const swept = (
  [name, size, batch]: readonly [string, number, number],
  plot: (name: string, svg: string) => string,
): Swept | null => {
  const on = machine('v100-pcie-16g')
  const graph = graphOf(name, on, batch, size)
  if (!graph) return null
  const smallest = Math.min(...SWAPS.map((s) => smallestOf(graph, on, s)))
  const inCore = smallestOf(graph, on, 'in-core')
  const compared = compareGraph(graph, on, { strategies: METHODS, budgets: sweep(smallest, inCore, BUDGETS) })
  const feasible = compared.cases.filter((c): c is FeasibleCase => c.feasible)
  const ratio = (c: FeasibleCase): number => c.makespanSeconds / c.swapBoundSeconds
  const svg = plotSvg({
    title: `${name} at ${size}², batch ${batch}`,
    x: 'budget, GiB',
    y: 'step / lower bound of swapping',
    yTo: 2,
    series: linesOf(compared.cases, ratio),
  })
  const row = (m: string): readonly (string | number | null)[] => {
    const ratios = feasible.filter((c) => c.strategy === m).map(ratio)
    const seconds = feasible.filter((c) => c.strategy === m).map((c) => c.planningSeconds)
    return [m, median(ratios), ratios.length ? rounded(Math.max(...ratios)) : null, median(seconds)]
  }
  console.log(`  ${name} ${size}: ${feasible.length} cases`)
  return {
    name,
    feasible,
    section: {
      heading: `${name} at ${size}², batch ${batch}`,
      words: [],
      table: { head: ['strategy', 'median ratio', 'worst ratio', 'planning, s'], rows: METHODS.map(row) },
      plots: [plot(`${name}-${size}`, svg)],
    },
  }
}

export const paper5: Experiment = (plot) => {
  const all = CASES.flatMap((c) => swept(c, plot) ?? [])
  const ratios = (m: string): readonly number[] =>
    all.flatMap((s) => s.feasible.filter((c) => c.strategy === m).map((c) => c.makespanSeconds / c.swapBoundSeconds))
  const summary: Section = {
    heading: 'All cases',
    words: [
      'The ratio of the step to the lower bound. The paper reports at most 1.2 for its dynamic programme in all cases. Its greedy rule has spikes where the two terms of the bound cross. VDNN and AutoSwap are above.',
      'The bound is for plans that only swap. `checkpoint:optimal` and `auto` can be below 1, because recomputed values need no swap.',
    ],
    table: {
      head: ['strategy', 'cases', 'median ratio', 'worst ratio'],
      rows: METHODS.map((m) => [
        m,
        ratios(m).length,
        median(ratios(m)),
        ratios(m).length ? rounded(Math.max(...ratios(m))) : null,
      ]),
    },
  }
  return {
    title: 'Paper 5: optimal swapping',
    words: ['A V100 behind PCIe 3.0 at 12.2 GB/s, as measured in the paper. Planning times are from a machine with other load.'],
    sections: [summary, ...all.map((s) => s.section)],
  }
}
