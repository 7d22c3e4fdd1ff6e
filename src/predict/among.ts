// Predictions that several ranks share. In: rank 0's groups and plans. Out: the files of one process, each written by the rank that has its batch; at
// rank 0 the results of all. Invariant: batches are those of one process, by the same plans, so files have its bits; all ranks meet after each round,
// one batch of each, and a rank that ends ends all there. Worked example, 7 images, batches of 2, 3 ranks: rank 0 has images 0, 1 and 6, rank 1 has 2
// and 3, rank 2 has 4 and 5; two rounds.
import { createHash } from 'node:crypto'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Model } from '../../dsl'
import { encodePlan } from '../../staging/plan/codec'
import type { DataSource } from '../data/source'
import type { SpillwayError } from '../errors/errors'
import { deviceFailed } from '../errors/exceptions'
import { gather, isLeader, type Rank } from '../ranks/rank'
import type { Staged } from '../stage/staged'
import { CANCELLED } from './batches'
import type { PredictOptions } from './options'
import { all, type Counted, counting, type Done, type Predicted, predicted, watched } from './predictor'
import { type Group, sizeOfPlan } from './group'
import { type Ready, readyOf } from './ready'
import { meetingOf } from './shares'

/** Rank 0's groups and plans; at the others, their part of it. */
export interface SharedPrediction {
  /** That of the model's size, then those of the images. */
  readonly plans: readonly string[]
  /** The identity of the prediction, in words. */
  readonly content: string
  readonly run: () => TaskEither<SpillwayError, Predicted | undefined>
}

/** Every n-th of each group's batches: rank 1 of 3 has the second, the fifth and so on. */
const shareOf =
  ({ rank, ranks }: Rank) =>
  (group: Group): Either<SpillwayError, Group> => {
    const batch = group.output.shape[0]!
    const places = [...group.names.keys()].filter((i) => Math.floor(i / batch) % ranks === rank)
    const of = <A>(list: readonly A[]): readonly A[] => places.map((i) => list[i]!)
    const cuts = places.flatMap((place, image) => group.cuts.filter((c) => c.image === place).map((c) => ({ ...c, image })))
    const own = { ...group, names: of(group.names), at: of(group.at), files: of(group.files), cuts }
    return places.length === 0 ? E.right(own) : E.map((data: DataSource) => ({ ...own, data }))(group.part(places))
  }

/** A rank's report of a complete group. */
interface Part {
  readonly at: readonly number[]
  /** The place of the image of each output. */
  readonly images: readonly number[]
  readonly files: readonly string[]
  readonly labels: readonly string[]
  readonly ranked: Done['ranked']
}
const partOf = ({ group, outputs, labels, ranked }: Done): Part => ({
  ...{ at: group.at, images: group.cuts.map(({ image }) => image) },
  ...{ files: outputs.written(), labels, ranked },
})
const doneBy =
  (groups: readonly Group[]) =>
  (all: readonly Part[]): readonly Done[] =>
    all.map(({ at, images, files, labels, ranked }, i) => ({
      group: { ...groups[i]!, at, names: at.map(String), cuts: images.map((image) => ({ ...groups[i]!.cuts[0]!, image })) },
      outputs: { image: () => () => {}, end: () => {}, drop: () => {}, written: () => files, kept: () => [] },
      runs: [],
      labels,
      ranked,
    }))

/** All ranks have equal numbers of rounds: those of the rank with most batches. */
const sharedRun = (rank: Rank, ready: Ready): TaskEither<SpillwayError, Predicted | undefined> => {
  const count = counting(ready)
  const meeting = meetingOf(rank, ({ images }) => count.add(images))
  const counted: Counted = (images) => meeting.round({ images, loss: 0, share: 0, folds: [], arenaPeakBytes: 0 })
  const batches = ({ names, output }: Group): number => Math.ceil(names.length / output.shape[0]!)
  const sum = (of: readonly number[]): number => of.reduce((n, x) => n + x, 0)
  const rounds = sum(ready.groups.map((g) => Math.ceil(batches(g) / rank.ranks)))
  return pipe(
    TE.fromIOEither(() => E.traverseArray(shareOf(rank))(ready.groups)),
    TE.flatMap((groups) =>
      pipe(
        watched(
          pipe(
            all({ ...ready, groups }, counted),
            TE.tap(() => async () => {
              for (let i = sum(groups.map(batches)); i < rounds; i++) {
                const met = ready.options.signal?.aborted ? E.left(CANCELLED) : await meeting.round()
                if (E.isLeft(met)) return met
              }
              return E.right(undefined)
            }),
          ),
        ),
        TE.orElse((e) => (e.tag === 'Cancelled' ? TE.flatMap(() => TE.left(count.named(e)))(meeting.leave) : TE.left(e))),
        TE.bind('others', ({ done }) => TE.tryCatch(() => gather(rank, done.map(partOf)), deviceFailed)),
        TE.map(({ done, bytes, others }) =>
          isLeader(rank)
            ? predicted([...done, ...others.slice(1).flatMap(doneBy(ready.groups))], ready.description?.classes, bytes)
            : undefined,
        ),
      ),
    ),
  )
}

const sharing =
  (rank: Rank, first: Staged) =>
  (ready: Ready): SharedPrediction => ({
    plans: [first, ...ready.groups.map((g) => g.staged)].map(({ plan }) => encodePlan(plan)),
    content: createHash('sha256')
      .update(JSON.stringify(ready.groups.map(({ names, at, cuts, staged }) => [names, at, cuts, sizeOfPlan(staged)])))
      .digest('hex'),
    run: () => sharedRun(rank, ready),
  })

/** At rank 0. */
export const openPrediction = (
  model: Model,
  staged: Staged,
  o: PredictOptions,
  rank: Rank,
): TaskEither<SpillwayError, SharedPrediction> => TE.map(sharing(rank, staged))(readyOf(model, staged, o))

/** At the others, with its plans. */
export const followedPrediction = (
  [first, ...plans]: readonly Staged[],
  o: PredictOptions,
  rank: Rank,
): TaskEither<SpillwayError, SharedPrediction> => TE.map(sharing(rank, first!))(readyOf(undefined, first!, o, plans))
