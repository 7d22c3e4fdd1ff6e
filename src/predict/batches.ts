// The outputs of a plan, a batch at a time. In: a session of such a plan, its data, the receiver of outputs. Out: the measurements of the batches.
// Invariant: while a batch runs, the outputs of the one before it are received; the host holds two of them, or files for them if they are large.
// Worked example, three batches: 1 runs; 2 runs while 1 is received; 3 runs while 2 is received; 3 is received.
import { rmSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { TaskEither } from 'fp-ts/TaskEither'
import { bytesOf } from '../../staging/core/bytes'
import { type Graph, type Value, valueBytes } from '../../staging/graph/graph'
import type { DataSource } from '../data/source'
import type { NativeSink } from '../device/native'
import type { SpillwayError } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import { readRange, temporaryName, withFile } from '../files/whole'
import type { Staged } from '../stage/staged'
import type { DeviceSession, RunMetrics } from '../train/device'

/** The output of a plan. */
export const outputOf = ({ values }: Graph): Value | undefined => values.find((v) => v.role === 'output')

/** Outputs of a batch larger than this wait in a file, not in memory. */
export const MOST_HELD_BYTES = 512 * 2 ** 20

/** Bytes of a batch's output, as the device stores it. */
export type Read = (offset: number, bytes: number) => Uint8Array

/** The place of a batch's output until it is received. */
interface Place {
  readonly sink: NativeSink
  readonly read: Read
  readonly remove: () => void
}

const placeFor = (output: Value, beside: string | undefined, mostHeld: number): Place => {
  const bytes = valueBytes(output)
  if (beside === undefined || bytes <= mostHeld) {
    const held = new Uint8Array(bytes)
    return { sink: { [output.name]: held }, read: (at, n) => held.subarray(at, at + n), remove: () => {} }
  }
  const path = temporaryName(beside)
  const read = (at: number, n: number): Uint8Array =>
    orThrow(withFile('output', path, (fd) => E.fromNullable('it ends before its last row')(readRange(fd, at, n))))
  return { sink: { [output.name]: { path } }, read, remove: () => rmSync(path, { force: true }) }
}

export const CANCELLED: SpillwayError = { tag: 'Cancelled', stepsDone: 0 }

export interface Batches {
  readonly session: DeviceSession
  readonly output: Value
  readonly data: DataSource
  readonly steps: number
  /** A path beside which large outputs wait; without, all wait in memory. */
  readonly beside: string | undefined
  /** Larger outputs wait in a file, not in memory. Default: `MOST_HELD_BYTES`. */
  readonly mostHeld?: number
  /** Ends the batches after the current `take`. */
  readonly signal: AbortSignal | undefined
  /** Receives the output of a batch, before the place is filled anew; the flag tells if more will come. */
  readonly take: (
    step: number,
    read: Read,
    took: RunMetrics,
  ) => Either<SpillwayError, boolean> | Promise<Either<SpillwayError, boolean>>
}

/** All batches, one after the other. */
export const inBatches =
  ({
    session,
    output,
    data,
    steps,
    beside,
    mostHeld = MOST_HELD_BYTES,
    signal,
    take,
  }: Batches): TaskEither<SpillwayError, readonly RunMetrics[]> =>
  async () => {
    const places = [placeFor(output, beside, mostHeld), placeFor(output, beside, mostHeld)] as const
    const started = (step: number): Promise<Either<SpillwayError, RunMetrics>> =>
      session.run({
        firstStep: step,
        steps: 1,
        seed: 0,
        last: steps,
        data,
        sink: places[step % 2]!.sink,
        onProgress: () => {},
      })
    const took: RunMetrics[] = []
    let running: Promise<Either<SpillwayError, RunMetrics>> | undefined
    try {
      running = steps > 0 ? started(1) : undefined
      for (let step = 1; running !== undefined; step++) {
        const done: Either<SpillwayError, RunMetrics> = await running
        if (E.isLeft(done)) return done
        running = step < steps ? started(step + 1) : undefined
        const more = await take(step, places[step % 2]!.read, done.right)
        if (E.isLeft(more)) return more
        if (signal?.aborted) return E.left(CANCELLED)
        if (!more.right) break
        took.push(done.right)
      }
      return E.right(took)
    } finally {
      if (running) session.cancel()
      await running
      places.forEach((p) => p.remove())
    }
  }

// ---------------------------------------------------------------- what it took

/** What batches took. */
export interface Took {
  readonly budgetBytes: number
  readonly peakBytes: number
  readonly arenaPeakBytes: number
  readonly processPeakBytes: number
  readonly bytesOut: number
  readonly bytesIn: number
  readonly diskBytes: number
  /** Share of the arithmetic that was skipped because its inputs are 0, from 0 to 1; absent if none was. */
  readonly skippedShare?: number
  /** Median seconds of a batch. */
  readonly secondsPerStep: number
  /** Seconds of a batch as planned. */
  readonly predictedSecondsPerStep: number
}

const median = (xs: readonly number[]): number => [...xs].sort((a, b) => a - b)[xs.length >> 1] ?? 0

export const tookOf = ({ plan, timeline }: Staged, runs: readonly RunMetrics[], processPeakBytes: number): Took => {
  const sum = (of: (m: RunMetrics) => number): number => runs.reduce((n, m) => n + of(m), 0)
  const skipped = sum((m) => m.skippedFlops)
  const most = (of: (m: RunMetrics) => number): number => runs.reduce((n, m) => Math.max(n, of(m)), 0)
  return {
    budgetBytes: plan.budgetBytes,
    peakBytes: bytesOf(plan.peakPages),
    arenaPeakBytes: most((m) => m.arenaPeakBytes),
    processPeakBytes,
    bytesOut: sum((m) => m.bytesOut),
    bytesIn: sum((m) => m.bytesIn),
    diskBytes: most((m) => m.diskBytes),
    ...(skipped > 0 ? { skippedShare: skipped / sum((m) => m.flops) } : {}),
    secondsPerStep: median(runs.flatMap((m) => m.seconds)),
    predictedSecondsPerStep: timeline.makespanSeconds,
  }
}
