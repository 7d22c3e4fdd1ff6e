// The output of a command. In: --json or not. Out: one JSON object on stdout and everything else on stderr, or text for people on stdout. Invariant:
// with --json, stdout holds exactly one object, after success and failure.
import { constants } from 'node:os'
import type { Either } from 'fp-ts/Either'
import { folded } from '../report/folded'
import { showPercent } from '../report/format'
import { errorJson, errorText, exitCode, type SpillwayError } from '../errors/errors'

export interface Output {
  readonly json: boolean
  /** For people, while the command works. */
  readonly say: (text: string) => void
  /** The stream that `say` writes to: where a progress bar belongs. */
  readonly stream: NodeJS.WriteStream
  /** The command's answer. */
  readonly answer: (object: unknown, text: string) => void
}

/** Numbers that JSON cannot hold become null. */
const jsonText = (object: unknown): string => `${JSON.stringify(object)}\n`

/** Columns of the terminal; undefined if the output is none. Some terminals do not know their width. */
export const terminalWidth = ({ stream }: Pick<Output, 'stream'>): number | undefined =>
  stream.isTTY ? Math.max(60, stream.columns || 80) : undefined

/** Writes lines for people. A terminal gets no line that is too long. */
export const print = (stream: NodeJS.WriteStream, text: string): void =>
  void stream.write(`${folded(text, terminalWidth({ stream }))}\n`)

/** Prints a note on stderr. */
export const note = (text: string): void => print(process.stderr, `note: ${text}`)

export const outputFor = (json: boolean): Output => {
  const stream = json ? process.stderr : process.stdout
  return {
    json,
    stream,
    say: (text) => print(stream, text),
    answer: (object, text) => {
      if (json) process.stdout.write(jsonText(object))
      else if (text !== '') print(process.stdout, text)
    },
  }
}

/**
 * A closed reader (`| head`) ends the command in silence, as it ends other programs; a full disk is reported if possible. Data that a run has saved
 * by then stays.
 */
export const watchStreams = (): void => {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (e: NodeJS.ErrnoException) => {
      if (e.code === 'EPIPE') process.exit(128 + constants.signals.SIGPIPE)
      if (stream === process.stdout) process.stderr.write(`spillway: cannot write to the output: ${e.message}\n`)
      process.exit(1)
    })
}

/** The line for arithmetic that a masked network skipped. */
export const skippedText = ({ skippedShare }: { readonly skippedShare?: number }): readonly string[] =>
  skippedShare === undefined ? [] : [`  skipped    ${showPercent(skippedShare)} of the arithmetic: its inputs are 0`]

/** The line for files that --skip-damaged left out. */
export const damagedText = ({ damaged }: { readonly damaged?: { readonly size: number } }): readonly string[] =>
  damaged === undefined || damaged.size === 0
    ? []
    : [`  left out   ${damaged.size} damaged file${damaged.size === 1 ? '' : 's'}: the notes above name them`]

export const fail = (out: Output, e: SpillwayError): number => {
  if (out.json) process.stdout.write(jsonText(errorJson(e)))
  print(process.stderr, `spillway: ${errorText(e)}`)
  return exitCode(e)
}

/** A word of a command as a shell reads it. */
export const quoted = (word: string): string => (/^[\w.:/-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`)

/** A command is done, or failed with an error as data. */
export type Done = Either<SpillwayError, void>

/** A declared command gives its work; the caller decides the time. */
export type Runner = (work: (out: Output) => Done | Promise<Done>) => Promise<void>
