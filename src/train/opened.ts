// A device's session that holds a run's state. In: the start of the run. Out: an open session that signals end; its weights filled from the
// checkpoint, else from the seed and then the weights file.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { SpillwayError } from '../errors/errors'
import { using } from '../errors/exceptions'
import { tierOf } from '../machine/tier'
import type { Staged } from '../stage/staged'
import { restore } from './checkpoint'
import { type DeviceSession, type Feeding, openFedDevice } from './device'
import { seedOf, type TrainOptions } from './options'
import { park } from './parked'
import { onAbort } from './signals'
import type { Start } from './start'
import { type LoadedWeights, loadWeights, tableText } from './loading'
import { NO_ORIGIN, originOf, type StateReader } from './weights'

/** A session that signals end; its feed goes on in the next one. */
const openSession = (staged: Staged, o: TrainOptions, feeding: Feeding): Either<SpillwayError, DeviceSession> =>
  pipe(
    openFedDevice(staged, { ...o, tier: tierOf(o.spill) }, feeding),
    E.tap((session) => {
      onAbort(o.signal, session.cancel)
      onAbort(o.stop, session.finish)
      return E.right(session)
    }),
  )

/** The device of a run: a session, which may be closed for a while. */
export interface Held {
  session: DeviceSession
  isOpen: boolean
  readonly feeding: Feeding
}

const closeSession = (o: TrainOptions, held: Held): void => {
  const { session } = held
  if (!held.isOpen) return
  held.isOpen = false
  o.signal?.removeEventListener('abort', session.cancel)
  o.stop?.removeEventListener('abort', session.finish)
  session.dispose()
}

export const openHeld = (staged: Staged, o: TrainOptions): Either<SpillwayError, Held> => {
  const feeding: Feeding = {}
  return E.map((session: DeviceSession) => ({ session, feeding, isOpen: true }))(openSession(staged, o, feeding))
}

export const closeHeld =
  (o: TrainOptions) =>
  (held: Held): void => {
    held.feeding.feed?.close()
    delete held.feeding.feed
    closeSession(o, held)
  }

/** Lends the device to other code, which may read the state; then it holds the state again. */
export const lendDevice =
  <A>(held: Held, { staged, options: o, state }: Pick<Start, 'staged' | 'options' | 'state'>) =>
  (use: (state: StateReader) => TaskEither<SpillwayError, A>): TaskEither<SpillwayError, A> =>
    using(
      () => park(state, held.session, o.spill),
      (parked) => parked.close(),
      (parked) =>
        pipe(
          TE.fromIO(() => closeSession(o, held)),
          TE.flatMap(() => use(parked)),
          TE.tap(() =>
            TE.fromIOEither(() =>
              pipe(
                openSession(staged, o, held.feeding),
                E.flatMap((session) => {
                  held.session = session
                  held.isOpen = true
                  return parked.giveBack(session)
                }),
              ),
            ),
          ),
        ),
    )

/** The start of a run; a resumed one, and one that starts from its seed, have no table. */
export type FirstState = Pick<LoadedWeights, 'origin'> & Partial<LoadedWeights>

interface Fresh extends Pick<Start, 'options' | 'state' | 'from'> {
  readonly session: DeviceSession
}

const startState = (run: Fresh): Either<SpillwayError, FirstState> => {
  const { options: o, session, state } = run
  return pipe(
    o.weights === undefined
      ? E.right<SpillwayError, FirstState>({ origin: NO_ORIGIN })
      : loadWeights(o.weights, state, session, o),
    E.tap((loaded) => session.initialise(seedOf(o), loaded.table?.taken)),
    E.tap((loaded) => {
      const text = loaded.table && tableText(loaded.table)
      if (text !== undefined) o.onNote?.(text)
      return E.right(undefined)
    }),
  )
}

/** Fills the device: from the checkpoint, else from the seed and then the weights file. */
export const fillState = (run: Fresh): Either<SpillwayError, FirstState> =>
  run.from
    ? pipe(
        restore(run.options.checkpointDir!, run.from, run.state, run.session),
        E.flatMap(() => originOf(run.from!.file, run.state, run.from!.counted)),
        E.map((origin) => ({ origin })),
      )
    : startState(run)
