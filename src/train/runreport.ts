// The page of a run (src/report/run.ts), kept up to date during it. In: the start of the run, its reports. Out: a file that is whole at any moment.
// Invariant: writing takes less than half a percent of the time, for a page of any size; a page that cannot be written during the run costs a note,
// not the run.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { TaskEither } from 'fp-ts/TaskEither'
import { errorText, type SpillwayError } from '../errors/errors'
import { madeFolder, writeWholeText } from '../files/whole'
import type { Details, RunView } from '../report/runview'
import { planPart, runHtml } from '../report/run'
import type { RunMetrics } from './device'
import type { FitEvent, Listener } from './events'
import { epochEnd, epochsAt, meanLoss } from './length'
import { metricOf } from './measured'
import { type Measurement, standing } from './measurement'
import type { TrainResult } from './result'
import type { Start } from './start'
import { factsOf, recordedOf } from './runfolder'
import { logFolder, reportFile } from './steplog'
import type { Totals } from './totals'

/** The reports of a run beside its events. */
export interface RunPage {
  readonly listener: (others: Listener) => Listener
  /** After some steps, the measurements of all of them. */
  readonly took: (totals: Totals, metrics: RunMetrics) => void
  readonly looked: (details: Details | undefined) => void
  /** Most steps between two calls of `took`. */
  readonly ahead: () => number
}

const NO_PAGE: RunPage = {
  listener: (others) => others,
  took: () => {},
  looked: () => {},
  ahead: () => Number.POSITIVE_INFINITY,
}

// ---------------------------------------------------------------- how often

/** No sooner than this, and than a multiple of the last writing's time. */
const LEAST_MS = 5000
const TIMES = 250
/** Between two looks at the steps' measurements: these seconds, and for short ones a number of steps. */
const LOOK_SECONDS = 30
const LEAST_STEPS = 16

// ---------------------------------------------------------------- what it holds

type Writable<T> = { -readonly [K in keyof T]: T[K] }
/** The changing part of a run. */
interface Heard {
  readonly losses: number[]
  readonly rates: number[]
  readonly seconds: number[]
  readonly epochs: { readonly epoch: number; readonly step: number; readonly loss: number }[]
  readonly measured: Measurement[]
  sums: RunView['sums']
  callSeconds: Float64Array | undefined
  details: Details | undefined
}

/** As an earlier process left it. */
const earlierEvents = ({ from, length: { epochs } }: Start): Heard => {
  const losses = [...(from?.losses ?? [])]
  const unknown = (): number[] => losses.map(() => Number.NaN)
  const past = epochs ? epochsAt(epochs, losses.length) : 0
  return {
    losses,
    rates: unknown(),
    seconds: unknown(),
    epochs: Array.from({ length: past }, (_, i) => ({
      epoch: i + 1,
      step: epochEnd(epochs!, i + 1),
      loss: meanLoss(losses, epochs!, i + 1),
    })),
    measured: [...(from?.measured ?? [])],
    sums: from && sumsOf({ ...from.totals, losses }),
    callSeconds: undefined,
    details: undefined,
  }
}

const sumsOf = (t: Totals): NonNullable<RunView['sums']> => ({
  steps: t.losses.length,
  stallMemorySeconds: t.stallMemorySeconds,
  stallDataSeconds: t.stallDataSeconds,
  feedSeconds: t.feedSeconds ?? 0,
  arenaPeakBytes: t.arenaPeakBytes,
  processPeakBytes: t.processPeakBytes,
  diskBytes: t.diskBytes,
})

const bestOf = ({ options: o, evaluation }: Start, { measured, epochs }: Heard, stepsPerEpoch = 0): RunView['best'] =>
  evaluation
    ? standing(measured, metricOf(o)).best
    : stepsPerEpoch > 1
      ? standing(
          epochs.map(({ epoch, step, loss }) => ({ epoch, step, metrics: { loss } })),
          'loss',
        ).best
      : undefined

const listened = (received: Heard, e: FitEvent): void => {
  if (e.kind === 'step') {
    received.losses.push(e.loss)
    received.rates.push(e.lr)
    received.seconds.push(e.seconds)
  } else if (e.kind === 'epoch') received.epochs.push(e)
  else if (e.kind === 'evaluation') received.measured.push({ epoch: e.epoch, step: e.step, metrics: e.metrics })
}

// ---------------------------------------------------------------- how it ends

type End = NonNullable<RunView['end']>

const endOf = (answer: Either<SpillwayError, TrainResult>): End => {
  if (E.isRight(answer)) {
    const { endedEarly, weightsSha256 } = answer.right
    const early = endedEarly ? ' It ended early: no improvement within the patience.' : ''
    return { well: true, words: `Done.${early}`, weightsSha256 }
  }
  const e = answer.left
  if (e.tag === 'Stopped') return { well: true, words: `Stopped: ${errorText(e)}.` }
  return { well: false, words: e.tag === 'Cancelled' ? `Interrupted: ${errorText(e)}.` : `Ended by an error: ${errorText(e)}.` }
}

const thrownEnd = (thrown: unknown): End => ({
  well: false,
  words: `Ended by an exception: ${thrown instanceof Error ? thrown.message : String(thrown)}.`,
})

// ---------------------------------------------------------------- the page

interface Kept extends RunPage {
  readonly end: (end: End) => void
}

const opened = (path: string, start: Start): Either<SpillwayError, Kept> => {
  const { staged, options: o, length, from, evaluation } = start
  const { epochs, steps } = length
  const stepsPerEpoch = epochs ? epochs.samples / epochs.batch : undefined
  const heard = earlierEvents(start)
  const part = planPart(staged)
  const began = new Date().toISOString()
  const recipe = factsOf(start.recorded ?? recordedOf(start))
  const view = (end: End | undefined): RunView => {
    const v: Writable<RunView> = {
      plan: staged.plan,
      timeline: staged.timeline,
      staging: staged.staging,
      began,
      written: new Date().toISOString(),
      steps,
      resumedFrom: from?.step ?? 0,
      ...heard,
      evaluated: evaluation !== undefined,
      best: bestOf(start, heard, stepsPerEpoch),
      recipe,
    }
    if (stepsPerEpoch !== undefined) v.stepsPerEpoch = stepsPerEpoch
    if (end) v.end = end
    return v
  }
  let due = 0
  let isLost = false
  const write = (end?: End): Either<SpillwayError, unknown> => {
    const before = performance.now()
    const written = writeWholeText(path, runHtml(view(end), part))
    const now = performance.now()
    due = now + Math.max(LEAST_MS, TIMES * (now - before))
    return written
  }
  const rewrite = (end?: End): void => {
    if (isLost) return
    const written = write(end)
    if (E.isRight(written)) return
    isLost = true
    o.onNote?.(`the report is not updated: ${errorText(written.left)}`)
  }
  const whenDue = (): void => {
    if (performance.now() >= due) rewrite()
  }
  const page: Kept = {
    listener: (others) => ({
      ...others,
      emit: (e) => {
        listened(heard, e)
        if (e.kind !== 'end') whenDue()
        others.emit(e)
      },
    }),
    took: (totals, { callSeconds }) => {
      heard.sums = sumsOf(totals)
      heard.callSeconds = callSeconds ?? heard.callSeconds
      whenDue()
    },
    looked: (details) => {
      heard.details = details ?? heard.details
      whenDue()
    },
    ahead: () => Math.max(LEAST_STEPS, Math.ceil(LOOK_SECONDS / (heard.seconds.at(-1) || Number.POSITIVE_INFINITY))),
    end: rewrite,
  }
  return pipe(
    logFolder(o) === undefined ? E.right(undefined) : madeFolder(logFolder(o)!),
    E.flatMap(() => write()),
    E.map(() => page),
  )
}

/** A run with its page, where it has one, which says in the end how it ended. */
export const withPage = (
  start: Start,
  use: (page: RunPage) => TaskEither<SpillwayError, TrainResult>,
): TaskEither<SpillwayError, TrainResult> => {
  const path = reportFile(start.options)
  if (path === undefined) return use(NO_PAGE)
  return async () => {
    const page = opened(path, start)
    if (E.isLeft(page)) return page
    try {
      const answer = await use(page.right)()
      page.right.end(endOf(answer))
      return answer
    } catch (thrown) {
      page.right.end(thrownEnd(thrown))
      throw thrown
    }
  }
}
