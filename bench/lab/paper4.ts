// Paper 4 (DyMem): Figures 12, 13 and 15, and the results of its pool search. In: nothing. Out: images a second of the systems it compares on a TITAN
// X of 12 GB, the least memory that each works with, and allocators replayed on the same plans.
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
  return {
    head: ['network', 'strategy', 'least memory, GiB', 'images/s in 12 GB', 'share of the step without waits for values'],
    rows,
  }
}

const ALLOCATORS = ['pages', 'best-fit', 'gtbm', 'va:40MiB', 'va:2MiB']

/** Peaks over requested bytes, in-core and swapped. */
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
      'Peak relative to the most requested bytes. In brackets: the mean unusable free space (equation 1). The paper reports 2500 MB for best-fit and 1854 MB for GTBM with ResNet-32 at batch 100, a ratio of 1.35.',
      '- **GTBM** takes the best fit at the low end. Values shared by branches are temporary only in the forward pass. In-core it holds less than best-fit (1.001 against 1.065 on resnet50, 1.009 against 1.183 on googlenet), as in the paper, and also under `swap:fractional`. Under `swap:dymem` it holds more (1.176 against 1.043 on googlenet): the pool is the sum of two ends with peaks at different times ([Causes](#causes-of-different-results)).\n' +
        '- **Pages** are planned before the run. The peak is the live bytes, rounded up to pages of 2 MiB, which shows in small plans. If values are swapped page by page, pages hold less than the whole values that other allocators hold. The peak of a swapped plan is its budget.\n' +
        '- **Best-fit** is caching and never returns a segment, as is the default of its users.\n' +
        '- **Chunks of 40 MiB** lose half a chunk per value.',
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
    'GeForce TITAN X (Maxwell), 12 GB, PCIe. The paper reports up to 31 % less memory than vDNN (Inception-v4), up to 42 % more throughput (ResNet-50), and no difference for VGG-16 and AlexNet.',
    'Its Table 2 counts failures of a pool of estimated size: 5 %, 0.9 % and 0 with 100, 300 and 500 MB of slack. Our pool size follows from the plan, and never fails.',
  ],
  sections: [
    {
      heading: 'Figures 12, 13 and 14: memory, throughput and overlap',
      words: [
        'The paper publishes its rates as curves of its own framework. It states, and we find:',
        '- **VGG-16 and AlexNet**: no difference between the three systems. Here, too, because all of them wait for convolutions.\n' +
          '- **Inception-v4**: 3650 MB for vDNN and 2527 MB for DyMem (0.69), with SuperNeurons between them.\n' +
          '- **ResNet-50**: DyMem has up to 1.42 times the throughput of vDNN. [Causes](#causes-of-different-results) explains our ratio.\n' +
          '- **SuperNeurons** is the fastest system while it fits, and the first that no longer fits.\n' +
          '- **Overlap**: 18 % of vDNN’s time (Inception-v4) and 12 % (ResNet-32), and more of DyMem’s. Our last column is the share of a step without waits for values.',
        'The paper’s memory is a best-fit heap, ours is pages. Our vDNN and DyMem, like theirs, swap everything, even if it would fit. So `swap:fractional` and `auto` have in-core rates where these two do not.',
      ],
      table: table(),
    },
    fragmentation(plot),
  ],
})
