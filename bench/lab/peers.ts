// Today's peers on the same network, batch and share of memory. In: peerfigures.json. Out: for each published point the overhead of `auto` with its link and
// without one, of checkpoints, and the bound, on the data sheet of the peer's card. Invariant: where a peer is ahead of `auto`, the page says so.
import { registerMachine } from '../../src/machine/ownmachines'
import type { LocalMachine } from '../../src/machine/localmachine'
import { smallestOf } from '../../src/stage/sweep'
import type { CompileOptions } from '../../staging/compile'
import { bytesOf, gib, pagesIn } from '../../staging/core/bytes'
import { valueBytes, type Graph } from '../../staging/graph/graph'
import { checkpointSqrt } from '../../staging/literature/checkpoint'
import { computeSeconds } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import type { Cell, Section, Verdict } from './page'
import { type Bound, drawn, type Experiment, part, type Plotter } from './part'
import { type MonetTable, PEERS, type ShareRow } from './peerdata'
import { GIB, graphOf, machine, percent, planOf, rounded, secondsOf, stored } from './steps'

// Data sheets: peak single precision without tensor cores, memory rate, and 16 lanes of the card's PCIe.
registerMachine('rtx3090-pcie-24g' as never, {
  flopsPerSecond: 35.6e12,
  bytesPerSecond: 936e9,
  memoryBytes: gib(24),
  linkBytesPerSecond: 24.4e9,
})
registerMachine('rtx8000-pcie-48g' as never, {
  flopsPerSecond: 16.3e12,
  bytesPerSecond: 672e9,
  memoryBytes: gib(48),
  linkBytesPerSecond: 12.2e9,
})

/** The same card without host memory: recomputation and tiles alone, as most peers have it. */
const alone = (on: LocalMachine): LocalMachine => ({ ...on, link: { ...on.link, bytes: 0 } })

/** Blocks with equal numbers of ops, the best number of them: torch.utils.checkpoint.checkpoint_sequential at best segments. */
const SEQUENTIAL: CompileOptions['method'] = { planner: checkpointSqrt({ balanced: false }) }

const WAYS: readonly (readonly [words: string, strategy: string, link: boolean, method?: CompileOptions['method']])[] = [
  ['auto', 'auto', true],
  ['auto, no link', 'auto', false],
  ['checkpoint:optimal (Rotor)', 'checkpoint:optimal', false],
  ['torch.utils.checkpoint, best segments', 'checkpoint:sqrt', false, SEQUENTIAL],
  ['recompute:conv', 'recompute:conv', false],
]

interface Point {
  readonly network: string
  readonly batch: number
  readonly size: string
  /** A part of our in-core memory. */
  readonly share: number
  readonly gib: number
  /** Added time in percent, published. */
  readonly published: number
  /** Added time of ours, relative to the in-core compute. */
  readonly ways: readonly (number | null)[]
  readonly bound: number | null
}

const pointOf = (
  on: LocalMachine,
  graph: Graph,
  named: Pick<Point, 'network' | 'batch' | 'size' | 'published'>,
  budget: number,
  bound: Bound,
): Point => {
  const inCore = smallestOf(graph, on, 'in-core')
  const compute = computeSeconds(inCoreLayout(graph, on))
  const bytes = bytesOf(pagesIn(budget))
  const added = (seconds: number | null): number | null => (seconds ? stored(100 * (seconds / compute - 1)) : null)
  return {
    ...named,
    share: stored(bytes / inCore)!,
    gib: stored(bytes / GIB)!,
    ways: WAYS.map(([, strategy, link, method]) => {
      const m = link ? on : alone(on)
      return added(secondsOf(planOf(graph, m, strategy, bytes, method), m))
    }),
    bound: added(bound(graph, on, bytes)),
  }
}

/** A number of the table: percent with a sign. */
const plus = (x: number | null): string | null => (x === null ? null : `${x >= 0 ? '+' : '−'}${Math.abs(x).toFixed(1)} %`)

const autoOf = (p: Point, link: boolean): number | null => p.ways[link ? 0 : 1] ?? null

const pointTable = (points: readonly Point[], published: string) => ({
  head: ['network', 'batch', 'share of in-core', 'GiB', published, ...WAYS.map(([words]) => words), 'bound'],
  rows: points.map((p): readonly Cell[] => [
    `${p.network} at ${p.size}`,
    p.batch,
    percent(p.share, 0),
    rounded(p.gib),
    plus(p.published),
    ...p.ways.map(plus),
    plus(p.bound),
  ]),
})

const ahead = (points: readonly Point[], peer: string, link: boolean): string => {
  const behind = points.filter((p) => (autoOf(p, link) ?? Infinity) > p.published)
  const how = link ? 'with its link' : 'without a link'
  return behind.length === 0
    ? `\`auto\` ${how} is below ${peer}’s published overhead at all ${points.length} points.`
    : `**${peer} is ahead** of \`auto\` ${how} at ${behind.length} of ${points.length} points: ${behind.map((p) => `${p.network} at ${percent(p.share, 0)} (${plus(p.published)} against ${plus(autoOf(p, link)) ?? 'no plan'})`).join(', ')}.`
}

/** For each network the point at which ours compares worst. */
const verdictOf = (peer: string, points: readonly Point[], cause: (p: Point) => string): readonly Verdict[] =>
  [...new Set(points.map((p) => p.network))].map((network) => {
    const own = points.filter((p) => p.network === network)
    const lead = (p: Point): number => p.published - (autoOf(p, true) ?? Infinity)
    const p = own.reduce((a, b) => (lead(b) < lead(a) ? b : a))
    const behind = own.filter((x) => lead(x) < 0).length
    return {
      row: `${peer}: ${network}, batch ${p.batch}, in ${percent(p.share, 0)} of the memory, the worst of ${own.length} points for ours`,
      paper: plus(p.published)!,
      ours: `${plus(autoOf(p, true)) ?? 'no plan'} (no link: ${plus(autoOf(p, false)) ?? 'no plan'})`,
      ...(behind === 0
        ? { result: 'ours is faster' as const }
        : { result: 'the peer is faster' as const, cause: `at ${behind} of ${own.length} points. ${cause(p)}` }),
    }
  })

// ---------------------------------------------------------------- MONeT

const P100 = 'p100-nvlink-16g'

interface Monet {
  readonly points: readonly Point[]
  /** GB of PyTorch in its table, and GiB of our in-core step. */
  readonly base: number
  readonly inCore: number
}

const monet = (t: MonetTable, bound: Bound): Monet | null => {
  const on = machine(P100)
  const graph = graphOf(t.network, on, t.batch, ...t.size)
  if (!graph) return null
  const inCore = smallestOf(graph, on, 'in-core')
  const named = { network: t.network, batch: t.batch, size: t.size.join('×') }
  const points = t.rows.map(([gb, published]) => pointOf(on, graph, { ...named, published }, (inCore * gb) / t.base, bound))
  return { points, base: t.base, inCore: stored(inCore / GIB)! }
}

const monetSection = (m: Monet | null, plot: Plotter): readonly Section[] => {
  if (!m?.points[0]) return []
  const { network, batch, size } = m.points[0]
  const svg = drawn({
    title: `${network}, batch ${batch}: overhead by memory`,
    x: 'share of the in-core memory, %',
    y: 'added time, %',
    series: [
      ...WAYS.map(([name], i) => ({
        name,
        ours: i === 0,
        points: m.points.map((p) => [100 * p.share, p.ways[i] ?? undefined] as const),
      })),
      { name: 'MONeT, published', reference: true, points: m.points.map((p) => [100 * p.share, p.published] as const) },
    ],
  })
  return [
    {
      heading: `MONeT: ${network} at ${size}, batch ${batch}`,
      words: [
        `${PEERS.MONeT.source}. Card: ${PEERS.MONeT.card}. PyTorch holds ${m.base} GB there, our in-core step ${rounded(m.inCore)} GiB. So equal bytes would be an easier budget for us; the rows have equal shares.`,
        ahead(m.points, 'MONeT', true),
        ahead(m.points, 'MONeT', false),
      ],
      table: pointTable(m.points, 'MONeT'),
      plots: [plot(`monet-${network}`, svg)],
      verdicts: verdictOf('MONeT', m.points, (p) =>
        p.published < 0 || network === 'vgg16' || network === 'unet'
          ? `It also chooses faster algorithms of cuDNN, with which it adds ${plus(Math.min(...m.points.map((x) => x.published)))} at its best; a simulated machine has one time per op. The bound of ours is ${plus(p.bound)}`
          : `It also packs intermediates of rectifiers into bits (its lrrelu and pack kernels); the bound of ours is ${plus(p.bound)}`,
      ),
    },
  ]
}

// ---------------------------------------------------------------- shares of the memory

const shares = (rows: readonly ShareRow[], on: LocalMachine, ofActivations: boolean, bound: Bound): readonly Point[] =>
  rows.flatMap(([network, batch, size, share, published]) => {
    const graph = graphOf(network, on, batch, size)
    if (!graph) return []
    const inCore = smallestOf(graph, on, 'in-core')
    // Parameters, gradients and momenta stay.
    const state = ofActivations ? 3 * graph.values.reduce((n, v) => n + (v.role === 'param' ? valueBytes(v) : 0), 0) : 0
    const named = { network, batch, size: `${size}²`, published }
    return [pointOf(on, graph, named, state + share * (inCore - state), bound)]
  })

const shareSection =
  (peer: 'POFO' | 'HiRemate' | 'MAGIS', card: string, words: readonly string[]) =>
  (points: readonly Point[]): readonly Section[] => [
    {
      heading: `${peer} on ${card}`,
      words: [`${PEERS[peer].source}.`, ...words, ahead(points, peer, true), ahead(points, peer, false)],
      table: pointTable(points, `${peer}, at most`),
      verdicts: verdictOf(
        peer,
        points,
        (p) => `The bound of ours in this budget is ${plus(p.bound)}; the rest is tiles, waits and the search`,
      ),
    },
  ]

// ---------------------------------------------------------------- Rotor and torch.utils.checkpoint

interface RotorRow {
  readonly network: string
  readonly batch: number
  readonly size: number
  /** Gains of the optimal programme over sequential checkpoints, percent, at each budget with both plans. */
  readonly gains: readonly number[]
  readonly budgets: number
  /** Smallest budgets, GiB. */
  readonly least: readonly (number | null)[]
}

const rotorRows = (): readonly RotorRow[] => {
  const on = machine('v100-pcie-16g')
  return PEERS.Rotor.networks.flatMap(([network, batch, size]) => {
    const graph = graphOf(network, on, batch, size)
    if (!graph) return []
    const inCore = smallestOf(graph, on, 'in-core')
    const at = [0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8].map((s) => bytesOf(pagesIn(inCore * s)))
    const gains = at.flatMap((b) => {
      const optimal = secondsOf(planOf(graph, on, 'checkpoint:optimal', b), on)
      const sequential = secondsOf(planOf(graph, on, 'checkpoint:sqrt', b, SEQUENTIAL), on)
      return optimal && sequential ? [stored(100 * (sequential / optimal - 1))!] : []
    })
    const least = ['checkpoint:optimal', 'checkpoint:sqrt', 'auto'].map((s) => stored(smallestOf(graph, on, s) / GIB))
    return [{ network, batch, size, gains, budgets: at.length, least }]
  })
}

const rotorSection = (rows: readonly RotorRow[]): readonly Section[] => {
  const all = rows.flatMap((r) => r.gains)
  const mean = all.reduce((a, b) => a + b, 0) / Math.max(1, all.length)
  return [
    {
      heading: 'Rotor and torch.utils.checkpoint on a V100',
      words: [
        `${PEERS.Rotor.source}. \`checkpoint:optimal\` is Rotor’s programme, with our costs. \`torch.utils.checkpoint\` at best segments is the fastest number of segments with equally many ops that fits.`,
      ],
      table: {
        head: [
          'network',
          'batch',
          'mean gain of the programme',
          'largest gain',
          'budgets with both plans',
          'least GiB: checkpoint:optimal',
          'checkpoint:sqrt',
          'auto',
        ],
        rows: rows.map((r) => [
          `${r.network} at ${r.size}²`,
          r.batch,
          r.gains.length ? plus(r.gains.reduce((a, b) => a + b, 0) / r.gains.length) : null,
          r.gains.length ? plus(Math.max(...r.gains)) : null,
          `${r.gains.length} of ${r.budgets}`,
          ...r.least.map((x) => rounded(x)),
        ]),
      },
      verdicts: [
        {
          row: 'Rotor: throughput over checkpoint_sequential at equal memory',
          paper: `+${PEERS.Rotor.gain} %`,
          ours: `${plus(mean)} in the mean of ${all.length} budgets`,
          cause:
            Math.abs(mean - PEERS.Rotor.gain) <= 3
              ? undefined
              : `a segment of PyTorch reruns whole stages with all their ops; ours leaves out ops that no gradient reads. The largest gain is ${plus(Math.max(...all, 0))}`,
        },
      ],
    },
  ]
}

const memoryBudget: Section = {
  heading: 'PyTorch’s memory budget',
  words: [
    '`torch._functorch.config.activation_memory_budget` solves a knapsack over the bytes of saved activations in a compiled step. It bounds saved bytes, not the peak: one [report](https://github.com/pytorch/pytorch/issues/197838) has a peak of 1145 MB at a budget of 0.05 and 275 MB at 0.15. We found no published figures for convolutional networks. Above its smallest budgets it recomputes cheap ops between convolutions and products, as `recompute:conv` does. So that column above is its point on our cost model.',
    'torchtitan plans keep, recompute or offload for each tensor in a budget of peak memory ([pull request](https://github.com/pytorch/torchtitan/pull/4636)), for transformers only.',
  ],
}

export const peers: Experiment = {
  title: 'Today’s peers beside ours',
  words: [
    'Published figures of other systems, and ours simulated on the data sheet of the same card: the added time over the in-core compute, at the same network and batch, in the same share of the system’s own in-core memory. Differences between the two sides:',
    '- Their times are measured; ours are a roofline with 60 % of the arithmetic peak and 80 % of the memory rate.\n' +
      '- Their in-core memory is PyTorch’s. Ours is smaller for the same network, so that equal shares are fewer bytes for ours.\n' +
      '- MONeT, Rotor, HiRemate and `torch.utils.checkpoint` only recompute. *No link*: `auto` without host memory, by recomputation and tiles alone. POFO and MAGIS also move values to the host.\n' +
      '- *Bound*: the lower bound of plans with a link, on the same cost model, in this budget.',
    'Not run: ILP solvers of the peers. `rockmate` cannot run on a CPU: version 2.0.0 cannot be imported as it is published, and 1.0.1 measures no op there.',
  ],
  parts: [
    ...PEERS.MONeT.tables.map((t) =>
      part(
        `monet ${t.network}`,
        (bound) => monet(t, bound),
        (m, plot) => monetSection(m, plot),
      ),
    ),
    part(
      'pofo',
      (bound) => shares(PEERS.POFO.rows, machine('v100-pcie-16g'), true, bound),
      shareSection('POFO', 'a V100 behind PCIe', ['Shares are of activations; parameters, gradients and momenta stay.']),
    ),
    part(
      'hiremate',
      (bound) => shares(PEERS.HiRemate.rows, machine('rtx8000-pcie-48g'), false, bound),
      shareSection('HiRemate', 'a Quadro RTX 8000', []),
    ),
    part(
      'magis',
      (bound) => shares(PEERS.MAGIS.rows, machine('rtx3090-pcie-24g'), false, bound),
      shareSection('MAGIS', 'an RTX 3090', []),
    ),
    part('rotor', rotorRows, rotorSection),
    part(
      'memory budget',
      () => 'words',
      () => [memoryBudget],
    ),
  ],
}
