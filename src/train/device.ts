// A plan on a device. In: a plan and the way to run it. Out: its parameters and states by name, and steps with their measurements. Invariant: the
// addon's failures come out as DeviceFailed, a cancelled run as Cancelled, nothing is thrown.
import { mkdirSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import { type Either, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { DeviceName } from '../../staging/devices'
import { ROW_EXCHANGES, withWholeRows } from '../../staging/graph/bands'
import { COLLECTIVES } from '../../staging/graph/ranks'
import type { Plan } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import type { Numbers } from '../data/data'
import type { Feed } from '../data/feed'
import type { AskedBand, Bands } from '../data/bands'
import type { DataSource } from '../data/source'
import { fedOf } from '../data/fed'
import { scaledFor } from '../data/scaling'
import { orderOf, orderOfSteps, type Order } from '../data/order'
import type { FedValue } from '../data/places'
import { type FileTensor, sampleCount } from '../files/samples'
import type { SpillwayError } from '../errors/errors'
import { SpillwayException, usage } from '../errors/errors'
import { deviceFailed, onDevice } from '../errors/exceptions'
import type { Tier } from '../machine/tier'
import { collectGarbage } from '../machine/memory'
import {
  type DeviceMemory,
  type Metrics,
  type Native,
  type NativeFile,
  type NativeProgress,
  type NativeSession,
  type NativeSink,
  type NativeSource,
  type NativeTimeline,
  type RunRequest,
  tryLoadNative,
} from '../device/native'
import { statedPatience, type Rank, shareIn } from '../ranks/rank'
import { showSize } from '../report/format'
import type { Staged } from '../stage/staged'
import { type Met, notFinitePlace } from './finite'
import type { StateStore } from './weights'
import { beginningsIn, withWholeWeights } from './weightparts'

/** Threads, link and host memory of a device. */
export interface DeviceLimits {
  /** Number of threads of the device. Default: all cores. @example train(net, plan, { steps: 100, threads: 1 }) */
  readonly threads?: number | undefined
  /**
   * Imitates a slower link: bytes per second in each direction. Default: no limit.
   *
   * @example train(net, plan, { steps: 100, throttle: mib(500) })
   */
  readonly throttle?: number | undefined
  /**
   * Bytes of host memory for swapped values; the spill folder takes the rest. Default: as planned.
   *
   * @example train(net, plan, { steps: 100, spill: '/var/tmp', hostMemory: gib(8) })
   */
  readonly hostMemory?: number | undefined
}

export interface DeviceOptions extends DeviceLimits {
  readonly tier: Tier
}

/**
 * Progress of a run: a tile of a segment, or a whole step.
 *
 * @example
 * const show = (p: DeviceProgress) => p.kind === 'step' && console.log(p.step, p.loss)
 * train(net, plan, { steps: 100, onProgress: show })
 */
export type DeviceProgress =
  | { readonly kind: 'tile'; readonly step: number; readonly segment: number; readonly tile: number }
  | StepDone

/** A step that has ended. */
export interface StepDone {
  readonly kind: 'step'
  readonly step: number
  readonly loss: number
  /** Learning rate of the step: that of the optimizer, or of the first of several, times the factor of the schedule. */
  readonly lr: number
  readonly seconds: number
}

export interface StepsToRun {
  readonly firstStep: number
  readonly steps: number
  readonly seed: number
  /** Factors of the plan's learning rates, for each of these steps; default: the plan's. */
  readonly rates?: Float64Array | undefined
  readonly data: DataSource
  /** The last step of the whole training: no batch is made for a later one. */
  readonly last: number
  /** The place of a prediction's output. */
  readonly sink?: NativeSink
  /** Record the last of these steps, instruction by instruction. */
  readonly isTraced?: boolean
  /** Returns true if an early end is a requested one after a whole step, and no failure. */
  readonly finishing?: () => boolean
  readonly onProgress: (p: DeviceProgress) => void
}

/** The measurements of steps, those of one run or all of a training. */
export interface StepsTaken {
  /** Loss of each step. */
  readonly losses: readonly number[]
  /** Seconds of recomputing. */
  readonly recomputeSeconds: number
  /** Share of the arithmetic that was skipped because its inputs are 0, from 0 to 1; absent if none was. */
  readonly skippedShare?: number
  /** Seconds of waiting for memory and for data. */
  readonly stallSeconds: { readonly memory: number; readonly data: number }
  /** Seconds of waiting for the source of the data. */
  readonly feedSeconds: number
  /** Host memory of prepared batches, in bytes. */
  readonly feedBytes: number
  /** Bytes swapped out. */
  readonly bytesOut: number
  /** Bytes swapped in. */
  readonly bytesIn: number
  /** Bytes written to the spill file. */
  readonly diskBytes: number
  /** Measured peak of device memory, in bytes. */
  readonly arenaPeakBytes: number
  /** Device memory at the end, as the driver counts it; absent on the host. */
  readonly deviceMemory?: DeviceMemory
  /** Reason why steps ran without device graphs; absent if none did. */
  readonly withoutGraphs?: string
}
export interface RunMetrics extends StepsTaken {
  readonly seconds: readonly number[]
  /** The planned arithmetic, and the part of it that was skipped. */
  readonly flops: number
  readonly skippedFlops: number
  /** To other ranks. */
  readonly commBytes: number
  /** The part of the steps' time for exchanges with other ranks, waits for slower ones included. */
  readonly commSeconds: number
  /** The part of these during compute. */
  readonly commHiddenSeconds: number
  /** By call of the plan, of the quickest step in whose way nothing else ran; where there was one. */
  readonly callSeconds?: Float64Array
  /** The last step, if it was to be recorded. */
  readonly timeline?: NativeTimeline
}

/** Steps that are run to find the first number that is not finite, from some step on. */
export interface StepsToSearch extends Pick<StepsToRun, 'firstStep' | 'steps' | 'seed' | 'rates' | 'data'> {
  readonly searchFrom: number
}

export interface DeviceSession extends StateStore {
  /** Parameters and states drawn from the seed and their names: the same for any plan. */
  /** Fills parameters and state from the seed, except the values that a file has filled. */
  readonly initialise: (seed: number, loaded?: readonly string[]) => Either<SpillwayError, void>
  readonly run: (s: StepsToRun) => Promise<Either<SpillwayError, RunMetrics>>
  /** Nothing if all is finite, or it was cancelled; for several ranks the one that this met. After a find the session can only be closed. */
  readonly search: (s: StepsToSearch) => Promise<Either<SpillwayError, Met | undefined>>
  /** Ends the active run, and each later run of this session, within a step. */
  readonly cancel: () => void
  /** Ends the active run after its current step, and each later run before its first. */
  readonly finish: () => void
  readonly dispose: () => void
}

// ---------------------------------------------------------------- what the addon is told

const nativeFile =
  (value: FedValue, numbers: Numbers) =>
  (f: FileTensor): NativeFile => ({
    path: f.path,
    byteOffset: f.offset,
    dtype: f.type,
    shape: [f.samples, ...(f.layout === 'NCHW' ? f.shape : [f.shape[1], f.shape[2], f.shape[0]])],
    layout: f.layout,
    ...value.labels,
    ...scaledFor(value, numbers, f.type === 'u8'),
  })

type Steps = Pick<StepsToRun, 'firstStep' | 'steps' | 'seed' | 'data'>

/** The addon's own reads; batches of a feed are put before it. */
const nativeSource = (staged: Staged, { data, ...s }: Steps): Extract<NativeSource, { readonly kind: 'synthetic' | 'files' }> => {
  const { plan, rank } = staged
  const values = fedOf(withWholeRows(plan.graph))
  // For a batch that ranks share, the own samples of each.
  const ordered = (order: Order | undefined, samples: number): { readonly order?: Uint32Array } => {
    const own = order ?? (rank ? inTurn(samples) : undefined)
    return own ? { order: orderOfSteps(own, s.firstStep, s.steps, values[0]!.batch, shareIn(plan.graph, rank?.rank)) } : {}
  }
  if (data.kind === 'fed') throw new Error('a feed is not a source')
  if (data.kind === 'synthetic') {
    const classes = Math.min(...values.flatMap((v) => v.labels?.classes ?? []), Number.POSITIVE_INFINITY)
    const made = { seed: s.seed, samples: data.samples, classes: Number.isFinite(classes) ? classes : 1 }
    return { kind: 'synthetic', ...made, ...ordered(undefined, data.samples) }
  }
  const files = values.map((v) => [v.name, data.files.get(v.name)!.map(nativeFile(v, data.numbers))] as const)
  const samples = sampleCount([...data.files.values()][0]!)
  return { kind: 'files', files: Object.fromEntries(files), ...ordered(data.order, samples) }
}

const inTurn = (samples: number): Order =>
  orderOf(
    Uint32Array.from({ length: samples }, (_, i) => i),
    undefined,
  )

// ---------------------------------------------------------------- what it answers

/** The rates that a plan's updates have: one for each that differs. */
export const ratesIn = ({ graph }: Plan): readonly number[] => [
  ...new Set(graph.ops.flatMap((o) => (o.phase === 'update' ? (o.attrs['lr'] ?? []) : []))),
]

const progressOf = (p: Exclude<NativeProgress, { readonly phase: 'ask' }>, lr: (step: number) => number): DeviceProgress =>
  p.phase === 'step'
    ? { kind: 'step', step: p.step, loss: p.loss, lr: lr(p.step), seconds: p.seconds }
    : { kind: 'tile', step: p.step, segment: p.segment, tile: p.tile }

const metricsOf = (m: Metrics, feed: Feed | undefined): RunMetrics => {
  const sum = (of: (s: Metrics['steps'][number]) => number): number => m.steps.reduce((n, s) => n + of(s), 0)
  return {
    losses: m.steps.map((s) => s.loss),
    seconds: m.steps.map((s) => s.seconds),
    recomputeSeconds: sum((s) => s.recomputeSeconds),
    flops: sum((s) => s.flops),
    skippedFlops: sum((s) => s.skippedFlops),
    stallSeconds: { memory: sum((s) => s.stallMemorySeconds), data: sum((s) => s.stallDataSeconds) },
    feedSeconds: sum((s) => s.stallFeedSeconds),
    feedBytes: feed?.bytes() ?? 0,
    bytesOut: sum((s) => s.bytesOut),
    bytesIn: sum((s) => s.bytesIn),
    diskBytes: m.diskBytes,
    arenaPeakBytes: m.arenaPeakBytes,
    commBytes: m.sentBytes,
    commSeconds: [...COLLECTIVES, ...ROW_EXCHANGES].reduce((n, kind) => n + (m.secondsByKind[kind] ?? 0), 0),
    commHiddenSeconds: sum((s) => Math.max(0, s.besideSeconds - s.stallRanksSeconds)),
    ...(m.deviceMemory ? { deviceMemory: m.deviceMemory } : {}),
    ...(m.withoutGraphs ? { withoutGraphs: m.withoutGraphs } : {}),
    ...(m.quietCallSeconds ? { callSeconds: m.quietCallSeconds } : {}),
    ...(m.timeline ? { timeline: m.timeline } : {}),
  }
}

/** The feed of a run, where its data are fed: it is opened by the first steps, and goes on from one session to the next. */
export interface Feeding {
  feed?: Feed
}
interface Open {
  readonly session: NativeSession
  readonly staged: Staged
  readonly options: DeviceOptions
  readonly feeding: Feeding
  /** Set by `cancel` and `finish`: it ends the active run and each later run of this session. */
  stop?: 'now' | 'step'
  isCancelled?: boolean
  /** Ends the wait for the first sample. */
  leave?: () => void
}

/** Starts steps. The native session forgets a cancellation that comes between two runs, so each run repeats it. */
const startRun = ({ session, stop }: Open, request: RunRequest, onProgress: (p: NativeProgress) => void): Promise<Metrics> => {
  const running = session.run(request, onProgress)
  if (stop) session.cancel(stop)
  return running
}

/** An error of other code during steps: theirs, unchanged. */
interface Thrown {
  error?: { readonly error: unknown }
}

/** Undefined when the run is cancelled before there is a sample. */
const placesOf = async <P>(places: () => Promise<P>, open: Open, thrown: Thrown): Promise<P | undefined> => {
  const left = new Promise<undefined>((resolve) => (open.leave = () => resolve(undefined)))
  if (open.isCancelled) return undefined
  try {
    return await Promise.race([places(), left])
  } catch (error) {
    thrown.error = { error }
    throw error
  }
}

type Progressed = (p: Exclude<NativeProgress, { readonly phase: 'ask' }>) => void

/** Runs steps with batches that are put before them, or bands that are asked for; a feed that fails ends the run. */
const withFeed = async (
  open: Open,
  s: Steps & { readonly last: number },
  thrown: Thrown,
  request: Omit<RunRequest, 'source'>,
  given: Progressed,
): Promise<Metrics | undefined> => {
  const { session, staged, feeding } = open
  const progress = (p: NativeProgress): void => {
    if (p.phase !== 'ask') given(p)
  }
  if (s.data.kind !== 'fed') return startRun(open, { ...request, source: nativeSource(staged, s) }, progress)
  feeding.feed ??= s.data.open()
  const { feed } = feeding
  let isOver = false
  const fail = (error: unknown): void => {
    if (isOver) return
    thrown.error ??= { error }
    session.cancel('now')
  }
  const put = (number: number): void => {
    if (!isOver) session.put(number)
  }
  const source = await placesOf(() => feed.places(s.firstStep, s.last), open, thrown)
  if (!source) return undefined
  const requested = (p: AskedBand): void => {
    const bands = feed as Bands
    if (p.step < s.firstStep + s.steps) bands.bring(p).then(() => put(p.ticket), fail)
    else bands.expect(p)
  }
  const running = startRun(open, { ...request, source }, (p) => {
    if (p.phase === 'ask') return requested(p)
    if (p.phase === 'step') feed.ended(p.step)
    progress(p)
  })
  feed.begin({ put, fail })
  try {
    const metrics = await running
    if (thrown.error) throw thrown.error.error
    return metrics
  } finally {
    isOver = true
  }
}

/** Refusals are values, everything else that users' code throws is thrown. */
const thrownOr = (thrown: Thrown, e: unknown): SpillwayError => {
  const theirs = thrown.error
  if (theirs && !(theirs.error instanceof SpillwayException)) throw theirs.error
  return deviceFailed(theirs ? theirs.error : e)
}

/** Whom steps meet. */
const rankRequest = (rank: Rank | undefined): Pick<RunRequest, 'communicator' | 'patience'> => {
  const patience = statedPatience()
  return rank ? { communicator: rank.communicator, ...(patience === undefined ? {} : { patience }) } : {}
}

const runOn = async (open: Open, s: StepsToRun): Promise<Either<SpillwayError, RunMetrics>> => {
  const { staged, options } = open
  const { steps, firstStep, seed, rates, sink, isTraced = false } = s
  const given = { ...(rates ? { rates } : {}), ...(sink ? { sink } : {}) }
  const request = { steps, firstStep, seed, timeline: isTraced, ...given, ...rankRequest(staged.rank) }
  const [rate = 0] = ratesIn(staged.plan)
  const lr = (step: number): number => rate * (rates?.[step - firstStep] ?? 1)
  const thrown: Thrown = {}
  const passedOn: Progressed = (p) => {
    if (staged.rank && p.phase === 'step') staged.rank.pace.seconds = Math.max(staged.rank.pace.seconds, p.seconds)
    try {
      s.onProgress(progressOf(p, lr))
    } catch (error) {
      thrown.error = { error }
      throw error
    }
  }
  try {
    const metrics = await withFeed(open, s, thrown, request, passedOn)
    if (!metrics) {
      // The others are about to ask whether there is a next step.
      await staged.rank?.communicator.agree('interrupted')
      return left({ tag: 'Cancelled', stepsDone: firstStep - 1 })
    }
    if (metrics.quietCallSeconds) staged.machine.learnFromSteps(staged.plan, metrics.quietCallSeconds, options.threads)
    return metrics.cancelled && !s.finishing?.()
      ? left({ tag: 'Cancelled', stepsDone: firstStep - 1 + metrics.steps.length })
      : right(metricsOf(metrics, open.feeding.feed))
  } catch (e) {
    return left(thrownOr(thrown, e))
  }
}

const searchOn = async (open: Open, s: StepsToSearch): Promise<Either<SpillwayError, Met | undefined>> => {
  const { data, rates, ...rest } = s
  const { plan, rank } = open.staged
  const request = { ...rest, ...(rates ? { rates } : {}), ...rankRequest(rank) }
  const thrown: Thrown = {}
  try {
    const metrics = await withFeed(open, { ...s, last: s.firstStep + s.steps - 1 }, thrown, request, () => {})
    const met = metrics?.notFinite
    return right(met && { call: met.call, place: notFinitePlace(plan, data, met, rank) })
  } catch (e) {
    return left(thrownOr(thrown, e))
  }
}

// ---------------------------------------------------------------- a session

const deviceName = ({ machine }: Staged): DeviceName => {
  if (machine.simulated) throw new Error(`a plan for the simulated machine '${machine.name}' cannot run`)
  return machine.device.name
}

const openFed = (native: Native, staged: Staged, o: DeviceOptions): Either<SpillwayError, NativeSession> => {
  const { throttle, hostMemory } = o
  const { precision } = staged.plan
  const { hostBytes = Infinity, tierBytes } = staged.plan
  if (o.tier.kind === 'memory' && tierBytes > hostBytes)
    return left(usage(`the plan swaps ${showSize(tierBytes - hostBytes)} to a disk: add --spill DIR (spill: 'DIR')`))
  const inMemory = Math.min(hostMemory ?? Infinity, hostBytes)
  const choices = {
    ...(inMemory === Infinity ? {} : { hostBytes: inMemory }),
    ...(precision === undefined ? {} : { precision }),
  }
  const link = throttle === undefined ? {} : { throttle: { outBytesPerSecond: throttle, inBytesPerSecond: throttle } }
  return onDevice(() => {
    if (o.tier.kind === 'disk') mkdirSync(o.tier.folder, { recursive: true })
    return new native.Session(toTape(staged.plan, staged.rank?.rank), {
      device: deviceName(staged),
      ...(o.tier.kind === 'disk' ? { spill: o.tier.folder } : {}),
      threads: o.threads,
      ...link,
      ...choices,
    })
  })
}

/** The device's memory is added to that of planning: this is freed first, and does not count as the run's. */
export const forgetPlanning = (): void => {
  pipe(
    tryLoadNative(),
    E.map((native) => native.forget()),
  )
  collectGarbage()
}

const sessionOn = (s: NativeSession, staged: Staged, o: DeviceOptions, feeding: Feeding): DeviceSession => {
  const { graph } = staged.plan
  const kept = beginningsIn(graph)
  const open: Open = { session: s, staged, options: o, feeding }
  const stop = (when: 'now' | 'step'): void => {
    open.stop = open.stop === 'now' ? 'now' : when
    s.cancel(when)
  }
  return {
    ...withWholeWeights(graph, {
      read: (name) => onDevice(() => s.read(name)),
      write: (name, bytes) => onDevice(() => s.write(name, bytes)),
    }),
    initialise: (seed, loaded = []) => {
      const taken = new Set(loaded)
      return onDevice(() => kept.filter((v) => !taken.has(v.of)).forEach((v) => s.init(v.name, seed, v.of, v.first)))
    },
    run: (steps) => runOn(open, steps),
    search: (steps) => searchOn(open, steps),
    // A rank that leaves a step leaves the others waiting in it.
    cancel: () => {
      open.isCancelled = true
      stop(staged.rank ? 'step' : 'now')
      open.leave?.()
    },
    finish: () => stop('step'),
    dispose: () => s.dispose(),
  }
}

const sessionWith = (staged: Staged, o: DeviceOptions, feeding: Feeding): Either<SpillwayError, DeviceSession> =>
  pipe(
    tryLoadNative(),
    E.flatMap((native) => openFed(native, staged, o)),
    E.map((session) => sessionOn(session, staged, o, feeding)),
  )

export const openDevice = (staged: Staged, o: DeviceOptions): Either<SpillwayError, DeviceSession> => {
  const feeding: Feeding = {}
  return pipe(
    sessionWith(staged, o, feeding),
    E.map((session) => ({
      ...session,
      dispose: () => {
        feeding.feed?.close()
        session.dispose()
      },
    })),
  )
}

/** A session whose feed is somebody else's, and goes on in the next one. */
export const openFedDevice = sessionWith
