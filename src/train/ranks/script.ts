// The run of a script: in one process, or in the ranks of its plan. In: a staged network, options. Out: the leader's result, at every rank. Invariant:
// MPI starts once in a process and ends with it.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import type { Trainable } from '../../../dsl'
import { ranksOf } from '../../../staging/graph/ranks'
import { errorText, exitCode, type SpillwayError, usage } from '../../errors/errors'
import { type Engine, engineFor } from '../../ranks/engine'
import { openMpi } from '../../ranks/mpi'
import type { Rank } from '../../ranks/rank'
import { givenBoth } from '../../stage/given'
import type { Staged } from '../../stage/staged'
import type { Listener } from '../events'
import { type TrainOptions, withNotes } from '../options'
import type { TrainResult } from '../result'
import { sessionTask } from '../session'
import { withSets } from '../sets'
import {
  checkRanks,
  endAfterGrace,
  type Following,
  type Leading,
  type Processes,
  runAsRank,
  sharedThreads,
  trainInThreads,
} from './among'
import { isOrderly, type RunEnd } from './orders'

/** MPI begins once in a process, and ends with it: a script may train several times. */
let ofScript: Either<SpillwayError, Rank> | undefined

const scriptRank = (engine: Processes): Either<SpillwayError, Rank> => {
  ofScript ??= pipe(
    openMpi(engine),
    E.tap((rank) => {
      endAfterGrace(rank)
      process.once('exit', (code) => (code === 0 ? rank.communicator.close() : rank.communicator.abort(code)))
      return E.right(rank)
    }),
  )
  return ofScript
}

/** Prints the error of a rank that fails, and ends all ranks. */
const abortOnError =
  <A>({ communicator }: Rank, work: TaskEither<SpillwayError, A>): TaskEither<SpillwayError, A> =>
  async () => {
    const answer = await work()
    if (E.isRight(answer) || isOrderly(answer.left)) return answer
    process.stderr.write(`error: ${errorText(answer.left)}\n`)
    communicator.abort(exitCode(answer.left))
    return answer
  }

const engineOf = (staged: Staged, { engine }: TrainOptions): Either<SpillwayError, Engine | undefined> => {
  const ranks = ranksOf(staged.plan.graph)
  return pipe(
    engineFor({ engine, ...(engine === 'threads' ? { ranks } : {}) }, process.env),
    E.filterOrElse(
      (found) => (found?.ranks ?? 1) === ranks,
      (found) =>
        usage(
          found
            ? `the plan is for ${ranksText(ranks)}, but ${found.ranks} were started: pass ranks to stage`
            : `the plan is for ${ranksText(ranks)}: start them with mpirun -n ${ranks} node script.js, or train with engine: 'threads'`,
        ),
    ),
    E.tap((found) => (found ? checkRanks(found, staged.machine.device.name) : E.right(undefined))),
    E.filterOrElse(
      () => (staged.plan.graph.bands?.of ?? 1) === (staged.family?.length ?? 1),
      () =>
        usage(`the plan belongs to one band of ${staged.plan.graph.bands!.of} and the other bands need theirs: stage it here`),
    ),
  )
}

const ranksText = (n: number): string => (n === 1 ? 'one process' : `${n} ranks`)

/** All ranks end as the leader does. */
const leaderResult = (answer: TrainResult | RunEnd): Either<SpillwayError, TrainResult> => {
  if ('weightsSha256' in answer) return E.right(answer)
  const { result, code } = answer
  return result ? E.right(result) : E.left({ tag: 'DeviceFailed', reason: `rank 0 ended the run with exit code ${code}` })
}

/** The run of a script: of one process, or of as many as its plan is for. */
export const scriptTask = (
  model: Trainable | undefined,
  staged: Staged,
  requested: TrainOptions,
  listener: Listener,
): TaskEither<SpillwayError, TrainResult> => {
  const o = withSets(model ?? staged.model, withNotes(requested))
  // A caller that takes the notes has decided on the weights, too.
  if (requested.onNote === undefined && (o.run ?? o.save ?? o.saveBest ?? o.checkpointDir) === undefined)
    o.onNote?.("the weights are not saved: set run, e.g. run: 'baseline', or save, e.g. save: 'weights.safetensors'")
  return pipe(
    TE.fromEither(givenBoth(model, staged)),
    TE.flatMapEither(() => engineOf(staged, o)),
    TE.flatMap((engine) => {
      if (!engine) return sessionTask(model, staged, o, listener)
      return pipe(
        TE.fromEither(o.threads === undefined ? sharedThreads(engine) : E.right(o.threads)),
        TE.flatMap((threads): TaskEither<SpillwayError, TrainResult> => {
          const options = { ...o, threads }
          const following = (): Either<SpillwayError, Following> => E.right({ machine: { threads, spill: o.spill }, options })
          const leading: Leading<TrainResult> = (rank, handOver) =>
            pipe(
              handOver(staged),
              TE.flatMap(() => sessionTask(model, { ...staged, rank }, options, listener)),
            )
          if (engine.kind === 'threads') return trainInThreads(engine.ranks, following, threads, leading)
          return pipe(
            TE.fromIOEither(() => scriptRank(engine)),
            TE.flatMap((rank) => abortOnError(rank, runAsRank<TrainResult>(rank, following, threads, leading))),
            TE.flatMapEither(leaderResult),
            TE.tapIO((result) => () => (engine.rank === 0 ? undefined : listener.emit({ kind: 'end', result }))),
          )
        }),
      )
    }),
  )
}
