// Logs of steps and evaluations: `--log DIR` writes JSON lines to DIR/steps.jsonl and a table of the evaluations to DIR/metrics.csv,
// `--log FILE.csv` writes rows, `--tensorboard DIR` writes events. In: steps and evaluations as they end. Out: the files. Invariant: after a
// resume a log holds each step and each evaluation once, in order: lines of steps that will run again are dropped.
import { closeSync, existsSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as J from 'fp-ts/Json'
import * as t from 'io-ts'
import { decodedOr } from '../../staging/core/codecs'
import type { SpillwayError } from '../errors/errors'
import { attempt, onFile } from '../errors/exceptions'
import { openEvents } from '../files/tfevents'
import { type Links, madeFolder, readText, removeLeftoversOf, writeWholeText } from '../files/whole'
import { rowText } from '../files/rows'
import { summary } from '../report/summary'
import type { Staged } from '../stage/staged'
import { ratesIn, type StepDone } from './device'
import type { Measurement } from './measurement'

export interface StepLine extends Pick<StepDone, 'step' | 'loss' | 'lr' | 'seconds'> {
  /** The factor of the learning rates, by the run's schedule. */
  readonly factor: number
}
export interface StepLog {
  readonly step: (s: StepLine) => Either<SpillwayError, void>
  readonly evaluation: (m: Measurement) => Either<SpillwayError, void>
  readonly close: () => void
}

export const LOG_FILE = 'steps.jsonl'
/** The table of evaluations in the folder of a log. */
export const METRICS_FILE = 'metrics.csv'
/** Tag of a metric of an evaluation, beside the names of the steps. */
const evaluationTag = (name: string): string => `evaluate/${name}`

/** A name that ends so is a table's; any other is a folder's. */
const isTable = (log: string): boolean => log.endsWith('.csv')

/** The folder of the log, where it has one. */
export const logFolder = ({ log }: Pick<LogOptions, 'log'>): string | undefined =>
  log === undefined || isTable(log) ? undefined : log

/** The page of the run goes where it is asked to, else beside the log. */
export const reportFile = ({ report, log }: LogOptions): string | undefined => {
  const folder = logFolder({ log })
  return report ?? (folder === undefined ? undefined : join(folder, 'report.html'))
}

// ---------------------------------------------------------------- lines of text

/** The lines of a file: of steps, of evaluations, or of both. */
interface Lines {
  readonly head: string
  readonly line?: (s: StepLine, time: string) => string
  readonly evaluation?: (m: Measurement, time: string) => string
  /** The step of a line; undefined if the line is incomplete. */
  readonly stepOf: (line: string) => number | undefined
}

const lineCodec = t.type({ step: t.number })

const JSON_LINES: Lines = {
  head: '',
  line: ({ step, loss, seconds, lr }, time) => `${JSON.stringify({ step, loss, seconds, time, lr })}\n`,
  evaluation: ({ step, epoch, metrics }, time) => `${JSON.stringify({ step, epoch, evaluate: metrics, time })}\n`,
  stepOf: (line) =>
    pipe(
      J.parse(line),
      E.flatMap(decodedOr(lineCodec, 'not a step')),
      E.match(
        () => undefined,
        ({ step }) => step,
      ),
    ),
}

/** Values of an evaluation in the order of the columns. */
const cellsOf = ({ metrics }: Measurement, measures: readonly string[]): readonly number[] =>
  measures.map((name) => metrics[name] ?? Number.NaN)

/** A row per step. Evaluations have rows of their own, whose metrics are in further columns. */
const tableOf = (measures: readonly string[]): Lines => {
  const columns = measures.length === 0 ? [] : ['epoch', ...measures.map(evaluationTag)]
  const after = columns.map(() => ',').join('')
  return {
    head: rowText(['step', 'loss', 'seconds', 'time', 'lr', ...columns]),
    line: ({ step, loss, seconds, lr }, time) => `${step},${loss},${seconds},${time},${lr}${after}\n`,
    evaluation: (m, time) => (columns.length === 0 ? '' : rowText([m.step, '', '', time, '', m.epoch, ...cellsOf(m, measures)])),
    // Version 0.1 wrote rows without a rate.
    stepOf: (line) => {
      const step = /^(\d+),[^,]*,[^,]*,[^,]+Z(?:,.*)?$/.exec(line)?.[1]
      return step === undefined ? undefined : Number(step)
    },
  }
}

/** A row per evaluation. */
const metricsOf = (measures: readonly string[]): Lines => ({
  head: rowText(['step', 'epoch', ...measures, 'time']),
  evaluation: (m, time) => rowText([m.step, m.epoch, ...cellsOf(m, measures), time]),
  stepOf: (line) => {
    const step = /^(\d+),.*Z$/.exec(line)?.[1]
    return step === undefined ? undefined : Number(step)
  },
})

/** The lines of steps up to `last`; a line cut by a kill is dropped. */
const keptLines = ({ head, stepOf }: Lines, path: string, last: number): Either<SpillwayError, string> =>
  last === 0 || !existsSync(path)
    ? E.right(head)
    : pipe(
        readText('output', path),
        E.map((text) =>
          text
            .split('\n')
            .filter((line) => (stepOf(line) ?? Infinity) <= last)
            .map((line) => `${line}\n`)
            .join(''),
        ),
        E.map((kept) => head + kept),
      )

const openLines = (lines: Lines, path: string, stepsDone: number, links: Links): Either<SpillwayError, StepLog> => {
  const open = onFile('output', path)
  return pipe(
    madeFolder(dirname(path)),
    E.tap(() => E.right(removeLeftoversOf(path))),
    E.flatMap(() => keptLines(lines, path, stepsDone)),
    E.flatMap((kept) => writeWholeText(path, kept, links)),
    E.flatMap(() => open(() => E.right(openSync(path, 'a')))),
    E.map((fd) => {
      const write = (text: string): Either<SpillwayError, void> => open(() => E.right(void writeSync(fd, text)))
      const now = (): string => new Date().toISOString()
      return {
        step: (s) => (lines.line ? write(lines.line(s, now())) : E.right(undefined)),
        evaluation: (m) => (lines.evaluation ? write(lines.evaluation(m, now())) : E.right(undefined)),
        close: () => closeSync(fd),
      }
    }),
  )
}

// ---------------------------------------------------------------- reading

/** A log, read back. Numbers that are not finite are NaN. */
export interface ReadLog {
  readonly steps: readonly Pick<StepLine, 'step' | 'loss' | 'lr' | 'seconds'>[]
  readonly evaluations: readonly Measurement[]
}

const numberIn = (u: unknown): number => (typeof u === 'number' ? u : typeof u === 'string' && u !== '' ? Number(u) : Number.NaN)
const numbersIn = (entries: readonly (readonly [string, unknown])[]): Readonly<Record<string, number>> =>
  Object.fromEntries(entries.map(([name, value]) => [name, numberIn(value)]))

type LogEntry = ReadLog['steps'][number] | Measurement

const stepEntry = (from: Readonly<Record<string, unknown>>): LogEntry => {
  const [step, loss, lr, seconds] = [from['step'], from['loss'], from['lr'], from['seconds']].map(numberIn) as [
    number,
    number,
    number,
    number,
  ]
  return { step, loss, lr, seconds }
}

const jsonEntry = (line: string): LogEntry | undefined => {
  const from = attempt(() => JSON.parse(line) as Readonly<Record<string, unknown>>)
  if (from === undefined) return undefined
  const { step, epoch, evaluate } = from
  return evaluate === undefined
    ? stepEntry(from)
    : { step: numberIn(step), epoch: numberIn(epoch), metrics: numbersIn(Object.entries(evaluate as object)) }
}

const TAG = evaluationTag('')
const tableEntry =
  (heads: readonly string[]) =>
  (line: string): LogEntry | undefined => {
    const from = Object.fromEntries(line.split(',').map((cell, i) => [heads[i] ?? '', cell]))
    if (from['loss'] !== '') return stepEntry(from)
    const metrics = Object.entries(from).flatMap(([name, value]) =>
      name.startsWith(TAG) ? [[name.slice(TAG.length), value] as const] : [],
    )
    return { step: numberIn(from['step']), epoch: numberIn(from['epoch']), metrics: numbersIn(metrics) }
  }

/** Reads the log at the place of `log`: a folder or a table. The last line may be incomplete. */
export const readLog = (log: string): Either<SpillwayError, ReadLog> =>
  pipe(
    readText('run', isTable(log) ? log : join(log, LOG_FILE)),
    E.map((text) => {
      const lines = text.split('\n').slice(0, -1)
      const entryOf = isTable(log) ? tableEntry((lines.shift() ?? '').split(',')) : jsonEntry
      const entries = lines.map(entryOf).filter((e) => e !== undefined)
      return {
        steps: entries.flatMap((e) => ('metrics' in e ? [] : [e])),
        evaluations: entries.flatMap((e) => ('metrics' in e ? [e] : [])),
      }
    }),
  )

// ---------------------------------------------------------------- TensorBoard

/** By their tags: one for each that differs. */
const taggedRates = ({ plan }: Staged): readonly (readonly [tag: string, lr: number])[] =>
  ratesIn(plan).map((lr, i) => [i === 0 ? 'lr' : `lr/${i + 1}`, lr])

const openBoard = (folder: string, staged: Staged, stepsDone: number): Either<SpillwayError, StepLog> => {
  const rates = taggedRates(staged)
  const text = `    ${summary(staged.plan, staged.timeline, staged.staging).replace(/\n/g, '\n    ')}`
  return pipe(
    openEvents(folder, stepsDone),
    E.tap((events) => events.text('plan', text)),
    E.map((events) => ({
      step: ({ step, loss, seconds, factor }) =>
        events.scalars(step, { loss, seconds, ...Object.fromEntries(rates.map(([tag, lr]) => [tag, lr * factor])) }),
      evaluation: ({ step, metrics }) =>
        events.scalars(step, Object.fromEntries(Object.entries(metrics).map(([name, value]) => [evaluationTag(name), value]))),
      close: events.close,
    })),
  )
}

// ---------------------------------------------------------------- all of them

export interface LogOptions {
  readonly log?: string | undefined
  readonly tensorboard?: string | undefined
  readonly report?: string | undefined
}

type Open = () => Either<SpillwayError, StepLog>

/** One that writes all; where one cannot be opened, those before it are closed. */
const together = (opens: readonly Open[]): Either<SpillwayError, StepLog> => {
  const logs: StepLog[] = []
  const close = (): void => logs.forEach((l) => l.close())
  for (const open of opens) {
    const log = open()
    if (E.isLeft(log)) {
      close()
      return log
    }
    logs.push(log.right)
  }
  return E.right({
    step: (s) => E.asUnit(E.traverseArray((l: StepLog) => l.step(s))(logs)),
    evaluation: (m) => E.asUnit(E.traverseArray((l: StepLog) => l.evaluation(m))(logs)),
    close,
  })
}

/** Opens the logs. `measures` are the names of the metrics of evaluations; none without evaluations. */
export const openStepLog = (
  { log, tensorboard }: LogOptions,
  staged: Staged,
  stepsDone: number,
  measures: readonly string[] = [],
): Either<SpillwayError, StepLog> =>
  together([
    ...(log === undefined
      ? []
      : isTable(log)
        ? [() => openLines(tableOf(measures), log, stepsDone, 'follow')]
        : [
            () => openLines(JSON_LINES, join(log, LOG_FILE), stepsDone, 'replace'),
            ...(measures.length === 0
              ? []
              : [() => openLines(metricsOf(measures), join(log, METRICS_FILE), stepsDone, 'replace')]),
          ]),
    ...(tensorboard === undefined ? [] : [() => openBoard(tensorboard, staged, stepsDone)]),
  ])
