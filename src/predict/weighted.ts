// A plan that trains nothing on its device, with weights. In: the plan, weights in a file or in somebody's memory, how it runs. Out: what is
// made with the session, which is closed whatever happens. Invariant: all weights are the model's before the first batch.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { SpillwayError } from '../errors/errors'
import { using } from '../errors/exceptions'
import { tierOf } from '../machine/tier'
import type { Staged } from '../stage/stage'
import { type DeviceSession, openDevice } from '../train/device'
import { loadWeights, modelState, type StateReader } from '../train/weights'
import type { EvaluateOptions, PredictOptions } from './options'

/** A file, or whoever has the bytes of each by name: a session that trains, a checkpoint. */
export type Weights = string | StateReader
export type Running = Pick<
  PredictOptions | EvaluateOptions,
  'spill' | 'threads' | 'throttle' | 'hostMemory' | 'signal' | 'onNote'
>

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
    loadWeights(weights, state, session),
    E.tap(({ extra }) => {
      if (extra.length) o.onNote?.(`${weights}: ${extra.length} tensors are not in the model: ${extra.slice(0, 5).join(', ')}`)
      return E.right(undefined)
    }),
  )
}

/** A session that the signal ends. */
const opened = (staged: Staged, weights: Weights, o: Running): Either<SpillwayError, DeviceSession> =>
  pipe(
    openDevice(staged, { ...o, tier: tierOf(o.spill) }),
    E.tap((session) =>
      pipe(
        filledWith(weights, staged, session, o),
        E.bimap(
          (e) => {
            session.dispose()
            return e
          },
          () => o.signal?.addEventListener('abort', session.cancel),
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
  return using(
    () => opened(staged, weights, o),
    close,
    (session) => (o.signal?.aborted ? async () => E.left({ tag: 'Cancelled', stepsDone: 0 }) : use(session)),
  )
}
