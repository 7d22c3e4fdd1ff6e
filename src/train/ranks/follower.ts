// A rank that does not lead: it has the leader's plan and weights, and its own share of the data. In: such a rank. Out: the leader's exit code.
// Invariant: nothing is written; it follows the leader's orders, and steps have the same rates.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { SpillwayError } from '../../errors/errors'
import { deviceFailed, using } from '../../errors/exceptions'
import { type Rank, fromLeader } from '../../ranks/rank'
import type { Staged } from '../../stage/staged'
import type { DeviceSession } from '../device'
import { leaderWeights, evaluatedWeights, shareEvaluation } from './evaluations'
import type { OpenedEvaluation } from '../measured'
import { closeHeld, type Held, lendDevice, openHeld } from '../opened'
import { seedOf, type TrainOptions } from '../options'
import { partsIn, exchangeParts } from './parts'
import { checkSameRun, shareStart, digestOf, type RunEnd, followerOptions, type Order, shareState } from './orders'
import { classesIn } from '../beforehand'
import { ratesOfSteps } from '../schedules'
import { type Ready, readyOf } from '../start'
import { searchNonfinite, type Sought } from '../traced'

interface Following extends Ready {
  readonly held: Held
  readonly rank: Rank
  /** The evaluations that it shares. */
  readonly evaluation: OpenedEvaluation | undefined
  /** As they were given. */
  readonly requested: TrainOptions
}

/** Its share of an evaluation, with the leader's weights. Early ends are agreed: the device then holds the state again. */
const takePartInEvaluation = (run: Following, { step, names }: Extract<Order, { readonly what: 'evaluate' }>) => {
  const { evaluation, state, held, rank, requested: asked } = run
  return lendDevice(
    held,
    run,
  )((parked) =>
    pipe(
      leaderWeights(rank, names, evaluatedWeights(asked, state, parked, step)),
      TE.flatMap((weights) => evaluation!.run(weights)),
      TE.asUnit,
      TE.orElse((e) => (e.tag === 'Cancelled' ? TE.right(undefined) : TE.left(e))),
    ),
  )
}

/** Its parts begin as in one process; all else is the leader's. */
const receiveState = ({ staged, state, options }: Ready, session: DeviceSession): TaskEither<SpillwayError, void> =>
  pipe(
    TE.fromEither(partsIn(staged.plan.graph).size > 0 ? session.initialise(seedOf(options)) : E.right(undefined)),
    TE.flatMap(() => shareState(staged, state, session)),
  )

/** Its part of the steps that are run once more. */
const searchAgain = (run: Following, order: Sought): TaskEither<SpillwayError, unknown> =>
  using(
    () => openHeld(run.staged, run.options),
    closeHeld(run.options),
    ({ session }) =>
      pipe(
        receiveState(run, session),
        TE.flatMap(() => searchNonfinite(run, session, order)),
      ),
  )

/** Follows the leader's orders, until the end. */
const followOrders = async (run: Following): Promise<Either<SpillwayError, RunEnd>> => {
  const { options: o, length, data, staged, held, rank } = run
  for (;;) {
    const order = await fromLeader<Order>(rank)
    if (order.what === 'end') return E.right(order)
    if (order.what === 'show') {
      const parts = await exchangeParts(rank, staged.plan.graph, order.names, held.session)
      if (E.isLeft(parts)) return parts
      continue
    }
    if (order.what === 'evaluate') {
      const found = await takePartInEvaluation(run, order)()
      if (E.isLeft(found)) return found
      continue
    }
    if (order.what === 'search') {
      // From another state, over data that it has seen: only the end of the run is left.
      closeHeld(o)(held)
      const found = await searchAgain(run, order)()
      if (E.isLeft(found)) return found
      continue
    }
    const { firstStep, steps, reductions } = order
    const { session } = held
    const rates = ratesOfSteps({ ...o, reductions }, firstStep, steps, length.steps)
    if (E.isLeft(rates)) return rates
    const ran = await session.run({
      firstStep,
      steps,
      seed: seedOf(o),
      rates: rates.right,
      data: data.source,
      last: length.steps,
      onProgress: () => {},
    })
    // If steps end early, all have agreed on it, and the leader gives the reason.
    if (E.isLeft(ran) && ran.left.tag !== 'Cancelled') return ran
  }
}

const OTHER_WEIGHTS = 'its weights differ from those of rank 0 after the last step: its memory or processor is faulty'

const followRun = (
  ready: Ready,
  rank: Rank,
  evaluation: OpenedEvaluation | undefined,
  asked: TrainOptions,
): TaskEither<SpillwayError, RunEnd> =>
  using(
    () => openHeld(ready.staged, ready.options),
    closeHeld(ready.options),
    (held) =>
      pipe(
        receiveState(ready, held.session),
        TE.flatMap(() => TE.tryCatch(() => followOrders({ ...ready, held, rank, evaluation, requested: asked }), deviceFailed)),
        TE.flatMapEither((farewell) => farewell),
        TE.flatMapEither((farewell) =>
          farewell.digest === undefined
            ? E.right(farewell)
            : pipe(
                digestOf(ready.staged.plan.graph, ready.state, held.session),
                E.flatMap((digest) =>
                  digest === farewell.digest
                    ? E.right(farewell)
                    : E.left<SpillwayError>({ tag: 'DeviceFailed', reason: `rank ${rank.rank}: ${OTHER_WEIGHTS}` }),
                ),
              ),
        ),
      ),
  )

/** Runs the leader's run, to its end. */
export const followerTask = (staged: Staged, rank: Rank, o: TrainOptions): TaskEither<SpillwayError, RunEnd> =>
  pipe(
    TE.fromIOEither(() => readyOf(undefined, { ...staged, rank }, followerOptions(o), classesIn(staged.plan.graph, o))),
    TE.tap(checkSameRun),
    TE.bindTo('ready'),
    TE.bind('before', () => shareStart(rank)),
    TE.flatMap(({ ready, before }) =>
      before === null
        ? TE.tryCatch(() => fromLeader<RunEnd>(rank), deviceFailed)
        : pipe(
            shareEvaluation(ready, o),
            TE.flatMap((evaluation) => followRun(ready, rank, evaluation, o)),
          ),
    ),
  )
