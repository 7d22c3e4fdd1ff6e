// Training state on disk. In: the state after a step. Out: PREFIX.safetensors beside PREFIX.json, and back. Invariant: the JSON is renamed into place
// last and has the tensors' size and digest and its own, so at any moment of the process's death, the newest JSON that matches itself and its tensors
// is a whole checkpoint; the one before stays until then.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { constVoid, pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { decodedOr, parsedJson } from '../../staging/core/codecs'
import { errorText, type SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { madeFolder, readText, removeLeftovers, withFile, type Written, writeWholeText } from '../files/whole'
import { type NewTensor, openTensors, readTensor, type TensorFile, writeTensors } from '../files/safetensors'
import { type Measurement, measurementCodec } from './measurement'
import { totalsCodec } from './totals'
import {
  asTensors,
  type Origin,
  counterTensors,
  unreadNames,
  fill,
  type ModelState,
  problemsOf,
  type StateReader,
  type StateStore,
} from './weights'

// ---------------------------------------------------------------- the JSON

/** The equal parts of a continued run: the training graph, the random seed, and the data; in words for the refusal. */
const identityCodec = t.strict({
  model: t.string,
  fingerprint: t.string,
  seed: t.number,
  data: t.string,
  weights: t.string,
  algorithms: t.string,
  device: t.string,
})
export type RunIdentity = t.TypeOf<typeof identityCodec>

/** How many batches a norm has seen: more than JSON's numbers hold. */
const countCodec = new t.Type<bigint, string, unknown>(
  'a count',
  (u): u is bigint => typeof u === 'bigint',
  (u, c) => (typeof u === 'string' && /^-?\d{1,18}$/.test(u) ? t.success(BigInt(u)) : t.failure(u, c)),
  String,
)

/** The basis of bits beside the run: if it is the same elsewhere, so are they. */
const circumstancesCodec = t.strict({ processor: t.string, threads: t.number, libraries: t.string })
export type Circumstances = t.TypeOf<typeof circumstancesCodec>

const commonHead = {
  format: t.literal('spillway-checkpoint'),
  step: t.number,
  identity: identityCodec,
  /** For people; nothing depends on them. */
  settings: t.record(t.string, t.unknown),
  countedBefore: t.record(t.string, countCodec),
  totals: totalsCodec,
  /** Absent in files from before runs were measured. */
  measured: t.union([t.array(measurementCodec), t.undefined]),
  tensors: t.strict({ file: t.string, bytes: t.number, sha256: t.string }),
}
const headCodec = t.strict({ ...commonHead, version: t.literal(2), circumstances: circumstancesCodec, digest: t.string })
type Head = t.TypeOf<typeof headCodec>
/** Version 0.1 wrote no digest of the head, and said of data where they lay. */
const olderCodec = t.strict({ ...commonHead, version: t.literal(1) })
type AnyHead = Head | t.TypeOf<typeof olderCodec>

/** A checkpoint that was found whole. */
export interface Checkpoint {
  readonly step: number
  readonly identity: RunIdentity
  readonly circumstances: Circumstances | undefined
  /** For people. */
  readonly settings: Readonly<Record<string, unknown>>
  readonly losses: readonly number[]
  /** How good the model was after epochs. */
  readonly measured: readonly Measurement[]
  readonly counted: Origin['counted']
  readonly totals: t.TypeOf<typeof totalsCodec>
  readonly file: TensorFile
}
export interface Found {
  readonly checkpoint: Checkpoint | undefined
  /** Words for every checkpoint that is there and damaged. */
  readonly refused: readonly string[]
}

const LOSSES = 'spillway.losses'
const stem = (step: number): string => `step-${String(step).padStart(9, '0')}`
const HEAD_NAME = /^step-(\d{9,15})\.json$/
const OWN_NAME = /^step-(\d{9,15})\.(json|safetensors)$/

// ---------------------------------------------------------------- saving

export interface SavedRun extends Omit<Checkpoint, 'file' | 'circumstances' | 'counted'> {
  readonly origin: Origin
  readonly circumstances: Circumstances
}

const stepsIn = (directory: string): readonly number[] =>
  readdirSync(directory).flatMap((n) => (HEAD_NAME.test(n) ? [Number(HEAD_NAME.exec(n)![1])] : []))

/** The newest are kept: should the last turn out damaged, the one before it is still there. */
export const KEPT = 2

/** Which checkpoints stay when one is written: the newest, and one that is wanted for itself. */
export interface Keeping {
  readonly last: number
  readonly best?: number | undefined
}

const removeOlder = (directory: string, step: number, { last, best }: Keeping): void => {
  const older = stepsIn(directory).filter((s) => s < step)
  const kept = new Set([step, best, ...older.sort((a, b) => b - a).slice(0, last - 1)])
  for (const name of readdirSync(directory)) {
    const own = OWN_NAME.exec(name)
    if (own && !kept.has(Number(own[1]))) rmSync(join(directory, name), { force: true })
  }
}

const lossTensor = (losses: readonly number[]): NewTensor => ({
  name: LOSSES,
  type: 'F64',
  shape: [losses.length],
  read: () => E.right(new Uint8Array(Float64Array.from(losses).buffer)),
})

const DIGEST = /"digest": "([0-9a-f]{64})"(?=\n\}\n$)/
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Ends with the digest of all its text but the digest. */
const headText = ({ origin, losses: _, measured, ...run }: SavedRun, tensors: Head['tensors']): string => {
  const common = { ...run, measured: [...measured], countedBefore: Object.fromEntries(origin.counted), tensors, digest: '' }
  const head: Head = { format: 'spillway-checkpoint', version: 2, ...common }
  const text = `${JSON.stringify(headCodec.encode(head), null, 2)}\n`
  return text.replace('"digest": ""', `"digest": "${sha256(text)}"`)
}

const matchesItself = (text: string): boolean => sha256(text.replace(DIGEST, '"digest": ""')) === DIGEST.exec(text)?.[1]

/** Gives the name of the tensors' file. */
export const saveCheckpoint = (
  directory: string,
  run: SavedRun,
  state: ModelState,
  store: StateReader,
  keeping: Keeping = { last: KEPT },
): Either<SpillwayError, string> => {
  const file = `${stem(run.step)}.safetensors`
  const values = asTensors([...state.weights, ...state.optimizer], store, run.step, run.origin, state.mayOverflow)
  return pipe(
    writeTensors(
      join(directory, file),
      [...values, ...counterTensors(state, run.origin, run.step), ...run.origin.unread, lossTensor(run.losses)],
      { format: 'pt', ...unreadNames(run.origin.unread) },
      'replace',
    ),
    E.flatMap((written) =>
      writeWholeText(join(directory, `${stem(run.step)}.json`), headText(run, { file, ...written }), 'replace'),
    ),
    E.flatMap(() => onFile('output', directory)(() => E.right(removeOlder(directory, run.step, keeping)))),
    E.map(() => file),
  )
}

// ---------------------------------------------------------------- finding

const digestOf = (path: string): Either<SpillwayError, Written> =>
  withFile('checkpoint', path, (fd, bytes) => {
    const hash = createHash('sha256')
    const piece = new Uint8Array(8 * 1024 * 1024)
    for (let n = readSync(fd, piece); n > 0; n = readSync(fd, piece)) hash.update(piece.subarray(0, n))
    return E.right({ bytes, sha256: hash.digest('hex') })
  })

/** A few for each evaluation, and one for each class of its confusion. */
const MOST_BRACKETS = 2 ** 20

const readHead = (path: string, step: number): Either<string, AnyHead> =>
  pipe(
    readText('checkpoint', path),
    E.mapLeft(errorText),
    E.bindTo('text'),
    E.bind('json', ({ text }) => parsedJson(text, MOST_BRACKETS)),
    E.bind('head', ({ json }) => decodedOr(t.union([headCodec, olderCodec]), 'it is not a checkpoint of version 1 or 2')(json)),
    E.filterOrElse(
      // A present digest counts, for any version that the text claims.
      ({ head, text }) => (head.version === 1 ? !text.includes('"digest"') : matchesItself(text)),
      () => 'its digest differs from the written one',
    ),
    E.map(({ head }) => head),
    E.filterOrElse(
      (head) => head.step === step && head.tensors.file === `${stem(step)}.safetensors`,
      () => 'its step differs from its file name',
    ),
  )

const readLosses = (file: TensorFile, steps: number): Either<string, readonly number[]> => {
  const stored = file.tensors.get(LOSSES)
  return stored?.type === 'F64' && stored.shape.length === 1 && stored.shape[0] === steps
    ? pipe(
        readTensor(file, stored),
        E.bimap(errorText, (bytes) => [...new Float64Array(bytes.slice().buffer)]),
      )
    : E.left(`it does not contain the losses of ${steps} steps`)
}

const tensorsFile = (directory: string, { file, bytes, sha256 }: Head['tensors']): Either<string, string> =>
  pipe(
    digestOf(join(directory, file)),
    E.mapLeft(errorText),
    E.filterOrElse(
      (found) => found.bytes === bytes,
      (found) => `${file} has ${found.bytes} bytes instead of ${bytes}`,
    ),
    E.filterOrElse(
      (found) => found.sha256 === sha256,
      () => `the digest of ${file} differs from the written one`,
    ),
    E.map(() => join(directory, file)),
  )

const readCheckpoint = (directory: string, step: number): Either<string, Checkpoint> =>
  pipe(
    readHead(join(directory, `${stem(step)}.json`), step),
    E.bindTo('head'),
    E.bind('path', ({ head }) => tensorsFile(directory, head.tensors)),
    E.bind('file', ({ path }) => E.mapLeft(errorText)(openTensors('checkpoint', path))),
    E.bind('losses', ({ file }) => readLosses(file, step)),
    E.map(({ head, head: { identity, settings, totals, countedBefore, measured }, file, losses }) => ({
      step,
      identity,
      measured: measured ?? [],
      settings,
      circumstances: head.version === 1 ? undefined : head.circumstances,
      losses,
      counted: new Map(Object.entries(countedBefore)),
      totals,
      file,
    })),
  )

/** The newest whole checkpoint; an absent directory is an empty one. */
export const findCheckpoint = (directory: string): Found => {
  const steps = E.getOrElse((): readonly number[] => [])(E.tryCatch(() => stepsIn(directory), constVoid))
  const refused: string[] = []
  for (const step of [...steps].sort((a, b) => b - a)) {
    const found = readCheckpoint(directory, step)
    if (E.isRight(found)) return { checkpoint: found.right, refused }
    refused.push(`${stem(step)}.json is refused: ${found.left}`)
  }
  return { checkpoint: undefined, refused }
}

export const checkpointsIn = (directory: string): number => (existsSync(directory) ? stepsIn(directory).length : 0)
export const holdsCheckpoints = (directory: string): boolean => checkpointsIn(directory) > 0

export const prepareDirectory = (directory: string): Either<SpillwayError, void> =>
  pipe(
    madeFolder(directory),
    E.flatMap(() => onFile('output', directory)(() => E.right(removeLeftovers(directory)))),
  )

// ---------------------------------------------------------------- going on

const WORDS: Readonly<Record<keyof RunIdentity, string>> = {
  model: 'model',
  fingerprint: 'training graph (sizes, loss or optimizer)',
  seed: 'seed',
  data: 'data',
  weights: 'starting weights',
  algorithms: 'choice of algorithms',
  device: 'device',
}

/** The changed circumstances, in words; '' if all are equal. */
export const elsewhere = (there: Circumstances, here: Circumstances): string =>
  (Object.keys(here) as (keyof Circumstances)[])
    .filter((k) => there[k] !== here[k])
    .map((k) => `${CIRCUMSTANCES[k]} ${there[k]} before and ${here[k]} now`)
    .join('; ')
const CIRCUMSTANCES: Readonly<Record<keyof Circumstances, string>> = {
  processor: 'the processor is',
  threads: 'threads are',
  libraries: 'libraries are',
}

/** Options of the training graph by name, as text: those of a checkpoint and those of a call. */
export interface GraphFacts {
  /** Absent in checkpoints of earlier versions. */
  readonly before: unknown
  readonly now: Readonly<Record<string, string>>
}

type Difference = readonly [name: string, before: string, now: string]

/** Options that differ; undefined if the checkpoint has none. */
const differing = ({ before, now }: GraphFacts): readonly Difference[] | undefined => {
  if (!t.record(t.string, t.string).is(before)) return undefined
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])]
  return names.filter((k) => before[k] !== now[k]).map((k) => [k, before[k] ?? 'not set', now[k] ?? 'not set'])
}

/** The differences of two training graphs: their options, or else their layers. */
const graphDifferences = (options: GraphFacts): readonly string[] => {
  const found = differing(options)
  if (found === undefined) return [`its ${WORDS.fingerprint} differs`]
  return found.length ? found.map(differenceText) : ['the layers of the model differ']
}
const differenceText = ([name, before, now]: Difference): string => `${name} is '${before}' in the checkpoint and '${now}' now`

/** The identity of the run, if a checkpoint belongs to it; else the differences, with the names of their options. */
export const sameRun = (
  found: RunIdentity,
  wanted: RunIdentity,
  options: GraphFacts = { before: undefined, now: {} },
): Either<string, RunIdentity> => {
  const keys = (Object.keys(WORDS) as (keyof RunIdentity)[]).filter((k) => found[k] !== wanted[k])
  const own = keys.filter((k) => k !== 'fingerprint').map((k) => differenceText([WORDS[k], `${found[k]}`, `${wanted[k]}`]))
  // Another model has another graph: then its options say nothing.
  const ofGraph = keys.includes('fingerprint') && !keys.includes('model') && (own.length === 0 || differing(options)?.length)
  const all = [...own, ...(ofGraph ? graphDifferences(options) : [])]
  return keys.length === 0 ? E.right(found) : E.left(`it belongs to another run: ${all.join('; ')}`)
}

export const restore = (directory: string, c: Checkpoint, state: ModelState, store: StateStore): Either<SpillwayError, void> => {
  const values = [...state.weights, ...state.optimizer]
  const problems = problemsOf(c.file, values, true)
  return problems.length
    ? E.left({ tag: 'CheckpointMismatch', directory, reason: problems.slice(0, 6).join('; ') })
    : fill(c.file, values, store)
}
