// Evaluations between the steps of a run. In: data, metrics, how often. Out: what a run opens, plans once, and asks how good its weights are.
// Invariant: the plan is one of the run's model, loss, machine and budget, so that the device never holds more than the run may.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { Model, Trainable } from '../../dsl'
import { known } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import type { Data } from '../data/data'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import { lossIn } from '../stage/identity'
import { prepareEvaluation } from '../stage/prepare'
import { type Staged, stagePrepared } from '../stage/stage'
import type { Evaluating, OpenedEvaluation } from '../train/measured'
import { openEvaluation } from './evaluator'
import { formFor, type Metric, type MetricName } from './metrics'

/** How a model is evaluated while it is trained. */
export interface ValidationOptions {
  /** All that `train` takes; each sample counts once. @example validation({ data: 'val/' }) */
  readonly data: string | Data
  /** What is measured beside the loss; default: what `evaluate` measures. @example validation({ data: 'val/', metrics: ['accuracy', 'f1'] }) */
  readonly metrics?: readonly (MetricName | Metric)[] | undefined
  /** Epochs from one to the next; default 1. @example validation({ data: 'val/', every: 5 }) */
  readonly every?: number | undefined
}
const VALIDATION = optionsFor<ValidationOptions>()('validation', 'data', 'metrics', 'every')

const evaluable = (model: Trainable | undefined): Either<SpillwayError, Model> =>
  model === undefined || model.kind === 'step'
    ? E.left(usage('evaluate: models are evaluated while they are trained; this is a step, or a plan without its model'))
    : E.right(model)

const openedFor = (
  { data, metrics }: ValidationOptions,
  model: Trainable | undefined,
  { plan, machine }: Staged,
  { spill, threads, throttle, hostMemory, signal, workers }: Parameters<Evaluating['open']>[2],
): Either<SpillwayError, OpenedEvaluation> =>
  pipe(
    E.Do,
    E.bind('model', () => evaluable(model)),
    E.bindW('prepared', ({ model }) =>
      prepareEvaluation(model, machine, { loss: lossIn(plan.graph), as: formFor(metrics ?? []), name: plan.graph.name }),
    ),
    E.bindW('staged', ({ prepared }) =>
      stagePrepared(prepared, { budget: plan.budgetBytes, algorithms: plan.algorithms, spill }),
    ),
    E.flatMap(({ model, staged }) =>
      openEvaluation(model, staged, { data, metrics, spill, threads, throttle, hostMemory, signal, workers }),
    ),
    E.map(({ measures, run }) => ({
      measures,
      run: (weights) =>
        pipe(
          run(weights),
          TE.map(({ loss, metrics, arenaPeakBytes }) => ({ loss, metrics, arenaPeakBytes })),
        ),
    })),
  )

/**
 * Evaluates a model after epochs of its training, in the same budget.
 *
 * @example await train(net, plan, { epochs: 30, data: 'train/', evaluate: validation({ data: 'val/', metrics: ['accuracy'], every: 2 }) })
 */
export const validation = <const O extends ValidationOptions>(options: Known<O, typeof VALIDATION>): Evaluating => {
  const o: ValidationOptions = known(VALIDATION, options as O)
  const { every = 1 } = o
  if (!Number.isSafeInteger(every) || every < 1)
    throw new SpillwayException(usage(`validation: every is ${every}; legal are whole numbers of at least 1`))
  return { kind: 'evaluation', every, open: (model, staged, run) => openedFor(o, model, staged, run) }
}
