// A run as one of several processes, or as several threads, for a command or a script. In: an engine, options, the leader's training. Out: the
// leader's result, at every rank. Invariant: the leader alone plans and prints; a failing rank ends all, and no rank outlives another.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import { constants } from 'node:os'
import { type DeviceName, devices } from '../../../staging/devices'
import { encodePlan } from '../../../staging/plan/codec'
import { tryLoadNative } from '../../device/native'
import { type SpillwayError, usage } from '../../errors/errors'
import { deviceFailed, onDevice } from '../../errors/exceptions'
import type { MachineOptions } from '../../machine/localmachine'
import { machineNamed } from '../../machine/machine'
import { deviceBytes } from '../../machine/memory'
import type { Engine } from '../../ranks/engine'
import { gpuOf, takeOwnGpu } from '../../ranks/gpu'
import { openMpi } from '../../ranks/mpi'
import { fromLeader, gather, isLeader, type Rank, rankOf } from '../../ranks/rank'
import { untrustedPlan } from '../../stage/planfile'
import { describePlan, machineOptionsIn, type Staged } from '../../stage/staged'
import type { TrainOptions } from '../options'
import { answerLeader, type LastRequest, otherProcesses, type Others, otherThreads, type Request } from './answers'
import { followerTask } from './follower'
import { collective, isOrderly, type RunEnd } from './orders'

/** The default share of processors for each rank of a machine. */
export const sharedThreads = (engine: Engine): Either<SpillwayError, number> =>
  pipe(
    tryLoadNative(),
    E.map((native) =>
      Math.max(1, Math.floor(native.deviceInfo().threads / (engine.kind === 'mpi' ? engine.here : engine.ranks))),
    ),
  )

/** Checks that ranks can meet on a device: GPUs need a library that carries bytes between them, and a GPU for each process. */
export const checkRanks = (engine: Engine, device: DeviceName): Either<SpillwayError, void> =>
  pipe(
    engine.kind === 'mpi' && devices[device].isCard ? gpuOf(engine, process.env) : E.right(''),
    E.tap(() => E.right(takeOwnGpu())),
    E.flatMap(tryLoadNative),
    E.flatMap((native) => onDevice(() => native.carrier(device))),
    E.mapLeft((e) => withRank(engine, e)),
    E.flatMap((carrier) =>
      carrier && engine.kind === 'threads'
        ? E.left(
            usage(`--device ${device}: each rank needs its own GPU and process: mpirun -n ${engine.ranks} npx spillway train …`),
          )
        : E.right(undefined),
    ),
  )

/** Adds the rank and its number on the machine to an error: a process without a GPU may be one too many. */
const withRank = (engine: Engine, e: SpillwayError): SpillwayError =>
  engine.kind === 'mpi' && e.tag === 'DeviceFailed'
    ? { ...e, reason: `rank ${engine.rank}, number ${engine.at} of ${engine.here} on its machine: ${e.reason}` }
    : e

/** Trains at the leader, after the other ranks have the plan. */
export type Leading<A> = (
  rank: Rank,
  handOver: (staged: Staged) => TaskEither<SpillwayError, unknown>,
  others: Others,
) => TaskEither<SpillwayError, A>

const readLeaderPlan = (
  rank: Rank,
  o: MachineOptions,
  { threads, plans }: Extract<LastRequest, { readonly what: 'plan' }>,
): Either<SpillwayError, Staged> =>
  pipe(
    // One for all, or one for each band of rows.
    untrustedPlan(plans[rank.rank % plans.length]!),
    E.bindTo('plan'),
    E.bind('machine', ({ plan }) => machineNamed(plan.machine, { ...o, threads, ...machineOptionsIn({ plan }) })),
    E.map(({ plan, machine }) => ({ ...describePlan(plan, machine), rank })),
  )

const sendPlan =
  (rank: Rank, threads: number) =>
  ({ plan, family = [plan] }: Staged): TaskEither<SpillwayError, void> =>
    TE.asUnit(collective(() => fromLeader<Request>(rank, { what: 'plan', threads, plans: family.map(encodePlan) })))

/** For a rank that does not lead: its inputs for the leader's plan. */
export interface Following {
  readonly machine: MachineOptions
  readonly options: TrainOptions
}

/** The time for a rank to end after a request: at least these seconds, and some steps. */
const GRACE = { seconds: 10, steps: 3 } as const

const END_SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Ends all ranks if a signal arrives and the current step does not end: another rank hangs. */
export const endAfterGrace = ({ pace, communicator }: Rank): { readonly forget: () => void } => {
  let timer: NodeJS.Timeout | undefined
  const on = (signal: NodeJS.Signals): void => {
    const seconds = Math.max(GRACE.seconds, GRACE.steps * pace.seconds)
    timer ??= setTimeout(() => {
      process.stderr.write(
        `error: ${signal}: the current step did not end within ${seconds.toFixed(0)} s: other ranks do not respond\n`,
      )
      communicator.abort(128 + constants.signals[signal])
    }, seconds * 1000).unref()
  }
  END_SIGNALS.forEach((s) => process.on(s, on))
  return {
    forget: () => {
      clearTimeout(timer)
      END_SIGNALS.forEach((s) => process.removeListener(s, on))
    },
  }
}

/** Ends all ranks if this process exits early. */
export const abortOnExit = <A>(rank: Rank, work: TaskEither<SpillwayError, A>): TaskEither<SpillwayError, A> => {
  const abort = (code: number): void => rank.communicator.abort(code || 1)
  return async () => {
    process.once('exit', abort)
    const grace = endAfterGrace(rank)
    const answer = await work()
    grace.forget()
    if (E.isRight(answer) || isOrderly(answer.left)) {
      rank.communicator.close()
      process.removeListener('exit', abort)
      return answer
    }
    return E.left<SpillwayError>(answer.left)
  }
}

export type Processes = Extract<Engine, { readonly kind: 'mpi' }>

const trainInProcesses = <A>(
  engine: Processes,
  following: (threads: number) => Either<SpillwayError, Following>,
  threads: number,
  leading: Leading<A>,
): TaskEither<SpillwayError, A | RunEnd> =>
  pipe(
    TE.fromIOEither(() => openMpi(engine)),
    TE.flatMap((rank) => abortOnExit<A | RunEnd>(rank, runAsRank(rank, following, threads, leading))),
  )

/** A rank has less memory if it has less than this share of the leader's: free memory varies. */
const CLEARLY_LESS = 0.9

/** All ranks report their memory: the leader plans for all. */
const withLeastMemory = (rank: Rank): TaskEither<SpillwayError, Rank> =>
  TE.tryCatch(async () => {
    const all = await gather(rank, deviceBytes(rank))
    const bytes = Math.min(...all)
    return bytes < CLEARLY_LESS * all[0]! ? { ...rank, least: { rank: all.indexOf(bytes), bytes } } : rank
  }, deviceFailed)

/** Runs as the leader, or as a rank that answers and follows. */
export const runAsRank = <A>(
  rank: Rank,
  following: (threads: number) => Either<SpillwayError, Following>,
  threads: number,
  leading: Leading<A>,
): TaskEither<SpillwayError, A | RunEnd> =>
  rank.rank === 0
    ? pipe(
        withLeastMemory(rank),
        TE.flatMap((knowing) => leading(knowing, sendPlan(rank, threads), otherProcesses(rank, threads))),
      )
    : pipe(
        TE.fromEither(following(threads)),
        TE.tap(() => withLeastMemory(rank)),
        TE.flatMap(({ machine, options }) =>
          pipe(
            collective(() => answerLeader(rank, machine, threads)),
            TE.flatMap((word) =>
              word.what === 'end'
                ? TE.right<SpillwayError, RunEnd>(word)
                : pipe(
                    TE.fromEither(readLeaderPlan(rank, machine, word)),
                    TE.flatMap((staged) => followerTask(staged, rank, options)),
                  ),
            ),
          ),
        ),
      )

/** As one of several processes: the first plans, the others answer it until it has planned. */
export const planAmong = <A>(
  engine: Processes,
  machine: MachineOptions,
  threads: number,
  planning: (rank: Rank, others: Others) => TaskEither<SpillwayError, A>,
): TaskEither<SpillwayError, A | RunEnd> =>
  pipe(
    TE.fromIOEither(() => openMpi(engine)),
    TE.flatMap((rank) =>
      abortOnExit<A | RunEnd>(
        rank,
        isLeader(rank)
          ? pipe(
              withLeastMemory(rank),
              TE.flatMap((knowing) => planning(knowing, otherProcesses(rank, threads))),
              TE.tap(() => collective(() => fromLeader<Request>(rank, { what: 'end', code: 0 }))),
            )
          : pipe(
              withLeastMemory(rank),
              TE.flatMap(() => collective(() => answerLeader(rank, machine, threads))),
              TE.map((word): RunEnd => ({ code: word.what === 'end' ? word.code : 0 })),
            ),
      ),
    ),
  )

/** The plan of a rank: that of all, or that of its band. */
export const bandOf = (staged: Staged, { rank }: Pick<Rank, 'rank'>): Staged => {
  const { family, machine, ...rest } = staged
  const { bands } = machine
  if (!family || !bands) return staged
  return { ...rest, ...describePlan(family[rank % bands.of]!, { ...machine, bands: { ...bands, at: rank % bands.of } }) }
}

export const trainInThreads = <A>(
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
        try {
          const answer = await work()
          if (E.isLeft(answer) && !isOrderly(answer.left)) {
            first ??= answer.left
            all[0]!.communicator.abort(1)
          }
          return answer
        } catch (e) {
          // An error of users' code is theirs, and the others stop waiting.
          all[0]!.communicator.abort(1)
          throw e
        }
      }
      const others: Promise<Either<SpillwayError, RunEnd>>[] = []
      const handOver = (staged: Staged): TaskEither<SpillwayError, unknown> =>
        pipe(
          TE.fromEither(following(threads)),
          TE.map(({ options }) =>
            others.push(...all.slice(1).map((rank) => ending(followerTask(bandOf(staged, rank), rank, options)))),
          ),
        )
      const led = await ending(leading(all[0]!, handOver, otherThreads(all, threads)))
      await Promise.all(others)
      for (const { communicator } of all) communicator.close()
      return first ? E.left(first) : led
    }),
  )

/** Trains in the role of this process. */
export const trainAmong = <A>(
  engine: Engine,
  threads: number,
  following: (threads: number) => Either<SpillwayError, Following>,
  leading: Leading<A>,
): TaskEither<SpillwayError, A | RunEnd> =>
  engine.kind === 'threads'
    ? trainInThreads(engine.ranks, following, threads, leading)
    : trainInProcesses(engine, following, threads, leading)
