// `--log DIR`: one JSON line a step in DIR/steps.jsonl. In: steps as they end. Out: the file.
// Invariant: after a resume the file holds each step once, in order: lines of steps that will run again are dropped.
import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as J from 'fp-ts/Json'
import * as t from 'io-ts'
import { decodedOr } from '../../staging/core/codecs'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { madeFolder, writeWholeText } from '../files/whole'

export interface StepLine {
  readonly step: number
  readonly loss: number
  readonly seconds: number
}
export interface StepLog {
  readonly step: (s: StepLine) => void
  readonly close: () => void
}

export const LOG_FILE = 'steps.jsonl'

const lineCodec = t.type({ step: t.number })

/** The lines of steps up to `last`; a line cut by a kill is dropped. */
const keptLines = (path: string, last: number): readonly string[] =>
  last === 0 || !existsSync(path)
    ? []
    : readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) =>
          pipe(
            J.parse(line),
            E.flatMap(decodedOr(lineCodec, 'not a step')),
            E.exists(({ step }) => step <= last),
          ),
        )
        .map((line) => `${line}\n`)

const NO_LOG: StepLog = { step: () => {}, close: () => {} }

export const openStepLog = (folder: string | undefined, stepsDone: number): Either<SpillwayError, StepLog> => {
  if (folder === undefined) return E.right(NO_LOG)
  const path = join(folder, LOG_FILE)
  const open = onFile('output', path)
  return pipe(
    madeFolder(folder),
    E.flatMap(() => open(() => writeWholeText(path, keptLines(path, stepsDone).join('')))),
    E.flatMap(() => open(() => E.right(openSync(path, 'a')))),
    E.map((fd) => ({
      step: ({ step, loss, seconds }) =>
        void writeSync(fd, `${JSON.stringify({ step, loss, seconds, time: new Date().toISOString() })}\n`),
      close: () => closeSync(fd),
    })),
  )
}
