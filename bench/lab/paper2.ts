// Paper 2 (TFLMS with recomputation): Figures 3 to 6. In: nothing. Out: megapixels a second by image size on a V100 of 32 GB,
// the largest size that each method trains, and how many values are swapped.
import { plotSvg } from '../../src/report/lineplot'
import type { Experiment, Section } from './page'
import { full, graphOf, known, machine, rounded, stepOf } from './steps'

const METHODS = known(['in-core', 'swap:tflms', 'checkpoint:sqrt', 'checkpoint:optimal', 'hybrid:tflms', 'auto'])

interface Network {
  readonly name: string
  readonly batch: number
  readonly sizes: readonly number[]
  /** Largest sizes of the paper, and what its hybrid gains over swapping at most. */
  readonly paper: string
}
const NETWORKS: readonly Network[] = [
  {
    name: 'resnet50',
    batch: 1,
    sizes: full ? [1000, 2000, 3000, 3500, 4000, 4500, 5000, 5500, 6000, 6500, 7000] : [2000, 3000, 4500, 6000, 7000],
    paper:
      'largest sizes: in memory 3000, recomputation 4500, swapping and hybrid 7000; recomputation costs 15.8 % at 3000; hybrid gains up to 37.5 % over swapping (at 6500)',
  },
  {
    name: 'deeplabv3plus-resnet50',
    batch: 16,
    sizes: full ? [300, 400, 500, 600, 800, 1000, 1200, 1300] : [400, 800, 1300],
    paper:
      'largest sizes: in memory 400, recomputation 800, swapping and hybrid 1300; recomputation costs 16.7 % at 400; hybrid gains up to 18.7 % (at 1000)',
  },
]

const section = (n: Network, plot: (name: string, svg: string) => string): Section => {
  const on = machine('v100-nvlink-32g')
  const rows = n.sizes.map((size) => {
    const graph = graphOf(n.name, on, n.batch, size)
    return { size, cases: METHODS.map((m) => (graph ? stepOf(graph, on, m) : null)) }
  })
  const rate = (size: number, seconds: number | undefined): number | null =>
    rounded(seconds && (n.batch * size * size) / 1e6 / seconds)
  const largest = METHODS.map((m, i) => `\`${m}\` ${Math.max(0, ...rows.filter((r) => r.cases[i]).map((r) => r.size)) || 'none'}`)
  const svg = plotSvg({
    title: `${n.name}, batch ${n.batch}, V100 32 GB, NVLink`,
    x: 'pixels a side',
    y: 'megapixels/s',
    series: METHODS.map((name, i) => ({
      name,
      points: rows.map((r) => [r.size, rate(r.size, r.cases[i]?.makespanSeconds) ?? undefined] as const),
    })),
  })
  return {
    heading: `${n.name}, batch ${n.batch}`,
    words: [
      `Paper: ${n.paper}.`,
      `Here, of the sizes tried, the largest that fit: ${largest.join(', ')}. In brackets GiB moved out a step.`,
    ],
    table: {
      head: ['size', ...METHODS],
      rows: rows.map((r) => [
        r.size,
        ...r.cases.map((c) => (c ? `${rate(r.size, c.makespanSeconds)} (${rounded(c.bytesOut / 1024 ** 3, 2)})` : null)),
      ]),
    },
    plots: [plot(n.name, svg)],
  }
}

export const paper2: Experiment = (plot) => ({
  title: 'Paper 2: swapping joined with recomputation in TensorFlow',
  words: [
    'Megapixels a second. The paper keeps TensorFlow’s own buffers on the device as well; its swapping reaches its end where a single layer no longer fits.',
  ],
  sections: NETWORKS.map((n) => section(n, plot)),
})
