// The common part of tests of ranks: a model on a number of ranks that are threads, and the same in one process whose plan has equal numbers of tiles
// along the batch. In: a model of the zoo, or one's own. Out: the result of its training. Worked example, 8 images: 2 ranks of 4, beside 2 tiles of
// 4.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as assert from 'uvu/assert'
import { crossEntropy, type Optimizer, type Trainable } from '../../dsl'
import { compileSegments } from '../../staging/compile'
import type { Shard } from '../../staging/graph/machine'
import type { Updates } from '../../staging/ops/updates'
import { assemble } from '../../staging/tile/segments'
import { loadNative } from '../../src/device/native'
import { errorText, SpillwayException, type SpillwayError } from '../../src/errors/errors'
import type { LocalMachine } from '../../src/machine/localmachine'
import { machineNamed } from '../../src/machine/machine'
import { rankOf } from '../../src/ranks/rank'
import { prepare, type Prepared } from '../../src/stage/prepare'
import { describePlan, type Staged } from '../../src/stage/staged'
import { stagePrepared } from '../../src/stage/stage'
import type { StageAsked } from '../../src/stage/stageoptions'
import { listen } from '../../src/train/events'
import { followerTask } from '../../src/train/ranks/follower'
import type { TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { sessionTask } from '../../src/train/session'
import { zooEntry } from '../../src/zoo'
import { alongBatch } from './sharedbatch'

export const got = <A>(e: E.Either<SpillwayError, A>): A =>
  E.getOrElseW((l: SpillwayError): never => {
    throw new SpillwayException(l)
  })(e)
export const RUN = { steps: 2, seed: 1, threads: 1 } as const
export const PLAIN = { algorithms: 'fixed' } as const

export const machine = (device: string, ranks: number, shard?: Shard): LocalMachine =>
  got(machineNamed(device, { ...PLAIN, threads: 1, ranks, shard }))

export interface Case {
  /** A network of the zoo, 8 images of that size; or one's own. */
  readonly model: string | Trainable
  readonly image?: number
  readonly optimizer?: Optimizer
  readonly updates?: Updates
  readonly device?: string
  readonly shard?: Shard
}

const modelOf = ({ model, image = 16 }: Case): Trainable => {
  if (typeof model !== 'string') return model
  const entry = zooEntry(model)!
  return got(entry.build([8, entry.defaultInput[1], image, image] as never, 'train', {}))
}
export const preparedFor = (c: Case, on: LocalMachine): Prepared => {
  const model = modelOf(c)
  const loss = (typeof c.model === 'string' ? zooEntry(c.model)!.loss : undefined) ?? crossEntropy
  const own = { loss, ...(c.optimizer ? { optimizer: c.optimizer } : {}), ...c.updates }
  return got(prepare(model, on, model.kind === 'step' ? {} : own))
}

export const alone = (staged: Staged, o: Partial<TrainOptions> = {}): Promise<TrainResult> =>
  sessionTask(
    undefined,
    staged,
    { ...RUN, ...o },
    listen(() => {}),
  )().then(got)

/** One process, in tiles along the batch. */
export const inTiles = (c: Case, tiles: number, o: Partial<TrainOptions> = {}): Promise<TrainResult> => {
  const on = machine(c.device ?? 'cpu', 1)
  const { graph } = preparedFor(c, on)
  const plan = pipe(
    assemble(graph, alongBatch(graph, tiles)),
    E.mapLeft((e): SpillwayError => ({ tag: 'TilingIllegal', strategy: 'by-hand', ...e })),
    E.flatMap((segments) =>
      compileSegments(graph, segments, { strategy: 'by-hand', budgetBytes: 2 ** 40, machine: on, algorithms: 'fixed' }),
    ),
  )
  return alone(describePlan(got(plan), on), o)
}

export const shared = async (staged: Staged, ranks: number, o: Partial<TrainOptions> = {}): Promise<TrainResult> => {
  const all = loadNative().openThreadRanks(ranks).map(rankOf)
  const followers = all.slice(1).map((rank) => followerTask(staged, rank, { ...RUN, ...o })())
  const answer = await sessionTask(
    undefined,
    { ...staged, rank: all[0]! },
    { ...RUN, ...o },
    listen(() => {}),
  )()
  if (E.isLeft(answer)) all[0]!.communicator.abort(1)
  const followed = await Promise.all(followers)
  const result = got(answer)
  for (const f of followed) assert.ok(E.isRight(f), E.isLeft(f) ? errorText(f.left) : '')
  return result
}

/** In the smallest budget of a strategy that is not in-core. */
export const stagedFor = (c: Case, ranks: number, strategy: NonNullable<StageAsked['strategy']>): Staged => {
  const p = preparedFor(c, machine(c.device ?? 'cpu', ranks, c.shard))
  const least = stagePrepared(p, { ...PLAIN, strategy, budget: 2 ** 21 })
  const budget = E.isLeft(least) && least.left.tag === 'BudgetInfeasible' ? least.left.smallestBytes : 2 ** 40
  return got(stagePrepared(p, { ...PLAIN, strategy, budget: strategy === 'in-core' ? 2 ** 40 : budget }))
}
