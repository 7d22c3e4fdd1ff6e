// The batches of an evaluation. In: an evaluation that can run, its weights and sums. Out: the sums over all samples. Invariants: each
// sample counts once; results are added in the order of their batches, so any number of ranks gives the same bits.
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { type Value, valueBytes } from '../../staging/graph/graph'
import { type Data, pick } from '../data/data'
import type { Size } from '../data/decode'
import { fedOf } from '../data/fed'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import type { Rank } from '../ranks/rank'
import type { Staged } from '../stage/staged'
import { dataOf } from '../train/beforehand'
import type { RunMetrics } from '../train/device'
import { inBatches, outputOf, type Read } from './batches'
import type { Compared } from './ownmetric'
import type { Measuring } from './measured'
import { shareOf } from './metrics'
import type { SizeGroup } from './ownsize'
import type { Pass } from './passes'
import { meetingOf, ownBatches, type Unit } from './shares'
import { type TargetRows, targetsOf } from './targets'
import { type Weights, withWeights } from './weighted'
import type { Kept, Watch } from './worst'
import { batchOf, type OwnSizes, type Ready, type Unweighted } from './evaluable'

const BAND_BYTES = 16 * 2 ** 20

const NUMBERS = {
  f32: Float32Array,
  f64: Float64Array,
  bf16: Float32Array,
  f16: Float32Array,
  i32: Int32Array,
  u8: Uint8Array,
} as const

/** All of an image's rows, some at a time, with their targets. */
const eachPart = (
  { shape, dtype }: Value,
  read: Read,
  target: TargetRows,
  image: number,
  see: (part: Compared) => void,
): void => {
  const [, channels, height, width] = shape as readonly [number, number, number, number]
  const Elements = NUMBERS[dtype]
  const rowBytes = channels * width * Elements.BYTES_PER_ELEMENT
  const most = Math.max(1, Math.floor(BAND_BYTES / rowBytes))
  for (let row = 0; row < height; row += most) {
    const rows = Math.min(most, height - row)
    const bytes = read(row * rowBytes, rows * rowBytes)
    const output = new Elements(bytes.buffer as ArrayBuffer, bytes.byteOffset, rows * width * channels)
    see({ image, rows, width, channels, output, target: target(row, rows) })
  }
}

export interface Running extends Ready {
  readonly weights: Weights
}

export interface Sums {
  readonly measuring: Measuring
  readonly watch: Watch | undefined
  images: number
  loss: number
  shares: number
  arenaPeakBytes: number
  took: readonly RunMetrics[]
}

/** The results of a batch, whose first image is `first`. */
const unitOf = (
  { task }: Ready,
  { measuring, watch }: Sums,
  output: Value,
  first: number,
  target: (b: number) => TargetRows,
  read: Read,
  took: RunMetrics,
): Unit => {
  const batch = output.shape[0]!
  const bytes = valueBytes(output) / batch
  const share = shareOf(task, batch)
  const folds: (readonly unknown[])[] = []
  for (let b = 0; b < batch; b++) {
    eachPart(
      output,
      (at, n) => read(b * bytes + at, n),
      target(b),
      first + b,
      (part) => {
        share.add(part)
        measuring.add(part)
        watch?.add(part)
      },
    )
    folds.push(measuring.image())
  }
  return { images: batch, loss: took.losses[0]!, share: share.value(), folds, arenaPeakBytes: took.arenaPeakBytes }
}

/** Adds the results of batches, in their order. */
const settling =
  ({ options, samples }: Ready, sums: Sums) =>
  ({ images, loss, share, folds, arenaPeakBytes }: Unit): void => {
    folds.forEach(sums.measuring.fold)
    sums.images += images
    sums.loss += loss * share
    sums.shares += share
    sums.arenaPeakBytes = Math.max(sums.arenaPeakBytes, arenaPeakBytes)
    options.onProgress?.(sums.images, samples)
  }

interface Steps {
  readonly staged: Staged
  readonly data: Data
  readonly steps: number
  /** Returns true for a step with a full batch: it counts, and there may be more. */
  readonly isFull: (step: number) => boolean
  /** The first image of a step, in the data. */
  readonly first: (step: number) => number
  /** Receives the results of a step. */
  readonly take: (unit: Unit) => Either<SpillwayError, void> | Promise<Either<SpillwayError, void>>
}

/** The folder for outputs that exceed memory. */
const besideOf = ({ spill }: Unweighted): string => join(spill === undefined || spill === 'ram' ? tmpdir() : spill, 'outputs')

const over = (
  ready: Running,
  sums: Sums,
  { staged, data, steps, isFull, first, take: takeUnit }: Steps,
): TaskEither<SpillwayError, void> => {
  const { options: o, weights, known: classes } = ready
  const { graph } = staged.plan
  const output = outputOf(graph)!
  return pipe(
    TE.fromEither(dataOf(graph, { data, workers: o.workers, prefetch: o.prefetch, classes }, false)),
    TE.flatMap(({ source }) => {
      const targets = targetsOf(source, fedOf(graph).find((v) => !v.isInput)!)
      const take = async (step: number, read: Read, took: RunMetrics): Promise<Either<SpillwayError, boolean>> => {
        if (!isFull(step)) return E.right(false)
        const unit = onFile(
          'data',
          'targets',
        )(() => E.right(unitOf(ready, sums, output, first(step), (b) => targets.of(step, b), read, took)))
        if (E.isLeft(unit)) return unit
        sums.took = [...sums.took, took]
        targets.drop(step)
        return E.map(() => true)(await takeUnit(unit.right))
      }
      return withWeights(staged, weights, o, (session) =>
        TE.asUnit(inBatches({ session, output, data: targets.data, steps, beside: besideOf(o), signal: o.signal, take })),
      )
    }),
  )
}

/** Full batches, and the rest after them. */
export const addAll = (ready: Running, sums: Sums, pass: Pass): TaskEither<SpillwayError, void> => {
  const { staged, samples } = ready
  const batch = batchOf(staged)
  const steps = samples === undefined ? Infinity : Math.floor(samples / batch)
  const isFull = (step: number): boolean => step * batch <= (pass.samples() ?? Infinity)
  const left = (): number => (pass.samples() ?? sums.images) - sums.images
  const settle = settling(ready, sums)
  const take = (unit: Unit): Either<SpillwayError, void> => E.right(settle(unit))
  const first = (): number => sums.images
  return pipe(
    // Planned before anything runs, where it is known how many are left.
    TE.fromEither(
      samples === undefined || samples % batch === 0 ? E.right(undefined) : E.asUnit(ready.smallerOf(samples % batch)),
    ),
    TE.flatMap(() =>
      steps > 0 ? over(ready, sums, { staged, data: pass.data, steps, isFull, first, take }) : TE.right(undefined),
    ),
    TE.flatMap(() =>
      left() === 0
        ? TE.right(undefined)
        : pipe(
            TE.fromEither(ready.smallerOf(left())),
            TE.flatMap((smaller) =>
              over(ready, sums, { staged: smaller, data: pass.rest(left()), steps: 1, isFull: () => true, first, take }),
            ),
          ),
    ),
  )
}

/** The batches of each size; a group smaller than a batch has a plan of its own batch. */
export const addBySize = (ready: Running, sums: Sums, { groups, planOf }: OwnSizes): TaskEither<SpillwayError, void> => {
  const { data, staged } = ready
  const settle = settling(ready, sums)
  const stepsOver = (places: readonly number[], batch: number, size: Size): TaskEither<SpillwayError, void> =>
    places.length === 0
      ? TE.right(undefined)
      : pipe(
          TE.fromEither(planOf(batch, size)),
          TE.flatMap((planned) =>
            over(ready, sums, {
              staged: planned,
              data: pick(data, places),
              steps: places.length / batch,
              isFull: () => true,
              first: (step) => places[(step - 1) * batch]!,
              take: (unit) => E.right(settle(unit)),
            }),
          ),
        )
  const group = ({ places, size }: SizeGroup): TaskEither<SpillwayError, void> => {
    const batch = Math.min(batchOf(staged), places.length)
    const full = places.length - (places.length % batch)
    return pipe(
      stepsOver(places.slice(0, full), batch, size),
      TE.flatMap(() => stepsOver(places.slice(full), places.length - full, size)),
    )
  }
  return pipe(groups, TE.flatMap(TE.traverseSeqArray(group)), TE.asUnit)
}

/** The samples of some batches. */
const samplesOf = (batches: readonly number[], batch: number): readonly number[] =>
  batches.flatMap((k) => Array.from({ length: batch }, (_, b) => k * batch + b))

/** A rank's batches; rank 0 knows the results of all. */
export const addAmongRanks = (ready: Running, sums: Sums, rank: Rank, samples: number): TaskEither<SpillwayError, void> => {
  const { staged, data } = ready
  const batch = batchOf(staged)
  const { full, left, rounds } = ownBatches(samples, batch, rank)
  const meeting = meetingOf(rank, settling(ready, sums))
  const take = (unit: Unit): Promise<Either<SpillwayError, void>> => {
    rank.pace.seconds = Math.max(rank.pace.seconds, sums.took.at(-1)!.seconds[0] ?? 0)
    return meeting.round(unit)
  }
  const isFull = (): boolean => true
  const rest = Array.from({ length: left }, (_, i) => samples - left + i)
  return pipe(
    full.length > 0
      ? over(ready, sums, {
          staged,
          data: pick(data, samplesOf(full, batch)),
          steps: full.length,
          isFull,
          first: (step) => full[step - 1]! * batch,
          take,
        })
      : TE.right(undefined),
    TE.flatMap(() =>
      left === 0
        ? full.length < rounds
          ? (): Promise<Either<SpillwayError, void>> => meeting.round()
          : TE.right(undefined)
        : pipe(
            TE.fromEither(ready.smallerOf(left)),
            TE.flatMap((smaller) =>
              over(ready, sums, { staged: smaller, data: pick(data, rest), steps: 1, isFull, first: () => rest[0]!, take }),
            ),
          ),
    ),
    TE.orElse((e) => (e.tag === 'Cancelled' ? TE.flatMap(() => TE.left(e))(meeting.leave) : TE.left(e))),
    TE.flatMap(() => () => meeting.counted({ counts: sums.measuring.counts(), worst: sums.watch?.worst() ?? [] })),
    TE.tapIO((others) => () => {
      for (const { counts, worst } of others) {
        sums.measuring.join(counts)
        sums.watch?.join(worst as readonly Kept[])
      }
    }),
    TE.asUnit,
  )
}
