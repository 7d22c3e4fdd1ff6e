// `spillway train` as one of several processes, or as several threads. In: an engine, the command's options, how the leader trains. Out: what
// the leader ends with, at every rank. Invariant: the leader alone plans and speaks; who fails ends all, and no rank outlives another.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { encodePlan } from '../../staging/plan/codec'
import { precisionOf } from '../../staging/plan/plan'
import { tryLoadNative } from '../device/native'
import { type SpillwayError, usage } from '../errors/errors'
import { deviceFailed } from '../errors/exceptions'
import type { MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import type { Engine } from '../ranks/engine'
import { openMpi } from '../ranks/mpi'
import { broadcast, type Rank, rankOf } from '../ranks/rank'
import { untrustedPlan } from '../stage/planfile'
import { describePlan, type Staged } from '../stage/stage'
import { followerTask } from '../train/follower'
import type { TrainOptions } from '../train/options'
import { type Farewell, isOrderly } from '../train/ranks'

/** Devices whose operators meet other ranks. */
const MEETING = ['cpu', 'ref', 'null']

/** What ranks on one machine have of its processors each, where nothing is said. */
export const sharedThreads = (engine: Engine): Either<SpillwayError, number> =>
  pipe(
    tryLoadNative(),
    E.map((native) =>
      Math.max(1, Math.floor(native.deviceInfo().threads / (engine.kind === 'mpi' ? engine.here : engine.ranks))),
    ),
  )

export const meets = (device: string): Either<SpillwayError, void> =>
  MEETING.includes(device)
    ? E.right(undefined)
    : E.left(usage(`--device ${device}: several processes train together on devices of the host alone`, MEETING))

/** How the leader trains once the others have the plan. */
type Leading<A> = (rank: Rank, handOver: (staged: Staged) => TaskEither<SpillwayError, unknown>) => TaskEither<SpillwayError, A>

// ---------------------------------------------------------------- processes

const heardPlan = (rank: Rank, o: MachineOptions): TaskEither<SpillwayError, Staged> =>
  pipe(
    TE.tryCatch(() => broadcast(rank), deviceFailed),
    TE.map(
      (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as { readonly threads: number; readonly plans: readonly string[] },
    ),
    TE.flatMapEither(({ threads, plans }) =>
      pipe(
        // One for all, or one for each band of rows.
        untrustedPlan(plans[plans.length > 1 ? rank.rank : 0]!),
        E.bindTo('plan'),
        E.bind('machine', ({ plan }) =>
          machineNamed(plan.machine, { ...o, threads, ranks: rank.ranks, band: rank.rank, precision: precisionOf(plan) }),
        ),
        E.map(({ plan, machine }) => ({ ...describePlan(plan, machine), rank })),
      ),
    ),
  )

const handedOver =
  (rank: Rank, threads: number) =>
  ({ plan, family = [plan] }: Staged): TaskEither<SpillwayError, void> =>
    TE.tryCatch(async () => {
      await broadcast(rank, new TextEncoder().encode(JSON.stringify({ threads, plans: family.map(encodePlan) })))
    }, deviceFailed)

/** Of a rank that does not lead: what it needs to run what the leader plans. */
export interface Following {
  readonly machine: MachineOptions
  readonly options: TrainOptions
}

/** A process that leaves without a word takes the others with it. */
const watched = <A>(rank: Rank, work: TaskEither<SpillwayError, A>): TaskEither<SpillwayError, A> => {
  const abort = (code: number): void => rank.communicator.abort(code || 1)
  return async () => {
    process.once('exit', abort)
    const answer = await work()
    if (E.isRight(answer) || isOrderly(answer.left)) {
      rank.communicator.close()
      process.removeListener('exit', abort)
      return answer
    }
    return E.left<SpillwayError>(answer.left)
  }
}

const byProcesses = <A>(
  engine: Extract<Engine, { readonly kind: 'mpi' }>,
  following: (threads: number) => Either<SpillwayError, Following>,
  threads: number,
  leading: Leading<A>,
): TaskEither<SpillwayError, A | Farewell> =>
  pipe(
    TE.fromIOEither(() => openMpi(engine)),
    TE.flatMap((rank) =>
      watched<A | Farewell>(
        rank,
        rank.rank === 0
          ? leading(rank, handedOver(rank, threads))
          : pipe(
              TE.fromEither(following(threads)),
              TE.flatMap(({ machine, options }) =>
                pipe(
                  heardPlan(rank, machine),
                  TE.flatMap((staged) => followerTask(staged, rank, options)),
                ),
              ),
            ),
      ),
    ),
  )

// ---------------------------------------------------------------- threads

/** What a rank runs: the plan of all, or that of its band. */
export const bandOf = (staged: Staged, { rank }: Pick<Rank, 'rank'>): Staged => {
  const { family, machine, ...rest } = staged
  const { bands } = machine
  if (!family || !bands) return staged
  return { ...rest, ...describePlan(family[rank]!, { ...machine, bands: { ...bands, at: rank } }) }
}

const byThreads = <A>(
  ranks: number,
  following: (threads: number) => Either<SpillwayError, Following>,
  threads: number,
  leading: Leading<A>,
): TaskEither<SpillwayError, A> =>
  pipe(
    TE.fromIOEither(tryLoadNative),
    TE.flatMap((native) => async () => {
      const all = native.openThreadRanks(ranks).map(rankOf)
      let first: SpillwayError | undefined
      const ending = async <B>(work: TaskEither<SpillwayError, B>): Promise<Either<SpillwayError, B>> => {
        const answer = await work()
        if (E.isLeft(answer) && !isOrderly(answer.left)) {
          first ??= answer.left
          all[0]!.communicator.abort(1)
        }
        return answer
      }
      const others: Promise<Either<SpillwayError, Farewell>>[] = []
      const handOver = (staged: Staged): TaskEither<SpillwayError, unknown> =>
        pipe(
          TE.fromEither(following(threads)),
          TE.map(({ options }) =>
            others.push(...all.slice(1).map((rank) => ending(followerTask(bandOf(staged, rank), rank, options)))),
          ),
        )
      const led = await ending(leading(all[0]!, handOver))
      await Promise.all(others)
      for (const { communicator } of all) communicator.close()
      return first ? E.left(first) : led
    }),
  )

/** Trains as what this process is. */
export const among = <A>(
  engine: Engine,
  threads: number,
  following: (threads: number) => Either<SpillwayError, Following>,
  leading: Leading<A>,
): TaskEither<SpillwayError, A | Farewell> =>
  engine.kind === 'threads'
    ? byThreads(engine.ranks, following, threads, leading)
    : byProcesses(engine, following, threads, leading)
