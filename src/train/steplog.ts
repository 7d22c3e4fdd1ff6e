// What is written of every step: `--log DIR` a JSON line in DIR/steps.jsonl, `--log FILE.csv` a row, `--tensorboard DIR` an event. In: steps
// as they end. Out: the files. Invariant: after a resume a log holds each step once, in order: lines of steps that will run again are
// dropped, and TensorBoard is told to drop them.
import { closeSync, existsSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as J from 'fp-ts/Json'
import * as t from 'io-ts'
import { decodedOr } from '../../staging/core/codecs'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { openEvents } from '../files/tfevents'
import { type Links, madeFolder, readText, removeLeftoversOf, writeWholeText } from '../files/whole'
import { summary } from '../report/summary'
import type { Staged } from '../stage/stage'
import { ratesIn, type StepDone } from './device'

export interface StepLine extends Pick<StepDone, 'step' | 'loss' | 'lr' | 'seconds'> {
  /** Of the learning rates, by the run's schedule. */
  readonly factor: number
}
export interface StepLog {
  readonly step: (s: StepLine) => Either<SpillwayError, void>
  readonly close: () => void
}

export const LOG_FILE = 'steps.jsonl'

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

/** How steps are lines of a file. */
interface Lines {
  readonly head: string
  readonly line: (s: StepLine, time: string) => string
  /** The step that a line is of, unless it is cut. */
  readonly stepOf: (line: string) => number | undefined
}

const lineCodec = t.type({ step: t.number })

const JSON_LINES: Lines = {
  head: '',
  line: ({ step, loss, seconds, lr }, time) => `${JSON.stringify({ step, loss, seconds, time, lr })}\n`,
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
const TABLE: Lines = {
  head: 'step,loss,seconds,time,lr\n',
  line: ({ step, loss, seconds, lr }, time) => `${step},${loss},${seconds},${time},${lr}\n`,
  // Of version 0.1 are rows without a rate.
  stepOf: (line) => {
    const step = /^(\d+),[^,]+,[^,]+,[^,]+Z(?:,[^,]+)?$/.exec(line)?.[1]
    return step === undefined ? undefined : Number(step)
  },
}

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
    E.map((fd) => ({
      step: (s) => open(() => E.right(void writeSync(fd, lines.line(s, new Date().toISOString())))),
      close: () => closeSync(fd),
    })),
  )
}

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
  return E.right({ step: (s) => E.asUnit(E.traverseArray((l: StepLog) => l.step(s))(logs)), close })
}

export const openStepLog = (
  { log, tensorboard }: LogOptions,
  staged: Staged,
  stepsDone: number,
): Either<SpillwayError, StepLog> =>
  together([
    ...(log === undefined
      ? []
      : [
          () =>
            isTable(log)
              ? openLines(TABLE, log, stepsDone, 'follow')
              : openLines(JSON_LINES, join(log, LOG_FILE), stepsDone, 'replace'),
        ]),
    ...(tensorboard === undefined ? [] : [() => openBoard(tensorboard, staged, stepsDone)]),
  ])
