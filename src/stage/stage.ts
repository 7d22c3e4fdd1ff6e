// Staging for users: from a model or a step and a budget to a plan, or a reason in words why there is none.
// In: a model or step, options. Out: Staged: the plan and everything that is said about it. Invariant: a staged plan carries
// the training graph it was made from, so that `train` can tell another model's plan from its own.
import * as E from 'fp-ts/Either'
import { type Either, left, right } from 'fp-ts/Either'
import * as O from 'fp-ts/Option'
import { pipe } from 'fp-ts/function'
import type { CheckedOptions, NamesIn, PlanByHand, Trainable } from '../../dsl'
import { isTrainable } from '../../dsl/load'
import { leastBytes } from '../../dsl/plan/bytes'
import { prescribe, TILE_RANGE } from '../../dsl/plan/prescription'
import { budgetTooSmall, strategyAndPlan } from '../../dsl/plan/words'
import { FORMS, MODES } from '../../dsl/prediction'
import { compile, compilePrescribed, compileTogether } from '../../staging/compile'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { withValues } from '../../staging/core/values'
import { type Graph, isPersistent, valueBytes } from '../../staging/graph/graph'
import { hasTier, NORMS, SHARDS } from '../../staging/graph/machine'
import type { Algorithms, Plan } from '../../staging/plan/plan'
import { asStrategyMoves } from '../../staging/planner/fastest'
import { NETWORKS } from '../../staging/sim/networks'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { orThrow, whilePlanning } from '../errors/exceptions'
import type { LocalMachine } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { mostCallsPlanned } from './heap'
import type { ModeOf } from './mode'
import { ownStrategy } from './ownstrategies'
import { prepare, type Prepared, prepareEvaluation, preparePrediction, sharedOut } from './prepare'
import { recordedFor } from './recorded'
import { describePlans, type Staged } from './staged'
import {
  checkedBudget,
  checkedEffort,
  knownOptions,
  machineOptionsOf,
  STAGE_VALUES,
  type StageAsked,
  type StageKeys,
  type StageOptions,
} from './stageoptions'

type Planned = (o: {
  strategy: string
  effort: number | undefined
  budgetBytes: number
  machine: LocalMachine
  algorithms: Algorithms
  mostCalls: number
}) => Either<SpillwayError, readonly Plan[]>

const stagedWith = (planned: Planned, machine: LocalMachine, o: StageAsked): Either<SpillwayError, Staged> => {
  const { strategy = 'auto', algorithms = 'measured', allocator } = o
  const opening = machine.measuringSeconds()
  const began = performance.now()
  const times = () => ({
    planningSeconds: opening + (performance.now() - began) / 1000,
    measuringSeconds: opening + machine.measuringSeconds(),
  })
  const staged = pipe(
    checkedEffort(o),
    E.chain(() => checkedBudget(o.budget ?? machine.memoryBytes)),
    E.chain((budgetBytes) =>
      whilePlanning(() =>
        planned({ strategy, effort: o.effort, budgetBytes, machine, algorithms, mostCalls: mostCallsPlanned() }),
      ),
    ),
    E.chain((plans) => whilePlanning(() => right(describePlans(plans, machine, allocator, times())))),
  )
  machine.saveProfile()
  return staged
}

/** The plan of a graph that is there already. */
export const stageGraph = (graph: Graph, machine: LocalMachine, o: StageAsked): Either<SpillwayError, Staged> =>
  stagedWith((c) => E.map((plan: Plan) => [plan])(compile(graph, c)), machine, o)

const isByHand = (o: StageAsked): boolean => o.tiles !== undefined || o.checkpoints !== undefined

const oneWay = (o: StageAsked): Either<SpillwayError, void> => {
  if (!isByHand(o)) return right(undefined)
  if (o.strategy !== undefined) return left({ tag: 'PlanByHandInvalid', at: 'strategy', reason: strategyAndPlan() })
  return o.resumes === undefined
    ? right(undefined)
    : left(usage('resumes and a plan by hand (tiles, checkpoints) exclude each other: use one of them'))
}

/** Only training has several processes. */
const trainsAlone = ({ mode = 'train', ...o }: StageAsked): Either<SpillwayError, void> => {
  const given = (['ranks', 'bands', 'norms', 'shard', 'network'] as const).find((k) => o[k] !== undefined)
  if (given !== undefined && mode !== 'train') return left(usage(`${given} applies to training; mode '${mode}' does not train`))
  const counts = [o.ranks, o.bands].filter((n): n is number => n !== undefined)
  const odd = counts.find((n) => !Number.isSafeInteger(n) || n < 1 || n > MOST_RANKS)
  if (odd !== undefined) return left(usage(`ranks or bands is ${odd}; allowed: 1 to ${MOST_RANKS}`))
  if (o.norms !== undefined && !NORMS.includes(o.norms)) return left(unknownName('norms', o.norms, NORMS))
  if (o.shard !== undefined && !SHARDS.includes(o.shard)) return left(unknownName('shard', o.shard, SHARDS))
  return o.network !== undefined && !(NETWORKS as readonly string[]).includes(o.network)
    ? left(unknownName('network', o.network, NETWORKS))
    : right(undefined)
}

const MOST_RANKS = 1024

/** Prepares training, prediction or evaluation. */
const prepared = <M extends Trainable>(model: M, machine: LocalMachine, o: StageOptions): Either<SpillwayError, Prepared<M>> => {
  const { mode = 'train', as } = o
  if (!MODES.includes(mode)) return left(unknownName('mode', mode, MODES))
  if (as !== undefined && !FORMS.includes(as)) return left(unknownName('as', as, FORMS))
  if (mode === 'predict') return preparePrediction(model, machine, o)
  if (mode === 'evaluate') return prepareEvaluation(model, machine, o)
  return as === undefined ? prepare(model, machine, o) : left(usage(`as: '${as}' needs mode: 'predict'`))
}

/** A budget that no plan can meet is told so in the words that the types have for it. */
const withReason =
  ({ step }: Prepared) =>
  (e: SpillwayError): SpillwayError => {
    const least = step ? leastBytes(step) : 0
    return e.tag === 'BudgetInfeasible' && e.budgetBytes < least
      ? { ...e, reason: budgetTooSmall(`${e.budgetBytes}`, `${least}`) }
      : e
  }

const BY_HAND = withValues(optionsFor<PlanByHand>()('a plan by hand', 'tiles', 'checkpoints'), {
  tiles: STAGE_VALUES.tiles,
  checkpoints: STAGE_VALUES.checkpoints,
})

const knownByHand = (o: PlanByHand): Either<SpillwayError, PlanByHand> =>
  pipe(
    knownIn(BY_HAND)(o),
    E.tap(({ tiles = [] }) => E.traverseArray(knownIn(TILE_RANGE))(tiles)),
  )

/** The prescription of a plan by hand, or of a registered strategy. */
const prescribedFor = ({ layers, machine }: Prepared, o: StageAsked): Either<SpillwayError, PlanByHand | undefined> => {
  const rule = ownStrategy(o.strategy)
  if (isByHand(o) || !rule) return right(isByHand(o) ? o : undefined)
  return knownByHand(rule({ layers, budgetBytes: o.budget ?? machine.memoryBytes, machine }))
}

/** Returns true if parameters and state alone exceed the budget and have no other place: no plan fits, however long its calls take. */
const exceedsBudget = ({ graph, machine }: Prepared, { strategy = 'auto', budget = machine.memoryBytes }: StageAsked): boolean =>
  !hasTier(asStrategyMoves({ strategy, budgetBytes: budget, machine }).machine) &&
  graph.values.reduce((n, v) => (isPersistent(v) ? n + valueBytes(v) : n), 0) > budget

/** The machine to plan for. A refusal that is certain needs no measurements, which take seconds. */
const planningMachine = (p: Prepared, o: StageAsked): LocalMachine =>
  p.machine.unmeasured && exceedsBudget(p, o) ? p.machine.unmeasured() : p.machine

/** The plan of a run that goes on, of a strategy, or the one that tiles and checkpoints by hand describe. */
export const stagePrepared = <M extends Trainable>(p: Prepared<M>, o: StageAsked): Either<SpillwayError, Staged<M>> => {
  const planned =
    (byHand: PlanByHand | undefined): Planned =>
    (c) => {
      const { family = [p.graph] } = p
      return byHand
        ? pipe(
            prescribe(p.layers, byHand),
            E.chainW((prescription) => compileTogether(family, c, (graph) => compilePrescribed(graph, prescription, c))),
            E.map((plans) => (isByHand(o) ? plans : plans.map((plan) => ({ ...plan, strategy: c.strategy })))),
          )
        : compileTogether(family, c)
    }
  return pipe(
    oneWay(o),
    E.flatMap(() => prescribedFor(p, o)),
    E.flatMap((byHand) =>
      pipe(
        recordedFor(p, o),
        O.match(
          () => stagedWith(planned(byHand), planningMachine(p, o), o),
          (plans) => right(describePlans(plans, p.machine, o.allocator)),
        ),
      ),
    ),
    E.map((staged) => ({ ...staged, model: p.model })),
  )
}

/**
 * Updates are shared out where nobody says whether, and all is not kept otherwise: where that fits and nothing else does, or is quicker.
 */
export const stagedOverRanks = <M extends Trainable>(p: Prepared<M>, o: StageAsked): Either<SpillwayError, Staged<M>> => {
  const { ranks = 1, shard } = p.machine
  const began = ranks === 1 || shard || o.resumes === undefined ? O.none : O.fromEither(sharedOut(p, 'gradients'))
  if (O.isSome(began) && O.isSome(recordedFor(began.value, o))) return stagePrepared(began.value, o)
  const whole = stagePrepared(p, o)
  const isTight = E.isLeft(whole) ? whole.left.tag === 'BudgetInfeasible' : whole.right.plan.strategy !== 'in-core'
  if (ranks === 1 || shard || !isTight || (o.strategy ?? 'auto') !== 'auto' || isByHand(o)) return whole
  const parts = pipe(
    sharedOut(p, 'gradients'),
    E.flatMap((shared) => stagePrepared(shared, o)),
  )
  if (E.isLeft(whole)) return parts
  return E.isRight(parts) && parts.right.timeline.makespanSeconds < whole.right.timeline.makespanSeconds ? parts : whole
}

// One signature has no options, and one requires them. If the parameter were optional, the compiler would infer O from the first member of
// a union alone.

/**
 * Plans a training step, a prediction or an evaluation within a memory budget, or returns the error. `stage`
 * throws it instead.
 *
 * @param model The model, or a step with several objectives.
 * @param options Budget, loss, optimizer, strategy, machine and more.
 * @example
 * const answer = tryStage(net, { budget: gib(4), tiles: [{ from: 'conv1', to: 'pool2', H: 8 }], checkpoints: ['pool2'] })
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export function tryStage<M extends Trainable>(model: M): Either<SpillwayError, Staged<M, 'train'>>

/**
 * Plans a training step, a prediction or an evaluation within a memory budget, or returns the error. `stage`
 * throws it instead.
 *
 * @param model The model, or a step with several objectives.
 * @param options Budget, loss, optimizer, strategy, machine and more.
 * @example
 * const answer = tryStage(net, { budget: gib(4), tiles: [{ from: 'conv1', to: 'pool2', H: 8 }], checkpoints: ['pool2'] })
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export function tryStage<M extends Trainable, const O extends (StageOptions<NamesIn<M>, M> & object) | undefined>(
  model: M,
  options: CheckedOptions<M, O, StageKeys>,
): Either<SpillwayError, Staged<M, ModeOf<O>>>

export function tryStage<M extends Trainable>(model: M, o: StageOptions = {}): Either<SpillwayError, Staged<M>> {
  return pipe(
    isTrainable(model),
    E.flatMap(() => knownOptions(o)),
    E.tap(() => trainsAlone(o)),
    E.chain(() => machineNamed(o.machine ?? 'cpu', machineOptionsOf(o))),
    E.chain((machine) => prepared(model, machine, o)),
    E.chain((prepared) =>
      pipe((o.shard === undefined ? stagedOverRanks : stagePrepared)(prepared, o), E.mapLeft(withReason(prepared))),
    ),
  )
}

/**
 * Plans a training step, a prediction or an evaluation within a memory budget. It throws a `SpillwayException`
 * if no plan fits, with the smallest budget that works. `tryStage` returns the error instead.
 *
 * @param model The model, or a step with several objectives.
 * @param options Budget, loss, optimizer, strategy, machine and more.
 * @example const planned = stage(net, { loss: mse, optimizer: sgd({ lr: 1e-3, momentum: 0.9 }), budget: gib(4) })
 */
export function stage<M extends Trainable>(model: M): Staged<M, 'train'>

/**
 * Plans a training step, a prediction or an evaluation within a memory budget. It throws a `SpillwayException`
 * if no plan fits, with the smallest budget that works. `tryStage` returns the error instead.
 *
 * @param model The model, or a step with several objectives.
 * @param options Budget, loss, optimizer, strategy, machine and more.
 * @example const planned = stage(net, { loss: mse, optimizer: sgd({ lr: 1e-3, momentum: 0.9 }), budget: gib(4) })
 */
export function stage<M extends Trainable, const O extends (StageOptions<NamesIn<M>, M> & object) | undefined>(
  model: M,
  options: CheckedOptions<M, O, StageKeys>,
): Staged<M, ModeOf<O>>

export function stage<M extends Trainable>(model: M, o: StageOptions = {}): Staged<M> {
  return orThrow(tryStage(model, o))
}
