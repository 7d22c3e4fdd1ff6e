// Evaluations between the steps of a run. In: data, metrics, an interval. Out: an evaluation that a run opens and plans once, and asks for the
// metrics of its weights. Invariant: the plan is one of the run's model, loss, machine and budget, so that the device never holds more than the run
// may.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { Model, Trainable } from '../../dsl'
import { known } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import { atLeast, named, withValues } from '../../staging/core/values'
import type { Data } from '../data/data'
import { type SpillwayError, SpillwayException, unknownName, usage } from '../errors/errors'
import { lossIn } from '../stage/identity'
import { prepareEvaluation } from '../stage/prepare'
import { swappingLike } from '../stage/process'
import type { Staged } from '../stage/staged'
import { stagePrepared } from '../stage/stage'
import { type Evaluating, type EvaluatingRun, JUDGED_WEIGHTS, type JudgedWeights, type OpenedEvaluation } from '../train/measured'
import { RUN_VALUES } from '../train/options'
import { evaluateSetsBy } from '../train/sets'
import { modelState } from '../train/weights'
import { type Evaluation, followedEvaluation, openEvaluation } from './evaluator'
import { formFor, type MetricName } from './metricnames'
import type { Metric } from './ownmetric'
import { METRIC_LIST } from './options'

/**
 * Options of `validation`.
 *
 * @example const options: ValidationOptions = { data: 'val/', metrics: ['accuracy'], every: 2 }
 */
export interface ValidationOptions {
  /** The samples: all forms that `train` accepts. Each sample counts once. @example validation({ data: 'val/' }) */
  readonly data: string | Data
  /**
   * Metrics beside the loss. Default: by the loss, as in `evaluate`.
   *
   * @example validation({ data: 'val/', metrics: ['accuracy', 'f1'] })
   */
  readonly metrics?: readonly (MetricName | Metric)[] | undefined
  /** Number of epochs between two evaluations. Default 1. @example validation({ data: 'val/', every: 5 }) */
  readonly every?: number | undefined
  /**
   * Weights to evaluate: 'latest' or 'average', if the plan keeps one. Default 'latest'.
   *
   * @example validation({ data: 'val/', weights: 'average' })
   */
  readonly weights?: JudgedWeights | undefined
}
const VALIDATION_KEYS = optionsFor<ValidationOptions>()('validation', 'data', 'metrics', 'every', 'weights')
const VALIDATION = withValues(
  VALIDATION_KEYS,
  { data: RUN_VALUES.data, metrics: METRIC_LIST, every: atLeast(1), weights: named(JUDGED_WEIGHTS) },
  { prefix: 'validation: ', required: ['data'] },
)

const evaluable = (model: Trainable | undefined): Either<SpillwayError, Model> =>
  model === undefined || model.kind === 'step'
    ? E.left(usage('evaluate needs a model, not a step and not a plan without its model'))
    : E.right(model)

/** An average can be measured where there is one. */
const keepsAverage = ({ plan }: Staged, weights: JudgedWeights | undefined): Either<SpillwayError, void> =>
  weights === 'average' && modelState(plan.graph).averages.size === 0
    ? E.left(usage("validation: weights: 'average' needs averaged weights: stage with average (--average)"))
    : E.right(undefined)

const runOf = ({
  spill,
  threads,
  throttle,
  hostMemory,
  signal,
  workers,
  onNote,
  strictData,
}: EvaluatingRun): Omit<EvaluatingRun, 'classes'> => ({
  spill,
  threads,
  throttle,
  hostMemory,
  signal,
  workers,
  onNote,
  strictData,
})

/** The results of an evaluation for a run. */
const found = ({ run, ...evaluation }: Evaluation): OpenedEvaluation => ({
  ...evaluation,
  run: (weights) =>
    pipe(
      run(weights),
      TE.map(({ loss, metrics, arenaPeakBytes, details }) => ({ loss, metrics, arenaPeakBytes, details })),
    ),
})

const openedFor = (
  { data, metrics, weights }: ValidationOptions,
  model: Trainable | undefined,
  trained: Staged,
  o: EvaluatingRun,
  detailed: boolean,
): Either<SpillwayError, OpenedEvaluation> => {
  const { plan, rank } = trained
  const machine = swappingLike(plan, trained.machine)
  return pipe(
    E.Do,
    E.bind('model', () => evaluable(model)),
    E.tap(() => keepsAverage(trained, weights)),
    E.bindW('prepared', ({ model }) =>
      prepareEvaluation(model, machine, { loss: lossIn(plan.graph), as: formFor(metrics ?? []), name: plan.graph.name }),
    ),
    E.bindW('staged', ({ prepared }) =>
      stagePrepared(prepared, { budget: plan.budgetBytes, algorithms: plan.algorithms, spill: o.spill }),
    ),
    E.flatMap(({ model, staged }) =>
      openEvaluation(model, staged, { data, metrics, ...runOf(o) }, { detailed, rank, classes: o.classes }),
    ),
    E.map(found),
  )
}

/**
 * Creates an evaluation after epochs of a run, within the budget of its plan.
 *
 * @param options Data, metrics, and the number of epochs between two evaluations.
 * @example
 * const evaluation = validation({ data: 'val/', metrics: ['accuracy'], every: 2 })
 * await train(net, plan, { epochs: 30, data: 'train/', evaluate: evaluation })
 */
export const validation = <const O extends ValidationOptions>(options: Known<O, typeof VALIDATION_KEYS>): Evaluating => {
  const o: ValidationOptions = known(VALIDATION, options as O)
  const { every = 1 } = o
  if (o.weights !== undefined && !JUDGED_WEIGHTS.includes(o.weights))
    throw new SpillwayException(unknownName('validation: weights', o.weights, JUDGED_WEIGHTS))
  return {
    kind: 'evaluation',
    every,
    weights: o.weights ?? 'latest',
    data: o.data,
    open: (model, staged, run, detailed) => openedFor(o, model, staged, run, detailed),
    follow: (shared, { machine, rank }, run) =>
      E.map(found)(followedEvaluation(shared, machine, { data: o.data, metrics: o.metrics, ...runOf(run) }, rank!, run.classes)),
  }
}

evaluateSetsBy((data) => validation({ data }))
