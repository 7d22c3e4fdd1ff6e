// `--log DIR`: one JSON line a step in DIR/steps.jsonl. In: steps as they end. Out: the file.
// Invariant: after a resume the file holds each step once, in order: lines of steps that will run again are dropped.
import { closeSync, existsSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as J from 'fp-ts/Json'
import * as t from 'io-ts'
import { decodedOr } from '../../staging/core/codecs'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { madeFolder, readText, writeWholeText } from '../files/whole'

export interface StepLine {
  readonly step: number
  readonly loss: number
  readonly seconds: number
}
export interface StepLog {
  readonly step: (s: StepLine) => Either<SpillwayError, void>
  readonly close: () => void
}

export const LOG_FILE = 'steps.jsonl'

const lineCodec = t.type({ step: t.number })

const isKept = (line: string, last: number): boolean =>
  pipe(
    J.parse(line),
    E.flatMap(decodedOr(lineCodec, 'not a step')),
    E.exists(({ step }) => step <= last),
  )

/** The lines of steps up to `last`; a line cut by a kill is dropped. */
const keptLines = (path: string, last: number): Either<SpillwayError, string> =>
  last === 0 || !existsSync(path)
    ? E.right('')
    : pipe(
        readText('output', path),
        E.map((text) =>
          text
            .split('\n')
            .filter((line) => isKept(line, last))
            .map((line) => `${line}\n`)
            .join(''),
        ),
      )

const NO_LOG: StepLog = { step: () => E.right(undefined), close: () => {} }

export const openStepLog = (folder: string | undefined, stepsDone: number): Either<SpillwayError, StepLog> => {
  if (folder === undefined) return E.right(NO_LOG)
  const path = join(folder, LOG_FILE)
  const open = onFile('output', path)
  return pipe(
    madeFolder(folder),
    E.flatMap(() => keptLines(path, stepsDone)),
    E.flatMap((kept) => writeWholeText(path, kept)),
    E.flatMap(() => open(() => E.right(openSync(path, 'a')))),
    E.map((fd) => ({
      step: ({ step, loss, seconds }) => {
        const line = `${JSON.stringify({ step, loss, seconds, time: new Date().toISOString() })}\n`
        return open(() => E.right(void writeSync(fd, line)))
      },
      close: () => closeSync(fd),
    })),
  )
}
