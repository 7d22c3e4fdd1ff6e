// The measurements of a run between its steps. In: the model's metrics after some epochs, and the one that counts. Out: the best time, and true if
// the run should end. Invariant: all of it follows from the measurements, which checkpoints keep, so that a resumed run counts as an undisturbed one.
// Worked example, loss 0.5 0.4 0.45 0.41, patience 2: the second is the best, and the run ends after the fourth.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Trainable } from '../../dsl'
import type { Data } from '../data/data'
import type { KnownClasses } from '../data/classes'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import type { Details } from '../report/runview'
import type { Staged } from '../stage/staged'
import type { DeviceLimits } from './device'
import { type Epochs, epochEnd, epochsAt, type Length } from './length'
import { type Measurement, standing } from './measurement'
import { isPlateau } from './plateau'
import type { Scheduling } from './schedules'
import type { StateReader } from './weights'

// ---------------------------------------------------------------- evaluations

/** The metrics of the model, and the device's seconds for them. */
export interface Found {
  readonly loss: number
  readonly metrics: Readonly<Record<string, number>>
  readonly arenaPeakBytes: number
  /** For people, where somebody asked for that. */
  readonly details?: Details | undefined
}

/** An evaluation that is checked and planned before a run begins. */
export interface OpenedEvaluation {
  /** The names of its measurements, `loss` among them. */
  readonly measures: readonly string[]
  readonly run: (weights: StateReader) => TaskEither<SpillwayError, Found>
  /** The identity of the data, if ranks compare it. */
  readonly content: string
  /** The plan for other ranks; or the reason why the leader evaluates alone. */
  readonly shared?: SharedEvaluation | { readonly alone: string } | undefined
}

/** The leader's facts of its evaluations for the others: their plan, that for the rest after full batches, and the task of metrics. */
export interface SharedEvaluation {
  readonly plans: readonly string[]
  readonly form: string
  /** Of the model. */
  readonly output: readonly number[]
  readonly detailed: boolean
}

/** Those of the last update, or an average that the plan keeps. */
export const JUDGED_WEIGHTS = ['latest', 'average'] as const
/**
 * The weights that an evaluation uses: 'latest', or their moving 'average'.
 *
 * @example
 * const weights: JudgedWeights = 'average'
 * validation({ data: 'val/', weights })
 */
export type JudgedWeights = (typeof JUDGED_WEIGHTS)[number]

/**
 * An evaluation during a run, as `validation` creates it.
 *
 * @example const evaluation: Evaluating = validation({ data: 'val/' })
 */
export interface Evaluating {
  readonly kind: 'evaluation'
  /** Number of epochs between two evaluations. */
  readonly every: number
  readonly weights: JudgedWeights
  /** The samples. */
  readonly data: string | Data
  /** Opens the evaluation for a run. Internal. */
  readonly open: (
    model: Trainable | undefined,
    staged: Staged,
    o: EvaluatingRun,
    detailed: boolean,
  ) => Either<SpillwayError, OpenedEvaluation>
  /** Opens the evaluation on a rank that does not lead. Internal. */
  readonly follow: (shared: SharedEvaluation, staged: Staged, o: EvaluatingRun) => Either<SpillwayError, OpenedEvaluation>
}

/** The inputs of an evaluation from its run. */
export interface EvaluatingRun extends DeviceLimits {
  readonly spill?: string | undefined
  readonly signal?: AbortSignal | undefined
  readonly workers?: number | undefined
  /** Class names of the training data. */
  readonly classes?: KnownClasses
  readonly onNote?: ((text: string) => void) | undefined
  readonly strictData?: boolean | undefined
}

// ---------------------------------------------------------------- when

export interface Asked {
  readonly evaluate?: Evaluating | undefined
  readonly patience?: number | undefined
  readonly keep?: { readonly best?: string | undefined; readonly last?: number | undefined } | undefined
  readonly saveBest?: string | undefined
  readonly schedule?: Scheduling['schedule']
}

export const metricOf = ({ keep }: Asked): string => keep?.best ?? 'loss'
const goesBy = (o: Asked): boolean =>
  o.evaluate !== undefined ||
  o.patience !== undefined ||
  o.keep?.best !== undefined ||
  o.saveBest !== undefined ||
  isPlateau(o.schedule)

/** Steps until the first evaluation, if the run is long enough for it. */
const firstMeasured = (o: Asked, epochs: Epochs): number => epochEnd(epochs, o.evaluate?.every ?? 1)

/**
 * The step after which the model is measured next; Infinity if it never is. A run that ends before the first evaluation is due is measured
 * after its last step.
 */
export const nextMeasured = (o: Asked, { epochs, steps }: Length, done: number): number => {
  if (!epochs || !goesBy(o)) return Number.POSITIVE_INFINITY
  if (firstMeasured(o, epochs) > steps) return steps
  const every = o.evaluate?.every ?? 1
  return epochEnd(epochs, (Math.floor(epochsAt(epochs, done) / every) + 1) * every)
}

/** A note about an interval that is longer than the run. */
export const intervalNote = (o: Asked, { epochs, steps }: Length): string | undefined => {
  const every = o.evaluate?.every ?? 1
  if (!epochs || every === 1 || firstMeasured(o, epochs) <= steps) return undefined
  const ran = Number(((steps * epochs.batch) / epochs.samples).toFixed(2))
  return `the run has ${ran} epochs and evaluates every ${every} epochs: the only evaluation is at its end`
}

/** Returns true if the run has waited long enough for an improvement. */
export const isEnough = (o: Asked, measured: readonly Measurement[]): boolean =>
  o.patience !== undefined && standing(measured, metricOf(o)).since >= o.patience

/** Checks that requested metrics are measured, and that epochs have an end. */
export const checkedMeasures = (
  o: Asked,
  epochs: Epochs | undefined,
  measures: readonly string[],
): Either<SpillwayError, void> => {
  if (!goesBy(o)) return E.right(undefined)
  const { schedule } = o
  if (!epochs)
    return E.left(
      usage('evaluate, patience, keep.best and the schedule plateau need epochs, but a stream has no number of samples'),
    )
  if (isPlateau(schedule) && !measures.includes(schedule.metric))
    return E.left(unknownName("schedule 'plateau': metric", schedule.metric, measures))
  return measures.includes(metricOf(o)) ? E.right(undefined) : E.left(unknownName('keep.best: metric', metricOf(o), measures))
}
