// Paper 4 (DyMem): Figures 12, 13 and 15, and what its pool search finds. In: nothing. Out: images a second of the systems it
// compares on a TITAN X of 12 GB, the least memory that each works with, and allocators replayed on the same plans.
import { isRight } from 'fp-ts/Either'
import { smallestOf } from '../../src/stage/sweep'
import { plotSvg } from '../../src/report/lineplot'
import { compile } from '../../staging/compile'
import { replay } from '../../staging/memory/allocators/replay'
import type { Experiment, Section, Table } from './page'
import { full, graphOf, known, machine, rounded, stepOf } from './steps'

const METHODS = known(['swap:vdnn-all', 'swap:vdnn-conv', 'swap:superneurons', 'swap:dymem', 'swap:fractional', 'auto'])
const GIB = 1024 ** 3
const ON = 'titanx-pcie-12g'

/** Network, batch, image: CIFAR-sized for residual networks, as the paper trains them; ImageNet-sized for the others. */
const NETWORKS: readonly (readonly [string, number, number])[] = full
  ? [
      ['vgg16', 64, 224],
      ['vgg16', 128, 224],
      ['alexnet', 256, 224],
      ['resnet32-cifar', 100, 32],
      ['resnet50', 100, 224],
      ['resnet101', 100, 224],
      ['resnet152', 100, 224],
      ['inception4', 128, 299],
    ]
  : [
      ['vgg16', 64, 224],
      ['resnet32-cifar', 100, 32],
      ['resnet50', 100, 224],
    ]

const table = (): Table => {
  const on = machine(ON)
  const rows = NETWORKS.flatMap(([name, batch, size]) => {
    const graph = graphOf(name, on, batch, size)
    if (!graph) return []
    return METHODS.map((m): readonly (string | number | null)[] => {
      const c = stepOf(graph, on, m)
      const least = smallestOf(graph, on, m)
      return [
        `${name}, batch ${batch}`,
        m,
        rounded(least / GIB),
        rounded(c?.imagesPerSecond),
        c ? rounded(1 - c.stallSeconds.data / c.makespanSeconds) : null,
      ]
    })
  })
  return { head: ['network', 'strategy', 'least GiB', 'images/s in 12 GB', 'share of the step not waiting for values'], rows }
}

const ALLOCATORS = ['pages', 'best-fit', 'gtbm', 'va:40MiB', 'va:2MiB']

/** Peaks over what is asked for, in-core and swapped. */
const fragmentation = (plot: (name: string, svg: string) => string): Section => {
  const on = machine(ON)
  const cases = (
    [
      ['resnet32-cifar', 100, 32],
      ['resnet50', 32, 224],
      ['googlenet', 64, 224],
    ] as const
  ).flatMap(([name, batch, size]) => {
    const graph = graphOf(name, on, batch, size)
    if (!graph) return []
    const inCore = smallestOf(graph, on, 'in-core')
    return known(['in-core', 'swap:dymem', 'swap:fractional']).flatMap((strategy) => {
      const budgetBytes = strategy === 'in-core' ? inCore : Math.max(smallestOf(graph, on, strategy), inCore * 0.7)
      const plan = compile(graph, { strategy, budgetBytes, machine: on })
      return isRight(plan) ? [{ label: `${name}, ${strategy}`, replays: ALLOCATORS.map((a) => replay(plan.right, a)) }] : []
    })
  })
  const drawn = cases[0]!
  const svg = plotSvg({
    title: `${drawn.label}: held over the step`,
    x: 'call',
    y: 'MiB',
    series: [
      ...drawn.replays.map((r) => ({
        name: r.allocator,
        points: r.series.filter((_, i) => i % 4 === 0).map(([p, held]) => [p, held / 1024 ** 2] as const),
      })),
      {
        name: 'asked for',
        reference: true,
        points: drawn.replays[0]!.series.filter((_, i) => i % 4 === 0).map(([p, , asked]) => [p, asked / 1024 ** 2] as const),
      },
    ],
  })
  return {
    heading: 'Figure 15: allocators on the same allocations',
    words: [
      'Peak over what is asked for at most, and in brackets the mean unusable free space (equation 1). The paper reports 2500 MB for best-fit and 1854 MB for GTBM with ResNet-32 at batch 100: ' +
        '1.35 to 1. GTBM takes the best fit at the low end, and what branches share is temporary in the forward pass alone. It holds less than best-fit in-core and under `swap:fractional` (1.001 for 1.065, 1.009 for 1.183), as the paper says, and more under `swap:dymem` (1.176 for 1.043 on googlenet), since the pool is the sum of two ends that are fullest at different times: *causes*, below. ' +
        'Pages are planned before the run: the peak is what is alive, rounded up to pages of 2 MiB (small plans show the rounding; where values leave page by page, pages hold less than the whole values that the others are asked for; a swapped plan’s budget is the peak whatever is asked for). ' +
        'Caching best-fit never returns a segment, as its users’ default is; chunks of 40 MiB lose half a chunk a value.',
    ],
    table: {
      head: ['plan', ...ALLOCATORS],
      rows: cases.map((c) => [
        c.label,
        ...c.replays.map((r) => `${(r.peakBytes / r.requestedBytes).toFixed(3)} (${r.meanUnusable.toFixed(2)})`),
      ]),
    },
    plots: [plot('allocators', svg)],
  }
}

export const paper4: Experiment = (plot) => ({
  title: 'Paper 4: dynamic memory for nonlinear networks',
  words: [
    'GeForce TITAN X (Maxwell), 12 GB, PCIe. The paper: up to 31 % less memory than vDNN (Inception-v4) and up to 42 % more throughput (ResNet-50); no difference for VGG-16 and AlexNet. ' +
      'Table 2 counts how often a pool of a guessed size fails (5 %, 0.9 %, 0 at 100, 300, 500 MB of slack); ours is searched on the plan, and fails never.',
  ],
  sections: [
    {
      heading: 'Figures 12, 13 and 14: memory, throughput and overlap',
      words: [
        'The paper’s rates are those of its own framework, published as curves. What its words say of them, beside ours: no difference between the three for VGG-16 and AlexNet, here too, since all of them wait for convolutions; ' +
          'Inception-v4 3650 MB for vDNN and 2527 MB for DyMem (0.69), SuperNeurons between; DyMem up to 1.42 times vDNN’s throughput with ResNet-50 (*causes*, below, has why ours differ); SuperNeurons the fastest where it fits, and the first that no longer does; ' +
          'of the time of vDNN 18 % (Inception-v4) and 12 % (ResNet-32) is overlap, of DyMem’s more: our last column is what neither waits for.',
        'Ours differ where the paper’s memory is that of a best-fit heap and ours of pages; and our vDNN and DyMem move everything whether or not it fits, as theirs do, so that `swap:fractional` and `auto` stand at in-core rates beside them.',
      ],
      table: table(),
    },
    fragmentation(plot),
  ],
})
