// The passes, in order, each a pure function; the device of a machine declares the passes that it needs.
// In: an elaborated step, a machine, a budget. Out: the fastest plan that fits, verified, or the reason why there is none.
// Invariant: all planning runs through here, so equal steps and machines have equal plans, byte for byte.
//
//   elaborate   a step's forward graph and its objectives              dsl/elaborate.ts
//   rewrite     operators joined where the device has them fused        grad/rewrite
//   grad        losses, backward passes, updates                        grad/grad.ts
//   bytes again fed bytes, converted again for the backward pass         grad/rewrite/bytesagain.ts
//   half        activations in bf16 or f16, if the machine stores so     grad/rewrite/half.ts
//   ranks       one rank's share of the batch, if several train          grad/rewrite/ranks.ts
//               or its band of every image's rows                       grad/rewrite/bands.ts
//   parts       weights in parts of rows, if nothing fits otherwise       planner/weightparts.ts
//   tile        ops into segments and tiles: each planner its own way   tile, planner/strategies.ts
//   expand      segments into calls over cells                          plan/expand.ts
//   place       cells into storages; the stays of their pages          memory/place.ts, memory/touches.ts
//   schedule    the swaps of pages, and their times                   planner/fastest.ts, schedule/swaptimes.ts
//   pages       residencies onto physical pages                         plan/pages.ts
//   verify      the finished plan, by code that shares nothing          verify
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { pagesIn } from './core/bytes'
import type { GraphError, StageError } from './core/errors'
import { type ElaboratedStep, measuring, training } from './grad/grad'
import { withGatheredUpdates } from './grad/rewrite/gathered'
import { HALF_IN } from './devices'
import { inHalf } from './grad/rewrite/half'
import { withRecomputedBytes } from './grad/rewrite/bytesagain'
import { withPoolPlaces } from './grad/rewrite/poolplaces'
import { overBands } from './grad/rewrite/bands'
import { overRanks } from './grad/rewrite/ranks'
import { rewritten } from './grad/rewrite/rewrites'
import { GraphBuilder } from './graph/builder'
import { type Graph, withFewObjectShapes, valueBytes } from './graph/graph'
import { hasTier, type Machine, withScratch } from './graph/machine'
import type { Persistents } from './memory/place'
import { assignPages } from './plan/pages'
import type { Plan, Segment, UnpagedPlan } from './plan/plan'
import type { Prescription } from './plan/prescription'
import { type Candidate, swappingOnDemand } from './schedule/candidate'
import { layOut } from './schedule/layout'
import { prescribedGroups } from './planner/prescribed'
import { asStrategyMoves, type CompileOptions, fitted, search } from './planner/fastest'
import { tileFailed } from './planner/tilefailed'
import { updatedByRows } from './tile/byrows'
import { assemble, runsOf, segmentsOf } from './tile/segments'
import { verify } from './verify/verify'

export type { CompileOptions, Work } from './planner/fastest'

const where = <A>(needed: boolean, pass: (a: A) => A): ((a: A) => A) => (needed ? pass : (a) => a)

const storedIn = (precision: Machine['precision']): ((g: Graph) => Graph) => {
  const half = HALF_IN[precision]
  return half ? inHalf(half) : (g) => g
}

/** rewrite, grad, bytes again, half, ranks: the graph that a machine trains. */
export const trainingGraph = (
  step: ElaboratedStep,
  {
    device,
    precision,
    ranks = 1,
    bands,
    norms,
    shard,
  }: Pick<Machine, 'device' | 'precision' | 'ranks' | 'bands' | 'norms' | 'shard'>,
): Either<GraphError, Graph> =>
  pipe(
    step,
    where(device.fused, rewritten),
    (s) => training(s, { dtype: device.dtype, scaled: precision === 'fp16' }),
    E.map(where(device.fused, withPoolPlaces)),
    E.map(where(device.gathersUpdates, withGatheredUpdates)),
    E.map(withRecomputedBytes),
    E.map(storedIn(precision)),
    E.map((graph) => ({ ...graph, ...trainedBy(step, precision) })),
    E.chain(bands ? overBands(bands.of, bands.at) : E.right),
    E.chain(overRanks(ranks, { norms, shard })),
    E.map(withFewObjectShapes),
  )

/** The optimizer of one objective and the options beside it, if ops do not tell them, so that its step can be made again. */
const trainedBy = (
  { objectives: [first, ...others] }: ElaboratedStep,
  precision: Machine['precision'],
): Pick<Graph, 'trainedBy'> =>
  first && others.length === 0 && (Object.keys(first.updates).length > 0 || precision === 'fp16')
    ? { trainedBy: { optimizer: first.optimizer, ...first.updates } }
    : {}

/** rewrite, half: the graph with which a machine predicts. */
export const predictionGraph = (forward: Graph, { device, precision }: Pick<Machine, 'device' | 'precision'>): Graph =>
  pipe(
    { graph: forward, objectives: [], detached: [] },
    where(device.fused, rewritten),
    ({ graph }) => GraphBuilder.extending(graph, device.dtype).build(graph.ops.map((op) => op.id)),
    where(device.fused, withPoolPlaces),
    storedIn(precision),
    withFewObjectShapes,
  )

/** rewrite, losses, half: the graph with which a machine measures a loss. */
export const evaluationGraph = (
  step: ElaboratedStep,
  { device, precision }: Pick<Machine, 'device' | 'precision'>,
): Either<GraphError, Graph> =>
  pipe(
    step,
    where(device.fused, rewritten),
    (s) => measuring(s, { dtype: device.dtype }),
    E.map(where(device.fused, withPoolPlaces)),
    E.map(storedIn(precision)),
    E.map(withFewObjectShapes),
  )

/** tile, expand, place, schedule for each candidate of a strategy; pages, verify for the fastest that fits. */
export const compile = (graph: Graph, o: CompileOptions): Either<StageError, Plan> => pipe(search(graph, o), E.chain(finished))

/** A plan that others are compared with and nothing runs: it is not verified. */
export const outline = (graph: Graph, o: CompileOptions): Either<StageError, Plan> => pipe(search(graph, o), E.map(paged))

/** pages, verify. */
const finished = (unpaged: UnpagedPlan): Either<StageError, Plan> => {
  const plan = paged(unpaged)
  return pipe(
    verify(plan),
    E.map(() => plan),
  )
}

export const paged = (plan: UnpagedPlan): Plan => ({ ...plan, ...assignPages(plan.residencies, plan.calls.length) })

/** The plan of given segments, as much of it leaving the device as the budget demands: for tests and for plans by hand. */
export const compileSegments = (graph: Graph, segments: readonly Segment[], o: CompileOptions): Either<StageError, Plan> =>
  pipe(fitted(swappingWith(graph, segments, o), o), E.chain(finished))

/** Large parameters and state are at home in the lower tier where the budget is too small for them and that is of use. */
const swappingWith = (graph: Graph, segments: readonly Segment[], { machine, budgetBytes }: CompileOptions): Candidate => {
  const laidOut = (all: readonly Segment[], persistents: Persistents): Candidate =>
    swappingOnDemand(layOut(graph, all, machine, { packing: 'rows', persistents }), machine)
  const resident = laidOut(segments, 'resident')
  if (resident.least <= pagesIn(budgetBytes) || !hasTier(machine)) return resident
  const away = laidOut(updatedByRows(graph, segments), 'home')
  return away.least < resident.least ? away : resident
}

/**
 * Plans of ranks whose graphs have the same ops, on rows of their own: that of the largest is searched for, and the others have its segments,
 * so that all come by their exchanges in one order.
 */
export const compileTogether = (
  graphs: readonly Graph[],
  o: CompileOptions,
  planned: (graph: Graph) => Either<StageError, Plan> = (graph) => compile(graph, o),
): Either<StageError, readonly Plan[]> => {
  const bytes = (g: Graph): number => g.values.reduce((n, v) => n + valueBytes(v), 0)
  const largest = graphs.reduce((a, b) => (bytes(b) > bytes(a) ? b : a))
  return pipe(
    planned(largest),
    E.chain((plan) =>
      pipe(
        graphs,
        E.traverseArray((graph) => (graph === largest ? E.right(plan) : likePlan(plan, largest, graph, o))),
      ),
    ),
  )
}

/** A plan of the same segments, for a graph of as many ops. */
const likePlan = (plan: Plan, of: Graph, graph: Graph, o: CompileOptions): Either<StageError, Plan> => {
  const runs = runsOf(of, plan.segments)
  return pipe(
    segmentsOf(graph, runs),
    E.mapLeft(tileFailed(plan.strategy)),
    E.chain((segments) => {
      const own = { ...(plan.strategy === BY_HAND ? o : asStrategyMoves(o)), strategy: plan.strategy }
      return pipe(
        compileSegments(graph, segments, own),
        E.orElse(() => compileSegments(graph, segments, { ...own, machine: withScratch(o.machine, 0) })),
      )
    }),
  )
}

/** The plan of tiles and checkpoints by hand. */
export const compilePrescribed = (graph: Graph, p: Prescription, o: CompileOptions): Either<StageError, Plan> =>
  pipe(
    assemble(graph, prescribedGroups(graph, p)),
    E.mapLeft(tileFailed(BY_HAND)),
    E.chain((segments) => compileSegments(graph, segments, { ...o, strategy: BY_HAND })),
  )
const BY_HAND = 'by-hand'
