// A plan without training on its device, with weights. In: the plan, weights in a file or in memory, the way to run it. Out: the result of a function
// of the session, which is always closed. Invariant: all weights are the model's before the first batch.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { SpillwayError } from '../errors/errors'
import { using } from '../errors/exceptions'
import { tierOf } from '../machine/tier'
import type { Staged } from '../stage/staged'
import { type DeviceSession, type Feeding, openDevice, openFedDevice } from '../train/device'
import { onAbort } from '../train/signals'
import { type LoadingOptions, loadWeights, tableText } from '../train/loading'
import { modelState, type StateReader } from '../train/weights'
import type { EvaluateOptions, PredictOptions } from './options'

/** A file, or an owner of the bytes by name: a session that trains, a checkpoint. */
export type Weights = string | StateReader
export type Running = Pick<
  PredictOptions | EvaluateOptions,
  'spill' | 'threads' | 'throttle' | 'hostMemory' | 'signal' | 'onNote' | keyof LoadingOptions
>

const RANDOM = (weights: number): string =>
  `${weights === 1 ? '1 weight is' : `${weights} weights are`} random, so the results mean nothing: train first, and use the weights that the run saves, without --weights-skip (weightsSkip)`

const filledWith = (weights: Weights, staged: Staged, session: DeviceSession, o: Running): Either<SpillwayError, unknown> => {
  const state = modelState(staged.plan.graph)
  if (typeof weights !== 'string')
    return E.traverseArray(({ name }: { readonly name: string }) =>
      pipe(
        weights.read(name),
        E.flatMap((bytes) => session.write(name, bytes)),
      ),
    )(state.weights)
  return pipe(
    // Absent weights begin as in training.
    o.weightsSkip === undefined ? E.right(undefined) : session.initialise(0),
    E.flatMap(() => loadWeights(weights, state, session, o)),
    E.tap(({ table }) => {
      const text = tableText(table)
      if (text !== undefined) o.onNote?.(text)
      const { length } = table.left
      if (length > 0) o.onNote?.(RANDOM(length))
      return E.right(undefined)
    }),
  )
}

/** A session that the signal ends. `feeding` holds the feed of a session that outlives its data. */
export const openWeighted = (
  staged: Staged,
  weights: Weights,
  o: Running,
  feeding?: Feeding,
): Either<SpillwayError, DeviceSession> =>
  pipe(
    feeding
      ? openFedDevice(staged, { ...o, tier: tierOf(o.spill) }, feeding)
      : openDevice(staged, { ...o, tier: tierOf(o.spill) }),
    E.tap((session) =>
      pipe(
        filledWith(weights, staged, session, o),
        E.bimap(
          (e) => {
            session.dispose()
            return e
          },
          () => onAbort(o.signal, session.cancel),
        ),
      ),
    ),
  )

export const withWeights = <A>(
  staged: Staged,
  weights: Weights,
  o: Running,
  use: (session: DeviceSession) => TaskEither<SpillwayError, A>,
): TaskEither<SpillwayError, A> => {
  const close = (session: DeviceSession): void => {
    o.signal?.removeEventListener('abort', session.cancel)
    session.dispose()
  }
  return using(() => openWeighted(staged, weights, o), close, use)
}
