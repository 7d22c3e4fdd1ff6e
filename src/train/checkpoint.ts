// Training state on disk. In: the state after a step. Out: PREFIX.safetensors beside PREFIX.json, and back.
// Invariant: the JSON is renamed into place last and names the tensors' size and digest, so whatever moment the process
// dies at, the newest JSON whose tensors match it is a whole checkpoint; the one before stays until then.
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import * as t from 'io-ts'
import type { SpillwayError } from '../errors/errors'
import { removeLeftovers, type Written, writeWholeText } from '../files/whole'
import { openTensors, readTensor, type TensorFile, writeTensors } from '../files/safetensors'
import { totalsCodec } from './totals'
import { asTensors, type Counted, counterTensors, fill, type ModelState, problemsOf, type StateStore } from './weights'

// ---------------------------------------------------------------- the JSON

/** What must agree for a run to go on: the training graph, the random seed, and the data; in words for the refusal. */
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

const headCodec = t.strict({
  format: t.literal('spillway-checkpoint'),
  version: t.literal(1),
  step: t.number,
  identity: identityCodec,
  /** For people; nothing depends on them. */
  settings: t.record(t.string, t.unknown),
  countedBefore: t.record(t.string, t.string),
  totals: totalsCodec,
  tensors: t.strict({ file: t.string, bytes: t.number, sha256: t.string }),
})
type Head = t.TypeOf<typeof headCodec>

/** A checkpoint that was found whole. */
export interface Checkpoint {
  readonly step: number
  readonly identity: RunIdentity
  readonly losses: readonly number[]
  readonly counted: Counted
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

export interface SavedRun {
  readonly step: number
  readonly identity: RunIdentity
  readonly settings: Readonly<Record<string, unknown>>
  readonly losses: readonly number[]
  readonly counted: Counted
  readonly totals: t.TypeOf<typeof totalsCodec>
}

/** Keeps the newest two: should the last turn out damaged, the one before it is still there. */
const removeOlder = (directory: string, step: number): void => {
  const steps = readdirSync(directory).flatMap((n) => (HEAD_NAME.test(n) ? [Number(HEAD_NAME.exec(n)![1])] : []))
  const previous = Math.max(-1, ...steps.filter((s) => s < step))
  for (const name of readdirSync(directory)) {
    const own = OWN_NAME.exec(name)
    if (own && Number(own[1]) !== step && Number(own[1]) !== previous) rmSync(join(directory, name), { force: true })
  }
}

export const saveCheckpoint = (directory: string, run: SavedRun, state: ModelState, store: StateStore): void => {
  const name = `${stem(run.step)}.safetensors`
  const losses = {
    name: LOSSES,
    type: 'F64',
    shape: [run.losses.length],
    read: () => new Uint8Array(Float64Array.from(run.losses).buffer),
  } as const
  const tensors: Written = writeTensors(
    join(directory, name),
    [...asTensors([...state.weights, ...state.optimizer], store), ...counterTensors(state, run.counted, run.step), losses],
    { format: 'pt' },
  )
  const head: Head = {
    format: 'spillway-checkpoint',
    version: 1,
    step: run.step,
    identity: run.identity,
    settings: run.settings,
    countedBefore: Object.fromEntries([...run.counted].map(([k, v]) => [k, v.toString()])),
    totals: totalsCodec.encode(run.totals),
    tensors: { file: name, ...tensors },
  }
  writeWholeText(join(directory, `${stem(run.step)}.json`), `${JSON.stringify(head, null, 2)}\n`)
  removeOlder(directory, run.step)
}

// ---------------------------------------------------------------- finding

const digestOf = (path: string): { readonly bytes: number; readonly sha256: string } => {
  const fd = openSync(path, 'r')
  try {
    const hash = createHash('sha256')
    const piece = new Uint8Array(8 * 1024 * 1024)
    for (let n = readSync(fd, piece); n > 0; n = readSync(fd, piece)) hash.update(piece.subarray(0, n))
    return { bytes: fstatSync(fd).size, sha256: hash.digest('hex') }
  } finally {
    closeSync(fd)
  }
}

const readHead = (path: string, step: number): Either<string, Head> => {
  let json: unknown
  try {
    json = JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return left('it is not JSON')
  }
  const head = headCodec.decode(json)
  if (isLeft(head)) return left('it is not a checkpoint of this version')
  const { tensors } = head.right
  if (head.right.step !== step || tensors.file !== `${stem(step)}.safetensors`) return left('its step is not the one of its name')
  if (!Object.values(head.right.countedBefore).every((n) => /^-?\d{1,18}$/.test(n))) return left('its counters are not numbers')
  return head
}

const readLosses = (file: TensorFile, steps: number): Either<string, readonly number[]> => {
  const stored = file.tensors.get(LOSSES)
  if (stored?.type !== 'F64' || stored.shape.length !== 1 || stored.shape[0] !== steps)
    return left(`it does not hold the losses of ${steps} steps`)
  const bytes = readTensor(file, stored)
  if (isLeft(bytes)) return bytes
  return right([...new Float64Array(bytes.right.slice().buffer)])
}

const readCheckpoint = (directory: string, step: number): Either<string, Checkpoint> => {
  const head = readHead(join(directory, `${stem(step)}.json`), step)
  if (isLeft(head)) return head
  const path = join(directory, head.right.tensors.file)
  try {
    const found = digestOf(path)
    if (found.bytes !== head.right.tensors.bytes)
      return left(`${head.right.tensors.file} has ${found.bytes} bytes instead of ${head.right.tensors.bytes}`)
    if (found.sha256 !== head.right.tensors.sha256)
      return left(`${head.right.tensors.file} does not have the digest that was written`)
    const file = openTensors(path)
    if (isLeft(file)) return file
    const losses = readLosses(file.right, step)
    if (isLeft(losses)) return losses
    const counted = new Map(Object.entries(head.right.countedBefore).map(([k, v]) => [k, BigInt(v)]))
    return right({
      step,
      identity: head.right.identity,
      losses: losses.right,
      counted,
      totals: head.right.totals,
      file: file.right,
    })
  } catch (e) {
    return left(String((e as Error).message))
  }
}

/** The newest whole checkpoint; an absent directory is an empty one. */
export const findCheckpoint = (directory: string): Found => {
  let names: readonly string[]
  try {
    names = readdirSync(directory)
  } catch {
    return { checkpoint: undefined, refused: [] }
  }
  const refused: string[] = []
  const steps = names.flatMap((n) => (HEAD_NAME.test(n) ? [Number(HEAD_NAME.exec(n)![1])] : [])).sort((a, b) => b - a)
  for (const step of steps) {
    const found = readCheckpoint(directory, step)
    if (!isLeft(found)) return { checkpoint: found.right, refused }
    refused.push(`${stem(step)}.json is refused: ${found.left}`)
  }
  return { checkpoint: undefined, refused }
}

export const prepareDirectory = (directory: string): void => {
  mkdirSync(directory, { recursive: true })
  removeLeftovers(directory)
}

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

/** Why a run cannot go on from here, or nothing. */
export const differenceOf = (found: RunIdentity, wanted: RunIdentity): string | undefined => {
  const keys = (Object.keys(WORDS) as (keyof RunIdentity)[]).filter((k) => found[k] !== wanted[k])
  if (!keys.length) return undefined
  const plain = keys.filter((k) => k !== 'fingerprint')
  const detail = plain.map((k) => `${WORDS[k]} is '${found[k]}' there and '${wanted[k]}' here`)
  return `the run there is another one: ${(detail.length ? detail : [`its ${WORDS.fingerprint} differs`]).join('; ')}`
}

export const restore = (directory: string, c: Checkpoint, state: ModelState, store: StateStore): Either<SpillwayError, void> => {
  const values = [...state.weights, ...state.optimizer]
  const problems = problemsOf(c.file, values, true)
  if (problems.length) return left({ tag: 'CheckpointMismatch', directory, reason: problems.slice(0, 6).join('; ') })
  const filled = fill(c.file, values, store)
  return isLeft(filled) ? left({ tag: 'FileRefused', kind: 'checkpoint', file: c.file.path, reason: filled.left }) : filled
}
