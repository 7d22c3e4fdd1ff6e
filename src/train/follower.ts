// A rank that does not lead: it has the leader's plan and weights, and its own share of the data. In: such a rank. Out: the code that the
// leader ends with. Invariant: nothing is written; the steps are those of the leader, as many and with the same rates.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { SpillwayError } from '../errors/errors'
import { deviceFailed, using } from '../errors/exceptions'
import { type Rank, fromLeader } from '../ranks/rank'
import type { Staged } from '../stage/stage'
import type { DeviceSession } from './device'
import { closed, opened } from './opened'
import { seedOf, type TrainOptions } from './options'
import { alike, begins, digestOf, type Farewell, followed, sameState } from './ranks'
import { ratesOfSteps } from './schedules'
import { type Ready, readyOf } from './start'

/** As many at once. */
const MOST_STEPS = 1024

const stepsOf = async (
  ready: Ready,
  session: DeviceSession,
  rank: Rank,
  before: number,
): Promise<Either<SpillwayError, void>> => {
  const { options: o, length, data } = ready
  for (let done = before; done < length.steps && !rank.met.parted; ) {
    const steps = Math.min(MOST_STEPS, length.steps - done)
    const rates = ratesOfSteps(o, done + 1, steps, length.steps)
    if (E.isLeft(rates)) return rates
    const ran = await session.run({
      firstStep: done + 1,
      steps,
      seed: seedOf(o),
      rates: rates.right,
      data: data.source,
      last: length.steps,
      onProgress: () => {},
    })
    // That there is no further step is no failure.
    if (E.isLeft(ran) && !(ran.left.tag === 'Cancelled' && rank.met.parted)) return ran
    done += steps
  }
  return E.right(undefined)
}

const OTHER_WEIGHTS = 'its weights are not those of rank 0 after the last step: memory or a processor is at fault'

const followedTo = (ready: Ready, rank: Rank, before: number): TaskEither<SpillwayError, Farewell> =>
  using(
    () => opened(ready.staged, ready.options),
    closed(ready.options),
    ({ session }) =>
      pipe(
        sameState(rank, ready.state, session),
        TE.flatMap(() => () => stepsOf(ready, session, rank, before)),
        TE.flatMap(() => TE.tryCatch(() => fromLeader<Farewell>(rank), deviceFailed)),
        TE.flatMapEither((farewell) =>
          farewell.digest === undefined
            ? E.right(farewell)
            : pipe(
                digestOf(ready.staged.plan.graph, ready.state, session),
                E.flatMap((digest) =>
                  digest === farewell.digest
                    ? E.right(farewell)
                    : E.left<SpillwayError>({ tag: 'DeviceFailed', reason: `rank ${rank.rank}: ${OTHER_WEIGHTS}` }),
                ),
              ),
        ),
      ),
  )

/** Runs what the leader runs, to its end. */
export const followerTask = (staged: Staged, rank: Rank, o: TrainOptions): TaskEither<SpillwayError, Farewell> =>
  pipe(
    TE.fromIOEither(() => readyOf(undefined, { ...staged, rank }, followed(o))),
    TE.tap(alike),
    TE.bindTo('ready'),
    TE.bind('before', () => begins(rank)),
    TE.flatMap(({ ready, before }) =>
      before === null ? TE.tryCatch(() => fromLeader<Farewell>(rank), deviceFailed) : followedTo(ready, rank, before),
    ),
  )
