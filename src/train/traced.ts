// Why a run is no longer finite. In: how it began, the step that shows it. Out: the error, with the place that the first number
// comes from that is not: the steps since the last state that is kept are run once more, the last two of them call by call.
// Invariant: nothing is written; whatever goes wrong here, the error is told.
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import type { NotFinitePlace, SpillwayError } from '../errors/errors'
import { using } from '../errors/exceptions'
import { showSeconds } from '../report/format'
import { findCheckpoint } from './checkpoint'
import { closed, filled, opened } from './opened'
import { seedOf } from './options'
import { ratesOfSteps } from './schedules'
import type { Start } from './start'

export type Diverged = Extract<SpillwayError, { readonly tag: 'Diverged' }>

/** Longer than this nobody waits for an explanation. */
const REPLAY_SECONDS = 600

const sought = ({ step, what }: Diverged, steps: number): string =>
  `step ${step}: ${what}; looking for where that comes from: ${steps === 1 ? 'this step' : `the last ${steps} steps`} once more`
const notSought = (steps: number, seconds: number): string =>
  `where that comes from is not looked for: from the last state that is kept it is ${steps} steps, ${showSeconds(seconds)}; ` +
  'a smaller --checkpoint-every keeps more'

const replayed = (start: Start, done: number, e: Diverged): TaskEither<SpillwayError, NotFinitePlace | undefined> =>
  using(
    () => opened(start.staged, start.options),
    closed(start.options),
    ({ session }) =>
      pipe(
        TE.fromEither(filled({ ...start, session })),
        TE.flatMapEither(() => ratesOfSteps(start.options, done + 1, e.step - done, start.length.steps)),
        TE.flatMap(
          (rates) => () =>
            session.search({
              firstStep: done + 1,
              steps: e.step - done,
              seed: seedOf(start.options),
              rates,
              data: start.data.source,
              // Weights that a step spoilt show in the loss of the next one.
              searchFrom: Math.max(done + 1, e.step - 1),
            }),
        ),
      ),
  )

/** The error with that place, where it is found: from the newest checkpoint on, or from the run's start. */
export const traced = (start: Start, e: Diverged, stepSeconds: number): TaskEither<SpillwayError, never> => {
  const { onNote, ...options } = start.options
  const { checkpointDir, signal, stop } = options
  const from = checkpointDir === undefined ? undefined : findCheckpoint(checkpointDir).checkpoint
  const done = from?.step ?? 0
  const steps = e.step - done
  if (signal?.aborted || stop?.aborted) return TE.left(e)
  if (steps * stepSeconds > REPLAY_SECONDS) {
    onNote?.(notSought(steps, steps * stepSeconds))
    return TE.left(e)
  }
  onNote?.(sought(e, steps))
  return pipe(
    replayed({ ...start, options, from }, done, e),
    TE.matchE(
      () => TE.left(e),
      (first) => TE.left(first ? { ...e, first } : e),
    ),
  )
}
