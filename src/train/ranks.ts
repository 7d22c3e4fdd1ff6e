// What ranks say to one another around their steps. In: a run that is ready at each rank. Out: the same weights everywhere before the first
// step, an end that all hear of. Invariant: all ranks come by these places in this order: `alike`, `begins`, `sameEvaluations`, `sameState`; then
// the leader says what comes next, until the end. Worked example: the leader resumes at step 40 of 100, tells so, hands its weights to all, and says:
// steps 41 to 100; show your parts of the state, for a checkpoint; the end, with 0.
import { createHash } from 'node:crypto'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { fingerprint } from '../../staging/graph/fingerprint'
import { asOne } from '../../staging/graph/ranks'
import { loadNative } from '../device/native'
import type { Graph } from '../../staging/graph/graph'
import { ownOfRank } from '../../staging/graph/ranks'
import { exitCode, type SpillwayError } from '../errors/errors'
import { deviceFailed } from '../errors/exceptions'
import { version } from '../files/version'
import { broadcast, fromLeader, gathered, leads, patiently, type Rank } from '../ranks/rank'
import type { Staged } from '../stage/stage'
import { seedOf, type TrainOptions } from './options'
import { cutOf, partsIn, shown, type Whole } from './parts'
import type { TrainResult } from './result'
import type { Ready } from './start'
import { scheduleText } from './schedules'
import type { ModelState, StateReader, StateStore } from './weights'

/** What fails among ranks fails at all of them. */
export const together = <A>(work: () => Promise<A>): TaskEither<SpillwayError, A> => TE.tryCatch(work, deviceFailed)

/** By the words for it: what a run is that ranks may do together. */
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

/** The first rank that differs from the leader, and in what. */
export const differenceIn = (facts: readonly Readonly<Record<string, string>>[]): string | undefined => {
  const [first = {}] = facts
  for (const [rank, own] of facts.entries()) {
    const odd = Object.keys(first).find((k) => own[k] !== first[k])
    if (odd !== undefined) return `rank ${rank} cannot take part: its ${odd} is '${own[odd]}', but '${first[odd]}' on rank 0`
  }
  return undefined
}

/** All ranks are about the same run; each says so, or in what one of them differs. */
export const alike = (ready: Ready): TaskEither<SpillwayError, void> => {
  const { rank } = ready.staged
  if (!rank) return TE.right(undefined)
  return pipe(
    together(() => gathered(rank, factsOf(ready))),
    TE.flatMapEither((facts) => {
      const difference = differenceIn(facts)
      return difference === undefined ? E.right(undefined) : E.left<SpillwayError>({ tag: 'DeviceFailed', reason: difference })
    }),
  )
}

/** Steps that were done before; null where nothing is left to do. */
export const begins = (rank: Rank, done?: number | null): TaskEither<SpillwayError, number | null> =>
  together(() => fromLeader<number | null>(rank, done))

const namesOf = ({ weights, optimizer }: ModelState): readonly string[] => [...weights, ...optimizer].map((v) => v.name)

/** The leader's parameters and states at every rank, whatever they come from; of what ranks have parts of each its own, `whole` at the leader. */
export const sameState = (
  { rank, plan: { graph } }: Staged,
  state: ModelState,
  store: StateStore,
  whole: Whole = new Map(),
): TaskEither<SpillwayError, void> => {
  if (!rank) return TE.right(undefined)
  const parts = partsIn(graph)
  const held = (name: string): Either<SpillwayError, Uint8Array | undefined> =>
    !leads(rank) ? E.right(undefined) : parts.has(name) ? E.right(whole.get(name)) : store.read(name)
  const taken = (name: string, bytes: Uint8Array): Either<SpillwayError, void> => {
    const v = parts.get(name)
    // A part of which nothing comes is as it begins.
    return !v ? store.write(name, bytes) : bytes.length === 0 ? E.right(undefined) : store.write(name, cutOf(bytes, v, rank.rank))
  }
  return pipe(
    namesOf(state),
    TE.traverseSeqArray((name) =>
      pipe(
        TE.fromEither(held(name)),
        TE.flatMap((own) => together(() => broadcast(rank, own))),
        TE.flatMapEither((bytes) => (leads(rank) ? E.right(undefined) : taken(name, bytes))),
      ),
    ),
    TE.map(() => undefined),
  )
}

/** Of the same state everywhere; of what is each rank's own, nothing. */
export const digestOf = (graph: Graph, state: ModelState, store: StateReader): Either<SpillwayError, string> => {
  const own = ownOfRank(graph)
  const hash = createHash('sha256')
  return pipe(
    namesOf(state).filter((name) => !own.has(name)),
    E.traverseArray((name) => E.map((bytes: Uint8Array) => hash.update(bytes))(store.read(name))),
    E.map(() => hash.digest('hex')),
  )
}

/** What the leader ends with, for the others to end with, too. */
export interface Farewell {
  readonly code: number
  readonly digest?: string
  readonly result?: TrainResult
}

/** Ends that are no failure of a rank: all have heard of them, or are waiting to. */
const ORDERLY: readonly SpillwayError['tag'][] = ['Stopped', 'Cancelled', 'Diverged']
export const isOrderly = (e: SpillwayError): boolean => ORDERLY.includes(e.tag)

/**
 * What all ranks do next: so many steps; an evaluation, with these weights as rank 0 has them; steps once more, to find where they stop being
 * finite; show what they have parts of; or end.
 */
export type Order =
  | { readonly what: 'run'; readonly firstStep: number; readonly steps: number }
  | { readonly what: 'evaluate'; readonly step: number; readonly names: readonly string[] }
  | { readonly what: 'search'; readonly firstStep: number; readonly steps: number; readonly searchFrom: number }
  | { readonly what: 'show'; readonly names: readonly string[] }
  | ({ readonly what: 'end' } & Farewell)

/** Between steps the others do nothing but wait for the leader's word. */
const heard = (rank: Rank, order: Order): Promise<unknown> => patiently(rank, fromLeader(rank, order))

/** The leader's next word, at every rank: between two of them the others wait. */
export const announce = (rank: Rank | undefined, order: Order): TaskEither<SpillwayError, void> =>
  rank ? TE.asUnit(together(() => heard(rank, order))) : TE.right(undefined)

/** Its last word. */
export const ended = (rank: Rank, farewell: Farewell): TaskEither<SpillwayError, void> =>
  announce(rank, { what: 'end', ...farewell })

/** What ranks have parts of, whole: all of it, or these names' alone. */
export const wholeParts = (
  { rank, plan: { graph } }: Staged,
  store: StateReader,
  wanted?: readonly string[],
): TaskEither<SpillwayError, Whole> => {
  const names = [...partsIn(graph).keys()].filter((name) => wanted?.includes(name) ?? true)
  if (!rank || names.length === 0) return TE.right(new Map())
  return pipe(
    announce(rank, { what: 'show', names }),
    TE.flatMap(() => together(() => shown(rank, graph, names, store))),
    TE.flatMapEither((whole) => whole),
  )
}

export const codeOf = (answer: Either<SpillwayError, unknown>): number => (E.isLeft(answer) ? exitCode(answer.left) : 0)

/** What the others are given of a run's options: they read no checkpoint, and write nothing. */
export const followed = (o: TrainOptions): TrainOptions => {
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
    ...others
  } = o
  const { log: _9, tensorboard: _10, report: _11, weights: _12, weightsSkip: _13, weightsStrip: _14, stop: _15, ...own } = others
  return own
}
