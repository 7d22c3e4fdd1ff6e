// The messages of ranks around their steps. In: a run that is ready at each rank. Out: the same weights everywhere before the first step, an end that
// reaches all. Invariant: all ranks call these in this order: `checkSameRun`, `shareStart`, `shareEvaluation`, `shareState`; then the
// leader gives the next order, until the end. Worked example: the leader resumes at step 40 of 100, reports it, sends its weights to all, and orders: steps 41 to 100;
// your parts of the state, for a checkpoint; the end, with 0.
import { createHash } from 'node:crypto'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { fingerprint } from '../../../staging/graph/fingerprint'
import { asOne } from '../../../staging/graph/ranks'
import { loadNative } from '../../device/native'
import type { Graph } from '../../../staging/graph/graph'
import { ownOfRank } from '../../../staging/graph/ranks'
import { exitCode, type SpillwayError } from '../../errors/errors'
import { deviceFailed } from '../../errors/exceptions'
import { version } from '../../files/version'
import { broadcast, fromLeader, gather, isLeader, withPatience, type Rank } from '../../ranks/rank'
import type { Staged } from '../../stage/staged'
import { seedOf, type TrainOptions } from '../options'
import { partOf, partsIn, exchangeParts, type Whole } from './parts'
import type { Reduction } from '../plateau'
import type { TrainResult } from '../result'
import type { Ready } from '../start'
import { scheduleText } from '../schedules'
import type { ModelState, StateReader, StateStore } from '../weights'

/** A collective call as a task: an error of one rank is an error of all. */
export const collective = <A>(work: () => Promise<A>): TaskEither<SpillwayError, A> => TE.tryCatch(work, deviceFailed)

/** Facts of a run that must be equal on all ranks, by their names in messages. */
const factsOf = ({ data, length, options: o, staged }: Ready): Readonly<Record<string, string>> => ({
  'version of spillway': version(),
  'native code': loadNative().deviceInfo().build,
  network: fingerprint(asOne(staged.plan.graph)),
  data: data.content,
  steps: `${length.steps}`,
  seed: `${seedOf(o)}`,
  schedule: scheduleText(o, length.steps),
  'setting of onNonfinite': o.onNonfinite ?? 'end',
})

/** The first rank that differs from the leader, and its difference. */
export const differenceIn = (facts: readonly Readonly<Record<string, string>>[]): string | undefined => {
  const [first = {}] = facts
  for (const [rank, own] of facts.entries()) {
    const odd = Object.keys(first).find((k) => own[k] !== first[k])
    if (odd !== undefined) return `rank ${rank} cannot take part: its ${odd} is '${own[odd]}', but '${first[odd]}' on rank 0`
  }
  return undefined
}

/** Checks that all ranks have the same run; otherwise each reports the difference. */
export const checkSameRun = (ready: Ready): TaskEither<SpillwayError, void> => {
  const { rank } = ready.staged
  if (!rank) return TE.right(undefined)
  return pipe(
    collective(() => gather(rank, factsOf(ready))),
    TE.flatMapEither((facts) => {
      const difference = differenceIn(facts)
      return difference === undefined ? E.right(undefined) : E.left<SpillwayError>({ tag: 'DeviceFailed', reason: difference })
    }),
  )
}

/** Sends the count of complete steps to all ranks; null if the run is complete. */
export const shareStart = (rank: Rank, done?: number | null): TaskEither<SpillwayError, number | null> =>
  collective(() => fromLeader<number | null>(rank, done))

const namesOf = ({ weights, optimizer }: ModelState): readonly string[] => [...weights, ...optimizer].map((v) => v.name)

/** Sends the leader's parameters and states to every rank. A rank stores its part of a divided value. */
export const shareState = (
  { rank, plan: { graph } }: Staged,
  state: ModelState,
  store: StateStore,
  whole: Whole = new Map(),
): TaskEither<SpillwayError, void> => {
  if (!rank) return TE.right(undefined)
  const parts = partsIn(graph)
  const held = (name: string): Either<SpillwayError, Uint8Array | undefined> =>
    !isLeader(rank) ? E.right(undefined) : parts.has(name) ? E.right(whole.get(name)) : store.read(name)
  const taken = (name: string, bytes: Uint8Array): Either<SpillwayError, void> => {
    const v = parts.get(name)
    // A part without bytes keeps its initial value.
    return !v
      ? store.write(name, bytes)
      : bytes.length === 0
        ? E.right(undefined)
        : store.write(name, partOf(bytes, v, rank.rank))
  }
  return pipe(
    namesOf(state),
    TE.traverseSeqArray((name) =>
      pipe(
        TE.fromEither(held(name)),
        TE.flatMap((own) => collective(() => broadcast(rank, own))),
        TE.flatMapEither((bytes) => (isLeader(rank) ? E.right(undefined) : taken(name, bytes))),
      ),
    ),
    TE.map(() => undefined),
  )
}

/** Returns a digest of the state that is equal on all ranks. Values that differ between ranks do not count. */
export const digestOf = (graph: Graph, state: ModelState, store: StateReader): Either<SpillwayError, string> => {
  const own = ownOfRank(graph)
  const hash = createHash('sha256')
  return pipe(
    namesOf(state).filter((name) => !own.has(name)),
    E.traverseArray((name) => E.map((bytes: Uint8Array) => hash.update(bytes))(store.read(name))),
    E.map(() => hash.digest('hex')),
  )
}

/** The leader's end of the run; the other ranks end with it, too. */
export interface RunEnd {
  readonly code: number
  readonly digest?: string
  readonly result?: TrainResult
}

/** Ends that are no failure of a rank: all ranks receive them. */
const ORDERLY: readonly SpillwayError['tag'][] = ['Stopped', 'Cancelled', 'Diverged']
export const isOrderly = (e: SpillwayError): boolean => ORDERLY.includes(e.tag)

/**
 * The next order to all ranks: a number of steps; an evaluation, with rank 0's weights; steps once more, to find the first number that is not finite;
 * the divided values; or the end.
 */
export type Order =
  | { readonly what: 'run'; readonly firstStep: number; readonly steps: number; readonly reductions: readonly Reduction[] }
  | { readonly what: 'evaluate'; readonly step: number; readonly names: readonly string[] }
  | {
      readonly what: 'search'
      readonly firstStep: number
      readonly steps: number
      readonly searchFrom: number
      readonly reductions: readonly Reduction[]
    }
  | { readonly what: 'show'; readonly names: readonly string[] }
  | ({ readonly what: 'end' } & RunEnd)

/** Sends or receives the next order. Between steps, the other ranks wait here. */
const waitForOrder = (rank: Rank, order: Order): Promise<unknown> => withPatience(rank, fromLeader(rank, order))

/** Gives the next order to all ranks. */
export const giveOrder = (rank: Rank | undefined, order: Order): TaskEither<SpillwayError, void> =>
  rank ? TE.asUnit(collective(() => waitForOrder(rank, order))) : TE.right(undefined)

/** Gives the last order: the end. */
export const giveEnd = (rank: Rank, farewell: RunEnd): TaskEither<SpillwayError, void> =>
  giveOrder(rank, { what: 'end', ...farewell })

/** Gathers divided values: all of them, or those with these names. */
export const gatherParts = (
  { rank, plan: { graph } }: Staged,
  store: StateReader,
  wanted?: readonly string[],
): TaskEither<SpillwayError, Whole> => {
  const names = [...partsIn(graph).keys()].filter((name) => wanted?.includes(name) ?? true)
  if (!rank || names.length === 0) return TE.right(new Map())
  return pipe(
    giveOrder(rank, { what: 'show', names }),
    TE.flatMap(() => collective(() => exchangeParts(rank, graph, names, store))),
    TE.flatMapEither((whole) => whole),
  )
}

export const codeOf = (answer: Either<SpillwayError, unknown>): number => (E.isLeft(answer) ? exitCode(answer.left) : 0)

/** Options of a rank that does not lead: it reads no checkpoint and writes no file. */
export const followerOptions = (o: TrainOptions): TrainOptions => {
  const {
    checkpointDir: _1,
    checkpointEvery: _2,
    resume: _3,
    resumeRanks: _16,
    keep: _4,
    save: _5,
    saveBest: _6,
    evaluate: _7,
    patience: _8,
    run: _17,
    ...others
  } = o
  const { log: _9, tensorboard: _10, report: _11, weights: _12, weightsSkip: _13, weightsStrip: _14, stop: _15, ...own } = others
  return own
}
