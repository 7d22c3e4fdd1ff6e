// `spillway evaluate` as one of several processes that mpirun or srun has started: rank 0 plans, all have a share of the batches, and rank 0 prints
// the result. In: the engine, rank 0's planning, the inputs of all. Out: the result, at the others a code to end with. Invariant: a rank with other
// weights or data is refused; if the evaluation cannot be shared, rank 0 does it alone, and says so.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Model } from '../../dsl'
import { precisionOf } from '../../staging/plan/plan'
import { exitCode, type SpillwayError } from '../errors/errors'
import type { MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { type Evaluated, type Evaluation, followedEvaluation, openEvaluation } from '../predict/evaluator'
import type { EvaluateOptions } from '../predict/options'
import { openMpi } from '../ranks/mpi'
import { fromLeader, isLeader, type Rank } from '../ranks/rank'
import { untrustedPlan } from '../stage/planfile'
import type { Staged } from '../stage/staged'
import { type Processes, abortOnExit } from '../train/ranks/among'
import type { SharedEvaluation } from '../train/measured'
import { type RunEnd, collective } from '../train/ranks/orders'
import { alike } from './alike'

interface Asked {
  readonly options: EvaluateOptions
  readonly machine: MachineOptions
  readonly staged: () => Either<SpillwayError, { readonly model: Model; readonly staged: Staged }>
}

/** Nothing to share: the others are done. */
const ALONE: RunEnd = { code: 0 }

const opened = (rank: Rank, { options, machine, staged }: Asked): TaskEither<SpillwayError, Evaluation | undefined> => {
  if (isLeader(rank))
    return pipe(
      TE.fromIOEither(staged),
      TE.flatMapEither((found) => openEvaluation(found.model, found.staged, options, { rank })),
      TE.tap(({ shared }) => {
        const alone = shared && 'alone' in shared ? shared.alone : undefined
        if (alone !== undefined) options.onNote?.(`rank 0 evaluates alone while the other ranks wait: ${alone}`)
        return collective(() => fromLeader(rank, alone === undefined ? shared : null))
      }),
    )
  return pipe(
    collective(() => fromLeader<SharedEvaluation | null>(rank)),
    TE.flatMapEither((shared) =>
      shared === null
        ? E.right(undefined)
        : pipe(
            untrustedPlan(shared.plans[0]!),
            E.flatMap((plan) => machineNamed(plan.machine, { ...machine, precision: precisionOf(plan) })),
            E.flatMap((own) => followedEvaluation(shared, own, options, rank)),
          ),
    ),
  )
}

export const evaluatedAmong = (engine: Processes, requested: Asked): TaskEither<SpillwayError, Evaluated | RunEnd> =>
  pipe(
    TE.fromIOEither(() => openMpi(engine)),
    TE.flatMap((rank) =>
      abortOnExit<Evaluated | RunEnd>(
        rank,
        pipe(
          opened(rank, requested),
          TE.flatMap((evaluation): TaskEither<SpillwayError, Evaluated | RunEnd> => {
            if (!evaluation) return TE.right(ALONE)
            const { weights } = requested.options
            const isShared = !(evaluation.shared && 'alone' in evaluation.shared)
            return pipe(
              isShared
                ? alike(rank, weights, { data: evaluation.content, metrics: evaluation.measures.join(', ') })
                : TE.right(undefined),
              TE.flatMap(() => evaluation.run(weights)),
              TE.map((result) => (isLeader(rank) ? result : ALONE)),
              // An early end is reported by rank 0 alone.
              TE.orElse((e) => (!isLeader(rank) && e.tag === 'Cancelled' ? TE.right({ code: exitCode(e) }) : TE.left(e))),
            )
          }),
        ),
      ),
    ),
  )
