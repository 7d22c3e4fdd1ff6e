// Staging for users: from a model or a step and a budget to a plan, or a reason in words why there is none.
// In: a model or step, options. Out: Staged: the plan and everything that is said about it. Invariant: a staged plan carries
// the training graph it was made from, so that `train` can tell another model's plan from its own.
import { inspect } from 'node:util'
import { lowerBoundOf } from '../../staging/bound/lowerbound'
import { type Either, left, right } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as O from 'fp-ts/Option'
import type { CheckedOptions, Form, NamesIn, PatternIn, PlanByHand, PlanMode, Trainable } from '../../dsl'
import { isTrainable } from '../../dsl/load'
import { leastBytes } from '../../dsl/plan/bytes'
import { prescribe, TILE_RANGE } from '../../dsl/plan/prescription'
import { budgetTooSmall, strategyAndPlan } from '../../dsl/plan/words'
import { FORMS, MODES } from '../../dsl/prediction'
import { compile, compilePrescribed, compileTogether, outline } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { certain } from '../../staging/core/certain'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { bytes, choice, either, listOf, made, named, numeric, path, text, withValues } from '../../staging/core/values'
import { type Graph, isPersistent, valueBytes } from '../../staging/graph/graph'
import type { AllocatorName, MachineName, StrategyName } from '../../staging/core/names'
import { isDevice } from '../../staging/devices'
import { hasTier, NORMS, SHARDS } from '../../staging/graph/machine'
import { NETWORKS, type NetworkName } from '../../staging/sim/networks'
import { lossNames } from '../../staging/ops/loss'
import { OPTIMIZERS } from '../../staging/ops/optimizer'
import { GROUP, type ParameterGroup, UPDATE_VALUES, UPDATES } from '../../staging/ops/updates'
import { instructions } from '../../staging/plan/instructions'
import { type Algorithms, type Plan, precisionOf } from '../../staging/plan/plan'
import { ALLOCATORS, mappingOf } from '../../staging/memory/allocators/replay'
import { explained } from '../../staging/search/explain'
import { LEAST_EFFORT } from '../../staging/search/limits'
import { asStrategyMoves } from '../../staging/planner/fastest'
import { simulate } from '../../staging/sim/simulate'
import type { Timeline } from '../../staging/sim/timeline'
import type { Origin } from '../data/description'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { orThrow, whilePlanning } from '../errors/exceptions'
import { mostCallsPlanned } from './heap'
import {
  ALGORITHMS,
  type KernelOptions,
  type LocalMachine,
  type MachineOptions,
  MEASURING,
  type PlannedMachine,
  PRECISIONS,
  type TierOptions,
} from '../machine/localmachine'
import { startedBy } from '../ranks/engine'
import type { Rank } from '../ranks/rank'
import { machineNamed } from '../machine/machine'
import { checkedPlaces, writing } from '../files/places'
import { writeWholeText } from '../files/whole'
import type { Staging } from '../report/facts'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { type ModeOf, modeOf } from './mode'
import { ownStrategy } from './ownstrategies'
import { type Own, prepare, type Prepared, prepareEvaluation, preparePrediction, sharedOut } from './prepare'
import { processMemory } from './process'
import { recordedFor } from './recorded'

/** How a step is staged, names of planners, machines and allocators not looked up yet. */
export interface StageAsked<L extends string = string> extends PlanByHand<L>, Own, TierOptions, PlannedMachine {
  readonly network?: MachineOptions['network']
  readonly budget?: number | undefined
  readonly strategy?: string | undefined
  readonly effort?: number | undefined
  readonly machine?: string | undefined
  readonly allocator?: string | undefined
  readonly resumes?: string | undefined
  readonly mode?: PlanMode | undefined
  readonly as?: Form | undefined
  readonly name?: string | undefined
}

// biome-ignore lint/suspicious/noExplicitAny: options in a variable know no model, and fit each
export type AnyLayer = any
// biome-ignore lint/suspicious/noExplicitAny: options in a variable know no model, and fit each
export type AnyModel = any

/** Options of a plan that may be searched for at many sizes, too. */
export interface PlannedOptions<M extends Trainable = AnyModel> extends Own, TierOptions, KernelOptions {
  /**
   * Names of parameters that are not trained; `*` matches any characters. Their gradients and optimizer state
   * take no memory.
   *
   * @example stage(net, { freeze: ['stem.*', 'bn*'] })
   */
  readonly freeze?: PatternIn<M> | readonly PatternIn<M>[] | undefined
  /**
   * Groups of parameters with their own learning rate or weight decay. The first group that matches a parameter
   * counts.
   *
   * @example stage(net, { optimizer: adamw({ lr: 1e-3 }), groups: [{ match: '*.bias', weightDecay: 0 }] })
   */
  readonly groups?: readonly ParameterGroup<PatternIn<M>>[] | undefined
  /** Hard limit of device memory, in bytes. Default: the memory of the device. @example stage(net, { budget: gib(4) }) */
  readonly budget?: number | undefined
  /**
   * The planner. Default 'auto', which combines recomputing, swapping and tiles.
   *
   * @example stage(net, { strategy: 'checkpoint:sqrt' })
   */
  readonly strategy?: StrategyName | undefined
  /**
   * The machine of the plan: a device of this computer, or a simulated machine. Default 'cpu'.
   *
   * @example stage(net, { machine: 'v100-pcie-16g' })
   */
  readonly machine?: MachineName | undefined
}

/**
 * Options of `stage`. In a variable of this type, names of layers are not checked by the compiler.
 *
 * @example
 * const options: StageOptions = { budget: gib(4), strategy: 'checkpoint:sqrt' }
 * stage(net, options)
 */
export interface StageOptions<L extends string = AnyLayer, M extends Trainable = AnyModel>
  extends PlannedOptions<M>,
    PlanByHand<L>,
    PlannedMachine {
  /**
   * Effort of the search of 'auto': about this number of processor seconds. It is counted as work, so the plan is the same on
   * every machine. Default 5.
   *
   * @example stage(net, { budget: gib(4), effort: 30 })
   */
  readonly effort?: number | undefined
  /** Allocator to simulate beside the plan. Default 'pages', which runs use. @example stage(net, { allocator: 'best-fit' }) */
  readonly allocator?: AllocatorName | undefined
  /**
   * Network between ranks, for predicted times. Default: a network that is never slower than the machine's own
   * work.
   *
   * @example stage(net, { machine: 'v100-nvlink-16g', ranks: 8, network: 'ethernet-25g' })
   */
  readonly network?: NetworkName | undefined
  /**
   * Checkpoint folder of an earlier run. If the options are the same, its plan is used again. Default: none.
   *
   * @example stage(net, { budget: gib(4), resumes: 'state' })
   */
  readonly resumes?: string | undefined
  /**
   * Purpose of the plan: 'train', 'predict' or 'evaluate'. The last two keep nothing for a backward pass.
   * Default 'train'.
   *
   * @example stage(net, { mode: 'predict', budget: mib(512) })
   */
  readonly mode?: PlanMode | undefined
  /**
   * Form of a prediction: 'values', 'probabilities' or 'classes'. Default 'values'; an evaluation chooses by
   * its loss.
   *
   * @example stage(net, { mode: 'predict', as: 'classes' })
   */
  readonly as?: Form | undefined
  /** Name of the plan in reports. Default: the name of the model. @example stage(net, { name: 'first try' }) */
  readonly name?: string | undefined
}
/** Limits of the effort, in seconds. */
export const EFFORTS = { least: LEAST_EFFORT, most: 3600 }
const LOSS = made(`${lossNames.join(', ')}, or the result of a loss function`, true)
const TILES = "a list of tile ranges, such as { from: 'conv1', to: 'pool1', H: 4 }"
const LAYERS = listOf('a list of names of layers', (u) => typeof u === 'string')
/** Values of the options of `stage`. */
export const STAGE_VALUES = {
  ...UPDATE_VALUES,
  budget: bytes,
  loss: either(
    LOSS.name,
    LOSS,
    listOf('', () => true),
  ),
  optimizer: made(`the result of ${Object.keys(OPTIMIZERS).join(', ')}`),
  strategy: named(['auto', 'in-core', 'and other names of strategies']),
  effort: numeric(`seconds from ${EFFORTS.least} to ${EFFORTS.most}`),
  machine: named(['cpu', 'ref', 'cuda', 'and names of simulated machines']),
  tiles: listOf(TILES, (u) => typeof u === 'object'),
  checkpoints: LAYERS,
  spill: either("'ram' or a folder", text),
  hostMemory: bytes,
  spillWritesPerStep: bytes,
  algorithms: choice(ALGORITHMS),
  measure: choice(MEASURING),
  precision: named(PRECISIONS),
  ranks: numeric('whole numbers of at least 1'),
  bands: numeric('whole numbers of at least 1'),
  norms: named(NORMS),
  shard: named(SHARDS),
  network: named(NETWORKS),
  allocator: named(ALLOCATORS),
  resumes: path,
  mode: named(MODES),
  as: named(FORMS),
  name: text,
}
// biome-ignore format: a list
const STAGE_KEYS = optionsFor<StageOptions>()(
  'stage', 'budget', 'loss', 'optimizer', ...UPDATES.keys, 'strategy', 'effort', 'machine', 'tiles', 'checkpoints', 'spill', 'hostMemory', 'spillWritesPerStep', 'algorithms', 'measure', 'precision', 'ranks', 'bands', 'norms', 'shard', 'network', 'allocator', 'resumes', 'mode', 'as', 'name',
)
/** The options that `stage` has. */
export type StageKeys = typeof STAGE_KEYS
const STAGE = withValues(STAGE_KEYS, STAGE_VALUES)

/** Options all of whose keys there are, those of their tile ranges and groups of parameters too. */
const knownOptions = <O extends StageOptions>(o: O): Either<SpillwayError, O> =>
  pipe(
    knownIn(STAGE)(o),
    E.tap(({ tiles = [] }) => E.traverseArray(knownIn(TILE_RANGE))(tiles)),
    E.tap(({ groups = [] }) => E.traverseArray(knownIn(GROUP))(groups)),
  )

/**
 * A plan with everything known about it: simulated times, facts of the planning, the machine.
 *
 * @example const seconds = (s: Staged) => s.timeline.makespanSeconds
 */
export interface Staged<M extends Trainable = Trainable, K extends PlanMode = PlanMode> {
  /** The model or step of the plan; absent for a plan from a file. */
  readonly model?: M
  /** The purpose of the plan. */
  readonly mode: K
  readonly plan: Plan
  readonly timeline: Timeline
  readonly staging: Staging
  /** Bytes of the device at the peak of a step. */
  readonly peakBytes: number
  /** Writes the plan's page to a file. @example stage(net, { budget: gib(4) }).report('plan.html') */
  readonly report: (path: string) => void
  readonly machine: LocalMachine
  /** The rank that runs the plan; absent in a single process. */
  readonly rank?: Rank
  /** The plan of each band of rows, if ranks share one image. `plan` is the first. */
  readonly family?: readonly Plan[]
  /** Names of the model on the command line, for the recipe of its weights. */
  readonly origin?: Origin
}

/** No step needs more: everything kept, nothing tiled, room for all of it. */
export const UNBOUNDED_BYTES = 2 ** 50

const inCoreOf = (graph: Graph, plan: Plan, machine: LocalMachine, algorithms: Algorithms): Staging['inCore'] => {
  const whole =
    plan.strategy === 'in-core'
      ? plan
      : certain('a model with any plan has an in-core plan')(
          outline(graph, { strategy: 'in-core', budgetBytes: UNBOUNDED_BYTES, machine, algorithms }),
        )
  return {
    peakBytes: bytesOf(whole.peakPages),
    computeSeconds: machine.asInSteps(whole).calls.reduce((n, c) => n + c.seconds, 0),
  }
}

/** Writes the page of a plan, with the alternatives of its decisions. */
function report(this: Pick<Staged, 'plan' | 'timeline' | 'staging' | 'machine'>, path: string): void {
  const { plan, timeline, staging, machine } = this
  const explanation = explained(plan, machine)
  const text = (): string => reportHtml(plan, timeline, explanation ? { ...staging, explanation } : staging)
  pipe(
    checkedPlaces([], writing('report', 'report', path)),
    E.flatMap(() => writeWholeText(path, text())),
    orThrow,
  )
}

/** `console.log` of a plan prints its summary. */
const PRINTED: object = {
  [inspect.custom](this: Staged): string {
    return summary(this.plan, this.timeline, this.staging)
  },
}

/** Completes a staged plan with its mode, its peak, its report and its printed form. */
export const withFacts = <S extends Omit<Staged, 'mode' | 'peakBytes' | 'report'>>(s: S): S & Staged => ({
  ...PRINTED,
  ...s,
  mode: modeOf(s.plan.graph),
  peakBytes: bytesOf(s.plan.peakPages),
  report,
})

type PlanningTimes = Pick<Staging, 'planningSeconds' | 'measuringSeconds'>
const NOT_PLANNED: PlanningTimes = { planningSeconds: 0, measuringSeconds: 0 }

/**
 * Returns a plan with its simulated times and facts, e.g. for a plan from a file.
 *
 * @param chosen The plan.
 * @param machine The machine.
 * @param allocator Allocator to simulate. Default 'pages'.
 * @param times Seconds of planning and measuring. Default 0.
 * @example const { timeline } = describePlan(loadPlan('plan.json'), plan.machine)
 */
export const describePlan = (chosen: Plan, machine: LocalMachine, allocator = 'pages', times = NOT_PLANNED): Staged => {
  const plan = machine.asInSteps(chosen)
  return withFacts({
    plan,
    machine,
    timeline: simulate(plan, machine.link, mappingOf(plan, allocator)),
    staging: {
      allocator,
      ...times,
      callTimes: machine.timesOf(chosen),
      link: machine.link,
      inCore: inCoreOf(plan.graph.inParts?.whole ?? plan.graph, plan, machine, plan.algorithms),
      bound: lowerBoundOf(plan.graph, machine, plan.budgetBytes),
      tier: machine.tier.kind,
      process: processMemory(plan, machine),
      instructions: instructions(plan).length,
    },
  })
}

/** A plan's options beside its machine's name. */
export const machineOptionsIn = ({ plan }: Pick<Staged, 'plan'>): MachineOptions => {
  const { ranks, bands, norms, shard } = plan.graph
  return {
    precision: precisionOf(plan),
    ranks,
    bands: bands?.of,
    band: bands?.at,
    norms,
    shard,
    network: undefined,
    over: plan.network,
  }
}

/** The same of one for each band, where there are several. */
export const describePlans = (
  plans: readonly Plan[],
  machine: LocalMachine,
  allocator = 'pages',
  times = NOT_PLANNED,
): Staged => ({
  ...describePlan(plans[0]!, machine, allocator, times),
  ...(plans.length > 1 ? { family: plans } : {}),
})

export const checkedEffort = ({ effort, strategy = 'auto', mode = 'train' }: StageAsked): Either<SpillwayError, void> => {
  if (effort === undefined) return right(undefined)
  if (strategy !== 'auto' || mode !== 'train')
    return left(usage(`the effort is for the strategy 'auto' of training; this is '${strategy}' to ${mode}: leave it out`))
  return effort >= EFFORTS.least && effort <= EFFORTS.most
    ? right(undefined)
    : left(usage(`the effort is ${effort}; allowed: ${EFFORTS.least} to ${EFFORTS.most} seconds`))
}

/** A budget too small for anything is the planner's to refuse: it names the smallest that works. */
export const checkedBudget = (budget: number): Either<SpillwayError, number> =>
  Number.isSafeInteger(budget) && budget >= 0
    ? right(budget)
    : left(usage(`the budget is ${budget}; allowed: a whole number of bytes`))

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
  const times = (): PlanningTimes => ({
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

/** Training here includes all processes that were started with this one. */
const startedWith = ({ mode = 'train', machine = 'cpu' }: StageAsked): number | undefined =>
  mode === 'train' && isDevice(machine) ? startedBy(process.env)?.ranks : undefined

export const machineOptionsOf = (o: StageAsked): MachineOptions => {
  const {
    spill,
    hostMemory,
    spillWritesPerStep,
    algorithms,
    measure,
    precision,
    bands,
    norms,
    shard,
    network,
    ranks = startedWith(o),
  } = o
  return { spill, hostMemory, spillWritesPerStep, algorithms, measure, precision, ranks, bands, norms, shard, network }
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
