// Paper 2 (TFLMS with recomputation): Figures 3 to 6, Tables 1 and 2. In: nothing. Out: megapixels a second by image size on a V100 of 32 GB, the
// largest size of each method, the number of swapped values. Also the tuner's settings beside the paper's.
import type { CompileOptions } from '../../staging/compile'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { valueBytes, type Graph } from '../../staging/graph/graph'
import { hybridTflms, refineHybridTflms } from '../../staging/literature/hybridtflms'
import { EVERYTHING, Tflms, type TflmsSetting } from '../../staging/literature/tflms'
import { eachUseLayout } from '../../staging/schedule/activations'
import { opCosts } from '../../staging/schedule/chain'
import type { Section, Verdict } from './page'
import { type Bound, drawn, type Experiment, linesOf, part, type Plotter } from './part'
import { missingOf, published, numberOf } from './published'
import {
  besideAuto,
  gap,
  GIB,
  graphOf,
  known,
  machine,
  percent,
  planOf,
  rounded,
  secondsOf,
  stepOf,
  stored,
  unfused,
} from './steps'

const ON = 'v100-nvlink-32g'
const METHODS = known([
  'in-core',
  'swap:tflms',
  'recompute:conv',
  'checkpoint:sqrt',
  'checkpoint:optimal',
  'hybrid:tflms',
  'auto',
])
/** The paper's recomputation of everything, under its swapping. */
const ALL: CompileOptions['method'] = {
  planner: hybridTflms({ chooseList: false }),
  refiner: refineHybridTflms({ chooseList: false }),
}
const HYBRID_ALL = 'hybrid:tflms, all checkpoints'
const COUNTED = known(['swap:tflms', 'hybrid:tflms'])

interface Network {
  readonly name: string
  readonly batch: number
  readonly sizes: readonly number[]
  readonly table: string
}
const NETWORKS: readonly Network[] = [
  {
    name: 'resnet50',
    batch: 1,
    sizes: [1000, 2000, 3000, 3500, 4000, 4500, 5000, 5500, 6000, 6500, 7000],
    table: 'table1',
  },
  {
    name: 'deeplabv3plus-resnet50',
    batch: 16,
    sizes: [300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200, 1300],
    table: 'table2',
  },
]

// ---------------------------------------------------------------- Figures 3 to 6

/** Values whose pages leave the device, Figures 5 and 6. */
const swapped = (graph: Graph, strategy: string): number | null => {
  const plan = planOf(graph, machine(ON), strategy)
  return plan && new Set(plan.residencies.filter((r) => r.swapOut).map((r) => r.storage)).size
}

const rowsOf = (n: Network, bound: Bound) => {
  const on = machine(ON)
  return n.sizes.flatMap((size) => {
    const graph = graphOf(n.name, on, n.batch, size)
    if (!graph) return []
    const cases = METHODS.map((m) => stepOf(graph, on, m))
    return [
      {
        size,
        seconds: cases.map((c) => stored(c?.makespanSeconds)),
        gibOut: cases.map((c) => c && stored(c.bytesOut / GIB)),
        hybridAll: stored(secondsOf(planOf(graph, on, 'hybrid:tflms', on.memoryBytes, ALL), on)),
        counts: COUNTED.map((m) => swapped(graph, m)),
        bound: stored(bound(graph, on, on.memoryBytes)),
      },
    ]
  })
}
type Row = ReturnType<typeof rowsOf>[number]

const of = (rows: readonly Row[], size: number, method: string): number | null =>
  rows.find((r) => r.size === size)?.seconds[METHODS.indexOf(method)] ?? null
const largestOf = (rows: readonly Row[], method: string): number =>
  Math.max(0, ...rows.filter((r) => r.seconds[METHODS.indexOf(method)]).map((r) => r.size))

const limits = (n: Network, rows: readonly Row[]): readonly Verdict[] =>
  (
    [
      ['recomputed', 'recompute:conv'],
      ['swapped', 'swap:tflms'],
      ['hybrid', 'hybrid:tflms'],
    ] as const
  ).map(([column, method]): Verdict => {
    const paper = numberOf(2, 'largest', [n.name], column)!
    const ours = largestOf(rows, method)
    return {
      row: `${n.name}: largest size, ${column}`,
      paper: `${paper}`,
      ours: `${ours}`,
      cause:
        ours === paper
          ? undefined
          : `the in-core step: ours ends at ${largestOf(rows, 'in-core')}, the paper’s at ${numberOf(2, 'largest', [n.name], 'in memory')}; its number is under *In memory*`,
    }
  })

const ratesSection = (n: Network, rows: readonly Row[], plot: Plotter): readonly Section[] => {
  const rate = (size: number, seconds: number | null | undefined): number | null =>
    rounded(seconds && (n.batch * size * size) / 1e6 / seconds)
  const trains = (size: number): string =>
    ['in memory', 'recomputed', 'swapped', 'hybrid'].filter((c) => size <= numberOf(2, 'largest', [n.name], c)!).join(', ')
  const gains = rows.map((r) => ({
    size: r.size,
    gain: (of(rows, r.size, 'swap:tflms') ?? Number.NaN) / (of(rows, r.size, 'hybrid:tflms') ?? Number.NaN) - 1,
  }))
  const most = gains.filter((g) => Number.isFinite(g.gain)).reduce((a, b) => (b.gain > a.gain ? b : a), { size: 0, gain: 0 })
  const svg = drawn({
    title: `${n.name}, batch ${n.batch}, V100 32 GB, NVLink`,
    x: 'pixels a side',
    y: 'megapixels/s',
    yFrom: Math.floor(Math.min(...rows.flatMap((r) => r.seconds.map((s) => rate(r.size, s) ?? Infinity)))),
    series: linesOf(
      METHODS,
      rows,
      (r) => r.size,
      (r, i) => rate(r.size, r.seconds[i]),
    ),
  })
  return [
    {
      heading: `Figures 3 to 6: ${n.name}, batch ${n.batch}`,
      words: [
        `\`hybrid:tflms\` gains up to ${percent(most.gain)} over \`swap:tflms\` (at ${most.size}). In brackets: GiB swapped out per step, and the gap to the bound.`,
        besideAuto(
          METHODS,
          rows.map((r) => ({ at: r.size, seconds: r.seconds })),
        ),
      ],
      table: {
        head: ['size', 'paper trains', ...METHODS, HYBRID_ALL, ...COUNTED.map((m) => `values swapped, ${m}`)],
        rows: rows.map((r) => [
          r.size,
          trains(r.size),
          ...r.seconds.map((s, i) => (s ? `${rate(r.size, s)} (${rounded(r.gibOut[i], 2)}; ${gap(s, r.bound)})` : null)),
          rate(r.size, r.hybridAll),
          ...r.counts,
        ]),
      },
      plots: [plot(n.name, svg)],
      verdicts: limits(n, rows),
    },
  ]
}

// ---------------------------------------------------------------- Tables 1 and 2

interface Tuned extends TflmsSetting {
  readonly size: number
  /** Levels of the graph: no value is swapped at this threshold. */
  readonly deepest: number
}

/** The largest number up to `most` for which `fits` holds, given that smaller ones fit, too. */
const largest = (most: number, fits: (x: number) => boolean): number => {
  let [low, high] = [0, most]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(middle)) low = middle
    else high = middle - 1
  }
  return low
}

/** As TFLMS tunes: the highest threshold that fits, then the longest look-ahead, with grouping if it still fits. */
const tunedAt = (n: Network, size: number): Tuned | null => {
  const on = machine(ON)
  const graph = graphOf(n.name, on, n.batch, size)
  if (!graph) return null
  const t = new Tflms(eachUseLayout(graph, on))
  const fits = (s: TflmsSetting): boolean => bytesOf(t.candidate(s).least) <= bytesOf(pagesIn(on.memoryBytes))
  if (!fits(EVERYTHING)) return null
  const threshold = largest(t.deepest, (x) => fits({ ...EVERYTHING, threshold: x }))
  const groupby = fits({ threshold, ahead: 0, groupby: t.deepest }) ? t.deepest : 0
  const ahead = largest(t.deepest, (x) => fits({ threshold, ahead: x, groupby }))
  return { size, deepest: t.deepest, threshold, ahead, groupby }
}

const tunedSection = (n: Network, rows: readonly (Tuned | null)[]): readonly Section[] => {
  const { head, rows: theirs } = published(2, n.table)
  const at = (size: number, method: string, column: string): string | number | null =>
    theirs.find((r) => r[0] === method && r[1] === size)?.[head.indexOf(column)] ?? null
  const found = rows.flatMap((r) => r ?? [])
  const needed = found.filter((r) => r.threshold < r.deepest)
  const falls = (of: (r: Tuned) => number): boolean => found.every((r, i) => i === 0 || of(r) <= of(found[i - 1]!))
  return [
    {
      heading: `${n.table === 'table1' ? 'Table 1' : 'Table 2'}: settings of the tuner, ${n.name}`,
      words: [
        'Distances are levels of the graph: the longest path from the inputs. TensorFlow’s graph has several nodes for one of our ops, so compare the direction, and the size at which swapping begins. In the paper’s rows, the last column lists the checkpoints of its hybrid.',
      ],
      table: {
        head: [
          'size',
          'paper: threshold',
          'paper: ahead',
          'paper: groupby',
          'threshold',
          'ahead',
          'groupby',
          'paper’s hybrid: threshold',
          'ahead',
          'checkpoint list',
        ],
        rows: found.map((r) => [
          r.size,
          ...['threshold', 'ahead', 'groupby'].map((c) => at(r.size, 'swap', c)),
          r.threshold,
          r.ahead,
          r.groupby,
          ...['threshold', 'ahead', 'checkpoints'].map((c) => at(r.size, 'hybrid', c)),
        ]),
      },
      verdicts: [
        {
          row: `${n.table === 'table1' ? 'Table 1' : 'Table 2'}: threshold falls with the size`,
          paper: `${at(Number(theirs[0]![1]), 'swap', 'threshold')} to ${at(Number(theirs.filter((r) => r[0] === 'swap').at(-1)![1]), 'swap', 'threshold')}`,
          ours: `${found[0]?.threshold} to ${found.at(-1)?.threshold}`,
          cause: falls((r) => r.threshold) ? undefined : 'the layout changes with the size',
        },
        {
          row: `${n.table === 'table1' ? 'Table 1' : 'Table 2'}: swapping is needed from size`,
          paper: `${theirs[0]![1]}`,
          ours: `${needed[0]?.size ?? 'none'}`,
          ...(needed[0]?.size === theirs[0]![1]
            ? {}
            : { cause: 'the in-core step: it fits up to the size before, because it holds fewer outputs' }),
        },
      ],
    },
  ]
}

// ---------------------------------------------------------------- the cost of recomputation, and the memory

interface Costs {
  readonly network: string
  readonly size: number
  /** Shares of the rate that recomputation costs: ours, without fused operators. */
  readonly fused: number
  readonly unfused: number
  /** Seconds without fused operators: convolutions and products, all other ops, and those of the forward pass. */
  readonly heavy: number
  readonly light: number
  readonly lightForward: number
}

const HEAVY = /^(conv2d|linear|conv_transpose|convtranspose)/

const costsAt = (name: string, batch: number, size: number): Costs | null => {
  const on = machine(ON)
  const plain = unfused(on)
  const lost = (m: typeof on): number => {
    const graph = graphOf(name, m, batch, size)!
    const [base, again] = ['in-core', 'recompute:conv'].map((s) => secondsOf(planOf(graph, m, s, 256 * GIB), m)!)
    return 1 - base! / again!
  }
  const graph = graphOf(name, plain, batch, size)
  if (!graph) return null
  const costs = opCosts(graph, plain)
  const sum = (of: (kind: string, phase: string) => boolean): number =>
    graph.ops.reduce((n, o) => n + (of(o.kind, o.phase) ? costs[o.id]!.seconds : 0), 0)
  return {
    network: name,
    size,
    fused: stored(lost(on))!,
    unfused: stored(lost(plain))!,
    heavy: stored(sum((kind) => HEAVY.test(kind)))!,
    light: stored(sum((kind) => !HEAVY.test(kind)))!,
    lightForward: stored(sum((kind, phase) => !HEAVY.test(kind) && phase === 'forward'))!,
  }
}

/** The factor of the time of light ops with which running the forward ones again costs this share of the rate. */
const slowdownFor = (c: Costs, share: number): number => (c.heavy * share) / (c.lightForward * (1 - share) - c.light * share)

const costSection = (all: readonly (Costs | null)[]): readonly Section[] => {
  const rows = all.flatMap((c) => c ?? [])
  const paper = (c: Costs): number => numberOf(2, 'statements', [c.network], 'recomputation costs')! / 100
  const again = (c: Costs, slow = 1): number => (slow * c.lightForward) / (c.heavy + slow * (c.light + c.lightForward))
  const words = (c: Costs): string => {
    const slow = slowdownFor(c, paper(c))
    return slow > 0
      ? `${rounded(slow)} times our time of these ops, ${percent(0.8 / slow, 0)} of the memory’s rate`
      : `none: even at no other cost, they are ${percent(c.lightForward / (c.light + c.lightForward))} of the step`
  }
  return [
    {
      heading: 'The cost of recomputation: 15.8 and 16.7 %',
      words: [
        'Share of the rate that recomputation costs, one cause changed at a time. `recompute:conv` runs only the ops whose values the backward pass reads. TensorFlow’s graph copies every op between two checkpoints, statistics included. The last column is the rate of norms, rectifiers and sums at which that costs the paper’s share.',
      ],
      table: {
        head: [
          'network',
          'paper',
          'recompute:conv',
          'without fused operators',
          'every op but convolutions again',
          'time of these ops for the paper’s share',
        ],
        rows: rows.map((c) => [
          `${c.network} at ${c.size}`,
          percent(paper(c)),
          percent(c.fused),
          percent(c.unfused),
          percent(again(c)),
          words(c),
        ]),
      },
      verdicts: rows.map((c) => ({
        row: `${c.network}: recomputation costs at ${c.size}`,
        paper: percent(paper(c)),
        ours: percent(c.fused),
        cause: `recomputing every op but convolutions costs ${percent(again(c))} of the rate; the paper’s share needs ${words(c)}`,
      })),
    },
  ]
}

interface MemoryRow {
  readonly network: string
  readonly size: number
  /** GiB: forward outputs without fused operators, all kept; the parameters, their gradients and momenta; in-core steps of ours. */
  readonly outputs: number
  readonly state: number
  readonly plain: number
  readonly fused: number
}

const memoryAt = (name: string, batch: number, size: number): MemoryRow | null => {
  const on = machine(ON)
  const plain = unfused(on)
  const graph = graphOf(name, plain, batch, size)
  const fused = graphOf(name, on, batch, size)
  if (!graph || !fused) return null
  const bytes = (vs: Iterable<number>): number => [...vs].reduce((n, v) => n + valueBytes(graph.values[v]!), 0)
  const forward = new Set(graph.ops.filter((o) => o.phase === 'forward').flatMap((o) => o.outs))
  const parameters = graph.values.flatMap((v, i) => (v.role === 'param' ? [i] : []))
  const held = (g: Graph, m: typeof on): number => stored(bytesOf(planOf(g, m, 'in-core', 1024 * GIB)!.peakPages) / GIB)!
  return {
    network: name,
    size,
    outputs: stored(bytes(forward) / GIB)!,
    state: stored((3 * bytes(parameters)) / GIB)!,
    plain: held(graph, plain),
    fused: held(fused, on),
  }
}

/** The paper's limit, beside the sizes at which a step that keeps all outputs fits and no longer fits. */
const memoryVerdict = (name: string, rows: readonly MemoryRow[]): Verdict => {
  const most = machine(ON).memoryBytes / GIB
  const paper = numberOf(2, 'largest', [name], 'in memory')!
  const ours = Math.max(0, ...rows.filter((r) => r.fused <= most).map((r) => r.size))
  const all = (r: MemoryRow | undefined): number => (r ? r.outputs + r.state : Number.NaN)
  const next = rows.find((r) => r.size > paper)
  const kept = `a step that keeps all outputs holds ${rounded(all(rows.find((r) => r.size === paper)))} GiB at ${paper} and ${rounded(all(next))} GiB at ${next?.size}, of ${rounded(most)}`
  return {
    row: `${name}: largest size, in memory`,
    paper: `${paper}`,
    ours: `${ours}`,
    cause:
      all(next) > most
        ? `${kept}. That is the paper’s limit`
        : `${kept}. So the paper’s network, whose backbone it does not name, holds at least ${rounded(most / all(next))} times as much`,
  }
}

const memorySection = (all: readonly (MemoryRow | null)[]): readonly Section[] => [
  {
    heading: 'In memory: 3000 and 400',
    words: [
      'GiB at the paper’s last size in memory, and at the next ones. *All outputs*: TensorFlow’s graph keeps the output of every forward op that a gradient reads, and has no operators in place; the largest gradients and workspaces come on top. *Ours*: the in-core step, without and with fused operators.',
    ],
    table: {
      head: ['network', 'size', 'all outputs and state', 'ours, without fused operators', 'ours'],
      rows: all.flatMap((r) =>
        r ? [[r.network, r.size, rounded(r.outputs + r.state), rounded(r.plain), rounded(r.fused)]] : [],
      ),
    },
    verdicts: NETWORKS.map(({ name }) =>
      memoryVerdict(
        name,
        all.flatMap((r) => (r?.network === name ? [r] : [])),
      ),
    ),
  },
]

export const paper2: Experiment = {
  title: 'Paper 2: swapping joined with recomputation in TensorFlow',
  words: [
    'Megapixels per second on a V100 of 32 GB behind three NVLink 2.0 bricks. Our rates are a roofline, and higher: 15 megapixels/s where the paper has about 12.',
    '- **Recomputation.** `recompute:conv` is the paper’s: outputs of convolutions stay, everything else is recomputed. `checkpoint:sqrt` and `checkpoint:optimal` keep less.\n' +
      '- **Hybrid.** As in the paper, it swaps fewer values than swapping alone. It gains less here, because the link is seldom the limit at these sizes. [Causes](causes.md) shows the paper’s 37.5 and 18.7 % behind slower links.',
    missingOf(2),
  ],
  parts: [
    ...NETWORKS.map((n) =>
      part(
        n.name,
        (bound) => rowsOf(n, bound),
        (rows, plot) => ratesSection(n, rows, plot),
      ),
    ),
    ...NETWORKS.map((n) =>
      part(
        `${n.name} tuner`,
        () => [...new Set(published(2, n.table).rows.map((r) => Number(r[1])))].map((size) => tunedAt(n, size)),
        (rows) => tunedSection(n, rows),
      ),
    ),
    part('recomputation', () => [costsAt('resnet50', 1, 3000), costsAt('deeplabv3plus-resnet50', 16, 400)], costSection),
    part(
      'memory',
      () => [
        ...[3000, 3500, 4000, 4500].map((size) => memoryAt('resnet50', 1, size)),
        ...[400, 500, 600, 800].map((size) => memoryAt('deeplabv3plus-resnet50', 16, size)),
      ],
      memorySection,
    ),
  ],
}
