// Paper 4 (DyMem): Figures 1, 5, 8 and 12 to 15, Tables 1 and 2. In: nothing. Out: images a second and least memory of its systems on a TITAN X
// of 12 GB, rates of convolutions by their workspace, the overlap of copies, and allocators replayed on the same plans.
import { smallestOf } from '../../src/stage/sweep'
import type { LocalMachine } from '../../src/machine/localmachine'
import type { CompileOptions } from '../../staging/compile'
import { valueBytes, type Graph } from '../../staging/graph/graph'
import { dymem } from '../../staging/literature/dymem'
import { replay } from '../../staging/memory/allocators/replay'
import { opCosts } from '../../staging/schedule/chain'
import { simulate } from '../../staging/sim/simulate'
import type { Span, Stream, Timeline } from '../../staging/sim/timeline'
import type { Cell, Section } from './page'
import { algorithmSection, type Rates, ratesOf } from './algorithms'
import { type Bound, drawn, type Experiment, linesOf, part, type Plotter } from './part'
import { missingOf, published, numberOf } from './published'
import { residualGraph } from './residual'
import { besideAuto, gap, GIB, graphOf, known, machine, MIB, percent, planOf, rounded, stepOf, stored, unfused } from './steps'

const METHODS = known(['swap:vdnn-all', 'swap:vdnn-conv', 'swap:superneurons', 'swap:dymem', 'swap:fractional', 'auto'])
const ON = 'titanx-pcie-12g'

/** A network of the paper, or one that stands for it. */
interface Network {
  readonly name: string
  readonly batches: readonly number[]
  readonly of: (batch: number, on: LocalMachine) => Graph | null
}
const zoo = (name: string, size: number, batches: readonly number[]): Network => ({
  name,
  batches,
  of: (batch, on) => graphOf(name, on, batch, size),
})
/** Basic blocks on images of 32², with 64 channels in the first stage: the paper's network is wider than the usual 16. */
const basic = (perStage: number, batches: readonly number[]): Network => ({
  name: `resnet${6 * perStage + 2}, basic blocks at 32²`,
  batches,
  of: (batch, on) => residualGraph({ perStage, channels: 64, norms: true, batch, size: 32 }, on),
})

const NETWORKS: readonly Network[] = [
  zoo('vgg16', 224, [64, 128, 256]),
  zoo('alexnet', 224, [128, 256, 512]),
  basic(5, [100, 400, 800]),
  basic(8, [100, 400]),
  basic(16, [100, 400]),
  basic(25, [100, 400]),
  zoo('resnet34', 224, [50, 100]),
  zoo('resnet50', 224, [25, 50, 100]),
  zoo('resnet101', 224, [50, 100]),
  zoo('resnet152', 224, [100]),
  zoo('inception4', 299, [32, 128]),
]

// ---------------------------------------------------------------- Figures 12 and 13

const casesOf = (n: Network, bound: Bound) => {
  const on = machine(ON)
  return n.batches.flatMap((batch) => {
    const graph = n.of(batch, on)
    if (!graph) return []
    return [
      {
        batch,
        least: METHODS.map((m) => stored(smallestOf(graph, on, m) / GIB)),
        seconds: METHODS.map((m) => stored(stepOf(graph, on, m)?.makespanSeconds)),
        bound: stored(bound(graph, on, on.memoryBytes)),
      },
    ]
  })
}
type Case = ReturnType<typeof casesOf>[number]

const caseSection = (n: Network, rows: readonly Case[], plot: Plotter): readonly Section[] => {
  const at = (r: Case | undefined, method: string, of: 'least' | 'seconds'): number | null =>
    r?.[of][METHODS.indexOf(method)] ?? null
  const inception = n.name === 'inception4' ? rows.find((r) => r.batch === 128) : undefined
  const resnet = n.name.startsWith('resnet50') ? rows.find((r) => r.batch === 100) : undefined
  const saved = 1 - (at(inception, 'swap:dymem', 'least') ?? 0) / (at(inception, 'swap:vdnn-all', 'least') ?? 1)
  const memoryRow = (system: string, method: string) => {
    const paper = numberOf(4, 'figure12a', [system], 'memory')!
    const ours = (at(inception, method, 'least') ?? 0) * 1024
    return {
      row: `Figure 12(a): Inception-v4 at batch 128, ${system}`,
      paper: `${paper} MB`,
      ours: `${rounded(ours, 4)} MiB`,
      cause:
        Math.abs(ours / paper - 1) <= 0.05
          ? undefined
          : `${percent(ours / paper - 1)} of difference: our least memory is planned pages, the paper’s a best-fit heap`,
    }
  }
  const gain = (at(resnet, 'swap:vdnn-all', 'seconds') ?? 0) / (at(resnet, 'swap:dymem', 'seconds') ?? 1) - 1
  const svg = drawn({
    title: `${n.name}, TITAN X 12 GB`,
    x: 'batch',
    y: 'images/s',
    series: linesOf(
      METHODS,
      rows,
      (r) => r.batch,
      (r, i) => (r.seconds[i] ? r.batch / r.seconds[i] : null),
    ),
  })
  return [
    {
      heading: `Figures 12 and 13: ${n.name}`,
      words: [
        besideAuto(
          METHODS,
          rows.map((r) => ({ at: r.batch, seconds: r.seconds })),
        ),
      ],
      table: {
        head: ['batch', ...METHODS.map((m) => `${m}: least GiB; images/s (gap)`)],
        rows: rows.map((r) => [
          r.batch,
          ...METHODS.map((_, i): Cell => {
            const [least, seconds] = [r.least[i], r.seconds[i]]
            return `${rounded(least) ?? '–'}; ${seconds ? `${rounded(r.batch / seconds)} (${gap(seconds, r.bound)})` : '–'}`
          }),
        ]),
      },
      plots: [plot(n.name.replace(/\W+/g, '-'), svg)],
      verdicts: [
        ...(inception
          ? [
              memoryRow('vDNN', 'swap:vdnn-all'),
              memoryRow('DyMem', 'swap:dymem'),
              {
                row: 'Figure 12(a): Inception-v4, memory that DyMem saves over vDNN',
                paper: `${numberOf(4, 'savings', ['vDNN'], 'saved')} %`,
                ours: percent(saved, 0),
              },
            ]
          : []),
        ...(resnet
          ? [
              {
                row: `Figure 13: ${n.name} at batch 100, DyMem over vDNN`,
                paper: `+${numberOf(4, 'figure13', ['DyMem'], 'gain')} %`,
                ours: `+${percent(gain, 0)}`,
                cause:
                  gain >= 0.37 && gain <= 0.47
                    ? undefined
                    : 'the ratio of copies to compute. Its blocks compute 25 and 76 ms and copy 66 and 68 ms (Table 1). [Causes](causes.md) changes one thing at a time, up to +33 %',
              },
            ]
          : []),
      ],
    },
  ]
}

// ---------------------------------------------------------------- Figure 12(b)

/** Networks with convolutions of their own, as in the paper's framework. */
const algorithmRows = (): readonly Rates[] => {
  const on = unfused(machine(ON))
  const cases = [
    ['vgg16', 64, 224],
    ['vgg16', 128, 224],
    ['vgg16', 256, 224],
    ['alexnet', 256, 224],
    ['resnet50', 100, 224],
    ['resnet101', 100, 224],
    ['inception4', 128, 299],
  ] as const
  return [
    ...cases.flatMap(([name, batch, size]) => ratesOf(name, batch, graphOf(name, on, batch, size), on)),
    ...ratesOf('resnet32', 100, residualGraph({ perStage: 5, channels: 64, norms: true, batch: 100, size: 32 }, on), on),
  ]
}

// ---------------------------------------------------------------- Figure 14

/** Seconds in the union of spans of some streams, and in the intersection with those of others. */
const union = (spans: readonly Span[], streams: readonly Stream[]): readonly (readonly [number, number])[] => {
  const sorted = spans
    .filter((s) => streams.includes(s.stream))
    .map((s) => [s.start, s.end] as const)
    .sort((a, b) => a[0] - b[0])
  const joined: [number, number][] = []
  for (const [start, end] of sorted) {
    const last = joined[joined.length - 1]
    if (last && start <= last[1]) last[1] = Math.max(last[1], end)
    else joined.push([start, end])
  }
  return joined
}
const length = (xs: readonly (readonly [number, number])[]): number => xs.reduce((n, [a, b]) => n + b - a, 0)
const common = (xs: readonly (readonly [number, number])[], ys: readonly (readonly [number, number])[]): number => {
  let [i, j, n] = [0, 0, 0]
  while (i < xs.length && j < ys.length) {
    n += Math.max(0, Math.min(xs[i]![1], ys[j]![1]) - Math.max(xs[i]![0], ys[j]![0]))
    if (xs[i]![1] < ys[j]![1]) i++
    else j++
  }
  return n
}

interface Parts {
  readonly network: string
  readonly system: string
  readonly overlapped: number
  readonly computeOnly: number
  readonly copyOnly: number
  readonly total: number
}

const partsOf = (network: string, system: string, t: Timeline): Parts => {
  const compute = union(t.spans, ['compute'])
  const copies = union(t.spans, ['out', 'in'])
  const overlapped = common(compute, copies)
  return {
    network,
    system,
    overlapped: stored(overlapped)!,
    computeOnly: stored(length(compute) - overlapped)!,
    copyOnly: stored(length(copies) - overlapped)!,
    total: stored(t.makespanSeconds)!,
  }
}

type Method = CompileOptions['method']
const SYSTEMS: readonly (readonly [words: string, strategy: string, method?: Method])[] = [
  ['vDNN', 'swap:vdnn-all'],
  ['DyMem with barriers', 'swap:dymem', { planner: dymem({ barriers: true }) }],
  ['DyMem without prefetching', 'swap:dymem', { planner: dymem({ convolutions: 0 }) }],
  ['DyMem', 'swap:dymem'],
]
const SINGLE = 'one stream'

const overlapOf = (network: string, graph: Graph | null): readonly Parts[] => {
  const on = machine(ON)
  const found = SYSTEMS.flatMap(([words, strategy, method]): readonly Parts[] => {
    const plan = graph && planOf(graph, on, strategy, 64 * GIB, method)
    return plan ? [partsOf(network, words, simulate(plan, on.link))] : []
  })
  const vdnn = found[0]
  if (!vdnn) return []
  // One stream runs compute and copies of vDNN one after the other.
  const [computeOnly, copyOnly] = [vdnn.overlapped + vdnn.computeOnly, vdnn.overlapped + vdnn.copyOnly]
  return [{ network, system: SINGLE, overlapped: 0, computeOnly, copyOnly, total: computeOnly + copyOnly }, ...found]
}

const overlapRows = (): readonly Parts[] => {
  const on = machine(ON)
  return [
    ...overlapOf('inception4', graphOf('inception4', on, 32, 299)),
    ...overlapOf('resnet32-cifar', residualGraph({ perStage: 5, channels: 64, norms: true, batch: 100, size: 32 }, on)),
  ]
}

const overlapSection = (rows: readonly Parts[]): readonly Section[] => {
  const single = (network: string): number => rows.find((r) => r.network === network && r.system === SINGLE)!.total
  const at = (network: string, system: string): Parts | undefined =>
    rows.find((r) => r.network === network && r.system === system)
  const names = [...new Set(rows.map((r) => r.network))]
  return [
    {
      heading: 'Figure 14: overlap of compute and copies',
      words: [
        'Parts of the step, relative to one stream, which runs compute and copies in turn. The rest of a step is waiting. Inception-v4 at batch 32, ResNet-32 with basic blocks and 64 channels at batch 100. No convolution has a faster algorithm with more workspace here, as in the paper’s experiment.',
      ],
      table: {
        head: ['network', 'system', 'overlapped', 'compute alone', 'copies alone', 'step'],
        rows: rows.map((r) => [
          r.network,
          r.system,
          ...[r.overlapped, r.computeOnly, r.copyOnly, r.total].map((s) => percent(s / single(r.network), 0)),
        ]),
      },
      verdicts: names.flatMap((n) => {
        const vdnn = at(n, 'vDNN')
        const full = at(n, 'DyMem')
        const paper = numberOf(4, 'figure14', [n], 'overlapped, vDNN')
        if (!vdnn || !full || paper === null) return []
        const ours = vdnn.overlapped / single(n)
        const saved = 1 - full.total / single(n)
        const barriers = at(n, 'DyMem with barriers')
        return [
          {
            row: `Figure 14: ${n}, overlapped by vDNN`,
            paper: `${paper} %`,
            ours: percent(ours, 0),
            cause:
              Math.abs(ours - paper / 100) <= 0.03
                ? undefined
                : `copies take ${percent((vdnn.overlapped + vdnn.copyOnly) / single(n), 0)} of one stream’s time here; no more than the smaller part can overlap`,
          },
          {
            row: `Figure 14: ${n}, saved by DyMem over one stream`,
            paper: `up to ${numberOf(4, 'figure14', [n], 'saved by DyMem, up to')} %`,
            ours: percent(saved, 0),
            cause:
              saved > 0.4 && saved <= 0.5
                ? undefined
                : `at most half can be saved, if compute and copies take as long. Without barriers DyMem saves ${percent(((barriers?.total ?? full.total) - full.total) / single(n), 0)} of it`,
          },
        ]
      }),
    },
  ]
}

// ---------------------------------------------------------------- Figures 1, 5 and 8

interface Breakdown {
  readonly network: string
  readonly features: number
  readonly weights: number
  readonly gradients: number
  /** Bytes of feature maps by kind of layer. */
  readonly kinds: Readonly<Record<string, number>>
}

const KINDS: readonly (readonly [kind: string, pattern: RegExp])[] = [
  ['convolution', /^conv/],
  ['norm', /^bn|norm/],
  ['activation', /relu/],
  ['pooling', /pool/],
  ['sum and concatenation', /^(add|concat)/],
  ['dropout, softmax and linear', /^(dropout|softmax|linear|flatten)/],
]

const breakdownOf = (network: string, graph: Graph | null): Breakdown | null => {
  if (!graph) return null
  const bytes = (vs: readonly number[]): number => vs.reduce((n, v) => n + valueBytes(graph.values[v]!), 0)
  const forward = graph.ops.filter((o) => o.phase === 'forward')
  const kindOf = (kind: string): string => KINDS.find(([, pattern]) => pattern.test(kind))?.[0] ?? 'other'
  const kinds: Record<string, number> = {}
  for (const o of forward) kinds[kindOf(o.kind)] = (kinds[kindOf(o.kind)] ?? 0) + bytes(o.outs)
  const weights = graph.values.reduce((n, v) => n + (v.role === 'param' ? valueBytes(v) : 0), 0)
  // Gradients of all weights and of one op are held at a time.
  const gradients = Math.max(0, ...graph.ops.filter((o) => o.phase === 'backward').map((o) => bytes(o.outs)))
  return { network, features: bytes(forward.flatMap((o) => o.outs)), weights, gradients: gradients + weights, kinds }
}

const breakdownRows = (): readonly (Breakdown | null)[] => {
  const on = unfused(machine(ON))
  return [
    breakdownOf('vgg16', graphOf('vgg16', on, 64, 224)),
    breakdownOf('alexnet', graphOf('alexnet', on, 256, 224)),
    breakdownOf('resnet50', graphOf('resnet50', on, 100, 224)),
    breakdownOf('resnet101', graphOf('resnet101', on, 100, 224)),
    breakdownOf('googlenet', graphOf('googlenet', on, 128, 224)),
    breakdownOf('inception4', graphOf('inception4', on, 128, 299)),
  ]
}

const breakdownSection = (all: readonly (Breakdown | null)[]): readonly Section[] => {
  const rows = all.flatMap((b) => b ?? [])
  const total = (b: Breakdown): number => b.features + b.weights + b.gradients
  const kind = (b: Breakdown, name: string): number => (b.kinds[name] ?? 0) / b.features
  const four = (b: Breakdown): number => ['convolution', 'norm', 'activation', 'pooling'].reduce((n, k) => n + kind(b, k), 0)
  const names = KINDS.map(([name]) => name)
  const inception = rows.find((b) => b.network === 'inception4')
  const least = Math.min(...rows.map(four))
  const lowest = rows.find((b) => four(b) === least)
  return [
    {
      heading: 'Figures 1 and 8: the memory of a step',
      words: [
        'Without fused operators, and with no value in place, as in the paper’s framework. Gradients: those of all weights, and of the largest op.',
      ],
      table: {
        head: ['network', 'feature maps, GiB', 'weights', 'gradients', 'share of feature maps', ...names],
        rows: rows.map((b) => [
          b.network,
          rounded(b.features / GIB),
          rounded(b.weights / GIB),
          rounded(b.gradients / GIB),
          percent(b.features / total(b), 0),
          ...names.map((k) => percent(kind(b, k), 0)),
        ]),
      },
      verdicts: [
        ...(inception
          ? [
              {
                row: 'Figure 1: Inception-v4, share of feature maps',
                paper: `more than ${numberOf(4, 'figure1', ['inception4'], 'share')} %`,
                ours: percent(inception.features / total(inception), 0),
              },
            ]
          : []),
        {
          row: 'Figure 8: convolution, activation, norm and pooling',
          paper: `more than ${published(4, 'figure8').rows[0]![1]} %`,
          ours: `${percent(least, 0)} at least (${lowest?.network})`,
          cause:
            least > 0.9
              ? undefined
              : `sums and concatenations are ${percent(kind(lowest!, 'sum and concatenation'), 0)} of it, which the paper counts elsewhere`,
        },
      ],
    },
  ]
}

/** The first ten layers of GoogLeNet that hold convolutions or pools. */
const layerRows = () => {
  const on = unfused(machine(ON))
  const graph = graphOf('googlenet', on, 128, 224)
  if (!graph) return []
  const costs = opCosts(graph, on)
  const layers = graph.ops.filter((o) => o.phase === 'forward' && /^conv|pool/.test(o.kind)).slice(0, 10)
  return layers.map((o) => ({
    layer: `${o.layer} (${o.kind})`,
    forward: stored(1e3 * costs[o.id]!.seconds)!,
    backward: stored(
      1e3 * graph.ops.reduce((n, b) => n + (b.phase === 'backward' && b.layer === o.layer ? costs[b.id]!.seconds : 0), 0),
    )!,
    copy: stored((1e3 * valueBytes(graph.values[o.ins[0]!]!)) / on.link.outBytesPerSecond)!,
  }))
}
type LayerTimes = ReturnType<typeof layerRows>[number]

const layerSection = (rows: readonly LayerTimes[]): readonly Section[] => {
  const longer = rows.filter((r) => r.copy > r.forward)
  return [
    {
      heading: 'Figure 5: compute and copies of ten layers of GoogLeNet',
      words: ['Milliseconds at batch 128: a layer’s forward and backward ops, and the copy of its input.'],
      table: {
        head: ['layer', 'forward', 'backward', 'copy of its input'],
        rows: rows.map((r) => [r.layer, rounded(r.forward), rounded(r.backward), rounded(r.copy)]),
      },
      verdicts: [
        {
          row: 'Figure 5: copies are longer than compute in some layers, shorter in others',
          paper: 'both occur',
          ours: `longer in ${longer.length} of ${rows.length} layers`,
          cause: longer.length > 0 && longer.length < rows.length ? undefined : 'the batch',
        },
      ],
    },
  ]
}

// ---------------------------------------------------------------- Figure 15 and Table 2

const ALLOCATORS = ['pages', 'best-fit', 'gtbm', 'va:40MiB', 'va:2MiB']

interface Replayed {
  readonly label: string
  readonly peaks: readonly number[]
  readonly requested: number
  readonly unusable: readonly number[]
  /** MiB held over the step, of the first plan. */
  readonly series: readonly (readonly [call: number, held: readonly number[], requested: number])[]
}

const replayed = (
  label: string,
  graph: Graph | null,
  strategy: string,
  budget: number | null,
  drawn = false,
): readonly Replayed[] => {
  const on = machine(ON)
  if (!graph) return []
  const plan = planOf(graph, on, strategy, budget ?? smallestOf(graph, on, strategy))
  if (!plan) return []
  const replays = ALLOCATORS.map((a) => replay(plan, a))
  const every = Math.max(1, Math.ceil(replays[0]!.series.length / 120))
  const series = replays[0]!.series.flatMap(([call, , requested], i) =>
    drawn && i % every === 0
      ? [[call, replays.map((r) => stored((r.series[i]?.[1] ?? 0) / MIB)!), stored(requested / MIB)!] as const]
      : [],
  )
  return [
    {
      label,
      peaks: replays.map((r) => stored(r.peakBytes / MIB)!),
      requested: stored(replays[0]!.requestedBytes / MIB)!,
      unusable: replays.map((r) => stored(r.meanUnusable)!),
      series,
    },
  ]
}

/** With this many channels, vDNN on best-fit holds gigabytes, as in the paper. */
const CHANNELS = 256

const allocatorRows = (): readonly Replayed[] => {
  const on = machine(ON)
  const noNorms = residualGraph({ perStage: 5, channels: CHANNELS, norms: false, batch: 100, size: 32 }, on)
  const zooCases = (
    [
      ['resnet50', 32, 224],
      ['googlenet', 64, 224],
    ] as const
  ).flatMap(([name, batch, size]) => {
    const graph = graphOf(name, on, batch, size)
    if (!graph) return []
    const inCore = smallestOf(graph, on, 'in-core')
    return known(['in-core', 'swap:dymem', 'swap:fractional']).flatMap((strategy) =>
      replayed(
        `${name}, ${strategy}`,
        graph,
        strategy,
        strategy === 'in-core' ? inCore : Math.max(smallestOf(graph, on, strategy), inCore * 0.7),
      ),
    )
  })
  return [
    ...replayed('ResNet-32 without norms, vDNN', noNorms, 'swap:vdnn-all', null, true),
    ...replayed('ResNet-32 without norms, DyMem', noNorms, 'swap:dymem', null),
    ...zooCases,
  ]
}

const allocatorSection = (rows: readonly Replayed[], plot: Plotter): readonly Section[] => {
  const [vdnn, ours] = rows
  if (!vdnn || !ours) return []
  const [held, gtbm] = [vdnn.peaks[ALLOCATORS.indexOf('best-fit')]!, ours.peaks[ALLOCATORS.indexOf('gtbm')]!]
  const svg = drawn({
    title: `${vdnn.label}: memory held over the step`,
    x: 'call',
    y: 'MiB',
    series: [
      ...linesOf(
        ALLOCATORS,
        vdnn.series,
        ([call]) => call,
        ([, all], i) => all[i],
        'pages',
      ),
      { name: 'requested', reference: true, points: vdnn.series.map(([call, , requested]) => [call, requested] as const) },
    ],
  })
  const paper = (system: string): number => numberOf(4, 'figure15', [system], 'peak')!
  const paperRatio = paper('vDNN on best-fit') / paper('DyMem on GTBM')
  return [
    {
      heading: 'Figure 15: allocators on the same allocations',
      words: [
        `Peak, MiB; in brackets relative to the most requested bytes, and the mean unusable free space (equation 1). The first two rows are the paper’s network without norms, at batch 100, with ${CHANNELS} channels in the first stage instead of 16: the usual width has too few bytes for the paper’s peaks ([causes](causes.md)).`,
        '- **GTBM** takes the best fit at the low end. Values shared by branches are temporary only in the forward pass. Tensors with higher reference counts are not moved to the front of a block’s allocations, as section 3.3.3 has it: plans fix the order of allocations.\n' +
          '- **Pages** are planned before the run. The peak is the live bytes, rounded up to pages of 2 MiB.\n' +
          '- **Best-fit** is caching and never returns a segment, as is the default of its users.\n' +
          '- **Chunks of 40 MiB** lose half a chunk per value.',
      ],
      table: {
        head: ['plan', ...ALLOCATORS],
        rows: rows.map((r) => [
          r.label,
          ...r.peaks.map((p, i) => `${rounded(p, 4)} (${(p / r.requested).toFixed(3)}; ${r.unusable[i]!.toFixed(2)})`),
        ]),
      },
      plots: [plot('allocators', svg)],
      verdicts: [
        {
          row: 'Figure 15: ResNet-32 without norms, best-fit under vDNN over GTBM under DyMem',
          paper: `${rounded(paperRatio)} (2500 over 1854 MB)`,
          ours: `${rounded(held / gtbm)} (${rounded(held, 4)} over ${rounded(gtbm, 4)} MiB)`,
          cause:
            Math.abs(held / gtbm / paperRatio - 1) <= 0.05
              ? undefined
              : `best-fit holds ${rounded(held / vdnn.requested)} times the requested bytes here, the paper’s about 1.35 times; GTBM’s two ends peak at different times ([causes](causes.md))`,
        },
      ],
    },
    {
      heading: 'Table 2: failures of a pool of estimated size',
      words: [
        'The paper estimates its pool from one iteration, adds slack, and counts failures. Ours follows from the plan: the pool has exactly its pages, and a budget that is too small is refused before the run.',
      ],
      table: {
        head: ['slack, MB', 'paper: failures, %', 'ours, %'],
        rows: [[0, null, 0], ...published(4, 'table2').rows.map((r): readonly Cell[] => [r[0]!, r[1]!, 0])],
      },
      verdicts: [
        {
          row: 'Table 2: failures with 100, 300 and 500 MB of slack',
          paper: '5, 0.9 and 0 %',
          ours: '0 % without slack',
          cause: 'the pool is planned, not estimated: 0 MB of slack',
        },
      ],
    },
  ]
}

export const paper4: Experiment = {
  title: 'Paper 4: dynamic memory for nonlinear networks',
  words: [
    'GeForce TITAN X (Maxwell), 12 GB, PCIe. The paper’s memory is a best-fit heap, ours is pages. Our vDNN and DyMem, like theirs, swap everything, even if it would fit. So `swap:fractional` and `auto` have in-core rates where these two do not.',
    'The paper’s Table 1 (25 and 76 ms of computation, 66 and 68 ms of copies) is used in [causes](causes.md).',
    missingOf(4),
  ],
  parts: [
    ...NETWORKS.map((n) =>
      part(
        n.name,
        (bound) => casesOf(n, bound),
        (rows, plot) => caseSection(n, rows, plot),
      ),
    ),
    part('algorithms', algorithmRows, algorithmSection),
    part('overlap', overlapRows, overlapSection),
    part('breakdown', breakdownRows, breakdownSection),
    part('layers', layerRows, layerSection),
    part('allocators', allocatorRows, allocatorSection),
  ],
}
