// `--log DIR`: one JSON line a step in DIR/steps.jsonl. In: steps as they end. Out: the file.
// Invariant: after a resume the file holds each step once, in order: lines of steps that will run again are dropped.
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { writeWholeText } from '../files/whole'

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

/** The lines of steps up to `last`; a line cut by a kill is dropped. */
const keptLines = (path: string, last: number): readonly string[] => {
  if (last === 0 || !existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => {
      try {
        const n = (JSON.parse(line) as { step?: unknown }).step
        return typeof n === 'number' && n <= last
      } catch {
        return false
      }
    })
}

export const openStepLog = (folder: string | undefined, stepsDone: number): StepLog => {
  if (folder === undefined) return { step: () => {}, close: () => {} }
  mkdirSync(folder, { recursive: true })
  const path = join(folder, LOG_FILE)
  writeWholeText(
    path,
    keptLines(path, stepsDone)
      .map((l) => `${l}\n`)
      .join(''),
  )
  const fd = openSync(path, 'a')
  return {
    step: ({ step, loss, seconds }) =>
      void writeSync(fd, `${JSON.stringify({ step, loss, seconds, time: new Date().toISOString() })}\n`),
    close: () => closeSync(fd),
  }
}
