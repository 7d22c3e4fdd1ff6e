// `train`: a run to its end. In: a model, its staged plan, data and settings. Out: TrainResult, or an error as data.
// Invariant: it is the session of `fit`, whose events nobody waits for.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Trainable } from '../../dsl'
import type { Known } from '../../staging/core/options'
import { errorText, type SpillwayError } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import type { PlanFor } from '../stage/mode'
import type { Staged } from '../stage/staged'
import { listen } from './events'
import { scriptTask } from './ranks/script'
import type { Endless, TRAIN_KEYS, TrainOptions } from './options'
import { scriptProgress } from './progress'
import type { TrainResult } from './result'

/**
 * Returns a task that trains a model or a step with a plan. The task returns the error that `train` throws.
 *
 * @param model The model or step; undefined skips the comparison with the plan.
 * @param staged The plan.
 * @param o Length, data, schedule, checkpoints and output files.
 * @example
 * const answer = await trainTask(net, plan, { steps: 10 })()
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export const trainTask = <P extends Staged>(
  model: Trainable | undefined,
  staged: PlanFor<'train', P>,
  o: TrainOptions,
): TaskEither<SpillwayError, TrainResult> => scriptTask(model, staged as P, o, listen(scriptProgress(staged as P, o)))

/** As on the platform: an aborted signal rejects with its reason; the position of the run becomes a note. */
export const answerOf =
  (o: Pick<TrainOptions, 'signal' | 'onNote'>) =>
  <A>(answer: Either<SpillwayError, A>): A => {
    if (E.isRight(answer) || answer.left.tag !== 'Cancelled' || !o.signal?.aborted) return orThrow(answer)
    o.onNote?.(errorText(answer.left))
    throw o.signal.reason
  }

/**
 * Trains a model or a step with a plan. The promise resolves at the end of the run. It rejects with a
 * `SpillwayException`, or with the reason of an aborted signal. `fit` gives the same run as events; `trainTask`
 * returns the error.
 *
 * @param model The model or step.
 * @param staged The plan, as `stage` returns it.
 * @param o Length, data, schedule, checkpoints and output files.
 * @example const { losses, weightsSha256 } = await train(net, plan, { steps: 10, data: 'slides/', save: 'weights.safetensors' })
 */
export const train = async <P extends Staged, const O extends TrainOptions>(
  model: Trainable,
  staged: PlanFor<'train', P>,
  o: Known<O, typeof TRAIN_KEYS, Endless<O>>,
): Promise<TrainResult> => answerOf(o as O)(await trainTask<P>(model, staged, o as O)())
