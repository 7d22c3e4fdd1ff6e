// Evaluations that ranks share. In: a run whose ranks are ready; its order to evaluate. Out: the same plans at all of them, and the same weights,
// those of rank 0. Invariant: a rank takes part with the leader's plans and with equal data; each rank's own values (running statistics with local
// norms, parts of averages) come from the leader.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Graph } from '../../../staging/graph/graph'
import { ownOfRank } from '../../../staging/graph/ranks'
import { classesOf } from '../../data/description'
import type { SpillwayError } from '../../errors/errors'
import { broadcast, fromLeader, gather, isLeader, type Rank } from '../../ranks/rank'
import type { OpenedEvaluation, SharedEvaluation } from '../measured'
import type { TrainOptions } from '../options'
import { type Whole, withWhole } from './parts'
import { differenceIn, collective } from './orders'
import type { Ready } from '../start'
import { averaged, type ModelState, type StateReader } from '../weights'

/** Inputs for the other ranks, if they take part. */
const sharedInputs = (evaluation: OpenedEvaluation | undefined): SharedEvaluation | undefined =>
  evaluation?.shared && !('alone' in evaluation.shared) ? evaluation.shared : undefined

export const isShared = (evaluation: OpenedEvaluation): boolean => sharedInputs(evaluation) !== undefined

const followEvaluation = (
  { staged, options, data }: Ready,
  { evaluate, ...o }: TrainOptions,
  shared: SharedEvaluation,
): Either<SpillwayError, OpenedEvaluation> =>
  evaluate
    ? evaluate.follow(shared, staged, { ...options, signal: o.signal, classes: classesOf(data.described) })
    : E.left({ tag: 'DeviceFailed', reason: `rank ${staged.rank!.rank} cannot take part: it has no evaluations, but rank 0 has` })

/** Checks that all ranks have the same evaluation and data. If the evaluation cannot be shared, the leader evaluates alone, with a note. */
export const shareEvaluation = (ready: Ready, o: TrainOptions): TaskEither<SpillwayError, OpenedEvaluation | undefined> => {
  const { evaluation, staged, options } = ready
  const { rank } = staged
  if (!rank) return TE.right(evaluation)
  const alone = evaluation?.shared && 'alone' in evaluation.shared ? evaluation.shared.alone : undefined
  if (alone !== undefined) options.onNote?.(`rank 0 evaluates alone while the other ranks wait: ${alone}`)
  return pipe(
    collective(() => fromLeader<SharedEvaluation | null>(rank, sharedInputs(evaluation) ?? null)),
    TE.flatMap((shared): TaskEither<SpillwayError, OpenedEvaluation | undefined> => {
      if (!shared) return TE.right(evaluation)
      return pipe(
        TE.fromEither(isLeader(rank) ? E.right(evaluation!) : followEvaluation(ready, o, shared)),
        TE.bindTo('own'),
        TE.bind('facts', ({ own: { content, measures } }) =>
          collective(() => gather(rank, { 'data of evaluations': content, metrics: measures.join(', ') })),
        ),
        TE.flatMapEither(({ own, facts }) => {
          const difference = differenceIn(facts)
          return difference === undefined ? E.right(own) : E.left<SpillwayError>({ tag: 'DeviceFailed', reason: difference })
        }),
      )
    }),
  )
}

/** The weights for an evaluation: the last ones, or their averages. */
export const evaluatedWeights = (
  { evaluate }: TrainOptions,
  state: ModelState,
  parked: StateReader,
  step: number,
): StateReader => (evaluate?.weights === 'average' ? averaged(state, parked, step) : parked)

/** The evaluated weights whose values differ between ranks. */
export const differingWeights = (
  { evaluate }: TrainOptions,
  graph: Graph,
  { weights, averages }: ModelState,
): readonly string[] => {
  const own = ownOfRank(graph)
  const isOwn = (name: string | undefined): boolean => name !== undefined && own.has(name)
  return weights
    .map((v) => v.name)
    .filter((name) => isOwn(name) || (evaluate?.weights === 'average' && isOwn(averages.get(name)?.name)))
}

/** Sends the leader's values of these names to every rank. */
export const leaderWeights = (
  rank: Rank,
  names: readonly string[],
  store: StateReader,
): TaskEither<SpillwayError, StateReader> => {
  const received = new Map<string, Uint8Array>()
  return pipe(
    names,
    TE.traverseSeqArray((name) =>
      pipe(
        TE.fromEither(isLeader(rank) ? store.read(name) : E.right(undefined)),
        TE.flatMap((own) => collective(() => broadcast(rank, own))),
        TE.map((bytes) => (isLeader(rank) ? undefined : received.set(name, bytes))),
      ),
    ),
    TE.map(() => withWhole(received satisfies Whole, store)),
  )
}
