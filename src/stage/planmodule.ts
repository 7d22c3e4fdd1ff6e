// Plan modules: a plan as a TypeScript file that the checker reads beside its model. In: a plan and its model. Out: the text of the module; and from
// an imported module, the plan again, read as untrusted, verified, and of this model. Invariant: a module's literals are derived from its own plan,
// when it is written and when it is read.
import { deflateSync, inflateSync } from 'node:zlib'
import { isDeepStrictEqual } from 'node:util'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { CheckedHead, Elaborated, Planned, PlanHead, PlannedSegment, Trainable } from '../../dsl'
import { type Described, described } from '../../dsl/plan/described'
import { stale } from '../../dsl/plan/stalestep'
import { bytesOf } from '../../staging/core/bytes'
import { bandsOf } from '../../staging/graph/bands'
import { fingerprint } from '../../staging/graph/fingerprint'
import { ranksOf } from '../../staging/graph/ranks'
import type { OpId } from '../../staging/graph/graph'
import { isSwappedToTier, type Plan, precisionOf, type Segment } from '../../staging/plan/plan'
import { isForward } from '../../staging/tile/segments'
import { liveness } from '../../staging/tile/liveness'
import { type SpillwayError, usage } from '../errors/errors'
import { belonging, elaboratedFor } from './identity'
import { commentText, literal, text } from './literal'
import { machineNamed } from '../machine/machine'
import { plansText, untrustedPlans } from './planfile'
import { describePlans, machineOptionsIn, type Staged } from './staged'

/** One for all, or one for each band of rows. */
type Plans = readonly [Plan, ...(readonly Plan[])]

/**
 * A plan as a typed value, as `spillway plan --emit` writes it. The compiler compares it with the model.
 *
 * @example const peak = (m: PlanModule) => m.head.peak
 */
export interface PlanModule<P extends PlanHead = PlanHead> {
  readonly kind: 'plan-module'
  readonly head: P
  /** The plan file, compressed, in base 64. */
  readonly packed: string
}

/**
 * Creates a plan module. `spillway plan --emit` writes calls of it; T is the type of the model or step.
 *
 * @example const create = planModule<typeof net>()
 */
export const planModule =
  <T extends Planned>() =>
  <const P extends PlanHead>(head: CheckedHead<T, P>, packed: string): PlanModule<P> => ({
    kind: 'plan-module',
    head: head as P,
    packed,
  })

// ---------------------------------------------------------------- what a plan says in literals

const tilesText = ({ grid }: Segment): Partial<Record<'B' | 'H' | 'W', number>> =>
  Object.fromEntries((['B', 'H', 'W'] as const).filter((d) => grid[d] > 1).map((d) => [d, grid[d]]))

/** The named layers of each segment; of a tiled one that runs forward, those that it runs for the first time. */
const plannedSegments = (plan: Plan, named: ReadonlyMap<string, number>): readonly PlannedSegment[] => {
  const ran = new Set<OpId>()
  return plan.segments.map((s) => {
    const own = s.body.map((b) => plan.graph.ops[b.op]!).filter((op) => s.phase !== 'step' || (isForward(op) && !ran.has(op.id)))
    s.body.forEach((b) => ran.add(b.op))
    const layers = own
      .map((op) => op.layer)
      .filter((l) => named.has(l))
      .sort((a, b) => named.get(a)! - named.get(b)!)
    return { phase: s.phase, from: layers[0] ?? '', to: layers[layers.length - 1] ?? '', ...tilesText(s) }
  })
}

/** Layers whose outputs outlive the forward segment that makes them; the last one's only when it runs in tiles. */
const checkpointsOf = (plan: Plan): readonly string[] => {
  const live = liveness(
    plan.graph,
    plan.segments.map((s) => s.body.map((b) => b.op)),
  )
  const forward = plan.segments.flatMap((s, i) => (s.phase === 'forward' ? [i] : []))
  const makers = new Map(plan.graph.ops.flatMap((op) => op.outs.map((v) => [v, op.layer] as const)))
  const held = (i: number): readonly string[] =>
    [...live[i]!.outputs].filter((v) => plan.graph.values[v]!.role === 'activation').map((v) => makers.get(v)!)
  return [...new Set((plan.segments[forward[forward.length - 1]!]?.keeps.length ? forward : forward.slice(0, -1)).flatMap(held))]
}

const swapsOf = (plan: Plan): PlanHead['swaps'] => {
  const moved = new Map<string, number>()
  for (const r of plan.residencies) {
    const { label } = plan.storages[r.storage]!
    if (isSwappedToTier(r)) moved.set(label, (moved.get(label) ?? 0) + bytesOf(r.to - r.from))
  }
  return [...moved].map(([value, bytes]) => ({ value, bytes }))
}

const precisionHead = (plan: Plan): Pick<PlanHead, 'precision'> => {
  const precision = precisionOf(plan)
  return precision === 'fp32' ? {} : { precision }
}

/** The common part of all ranks: segments are the same, and the peak is the largest of their bands. */
export const headOf = ([plan, ...others]: Plans, { step, layers }: Elaborated): PlanHead => ({
  model: plan.graph.name,
  ...described(step),
  machine: plan.machine,
  strategy: plan.strategy,
  ...precisionHead(plan),
  budget: plan.budgetBytes,
  peak: bytesOf(Math.max(plan.peakPages, ...others.map((p) => p.peakPages))),
  fingerprint: fingerprint(plan.graph),
  segments: plannedSegments(plan, new Map(layers.flatMap((l, i) => (l.named ? [[l.name, i] as const] : [])))),
  checkpoints: checkpointsOf(plan),
  swaps: swapsOf(plan),
})

// ---------------------------------------------------------------- the module

/**
 * The import and the expression that give a plan module the type of its model.
 *
 * @example const from: ModelSource = { importing: "import net from './my-net'", type: 'typeof net', resized: false }
 */
export interface ModelSource {
  readonly importing: string
  readonly type: string
  /** True if the plan has other sizes than the model. */
  readonly resized: boolean
}

const fedText = (step: Elaborated): string =>
  step.graph.values.flatMap((v) => (v.role === 'input' ? [v.shape.join('x')] : [])).join(' and ')

const ranksText = ({ graph }: Plan): string => {
  const [ranks, bands] = [ranksOf(graph), bandsOf(graph)]
  return ranks === 1 ? '' : bands === 1 ? `, ${ranks} ranks` : `, ${ranks} ranks with ${bands} bands of each image`
}

const titleOf = ([plan]: Plans, step: Elaborated): string =>
  commentText(`The plan of ${plan.graph.name}, ${fedText(step)}, for ${plan.machine}${ranksText(plan)}.`)

/** The text of a module: the plan of one process, of equal ranks, or of each band of rows. */
export const moduleText = (plans: Plans, step: Elaborated, from: ModelSource): string => `\
// Written by \`spillway plan --emit\`: do not edit, stage again. ${titleOf(plans, step)}
// biome-ignore-all format: generated
import { planModule${from.resized ? ', type Resized' : ''} } from 'spillway'
${from.importing}

export default planModule<${from.resized ? `Resized<${from.type}>` : from.type}>()(${literal(headOf(plans, step))}, ${text(pack(plans))})
`

const pack = (plans: Plans): string => deflateSync(plansText(plans), { level: 9 }).toString('base64')

/** Far more than any plan, and far less than memory. */
const LARGEST = 2 ** 28

const unpack = (module: PlanModule): Either<SpillwayError, Plans> =>
  pipe(
    E.tryCatch(
      () => inflateSync(Buffer.from(module.packed, 'base64'), { maxOutputLength: LARGEST }).toString('utf8'),
      () => misfit('its packed plan cannot be decompressed'),
    ),
    E.flatMap(untrustedPlans),
    // It has at least one.
    E.map((plans) => plans as Plans),
  )

/** In any order of its fields. */
const asJson = (a: unknown): unknown => JSON.parse(JSON.stringify(a))
const sameJson = (a: unknown, b: unknown): boolean => isDeepStrictEqual(asJson(a), asJson(b))

const misfit = (reason: string): SpillwayError => ({ tag: 'PlanFormat', at: 'the module', reason: `${reason}; stage again` })

/**
 * Returns the plan of a module for a model or a step, or the reason why the two do not match.
 *
 * @param model The model or step.
 * @param module The plan module.
 * @param spill Folder of the spill file, or 'ram'. Default: as planned.
 * @example
 * const answer = openModule(net, planned)
 * if (answer._tag === 'Right') await train(net, answer.right, { steps: 10 })
 */
export const openModule = <M extends Trainable>(model: M, module: PlanModule, spill?: string): Either<SpillwayError, Staged<M>> =>
  pipe(
    unpack(module),
    E.map((plans) => ({ plans, plan: plans[0] })),
    E.tap(({ plan }) => sameStep(model, plan, module.head)),
    E.bind('machine', ({ plan }) => machineNamed(plan.machine, { spill, ...machineOptionsIn({ plan }) })),
    E.bind('step', ({ plan, machine }) => belonging(model, plan, machine)),
    E.filterOrElse(
      // Nets may be written in several ways: that they are the same is known by now.
      ({ plans, step }) => sameJson({ ...headOf(plans, step), nets: [] }, { ...module.head, nets: [] }),
      () => misfit('its types differ from its packed plan'),
    ),
    E.map(({ plans, machine }) => ({ ...describePlans(plans, machine), model })),
  )

/** The differences between a model, or a step, and the one that a plan was staged for, in words. */
export const sameStep = (model: Trainable, plan: Plan, then: Described): Either<SpillwayError, void> =>
  pipe(
    elaboratedFor(model, plan),
    E.flatMap(({ step }) => {
      const difference = stale(described(step), then)
      return difference === null ? E.right(undefined) : E.left(usage(difference))
    }),
  )
