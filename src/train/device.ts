// A plan on a device. In: a plan and how to run it. Out: its parameters and states by name, and steps with what they
// measured. Invariant: the addon's failures come out as DeviceFailed, a cancelled run as Cancelled, nothing is thrown.
import { mkdirSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import { type Either, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { DeviceName } from '../../staging/devices'
import { isPersistent } from '../../staging/graph/graph'
import { toTape } from '../../staging/plan/tape'
import { type DataSource, fedValues, type FileTensor } from '../files/samples'
import type { NotFinitePlace, SpillwayError } from '../errors/errors'
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
  type NativeSource,
  tryLoadNative,
} from '../device/native'
import type { Staged } from '../stage/stage'
import { notFinitePlace } from './finite'
import type { StateStore } from './weights'

export interface DeviceOptions {
  readonly tier: Tier
  /** Of the device; default: all cores. @example train(net, plan, { steps: 100, threads: 1 }) */
  readonly threads?: number
  /** Imitates a slower link, bytes a second in each direction. @example train(net, plan, { steps: 100, throttle: mib(500) }) */
  readonly throttle?: number
  /**
   * Bytes of the lower tier that may be pinned memory before the spill folder takes the rest, on cuda; default: all.
   *
   * @example train(net, plan, { steps: 100, spill: '/var/tmp', hostMemory: gib(8) })
   */
  readonly hostMemory?: number
}

/** Where a run is: after each segment's tile, and at the end of each step. */
export type DeviceProgress =
  | { readonly kind: 'tile'; readonly step: number; readonly segment: number; readonly tile: number }
  | { readonly kind: 'step'; readonly step: number; readonly loss: number; readonly seconds: number }

export interface StepsToRun {
  readonly firstStep: number
  readonly steps: number
  readonly seed: number
  readonly data: DataSource
  /** Whether an early end is one after a whole step, as it was asked for, and no failure. */
  readonly finishing?: () => boolean
  readonly onProgress: (p: DeviceProgress) => void
}

/** What steps took, those of one run or all of a training. */
export interface StepsTaken {
  readonly losses: readonly number[]
  readonly recomputeSeconds: number
  readonly stallSeconds: { readonly memory: number; readonly data: number }
  readonly bytesOut: number
  readonly bytesIn: number
  readonly diskBytes: number
  /** Of the device, as the interpreter counts it. */
  readonly arenaPeakBytes: number
  /** What the device's driver counted at the end, where the device has memory of its own. */
  readonly deviceMemory?: DeviceMemory
}
export interface RunMetrics extends StepsTaken {
  readonly seconds: readonly number[]
}

/** Steps that are run to find the first number that is not finite, from some step on. */
export interface StepsToSearch extends Pick<StepsToRun, 'firstStep' | 'steps' | 'seed' | 'data'> {
  readonly searchFrom: number
}

export interface DeviceSession extends StateStore {
  /** Parameters and states drawn from the seed and their names: the same whatever the plan. */
  readonly initialise: (seed: number) => Either<SpillwayError, void>
  readonly run: (s: StepsToRun) => Promise<Either<SpillwayError, RunMetrics>>
  /** Nothing where all is finite, or it was cancelled. After something was found the session can only be disposed of. */
  readonly search: (s: StepsToSearch) => Promise<Either<SpillwayError, NotFinitePlace | undefined>>
  /** Ends the run within a step. */
  readonly cancel: () => void
  /** Ends the run after the step at hand. */
  readonly finish: () => void
  readonly dispose: () => void
}

// ---------------------------------------------------------------- what the addon is told

type Legal = Pick<NativeFile, 'classes' | 'ignored'>

const nativeFile = (f: FileTensor, legal: Legal | undefined): NativeFile => ({
  path: f.path,
  byteOffset: f.offset,
  dtype: f.type,
  shape: [f.samples, ...f.shape],
  layout: 'NCHW',
  ...legal,
})

/** Labels are the channels of what the loss compares them with: the fewest, where several losses do, and what all of these ignore. */
const labelsOf = ({ plan: { graph } }: Staged): ReadonlyMap<string, Legal & { readonly classes: number }> =>
  new Map(
    fedValues(graph)
      .filter((v) => v.dtype === 'i32')
      .map(({ id, name }) => {
        const readers = graph.ops.filter((o) => o.ins[1] === id)
        const classes = Math.min(...readers.map((o) => graph.values[o.ins[0]!]!.shape[1]!))
        const [ignored, ...others] = new Set(readers.map((o) => o.attrs.ignoreIndex))
        return [name, ignored === undefined || others.length > 0 ? { classes } : { classes, ignored }]
      }),
  )

const nativeSource = (staged: Staged, data: DataSource, seed: number): NativeSource => {
  const labels = labelsOf(staged)
  if (data.kind === 'synthetic') {
    const classes = Math.min(...(labels.size ? [...labels.values()].map((l) => l.classes) : [1]))
    return { kind: 'synthetic', seed, samples: data.samples, classes }
  }
  const files = [...data.files].map(([name, list]) => [name, list.map((f) => nativeFile(f, labels.get(name)))] as const)
  return { kind: 'files', files: Object.fromEntries(files) }
}

// ---------------------------------------------------------------- what it answers

const progressOf = (p: NativeProgress): DeviceProgress =>
  p.phase === 'step'
    ? { kind: 'step', step: p.step, loss: p.loss, seconds: p.seconds }
    : { kind: 'tile', step: p.step, segment: p.segment, tile: p.tile }

const metricsOf = (m: Metrics): RunMetrics => {
  const sum = (of: (s: Metrics['steps'][number]) => number): number => m.steps.reduce((n, s) => n + of(s), 0)
  return {
    losses: m.steps.map((s) => s.loss),
    seconds: m.steps.map((s) => s.seconds),
    recomputeSeconds: sum((s) => s.recomputeSeconds),
    stallSeconds: { memory: sum((s) => s.stallMemorySeconds), data: sum((s) => s.stallDataSeconds) },
    bytesOut: sum((s) => s.bytesOut),
    bytesIn: sum((s) => s.bytesIn),
    diskBytes: m.diskBytes,
    arenaPeakBytes: m.arenaPeakBytes,
    ...(m.deviceMemory ? { deviceMemory: m.deviceMemory } : {}),
  }
}

const runOn = async (
  session: NativeSession,
  staged: Staged,
  o: DeviceOptions,
  s: StepsToRun,
): Promise<Either<SpillwayError, RunMetrics>> => {
  const { steps, firstStep, seed } = s
  let thrown: { readonly error: unknown } | undefined
  const passedOn = (p: NativeProgress): void => {
    try {
      s.onProgress(progressOf(p))
    } catch (error) {
      thrown = { error }
      throw error
    }
  }
  try {
    const metrics = await session.run({ steps, firstStep, seed, source: nativeSource(staged, s.data, seed) }, passedOn)
    if (metrics.quietCallSeconds) staged.machine.learnFromSteps(staged.plan, metrics.quietCallSeconds, o.threads)
    return metrics.cancelled && !s.finishing?.()
      ? left({ tag: 'Cancelled', stepsDone: firstStep - 1 + metrics.steps.length })
      : right(metricsOf(metrics))
  } catch (e) {
    // What a user's callback throws is theirs, as it is.
    if (thrown) throw thrown.error
    return left(deviceFailed(e))
  }
}

const searchOn = async (
  session: NativeSession,
  staged: Staged,
  { data, ...steps }: StepsToSearch,
): Promise<Either<SpillwayError, NotFinitePlace | undefined>> => {
  try {
    const { notFinite } = await session.run({ ...steps, source: nativeSource(staged, data, steps.seed) })
    return right(notFinite && notFinitePlace(staged.plan, data, notFinite))
  } catch (e) {
    return left(deviceFailed(e))
  }
}

// ---------------------------------------------------------------- a session

const deviceName = ({ machine }: Staged): DeviceName => {
  if (machine.simulated) throw new Error(`a plan for machine '${machine.name}' cannot run here`)
  return machine.device.name
}

const opened = (native: Native, staged: Staged, o: DeviceOptions): Either<SpillwayError, NativeSession> => {
  const { throttle, hostMemory } = o
  const { precision } = staged.plan
  const choices = {
    ...(hostMemory === undefined ? {} : { pinnedBytes: hostMemory }),
    ...(precision === undefined ? {} : { precision }),
  }
  const link = throttle === undefined ? {} : { throttle: { outBytesPerSecond: throttle, inBytesPerSecond: throttle } }
  return onDevice(() => {
    if (o.tier.kind === 'disk') mkdirSync(o.tier.folder, { recursive: true })
    return new native.Session(toTape(staged.plan), {
      device: deviceName(staged),
      ...(o.tier.kind === 'disk' ? { spill: o.tier.folder } : {}),
      threads: o.threads,
      ...link,
      ...choices,
    })
  })
}

/** The device's memory comes on top of what planning left behind: that goes first, and does not count as the run's. */
export const forgetPlanning = (): void => {
  pipe(
    tryLoadNative(),
    E.map((native) => native.forget()),
  )
  collectGarbage()
}

const sessionOn = (s: NativeSession, staged: Staged, o: DeviceOptions): DeviceSession => {
  const kept = staged.plan.graph.values.filter(isPersistent)
  return {
    read: (name) => onDevice(() => s.read(name)),
    write: (name, bytes) => onDevice(() => s.write(name, bytes)),
    initialise: (seed) => onDevice(() => kept.forEach((v) => s.init(v.name, seed))),
    run: (steps) => runOn(s, staged, o, steps),
    search: (steps) => searchOn(s, staged, steps),
    cancel: () => s.cancel('now'),
    finish: () => s.cancel('step'),
    dispose: () => s.dispose(),
  }
}

export const openDevice = (staged: Staged, o: DeviceOptions): Either<SpillwayError, DeviceSession> =>
  pipe(
    tryLoadNative(),
    E.flatMap((native) => opened(native, staged, o)),
    E.map((session) => sessionOn(session, staged, o)),
  )
