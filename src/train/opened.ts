// A device's session that holds a run's state. In: what the run begins with. Out: an open session that signals end; its weights
// filled from the checkpoint, else from the seed and then the weights file.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { tierOf } from '../machine/tier'
import type { Staged } from '../stage/stage'
import { restore } from './checkpoint'
import { type DeviceSession, openDevice } from './device'
import { seedOf, type TrainOptions } from './options'
import type { Start } from './start'
import { type Counted, type LoadedWeights, loadWeights } from './weights'

/** A session that signals end. */
export const opened = (staged: Staged, o: TrainOptions): Either<SpillwayError, DeviceSession> =>
  pipe(
    openDevice(staged, { ...o, tier: tierOf(o.spill) }),
    E.tap((session) => {
      o.signal?.addEventListener('abort', session.cancel)
      o.stop?.addEventListener('abort', session.finish)
      return E.right(session)
    }),
  )

export const closed =
  (o: TrainOptions) =>
  (session: DeviceSession): void => {
    o.signal?.removeEventListener('abort', session.cancel)
    o.stop?.removeEventListener('abort', session.finish)
    session.dispose()
  }

const NOTHING_LOADED: LoadedWeights = { counted: new Map(), extra: [] }

interface Fresh extends Pick<Start, 'options' | 'state' | 'from'> {
  readonly session: DeviceSession
}

const begun = ({ options: o, session, state }: Fresh): Either<SpillwayError, Counted> =>
  pipe(
    session.initialise(seedOf(o)),
    E.flatMap(() => (o.weights === undefined ? E.right(NOTHING_LOADED) : loadWeights(o.weights, state, session))),
    E.map(({ extra, counted }) => {
      const named = `${extra.slice(0, 5).join(', ')}${extra.length > 5 ? ', …' : ''}`
      if (extra.length) o.onNote?.(`${o.weights}: ${extra.length} tensors are not in the model: ${named}`)
      return counted
    }),
  )

/** Fills the device: from the checkpoint, else from the seed and then the weights file. */
export const filled = (run: Fresh): Either<SpillwayError, Counted> =>
  run.from
    ? pipe(
        restore(run.options.checkpointDir!, run.from, run.state, run.session),
        E.map(() => run.from!.counted),
      )
    : begun(run)
