// All errors for a user, as data; one function turns an error into words and one into an exit code. In: the reports of the layers below. Out:
// SpillwayError, its text, its JSON, its exit code.
import { constants } from 'node:os'
import { join } from 'node:path'
import { renderError, type StageError } from '../../staging/core/errors'
import { nearest } from '../../staging/core/nearest'

/** The role of a refused file. */
export type FileKind = 'weights' | 'data' | 'checkpoint' | 'plan' | 'model' | 'configuration' | 'run' | 'output'

/**
 * An error of the TypeScript compiler, with its place in a file.
 *
 * @example const place = (f: TypeFault) => `${f.file}:${f.line}:${f.column}: ${f.message}`
 */
export interface TypeFault {
  readonly file: string
  readonly line: number
  readonly column: number
  readonly code: string
  readonly message: string
}

/** A process that writes into a folder: its machine, and the identity that distinguishes it from a later one of its number. */
export interface FolderHolder {
  readonly host: string
  readonly boot: string
  readonly space: string
  readonly pid: number
  readonly began: string
  readonly since: string
}

/** The place of a run's first number that is not finite. */
export interface NotFinitePlace {
  readonly step: number
  /** Infinity, -Infinity or NaN, as text: JSON has no number for them. */
  readonly number: string
  /** The value, with the file that it came from. */
  readonly in: string
  /** A place in the value; in a sample where it came from a file. */
  readonly at: readonly number[]
  /** The op that made it of finite numbers; without one, it was an input. */
  readonly by?: string
  /** The rank that met it, of several. */
  readonly rank?: number
}

/** The weights of a run that ended early. */
export interface KeptWeights {
  /** The file of the weights after the last whole step. */
  readonly weights?: string
  /** A command that uses this file. */
  readonly use?: string
}

/**
 * Usage               the call is wrong: a flag, a size, a name; `legal` are the allowed ones, or the nearest of them with `more`
 * FileMissing         a file that the call names is not there             FileRefused  it is there and has the wrong contents
 * DataRefused         a source of data does not fit the model
 * TypesRefused        a model file does not type-check
 * WeightsMismatch     tensors that are missing, extra, or of another shape
 * CheckpointMismatch  the run in the directory is not the one asked for   FolderLocked  another process writes there
 * Diverged            a loss, or a weight that was to be written, is not finite
 * Stopped             a time limit or a signal ended the run after a whole step; the checkpoint folder or the weights are saved
 * AddonMissing        the native side is not there and cannot be made
 * SetupFailed         `spillway setup` did not end; its reason names the cure
 * DeviceFailed        the native side ended the run                       Cancelled    the user did
 */
export type SourceError =
  | {
      readonly tag: 'Usage'
      readonly message: string
      readonly legal?: readonly string[]
      readonly more?: string
      /** Set if the targets do not fit the loss, so that another loss may cure it. */
      readonly about?: 'targets'
    }
  | { readonly tag: 'FileMissing'; readonly kind: FileKind; readonly file: string }
  | {
      readonly tag: 'FileRefused'
      readonly kind: FileKind
      readonly file: string
      readonly reason: string
      /** As for Usage. */
      readonly about?: 'targets'
      /** It was refused before anything was planned. */
      readonly beforehand?: true
      /** The lost and the saved part of a run. */
      readonly kept?: string
    }
  | { readonly tag: 'DataRefused'; readonly data: string; readonly reason: string }
  | { readonly tag: 'TypesRefused'; readonly file: string; readonly typescript: string; readonly faults: readonly TypeFault[] }
  | {
      readonly tag: 'WeightsMismatch'
      readonly file: string
      readonly problems: readonly string[]
      /** Flags with which it fits. */
      readonly help?: readonly string[]
    }
  | { readonly tag: 'CheckpointMismatch'; readonly directory: string; readonly reason: string }
  | ({ readonly tag: 'FolderLocked'; readonly directory: string } & FolderHolder)
  | { readonly tag: 'AddonMissing'; readonly reason: string }
  | { readonly tag: 'SetupFailed'; readonly reason: string }
  | { readonly tag: 'DeviceFailed'; readonly reason: string }
  | {
      readonly tag: 'Diverged'
      readonly step: number
      readonly what: string
      readonly resume?: string
      readonly first?: NotFinitePlace
      /** The likely fix. */
      readonly cure?: string
    }
  | ({ readonly tag: 'Stopped'; readonly stepsDone: number; readonly why: string; readonly directory?: string } & KeptWeights)
  | ({
      readonly tag: 'Cancelled'
      readonly stepsDone: number
      /** Complete images or tiles of a prediction, which replace the steps. */
      readonly predicted?: { readonly count: number; readonly of: 'image' | 'tile' }
      readonly signal?: NodeJS.Signals
      readonly resume?: string
    } & KeptWeights)

/**
 * Every error of the package, as plain data with a `tag`.
 *
 * @example const tagOf = (e: SpillwayError) => e.tag
 */
export type SpillwayError = SourceError | StageError

const SOURCE_TAGS: Readonly<Record<SourceError['tag'], true>> = {
  Usage: true,
  FileMissing: true,
  FileRefused: true,
  DataRefused: true,
  TypesRefused: true,
  WeightsMismatch: true,
  CheckpointMismatch: true,
  FolderLocked: true,
  AddonMissing: true,
  SetupFailed: true,
  DeviceFailed: true,
  Diverged: true,
  Stopped: true,
  Cancelled: true,
}
const isSourceError = (e: SpillwayError): e is SourceError => e.tag in SOURCE_TAGS

export const faultText = ({ file, line, column, code, message }: TypeFault): string =>
  `${file === '' ? '' : `${file}:${line}:${column}: `}${message} (${code})`

const countText = ({ count, of }: { readonly count: number; readonly of: string }): string =>
  `${count} complete ${of}${count === 1 ? '' : 's'}`

const firstText = ({ step, number, at, by, in: where, rank }: NotFinitePlace): string => {
  const met = rank === undefined ? '' : `, at rank ${rank}`
  return by === undefined
    ? `${where} contains ${number} at [${at.join(', ')}], read by step ${step}${met}`
    : `the first number that is not finite is ${number} in ${where} at [${at.join(', ')}], computed by ${by} in step ${step}${met}`
}

/** `allowed: a, b`, or with `more`, which tells how many there are: `nearest: a, b; …`. */
const usageText = ({ message, legal, more }: Extract<SourceError, { readonly tag: 'Usage' }>): string =>
  legal?.length ? `${message}; ${more ? 'nearest' : 'allowed'}: ${legal.join(', ')}${more ? `; ${more}` : ''}` : message

const keptText = ({ weights, use }: KeptWeights): string =>
  weights === undefined ? '' : `; the weights are in ${weights}${use === undefined ? '' : `; to use them: ${use}`}`

const renderSource = (e: SourceError): string => {
  switch (e.tag) {
    case 'Usage':
      return usageText(e)
    case 'FileMissing':
      return `${e.kind} file ${e.file}: no such file`
    case 'FileRefused':
      return `${e.kind} file ${e.file} is refused: ${e.reason}${e.kept ? `; ${e.kept}` : ''}`
    case 'DataRefused':
      return `${e.data} is refused: ${e.reason}`
    case 'TypesRefused':
      return [`model file ${e.file} has type errors (TypeScript ${e.typescript}):`, ...e.faults.map(faultText)].join('\n')
    case 'WeightsMismatch':
      return `weights file ${e.file} does not match the model: ${[...e.problems, ...(e.help ?? [])].join('; ')}`
    case 'CheckpointMismatch':
      return `checkpoint directory ${e.directory}: ${e.reason}`
    case 'FolderLocked':
      return (
        `checkpoint directory ${e.directory}: process ${e.pid} on ${e.host} has used it since ${e.since}; ` +
        `choose another directory, or, if that process has ended, remove ${join(e.directory, 'lock.json')}`
      )
    case 'AddonMissing':
      return `the native addon is missing: ${e.reason}; 'npx spillway doctor' lists the missing parts`
    case 'SetupFailed':
      return e.reason
    case 'DeviceFailed':
      return `the device failed: ${e.reason}`
    case 'Diverged':
      return `step ${e.step}: ${e.what}, so this step was not saved${e.first ? `; ${firstText(e.first)}` : ''}${e.cure ? `; ${e.cure}` : ''}${e.resume ? `; ${e.resume}` : ''}`
    case 'Stopped':
      return `stopped by ${e.why} after ${e.stepsDone} steps${e.directory === undefined ? keptText(e) : `, all saved in ${e.directory}: run the same command with --resume to continue`}`
    case 'Cancelled':
      return `cancelled after ${countText(e.predicted ?? { count: e.stepsDone, of: 'step' })}${e.resume ? `; ${e.resume}` : keptText(e)}`
  }
}

/**
 * Returns the text of an error: the failure, its place, and the legal values.
 *
 * @param e The error.
 * @example
 * const answer = tryStage(net, { budget: gib(4) })
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export const errorText = (e: SpillwayError): string => (isSourceError(e) ? renderSource(e) : renderError(e))

/** The output of `--json`: the error's own fields, and its words. */
export const errorJson = (e: SpillwayError): { readonly error: Readonly<Record<string, unknown>> } => ({
  error: { ...e, message: errorText(e) },
})

/** Kinds of files that are read before any work begins. */
const KNOWN_FIRST: readonly FileKind[] = ['plan', 'model', 'configuration', 'run']

/** 2 the call is wrong, 3 no plan fits, 4 not finite, 5 a checkpoint folder of others, 75 to go on, 128+n a signal, 1 anything else. */
export const exitCode = (e: SpillwayError): number => {
  switch (e.tag) {
    case 'BudgetInfeasible':
    case 'TierInfeasible':
      return 3
    case 'Diverged':
      return 4
    case 'CheckpointMismatch':
    case 'FolderLocked':
      return 5
    case 'Stopped':
      return 75
    case 'Cancelled':
      return 128 + constants.signals[e.signal ?? 'SIGINT']
    case 'FileRefused':
      return e.beforehand || KNOWN_FIRST.includes(e.kind) ? 2 : 1
    case 'DataRefused':
    case 'SetupFailed':
    case 'DeviceFailed':
    case 'VerifyFailed':
      return 1
    // The others say that a flag, a file name, a size or the model itself is wrong.
    default:
      return 2
  }
}

/**
 * The exception of all functions without `try` in their name. It carries the error as data.
 *
 * @example
 * try {
 *   stage(net, { budget: mib(1) })
 * } catch (e) {
 *   if (e instanceof SpillwayException) console.error(e.error.tag, e.message)
 * }
 */
export class SpillwayException extends Error {
  override readonly name = 'SpillwayException'
  constructor(readonly error: SpillwayError) {
    super(errorText(error))
  }
}

export const usage = (message: string, legal?: readonly string[], more?: string): SpillwayError => ({
  tag: 'Usage',
  message,
  ...(legal ? { legal } : {}),
  ...(more ? { more } : {}),
})

/** Marks a refusal of targets that do not fit the loss. */
export const aboutTargets = (e: SpillwayError): SpillwayError =>
  e.tag === 'Usage' || e.tag === 'FileRefused' ? { ...e, about: 'targets' } : e

/** Commands that list all names of a kind. */
const LISTS: Readonly<Record<string, string>> = {
  run: 'spillway runs',
  model: 'spillway models',
  strategy: 'spillway plan --help',
  machine: 'spillway plan --help',
}
const FEW = 6

/** `machine 'rtx' is not known; allowed: …` with all names if they are few, else with the three nearest. */
export const unknownName = (what: string, name: string, known: readonly string[]): SpillwayError => {
  const message = `${what} '${name}' is not known`
  if (known.length <= FEW) return usage(message, known)
  const list = LISTS[what]
  return usage(
    message,
    nearest(name, known, 3),
    list ? `'${list}' lists all ${known.length}` : `there are ${known.length} in all`,
  )
}
