// Staging for users: from a model and a budget to a plan, or a reason in words why there is none.
// In: a model, options. Out: StagedPlan: the plan and everything that is said about it. Invariant: a staged plan carries the
// training graph it was made from, so that `train` can tell another model's plan from its own.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import {
  type CheckedOptions,
  elaborate,
  elaborateStep,
  type LayerNames,
  type Loss,
  type Model,
  mse,
  type Optimizer,
  type PlanByHand,
  sgd,
  type Trainable,
  type TrainingStep,
} from '../../dsl'
import { leastBytes } from '../../dsl/plan/bytes'
import { prescribe } from '../../dsl/plan/prescription'
import { budgetTooSmall, strategyAndPlan } from '../../dsl/plan/words'
import { compile, type CompileOptions, compilePrescribed } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import type { Precision } from '../../staging/devices'
import { stepTraining, training } from '../../staging/grad/grad'
import { withGatheredUpdates } from '../../staging/grad/rewrite/gathered'
import { narrowed } from '../../staging/grad/rewrite/narrow'
import { withPoolPlaces } from '../../staging/grad/rewrite/poolplaces'
import { rewritten } from '../../staging/grad/rewrite/rewrites'
import type { Graph } from '../../staging/graph/graph'
import { instructions } from '../../staging/plan/instructions'
import type { Algorithms, Plan } from '../../staging/plan/plan'
import { simulate } from '../../staging/sim/simulate'
import type { Timeline } from '../../staging/sim/timeline'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import { type LocalMachine, machineNamed } from '../machine/machine'
import type { Staging } from '../report/facts'

export interface StageOptions<L extends string = string> extends PlanByHand<L> {
  /** What the output is compared with; default `mse`. */
  readonly loss?: Loss
  /** Default: SGD with momentum 0.9 at a rate of 0.001. */
  readonly optimizer?: Optimizer
  /** Bytes of device memory that nothing may exceed; default: what the machine has. */
  readonly budget?: number
  readonly strategy?: string
  readonly machine?: string
  readonly allocator?: string
  readonly algorithms?: Algorithms
  /** bf16: activations and their gradients are stored so and multiplied with fp32 sums, where the device has it; tf32: products on cuda; default fp32. */
  readonly precision?: Precision
  /** The lower tier: host memory, or a folder for the spill file. */
  readonly spill?: string
  readonly name?: string
}

/** A plan and the model that it was staged for. */
export interface Staged<M extends Model = Model> extends StagedPlan {
  readonly model: M
}

export interface StagedPlan {
  readonly plan: Plan
  readonly timeline: Timeline
  readonly staging: Staging
  readonly machine: LocalMachine
}

export const DEFAULT_LEARNING_RATE = 1e-3
export const DEFAULT_OPTIMIZER: Optimizer = sgd({ lr: DEFAULT_LEARNING_RATE, momentum: 0.9 })

/** A training graph as the machine runs it: what its operators and its precision change. */
const finished =
  (machine: LocalMachine) =>
  (graph: Graph): Graph => {
    const fused = machine.device.fused ? withPoolPlaces(graph) : graph
    const gathered = machine.device.gathersUpdates ? withGatheredUpdates(fused) : fused
    return machine.precision === 'bf16' ? narrowed(gathered) : gathered
  }

/** A step of one's own says itself what it minimises and how. */
const stepGraph = (step: TrainingStep, name: string, machine: LocalMachine): Either<SpillwayError, Graph> =>
  pipe(
    elaborateStep(step, name),
    E.chainW(({ graph, objectives, detached }) => stepTraining(graph, objectives, detached, { dtype: machine.device.dtype })),
    E.map(finished(machine)),
  )

/** The step that is planned: forward, loss, backward, update. */
export const trainingGraph = (
  model: Trainable,
  name: string,
  loss: Loss,
  optimizer: Optimizer,
  machine: LocalMachine,
): Either<SpillwayError, Graph> =>
  model.kind === 'step'
    ? stepGraph(model, name, machine)
    : pipe(
        elaborate(model, name),
        E.map(({ graph, output }) => (machine.device.fused ? rewritten(graph, output) : { graph, output })),
        E.chainW(({ graph, output }) => training(graph, output, { loss, optimizer, dtype: machine.device.dtype })),
        E.map(finished(machine)),
      )

/** No step needs more: everything kept, nothing tiled, room for all of it. */
const UNBOUNDED_BYTES = 2 ** 50

const inCoreOf = (graph: Graph, plan: Plan, machine: LocalMachine, algorithms: Algorithms): Staging['inCore'] => {
  const whole =
    plan.strategy === 'in-core'
      ? right(plan)
      : compile(graph, { strategy: 'in-core', budgetBytes: UNBOUNDED_BYTES, machine, algorithms })
  // A model that has any plan has the one that keeps everything.
  if (isLeft(whole)) throw new Error(`no in-core plan: ${JSON.stringify(whole.left)}`)
  return {
    peakBytes: bytesOf(whole.right.peakPages),
    computeSeconds: machine.asInSteps(whole.right).calls.reduce((n, c) => n + c.seconds, 0),
  }
}

/** What is said about a plan that is there: staged just now, or read from a file. */
export const describePlan = (
  chosen: Plan,
  machine: LocalMachine,
  spill: string,
  allocator: string,
  planningSeconds: number,
): StagedPlan => {
  const plan = machine.asInSteps(chosen)
  return {
    plan,
    machine,
    timeline: simulate(plan, machine.link),
    staging: {
      allocator,
      planningSeconds,
      link: machine.link,
      inCore: inCoreOf(plan.graph, plan, machine, plan.algorithms),
      tier: spill === 'ram' ? 'ram' : 'disk',
      instructions: instructions(plan).length,
    },
  }
}

/** A budget too small for anything is the planner's to refuse: it names the smallest that works. */
export const checkedBudget = (budget: number): Either<SpillwayError, number> =>
  Number.isSafeInteger(budget) && budget >= 0
    ? right(budget)
    : left(usage(`a budget of ${budget} is not legal: it is a whole number of bytes`))

export const stageGraph = (
  graph: Graph,
  machine: LocalMachine,
  o: StageOptions,
  model?: Model,
): Either<SpillwayError, StagedPlan> => {
  try {
    return stagedOn(machine, graph, o, model)
  } catch (e) {
    // A device may fail while it is asked how long calls take.
    if (e instanceof SpillwayException) return left(e.error)
    throw e
  }
}

const stagedOn = (machine: LocalMachine, graph: Graph, o: StageOptions, model?: Model): Either<SpillwayError, StagedPlan> => {
  const budget = checkedBudget(o.budget ?? machine.memoryBytes)
  if (isLeft(budget)) return budget
  const { strategy = 'auto', algorithms = 'measured', allocator = 'pages', spill = 'ram' } = o
  const began = performance.now()
  const plan = planned(graph, model, { strategy, budgetBytes: budget.right, machine, algorithms }, o)
  const staged = pipe(
    plan,
    E.map((chosen) => describePlan(chosen, machine, spill, allocator, (performance.now() - began) / 1000)),
  )
  machine.saveProfile()
  return staged
}

/** The plan of a strategy, or the one that tiles and checkpoints by hand describe. */
const planned = (graph: Graph, model: Model | undefined, o: CompileOptions, by: PlanByHand): Either<SpillwayError, Plan> => {
  if (!model || (by.tiles === undefined && by.checkpoints === undefined)) return compile(graph, o)
  const prescription = prescribe(model.layers, by)
  return isLeft(prescription) ? prescription : compilePrescribed(graph, prescription.right, o)
}

const strategyFault = (o: StageOptions): SpillwayError | undefined =>
  o.strategy !== undefined && (o.tiles !== undefined || o.checkpoints !== undefined)
    ? { tag: 'PlanByHandInvalid', at: 'strategy', reason: strategyAndPlan() }
    : undefined

/** A budget that no plan can meet is told so in the words that the types have for it. */
const withReason =
  (model: Model, o: StageOptions) =>
  (e: SpillwayError): SpillwayError => {
    const least = leastBytes(model, o.optimizer ?? DEFAULT_OPTIMIZER)
    return e.tag === 'BudgetInfeasible' && e.budgetBytes < least
      ? { ...e, reason: budgetTooSmall(`${e.budgetBytes}`, `${least}`) }
      : e
  }

/**
 * A plan for this model in this budget, or why there is none.
 *
 * @example tryStage(net, { budget: gib(4), tiles: [{ from: 'conv1_1', to: 'pool2', H: 8 }], checkpoints: ['pool4'] })
 */
export const tryStage = <M extends Model, const O extends StageOptions<LayerNames<M>>>(
  model: M,
  options: CheckedOptions<M, O> = {} as CheckedOptions<M, O>,
): Either<SpillwayError, Staged<M>> => {
  const o: StageOptions = options as O
  const fault = strategyFault(o)
  if (fault) return left(fault)
  return pipe(
    machineNamed(o.machine ?? 'cpu', { spill: o.spill, algorithms: o.algorithms, precision: o.precision }),
    E.chain((machine) =>
      pipe(
        trainingGraph(model, o.name ?? 'model', o.loss ?? mse, o.optimizer ?? DEFAULT_OPTIMIZER, machine),
        E.chain((graph) => stageGraph(graph, machine, o, model)),
      ),
    ),
    E.bimap(withReason(model, o), (staged) => ({ ...staged, model })),
  )
}

/**
 * The same for scripts: throws a SpillwayException whose message says what would be legal.
 *
 * @example const plan = stage(net, { loss: mse, optimizer: sgd({ lr: 1e-3, momentum: 0.9 }), budget: gib(4) })
 */
export const stage = <M extends Model, const O extends StageOptions<LayerNames<M>>>(
  model: M,
  options: CheckedOptions<M, O> = {} as CheckedOptions<M, O>,
): Staged<M> => {
  const staged = tryStage<M, O>(model, options)
  if (isLeft(staged)) throw new SpillwayException(staged.left)
  return staged.right
}

// ---------------------------------------------------------------- steps of several objectives

/** A step says its losses and optimizers itself. */
export type StepStageOptions = Omit<StageOptions, 'loss' | 'optimizer' | 'tiles' | 'checkpoints'>

/** A plan for a step of one's own, or why there is none. */
export const tryStageStep = (step: TrainingStep, o: StepStageOptions = {}): Either<SpillwayError, StagedPlan> =>
  pipe(
    machineNamed(o.machine ?? 'cpu', { spill: o.spill, algorithms: o.algorithms, precision: o.precision }),
    E.chain((machine) =>
      pipe(
        stepGraph(step, o.name ?? 'step', machine),
        E.chain((graph) => stageGraph(graph, machine, o)),
      ),
    ),
  )

/**
 * The same for scripts.
 *
 * @example const plan = stageStep(step(minimize('generator', …), minimize('critic', …)), { budget: gib(4) })
 */
export const stageStep = (step: TrainingStep, o: StepStageOptions = {}): StagedPlan => {
  const staged = tryStageStep(step, o)
  if (isLeft(staged)) throw new SpillwayException(staged.left)
  return staged.right
}
