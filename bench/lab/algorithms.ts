// Paper 4, section 4.2 and Figure 12(b): convolutions with and without a workspace. Two algorithms for each 3×3 convolution of stride 1: direct, and
// Winograd's F(4×4, 3×3) in three passes, with its transformed tiles in the workspace. In: a network on a machine. Out: seconds of all convolutions by
// the fastest algorithms, and by those without a workspace. In swapped plans, a call takes the fastest for which memory is free, as in the paper.
// Worked example, 64 to 64 channels on 224²: 56² tiles of 36 numbers, so 36 of 144 multiplications, and 2 × 27.6 MiB of tiles an image.
import { elementsOf } from '../../staging/core/box'
import { bytesOf } from '../../staging/core/bytes'
import { dtypeBytes, type Graph } from '../../staging/graph/graph'
import { type Choice, fastest, withScratch } from '../../staging/graph/machine'
import type { CallShapes } from '../../staging/ops/op'
import { isForNext } from '../../staging/plan/ahead'
import { callShapes } from '../../staging/plan/callcosts'
import type { Plan } from '../../staging/plan/plan'
import { TITAN_X } from '../../staging/sim/accelerators'
import { COMPUTE_EFFICIENCY, MEMORY_EFFICIENCY } from '../../staging/sim/machines'
import type { LocalMachine } from '../../src/machine/localmachine'
import type { Section, Verdict } from './page'
import { numberOf } from './published'
import { GIB, percent, planOf, stored } from './steps'

const isConvolution = (kind: string): boolean => kind.startsWith('conv2d')

/** Numbers of a transformed tile, for 4×4 outputs of a 3×3 kernel. */
const TILE = 36
const OUTPUTS = 4

/** Winograd's way for a call, or none. A call of any direction multiplies the tiles of its two images. */
const winograd = (kind: string, attrs: Readonly<Record<string, unknown>>, s: CallShapes): readonly Choice[] => {
  const ofWeights = kind === 'conv2d_bwd_weights'
  const images = ofWeights ? [s.ins[0]!, s.ins[1]!] : [s.ins[0]!, s.outs[0]!]
  const weight = ofWeights ? s.outs[0]! : s.ins[1]!
  const plain = ['strideH', 'strideW', 'dilationH', 'dilationW', 'groups'].every((field) => attrs[field] === 1)
  if (!plain || weight[2] !== 3 || weight[3] !== 3) return []
  const [b, , h, w] = images[1]!
  const tiles = b! * Math.ceil(h! / OUTPUTS) * Math.ceil(w! / OUTPUTS)
  const channels = images.map((image) => image[1]!)
  const transformed = dtypeBytes.f32 * TILE * tiles * (channels[0]! + channels[1]!)
  const weights = dtypeBytes.f32 * TILE * channels[0]! * channels[1]!
  const moved = dtypeBytes.f32 * images.reduce((n, image) => n + elementsOf(image), 0) + 2 * (transformed + weights)
  const flops = 2 * TILE * tiles * channels[0]! * channels[1]!
  return [
    {
      way: 1,
      seconds:
        3 * TITAN_X.launchSeconds +
        flops / (COMPUTE_EFFICIENCY * TITAN_X.flopsPerSecond.fp32) +
        moved / (MEMORY_EFFICIENCY * TITAN_X.bytesPerSecond),
      workspace: transformed + weights,
    },
  ]
}

/** A TITAN X whose convolutions have these ways. */
export const withAlgorithms = (on: LocalMachine): LocalMachine => ({
  ...on,
  choices: (kind, attrs, s) => [
    { way: 0, seconds: on.seconds(kind, attrs, s), workspace: isConvolution(kind) ? 0 : on.workspace(kind, attrs, s) },
    ...(isConvolution(kind) ? winograd(kind, attrs, s) : []),
  ],
})

/** Bytes of the device that no page takes, at each call. */
const freeBytes = (plan: Plan, memoryBytes: number): readonly number[] => {
  const change = new Array<number>(plan.calls.length + 1).fill(0)
  for (const r of plan.residencies) {
    if (isForNext(r, plan.calls.length)) continue
    change[r.acquire]! += r.to - r.from
    change[r.release]! -= r.to - r.from
  }
  let pages = 0
  return plan.calls.map((_, i) => {
    pages += change[i]!
    return memoryBytes - bytesOf(pages)
  })
}

const SYSTEMS = { vDNN: 'swap:vdnn-all', DyMem: 'swap:dymem' } as const

/** Seconds of the convolutions of a plan, each by the fastest way within its limit. */
const convolutionSeconds = (plan: Plan, on: LocalMachine, limit: (call: number) => number): number =>
  plan.calls.reduce((n, c, i) => {
    const op = c.op < 0 ? undefined : plan.graph.ops[c.op]!
    if (!op || !isConvolution(op.kind)) return n
    return n + fastest(withScratch(on, limit(i)), op.kind, op.attrs as never, callShapes(plan.graph, c.ins, c.outs)).seconds
  }, 0)

export const ratesOf = (network: string, batch: number, graph: Graph | null, memory: LocalMachine) => {
  const on = withAlgorithms(memory)
  const least = withScratch(on, 0)
  const whole = graph && planOf(graph, least, 'in-core', 1024 * GIB)
  if (!whole) return []
  const dynamic = Object.entries(SYSTEMS).map(([system, strategy]) => {
    const plan = planOf(graph, least, strategy)
    const free = plan && freeBytes(plan, on.memoryBytes)
    return [system, plan && free && stored(convolutionSeconds(plan, on, (call) => free[call]!))] as const
  })
  return [
    {
      network,
      batch,
      /** Seconds of all convolutions of a step. */
      fastest: stored(convolutionSeconds(whole, on, () => Infinity))!,
      withoutWorkspace: stored(convolutionSeconds(whole, on, () => 0))!,
      /** By strategy; null where it does not fit. */
      dynamic: Object.fromEntries(dynamic),
    },
  ]
}
export type Rates = ReturnType<typeof ratesOf>[number]

const LARGE = 256

export const algorithmSection = (rows: readonly Rates[]): readonly Section[] => {
  const systems = Object.keys(SYSTEMS) as readonly (keyof typeof SYSTEMS)[]
  const rate = (r: Rates, seconds: number | null | undefined): number | null => (seconds ? r.fastest / seconds : null)
  const mean = (of: (r: Rates) => number | null): number => {
    const all = rows.flatMap((r) => of(r) ?? [])
    return all.reduce((n, x) => n + x, 0) / all.length
  }
  const large = rows.find((r) => r.batch === LARGE && r.network === 'vgg16')
  const only3x3 = rows.find((r) => r.network === 'vgg16')
  if (!large || !only3x3) return []
  const paper = (system: string, batch: number | null): number =>
    numberOf(4, 'figure12b', batch === null ? [system] : [system, batch], 'rate')!
  const verdict = (row: string, published: number, ours: number, cause: string): Verdict => ({
    row: `Figure 12(b): ${row}, of the fastest algorithms`,
    paper: `${published} %`,
    ours: percent(ours, 0),
    ...(Math.abs(ours - published / 100) <= 0.05 ? {} : { cause }),
  })
  return [
    {
      heading: 'Figure 12(b) and section 4.2: convolutions by their workspace',
      words: [
        'The rate of all convolutions of a step, relative to their fastest algorithms. The model has a second algorithm for each 3×3 convolution of stride 1: Winograd’s F(4×4, 3×3) with its transformed tiles in a workspace, timed by the roofline of its arithmetic and bytes. All other convolutions have one algorithm. *Without workspace* is the paper’s memory-optimal setting. In swapped plans, a call takes the fastest algorithm for which the device has free memory, as the paper’s runtime does. Training fits 12 GB at each batch.',
      ],
      table: {
        head: ['network', 'batch', 'fastest, s', 'without workspace', ...systems],
        rows: rows.map((r) => [
          r.network,
          r.batch,
          r.fastest,
          percent(r.fastest / r.withoutWorkspace, 0),
          ...systems.map((system) => {
            const own = rate(r, r.dynamic[system])
            return own && percent(own, 0)
          }),
        ]),
      },
      verdicts: [
        verdict(
          'memory-optimal, mean',
          paper('memory-optimal', null),
          mean((r) => r.fastest / r.withoutWorkspace),
          `in VGG-16, which has 3×3 convolutions only, it is ${percent(only3x3.fastest / only3x3.withoutWorkspace, 0)}. The model has no second algorithm for 1×1, strided and larger kernels, where the paper’s cuDNN has some`,
        ),
        ...systems.map((system) =>
          verdict(
            `${system}, mean`,
            paper(system, null),
            mean((r) => rate(r, r.dynamic[system])),
            'only the batches of 128 and 256 are short of workspace here: planned pages leave more free memory than the paper’s heap',
          ),
        ),
        ...systems.map((system) =>
          verdict(
            `${system}, VGG-16 at batch ${LARGE}`,
            paper(system, LARGE),
            rate(large, large.dynamic[system]) ?? 0,
            `planned pages have no fragments, so more calls get a workspace. The order of the two systems is the paper’s`,
          ),
        ),
      ],
    },
  ]
}
