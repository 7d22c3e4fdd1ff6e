// `spillway predict` as one of several processes that mpirun or srun has started: rank 0 looks at the images and plans, all have a share of the
// batches, and rank 0 prints the result. In: the engine, rank 0's planning, the inputs of all. Out: the result, at the others a code to end with.
// Invariant: a rank with weights or images other than rank 0's is refused.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Model } from '../../dsl'
import { precisionOf } from '../../staging/plan/plan'
import { exitCode, type SpillwayError } from '../errors/errors'
import type { MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { followedPrediction, openPrediction, type SharedPrediction } from '../predict/among'
import type { PredictOptions } from '../predict/options'
import type { Predicted } from '../predict/predictor'
import { openMpi } from '../ranks/mpi'
import { fromLeader, isLeader, type Rank } from '../ranks/rank'
import { untrustedPlan } from '../stage/planfile'
import { describePlan, type Staged } from '../stage/staged'
import { type Processes, abortOnExit } from '../train/ranks/among'
import { type RunEnd, collective } from '../train/ranks/orders'
import { alike } from './alike'

interface Asked {
  readonly options: PredictOptions
  readonly machine: MachineOptions
  readonly staged: () => TaskEither<SpillwayError, { readonly model: Model; readonly staged: Staged }>
}

const DONE: RunEnd = { code: 0 }

const opened = (rank: Rank, { options, machine, staged }: Asked): TaskEither<SpillwayError, SharedPrediction> =>
  isLeader(rank)
    ? pipe(
        staged(),
        TE.flatMap((found) => openPrediction(found.model, found.staged, options, rank)),
        TE.tap(({ plans }) => collective(() => fromLeader(rank, plans))),
      )
    : pipe(
        collective(() => fromLeader<readonly string[]>(rank)),
        TE.flatMapEither(
          E.traverseArray((text: string) =>
            pipe(
              untrustedPlan(text),
              E.bindTo('plan'),
              E.bind('own', ({ plan }) => machineNamed(plan.machine, { ...machine, precision: precisionOf(plan) })),
              E.map(({ plan, own }) => describePlan(plan, own)),
            ),
          ),
        ),
        TE.flatMap((plans) => followedPrediction(plans, options, rank)),
      )

export const predictedAmong = (engine: Processes, requested: Asked): TaskEither<SpillwayError, Predicted | RunEnd> =>
  pipe(
    TE.fromIOEither(() => openMpi(engine)),
    TE.flatMap((rank) =>
      abortOnExit<Predicted | RunEnd>(
        rank,
        pipe(
          opened(rank, requested),
          TE.tap(({ content }) => alike(rank, requested.options.weights, { 'list of images': content })),
          TE.flatMap(({ run }) => run()),
          TE.map((result): Predicted | RunEnd => result ?? DONE),
          // An early end is reported by rank 0 alone.
          TE.orElse((e) => (!isLeader(rank) && e.tag === 'Cancelled' ? TE.right({ code: exitCode(e) }) : TE.left(e))),
        ),
      ),
    ),
  )
