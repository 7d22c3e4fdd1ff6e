// Paper 3 (segmented fused tiles): Figure 8 and the redundancy of computation. In: nothing. Out: seconds an iteration by image size on two devices,
// the artifact's raw numbers beside ours, and the arithmetic over an untiled step's.
import { bytesOf } from '../../staging/core/bytes'
import { type Graph, type Op, valueBytes } from '../../staging/graph/graph'
import { sftWhole } from '../../staging/literature/sft'
import { isTiled } from '../../staging/tile/segments'
import { opDef } from '../../staging/ops/registry'
import { callShapes } from '../../staging/plan/callcosts'
import type { Plan, SegmentPhase } from '../../staging/plan/plan'
import type { Planner } from '../../staging/schedule/candidate'
import type { LocalMachine } from '../../src/machine/localmachine'
import { smallestOf } from '../../src/stage/sweep'
import type { Cell, Section, Verdict } from './page'
import { type Bound, drawn, type Experiment, linesOf, part, type Plotter } from './part'
import { missingOf, published, numberOf } from './published'
import { residualGraph } from './residual'
import {
  besideAuto,
  gap,
  GIB,
  graphOf,
  known,
  machine,
  MIB,
  percent,
  planOf,
  rounded,
  secondsOf,
  stepOf,
  stored,
  unfused,
} from './steps'

const METHODS = known(['in-core', 'checkpoint:sqrt', 'checkpoint:optimal', 'sft', 'tiled', 'auto'])

const MODELS = ['vgg16-features', 'vgg19-features', 'darknet19-features-plain'] as const
const DEVICES = ['2080ti-pcie-11g', 'a100-pcie-40g'] as const
/** Sizes of the artifact for a network and a device; VGG-19 has none, and takes those of VGG-16. */
const sizesOf = (model: string, on: string): readonly number[] =>
  published(3, `figure8 ${model === 'vgg19-features' ? 'vgg16-features' : model} ${on}`).rows.map((r) => Number(r[0]))
const paperAt = (model: string, on: string, size: number, column: string): number | null =>
  model === 'vgg19-features' ? null : numberOf(3, `figure8 ${model} ${on}`, [size], column)

/** A cold first iteration: the artifact's at 512², less our step there. */
const startUp = (model: string, on: string, rows: readonly Row[]): number | null => {
  const paper = paperAt(model, on, 512, 'base')
  const ours = rows.find((r) => r.size === 512)?.seconds[0]
  return paper && ours ? paper - ours : null
}

// ---------------------------------------------------------------- Figure 8

const rowsOf = (model: string, name: string, bound: Bound) => {
  const on = machine(name)
  return sizesOf(model, name).flatMap((size) => {
    const graph = graphOf(model, on, 1, size)
    if (!graph) return []
    const cases = METHODS.map((m) => stepOf(graph, on, m))
    return [
      {
        size,
        seconds: cases.map((c) => stored(c?.makespanSeconds)),
        halos: cases.map((c) => stored(c?.haloRatio)),
        bound: stored(bound(graph, on, on.memoryBytes)),
      },
    ]
  })
}
type Row = ReturnType<typeof rowsOf>[number]

const largestOf = (rows: readonly Row[], method: string): number =>
  Math.max(0, ...rows.filter((r) => r.seconds[METHODS.indexOf(method)]).map((r) => r.size))

const figure8Verdicts = (model: string, on: string, rows: readonly Row[]): readonly Verdict[] => {
  if (model === 'vgg19-features') return []
  const sizes = sizesOf(model, on)
  const paperEnds = Math.max(...sizes.filter((s) => paperAt(model, on, s, 'base')))
  const ours = largestOf(rows, 'in-core')
  const start = startUp(model, on, rows) ?? 0
  const ratioAt = (size: number): readonly [paper: number, ours: number] | null => {
    const tiled = paperAt(model, on, size, 'tiled')
    const sft = rows.find((r) => r.size === size)?.seconds[METHODS.indexOf('sft')]
    return tiled && sft ? [tiled - start, sft] : null
  }
  const tiles = ([10240, 20480] as const).flatMap((size): readonly Verdict[] => {
    const both = ratioAt(size)
    if (!both) return []
    const times = both[0] / both[1]
    return [
      {
        row: `Figure 8: ${model} on ${on}, tiled at ${size}², seconds without start-up`,
        paper: `${rounded(both[0])}`,
        ours: `${rounded(both[1])} (sft)`,
        ...(times < 1.15 && times > 0.87
          ? {}
          : {
              cause: `the paper takes ${rounded(times)} times as long: its grid is fixed at ${numberOf(3, `figure8 ${model} ${on}`, [size], 'tiles a side')} tiles a side, ours is the best of five, and its kernels run at another share of the peak than our 60 %`,
            }),
      },
    ]
  })
  const scaled = (at: (size: number) => number | undefined | null): number => (at(20480) ?? 0) / (at(10240) ?? 1)
  const failsAt = Math.min(...sizes.filter((s) => s > paperEnds))
  // Outputs grow with the pixels.
  const kept = (numberOf(3, 'memory10k', [model], 'GiB') ?? 0) * (failsAt / 10240) ** 2
  const gapAt = (size: number): string | null => {
    const row = rows.find((r) => r.size === size)
    return gap(row?.seconds[METHODS.indexOf('sft')], row?.bound)
  }
  const paperScale = scaled((s) => paperAt(model, on, s, 'tiled'))
  const ourScale = scaled((s) => rows.find((r) => r.size === s)?.seconds[METHODS.indexOf('sft')])
  return [
    {
      row: `Figure 8: ${model} on ${on}, largest size in memory`,
      paper: `${paperEnds}²`,
      ours: `${ours}²`,
      cause:
        ours === paperEnds
          ? undefined
          : `the artifact’s outputs hold ${rounded(kept)} of ${rounded(machine(on).memoryBytes / GIB)} GiB at ${failsAt}², where it first fails; gradients and workspaces take the rest. Our whole step holds less: rectifiers work in place or are fused, and gradients are freed at their last use`,
    },
    {
      row: `Figure 8: ${model} on ${on}, tiled, 20480² over 10240²`,
      paper: `${rounded(paperScale)}×`,
      ours: `${rounded(ourScale)}× (sft)`,
      ...(Math.abs(ourScale / paperScale - 1) <= 0.15
        ? {}
        : {
            cause: `our \`sft\` is ${gapAt(10240)} times the bound at 10240² and ${gapAt(20480)} times at 20480², where its checkpoints leave less memory to tiles`,
          }),
    },
    ...tiles,
  ]
}

const figure8 = (model: string, on: string, rows: readonly Row[], plot: Plotter): readonly Section[] => {
  const text = (r: Row, i: number): Cell => {
    const seconds = r.seconds[i]
    if (!seconds) return null
    const halo = r.halos[i]
    return `${rounded(seconds)} (${gap(seconds, r.bound)}${halo && halo > 1.005 ? `; ${halo.toFixed(2)}×` : ''})`
  }
  const columns = ['base', 'checkpoint', 'tiled'] as const
  const paperLines = columns.map((column) => ({
    name: `paper: ${column}`,
    reference: true,
    points: rows.map((r) => [r.size, paperAt(model, on, r.size, column) ?? undefined] as const),
  }))
  const svg = drawn({
    title: `${model} on ${on}`,
    x: 'pixels a side',
    y: 'seconds a step',
    log: true,
    logX: true,
    series: [
      ...linesOf(
        METHODS,
        rows,
        (x) => x.size,
        (x, i) => x.seconds[i],
      ),
      ...(model === 'vgg19-features' ? [] : paperLines),
    ],
  })
  const start = startUp(model, on, rows)
  return [
    {
      heading: `Figure 8, seconds per step: ${model} on ${on}`,
      words: [
        `In brackets: the gap to the bound, and the arithmetic relative to the same ops without tiles (halos).${start ? ` The paper’s seconds contain ${rounded(start, 2)} s of start-up: its time at 512² less ours.` : ' The artifact has no data of VGG-19, and the figure is not at hand.'}`,
        besideAuto(
          METHODS,
          rows.map((r) => ({ at: r.size, seconds: r.seconds })),
        ),
      ],
      table: {
        head: ['size', ...columns.map((c) => `paper: ${c}`), ...METHODS],
        rows: rows.map((r) => [
          r.size,
          ...columns.map((c) => paperAt(model, on, r.size, c)),
          ...METHODS.map((_, i) => text(r, i)),
        ]),
      },
      plots: [plot(`${model}-${on}`, svg)],
      verdicts: figure8Verdicts(model, on, rows),
    },
  ]
}

// ---------------------------------------------------------------- memory at 10K

interface Memory {
  readonly model: string
  /** GiB: outputs of all forward ops without fused operators; the same without rectifiers, which work in place; parameters. */
  readonly all: number
  readonly inPlace: number
  readonly parameters: number
  readonly ours: number
}

const memoryOf = (model: string): Memory | null => {
  const on = machine('a100-pcie-40g')
  const graph = graphOf(model, unfused(on), 1, 10240)
  const fused = graphOf(model, on, 1, 10240)
  if (!graph || !fused) return null
  const outputs = (of: (kind: string) => boolean): number =>
    graph.ops
      .filter((o) => o.phase === 'forward' && of(o.kind))
      .reduce((n, o) => n + o.outs.reduce((m, v) => m + valueBytes(graph.values[v]!), 0), 0)
  const input = graph.values.reduce((n, v) => n + (v.role === 'input' ? valueBytes(v) : 0), 0)
  return {
    model,
    all: stored((input + outputs(() => true)) / GIB)!,
    inPlace: stored((input + outputs((kind) => !/relu/.test(kind))) / GIB)!,
    parameters: stored(graph.values.reduce((n, v) => n + (v.role === 'param' ? valueBytes(v) : 0), 0) / MIB)!,
    ours: stored(bytesOf(planOf(fused, on, 'in-core', 4096 * GIB)!.peakPages) / GIB)!,
  }
}

const memorySection = (all: readonly (Memory | null)[]): readonly Section[] => {
  const rows = all.flatMap((m) => m ?? [])
  const paper = (m: Memory): number => numberOf(3, 'memory10k', [m.model], 'GiB')!
  return [
    {
      heading: 'Memory at 10240²',
      words: [
        'GiB. *All outputs*: the input and the output of every forward op. *Rectifiers in place*: without those of rectifiers. *In-core*: our whole step, with gradients. The paper states parameters of 59, 78.4 and 79.7 MB; those of the three networks’ convolutions are in the last column, MiB.',
      ],
      table: {
        head: ['network', 'paper: activations and model', 'all outputs', 'rectifiers in place', 'in-core', 'parameters, MiB'],
        rows: rows.map((m) => [m.model, paper(m), rounded(m.all), rounded(m.inPlace), rounded(m.ours), rounded(m.parameters)]),
      },
      verdicts: rows.map((m): Verdict => {
        const nearest = Math.abs(m.all - paper(m)) < Math.abs(m.inPlace - paper(m)) ? m.all : m.inPlace
        const close = Math.abs(nearest / paper(m) - 1) <= 0.05
        return {
          row: `Section 6.2: ${m.model}, memory at 10240²`,
          paper: `${paper(m)} GiB`,
          ours: `${rounded(nearest)} GiB (${nearest === m.all ? 'all outputs' : 'rectifiers in place'})`,
          cause: close
            ? undefined
            : `${percent(nearest / paper(m) - 1)} from the paper’s. 10K may be 10000 or 10240 pixels: that is ${percent(1.024 ** 2 - 1)}; the rest is outputs that its modules keep or share`,
        }
      }),
    },
  ]
}

// ---------------------------------------------------------------- the base's cliff

/** Bytes of the outputs of forward ops that a step without fused operators keeps, rectifiers in place. */
const outputsOf = (size: number): number | null => {
  const graph = graphOf('darknet19-features-plain', unfused(machine('a100-pcie-40g')), 1, size)
  if (!graph) return null
  return graph.ops
    .filter((o) => o.phase === 'forward' && !/relu/.test(o.kind))
    .reduce((n, o) => n + o.outs.reduce((m, v) => m + valueBytes(graph.values[v]!), 0), 0)
}

const cliffRows = () => {
  const on = machine('a100-pcie-40g')
  return [4096, 5120, 6144, 7168].flatMap((size) => {
    const graph = graphOf('darknet19-features-plain', on, 1, size)
    if (!graph) return []
    const plan = planOf(graph, on, 'in-core', 1024 * GIB)
    const workspace = graph.ops.reduce((most, o) => {
      const shape = (v: number): readonly number[] => graph.values[v]!.shape
      return Math.max(most, on.workspace(o.kind, o.attrs as never, { ins: o.ins.map(shape), outs: o.outs.map(shape) }))
    }, 0)
    return [
      {
        size,
        gib: plan && stored(bytesOf(plan.peakPages) / GIB),
        seconds: stored(secondsOf(plan, on)),
        /** The largest workspace of a convolution for which its algorithm asks, and without limit. */
        workspaceGib: stored(workspace / GIB)!,
        /** Outputs of the artifact's step: all but those of rectifiers. */
        outputsGib: stored((outputsOf(size) ?? 0) / GIB)!,
      },
    ]
  })
}
type Cliff = ReturnType<typeof cliffRows>[number]

const cliffSection = (rows: readonly Cliff[]): readonly Section[] => {
  const [model, on] = ['darknet19-features-plain', 'a100-pcie-40g']
  const start = 1.8
  const paper = (size: number): number | null => paperAt(model, on, size, 'base')
  const tiled = (size: number): number | null => paperAt(model, on, size, 'tiled')
  const step = (of: (size: number) => number | null | undefined): string =>
    `${rounded(((of(6144) ?? 0) - start) / ((of(5120) ?? 0) - start))}×`
  const ours = (size: number): number | null | undefined => rows.find((r) => r.size === size)?.seconds
  return [
    {
      heading: 'The base’s cliff between 5120² and 6144²: Darknet-19 on the A100',
      words: [
        'The artifact’s base and checkpoint slow down between these sizes, its tiles do not. A call on 1.44 times the pixels should take 1.44 times as long. cuDNN takes an algorithm with little workspace if the fast one’s is not available. A plan of ours holds the named workspace at each call, so it refuses the budget instead of slowing down.',
      ],
      table: {
        head: ['size', 'paper: base', 'paper: tiled', 'ours: in-core, s', 'in-core, GiB', 'largest workspace, GiB'],
        rows: rows.map((r) => [
          r.size,
          paper(r.size),
          tiled(r.size),
          rounded(r.seconds),
          rounded(r.gib),
          rounded(r.workspaceGib),
        ]),
      },
      verdicts: [
        {
          row: 'Figure 8: Darknet-19 on the A100, base at 6144² over 5120², without 1.8 s of start-up',
          paper: step(paper),
          ours: `${rounded((ours(6144) ?? 0) / (ours(5120) ?? 1))}×`,
          cause: `a current cuDNN asks for ${rounded(rows.find((r) => r.size === 6144)?.workspaceGib)} GiB of workspace at most at 6144², and our plans reserve it, so no call falls back to a slower algorithm. The artifact’s outputs hold ${rounded(rows.find((r) => r.size === 5120)?.outputsGib)} GiB at 5120² and ${rounded(rows.find((r) => r.size === 6144)?.outputsGib)} GiB at 6144²; its older cuDNN must ask for more than the rest`,
        },
      ],
    },
  ]
}

// ---------------------------------------------------------------- halos, segments and the rest

/** Arithmetic of calls of one kind of op, over that of the same ops on whole values, each once. */
const arithmetic = (plan: Plan, of: (op: Op, phase: SegmentPhase) => boolean): string | null => {
  const { graph, calls, segments } = plan
  const whole = (op: Op): number => {
    const shape = (v: number): readonly number[] => graph.values[v]!.shape
    return opDef(op.kind).flops(op.attrs, { ins: op.ins.map(shape), outs: op.outs.map(shape) })
  }
  const ops = new Map<Op, number>()
  let done = 0
  for (const c of calls) {
    const op = c.op < 0 ? undefined : graph.ops[c.op]!
    if (!op || !of(op, segments[c.segment]!.phase)) continue
    done += opDef(op.kind).flops(op.attrs, callShapes(graph, c.ins, c.outs))
    if (!ops.has(op)) ops.set(op, whole(op))
  }
  return ops.size ? `${(done / [...ops.values()].reduce((a, b) => a + b, 0)).toFixed(2)}×` : null
}

const HALO_SIZE = 10240
type HaloRow = readonly Cell[]

const haloRow = (model: string, on: LocalMachine, label: string, strategy: string, planner?: Planner): HaloRow => {
  const graph = graphOf(model, on, 1, HALO_SIZE)!
  const plan = planOf(graph, on, strategy, on.memoryBytes, planner && { planner })
  if (!plan) return [model, label, null, null, null, null]
  const isForward = (op: Op): boolean => op.phase === 'forward'
  return [
    model,
    label,
    arithmetic(plan, (op, phase) => isForward(op) && phase === 'forward'),
    arithmetic(plan, (op, phase) => isForward(op) && phase !== 'forward'),
    arithmetic(plan, (op) => op.phase === 'backward'),
    rounded(secondsOf(plan, on)),
  ]
}

/** The artifact's grid at 10240², 16 tiles a side of everything that can be tiled, with and without the second expansion, beside chosen segments. */
const haloRows = (): readonly HaloRow[] => {
  const on = machine('2080ti-pcie-11g')
  return ['vgg16-features', 'darknet19-features-plain'].flatMap((model) => [
    haloRow(model, on, '16×16 tiles of everything, both expansions', 'sft', sftWhole(16)),
    haloRow(model, on, '16×16 tiles of everything, forward expansion only', 'sft', sftWhole(16, { expands: false })),
    haloRow(model, on, '`sft`: the best of 2 to 32 tiles per side and of segments', 'sft'),
    haloRow(model, on, '`tiled`: segments and grids by cost', 'tiled'),
  ])
}

const haloSection = (rows: readonly HaloRow[]): readonly Section[] => [
  {
    heading: `Halos and segments: ${HALO_SIZE}² on 2080ti-pcie-11g`,
    words: [
      'Arithmetic relative to the same ops on whole images, each run once: in the first forward, in the forward inside backward segments, and for gradients.',
      '- The artifact runs both forwards at 2.19× (VGG-16) and 3.58× (Darknet-19), calculated from its grid.\n' +
        '- The first two rows differ only in the second expansion. The third row chooses the tiles. The fourth also chooses segments and grids by cost, and may swap values between segments.',
    ],
    table: { head: ['network', 'tiles', 'forward', 'repeated forward', 'gradients', 'seconds per step'], rows },
  },
]

// ---------------------------------------------------------------- segments of graphs

const SHARES = [1, 1 / 2, 1 / 4, 1 / 8]
const SEGMENT_METHODS = known(['in-core', 'checkpoint:optimal', 'sft', 'tiled', 'auto'])

/** Networks with branches and without norms, as the paper's: residual blocks, and residual blocks inside a long skip. */
const branched = (on: LocalMachine): readonly (readonly [string, Graph | null])[] => [
  [
    'ResNet-20 without norms, 64 channels, 1024²',
    residualGraph({ perStage: 3, channels: 64, norms: false, batch: 1, size: 1024 }, on),
  ],
  ['EDSR (baseline, ×2), 1024²', graphOf('edsr-baseline-x2', on, 1, 1024)],
]

const segmentRows = () => {
  const on = machine('2080ti-pcie-11g')
  return branched(on).flatMap(([network, graph]) => {
    if (!graph) return []
    const inCore = smallestOf(graph, on, 'in-core')
    return SHARES.map((share) => {
      const plans = SEGMENT_METHODS.map((m) => planOf(graph, on, m, share * inCore))
      const tiles = plans[SEGMENT_METHODS.indexOf('sft')]?.segments.filter((s) => s.phase === 'forward' && isTiled(s.grid))
      return {
        network,
        share,
        seconds: plans.map((p) => stored(secondsOf(p, on))),
        /** Forward ops of the tiled segments of `sft`. */
        segments: (tiles ?? []).map((s) => s.body.length),
      }
    })
  })
}
type SegmentRow = ReturnType<typeof segmentRows>[number]

const segmentSection = (rows: readonly SegmentRow[]): readonly Section[] => [
  {
    heading: 'Listing 3: segments of networks with branches, 2080ti-pcie-11g',
    words: [
      'Seconds a step by shares of the in-core peak. A segment contains the post-dominators of its ops, so branches end in the segment where they begin. *Segments*: ops of the tiled forward segments of `sft`.',
      ...[...new Set(rows.map((r) => r.network))].map((network) =>
        besideAuto(
          SEGMENT_METHODS,
          rows.filter((r) => r.network === network).map((r) => ({ at: r.share, seconds: r.seconds })),
        ),
      ),
    ],
    table: {
      head: ['network', 'share of in-core', ...SEGMENT_METHODS, 'segments'],
      rows: rows.map((r) => [r.network, r.share, ...r.seconds.map((s) => rounded(s)), r.segments.join(' + ') || null]),
    },
  },
]

export const paper3: Experiment = {
  title: 'Paper 3: segmented fused tiles',
  words: [
    'The paper’s seconds are one cold iteration, from the data files of its artifact. Ours are one step of a running loop.',
    'Listing 3 finds segments by dominators, for any graph. The paper’s three networks are chains; the last section has networks with branches.',
    missingOf(3),
  ],
  parts: [
    ...MODELS.flatMap((model) =>
      DEVICES.map((on) =>
        part(
          `${model} ${on}`,
          (bound) => rowsOf(model, on, bound),
          (rows, plot) => figure8(model, on, rows, plot),
        ),
      ),
    ),
    part('memory', () => MODELS.map(memoryOf), memorySection),
    part('cliff', cliffRows, cliffSection),
    part('halos', haloRows, haloSection),
    part('listing3', segmentRows, segmentSection),
  ],
}
