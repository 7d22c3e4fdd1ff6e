// The places that a command reads and writes. In: paths, each with the option that names it. Out: nothing, or the reason why an output
// cannot be written there; free room. Invariant: nothing is created, changed or read, except the first bytes of a file to be replaced.
// Worked example: `--data flat --out flat` is refused, and so is `--save net.ts`, and `--save a --report b` if b is a link to a.
import { accessSync, constants, lstatSync, realpathSync, statfsSync, statSync } from 'node:fs'
import { dirname, extname, join, relative, resolve, sep } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import { attempt } from '../errors/exceptions'
import { configuredReads } from './configured'
import { FILES, type FileOf, FOLDERS, type FolderOf, mayReplace, otherEnding } from './kinds'
import { linked, oddity } from './whole'

const statOf = (path: string) => attempt(() => statSync(path))
const isDangling = (path: string): boolean => statOf(path) === undefined && attempt(() => lstatSync(path)) !== undefined

/** The folder itself, or the part of it that exists. */
export const existingPart = (folder: string): string => {
  const at = resolve(folder)
  return statOf(at) !== undefined || isDangling(at) || at === dirname(at) ? at : existingPart(dirname(at))
}

const refusal = (what: string, path: string, why: string): Either<SpillwayError, never> =>
  E.left(usage(`${what} ${path} cannot be written: ${why}`))

const writable = (what: string, path: string, folder: string): Either<SpillwayError, void> => {
  const stat = statOf(folder)
  if (stat === undefined) return refusal(what, path, `${folder} ${isDangling(folder) ? 'is a broken link' : 'does not exist'}`)
  if (!stat.isDirectory()) return refusal(what, path, `${folder} is not a folder`)
  return pipe(
    E.tryCatch(
      () => accessSync(folder, constants.W_OK | constants.X_OK),
      (e) => ((e as NodeJS.ErrnoException).code === 'EROFS' ? 'is on a read-only file system' : 'is not writable'),
    ),
    E.orElse((why): Either<SpillwayError, void> => refusal(what, path, `folder ${folder} ${why}`)),
  )
}

/** A folder that exists or can be created. */
export const folderPlace = (what: string, path: string): Either<SpillwayError, void> => writable(what, path, existingPart(path))

/** A file in a folder that exists, or that the run creates. */
const filePlace = ({ what, creates }: FileOf, path: string, created: readonly string[]): Either<SpillwayError, void> => {
  if (path === '') return E.left(usage(`${what}: the name is empty`))
  const stat = statOf(path)
  const odd = stat && oddity(stat)
  if (odd !== undefined) return refusal(what, path, odd)
  const folder = dirname(linked(path))
  return created.includes(realOf(folder)) ? E.right(undefined) : writable(what, path, creates ? existingPart(folder) : folder)
}

// ---------------------------------------------------------------- places of a call

/** A file or a folder that a call reads. */
export interface Read {
  /** The option that names it, or 'the model'. */
  readonly by: string
  readonly path: string
  /** For a folder of data: true if its subfolders are read, too. */
  readonly nested?: boolean
  /** Other files that are read: those that a list names, and targets of links in a folder. */
  readonly listed?: () => readonly string[]
}

/** A file or a folder that a call writes. */
export interface Write {
  readonly by: string
  readonly path: string
  readonly kind: keyof typeof FILES | keyof typeof FOLDERS
}

/** An output of an option, if the option is given. */
export const writing = (by: string, kind: Write['kind'], path: string | undefined): readonly Write[] =>
  path === undefined ? [] : [{ by, kind, path }]

/** An input of an option, if the option is given. */
export const reading = (by: string, path: string | undefined): readonly Read[] =>
  path === undefined || path === '' ? [] : [{ by, path }]

const fileOf = ({ kind }: Write): FileOf | undefined => (kind in FILES ? FILES[kind as keyof typeof FILES] : undefined)
const folderOf = ({ kind }: Write): FolderOf | undefined => (kind in FOLDERS ? FOLDERS[kind as keyof typeof FOLDERS] : undefined)

/** The path without links, of a file that may not exist yet. */
const realOf = (path: string): string => {
  const at = linked(path)
  const there = existingPart(at)
  return join(attempt(() => realpathSync(there)) ?? there, relative(there, at))
}

/** Two names of one file, through links of either kind. */
const isSame = (a: string, b: string): boolean => {
  const [one, other] = [statOf(a), statOf(b)]
  return one && other ? one.dev === other.dev && one.ino === other.ino : realOf(a) === realOf(b)
}

/** The path from a folder to a file or folder inside it; undefined if it is outside, '' for the folder itself. */
const inside = (folder: string, path: string): string | undefined => {
  const from = relative(realOf(folder), realOf(path))
  return from === '..' || from.startsWith(`..${sep}`) ? undefined : from
}

/** Files that are read as data if they are in a folder of data. */
export const DATA_FILE = /\.(npy|safetensors|png|jpe?g|webp|tiff?)$/i

const wrong = (message: string): Either<SpillwayError, never> => E.left(usage(message))

/** An output that a folder of data would contain, and that the next run would read. */
const readAsData = (w: Write, { path, nested }: Read): boolean => {
  const from = inside(path, w.path)
  if (nested === undefined || from === undefined) return false
  if (folderOf(w)) return from === '' || nested
  return DATA_FILE.test(w.path) && (nested || !from.includes(sep))
}

/** The input that an output would replace. Only files of the same ending as an output can be data. */
const replacedBy = (w: Write, { path, listed }: Read): string | undefined => {
  const folder = folderOf(w)
  if (!folder) {
    const all = DATA_FILE.test(w.path) && listed ? listed().filter((file) => extname(file) === extname(w.path)) : []
    return [path, ...all].find((file) => isSame(w.path, file))
  }
  const isOwn = (file: string): boolean => folder.writes.test(file) && dirname(realOf(file)) === realOf(w.path)
  return [path, ...(folder.legal && listed ? listed() : [])].find((file) => isOwn(file))
}

const besideInputs = (w: Write, reads: readonly Read[]): Either<SpillwayError, void> => {
  for (const r of reads) {
    const replaced = replacedBy(w, r)
    if (replaced !== undefined)
      return wrong(
        `${w.by} ${w.path} would replace ${replaced} of ${r.by}, an input of this run: choose another ${folderOf(w) ? 'folder' : 'name'}`,
      )
    if (readAsData(w, r))
      return wrong(`${w.by} ${w.path} is in the folder of ${r.by} ${r.path} and would be read as data: choose a place outside it`)
  }
  return E.right(undefined)
}

/** The reason why a file and another output exclude each other. */
const clash = (file: Write, other: Write): string | undefined => {
  const folder = folderOf(other)
  if (isSame(file.path, other.path)) return `${file.by} and ${other.by} both name ${file.path}: choose two names`
  if (folder?.writes.test(file.path) && dirname(realOf(file.path)) === realOf(other.path))
    return `${file.by} ${file.path} has the name of a file that ${other.by} ${other.path} contains: choose another name`
  return inside(file.path, other.path) === undefined
    ? undefined
    : `${other.by} ${other.path} is inside ${file.by} ${file.path}, which is a file: choose another place`
}

const besideOutputs = (w: Write, others: readonly Write[]): Either<SpillwayError, void> => {
  const files = (a: Write, b: Write): string | undefined => (folderOf(a) ? undefined : clash(a, b))
  const why = others.map((o) => files(o, w) ?? files(w, o)).find((reason) => reason !== undefined)
  return why === undefined ? E.right(undefined) : wrong(why)
}

/** A folder whose name is that of a file, for an option that takes files, too. */
const folderNamed = ({ by, path }: Write, { legal }: FolderOf): Either<SpillwayError, void> => {
  const other = legal === undefined ? undefined : otherEnding(path, [])
  return other === undefined || statOf(path)?.isDirectory()
    ? E.right(undefined)
    : wrong(`${by} ${path}: ${by} writes ${legal}, but the name ends in ${other}: choose another name`)
}

/** The name ends as names of this kind do, and a file of that name is of this kind. */
const ofItsKind = (w: Write): Either<SpillwayError, void> => {
  const { by, path } = w
  const folder = folderOf(w)
  if (folder) return folderNamed(w, folder)
  const file = fileOf(w)!
  const other = otherEnding(path, file.endings)
  if (other !== undefined)
    return wrong(
      `${by} ${path}: ${by} writes ${file.one}, but the name ends in ${other}: use ${path.slice(0, -other.length)}${file.endings[0]}`,
    )
  return statOf(path) === undefined || mayReplace(path, file)
    ? E.right(undefined)
    : wrong(`${by} ${path} would replace a file that is not ${file.one}: choose another name, or remove this file`)
}

const placeOf = (w: Write, created: readonly string[]): Either<SpillwayError, void> => {
  const folder = folderOf(w)
  return folder ? folderPlace(folder.what, w.path) : filePlace(fileOf(w)!, w.path, created)
}

/**
 * Checks all places of a call before anything is read or planned. No output is an input, another output, or data of the next run; none
 * replaces a file of another kind; and each can be written.
 */
export const checkedPlaces = (reads: readonly Read[], writes: readonly Write[]): Either<SpillwayError, void> => {
  // The other folders are created after the files in them.
  const created = writes.flatMap((w) => (w.kind === 'logs' || w.kind === 'checkpoints' ? [realOf(w.path)] : []))
  const named = writes.filter((w) => w.path !== '')
  const checks: readonly (() => Either<SpillwayError, void>)[] = [
    ...named.map((w) => () => besideInputs(w, [...reads, ...configuredReads()])),
    ...named.map((w, i) => () => besideOutputs(w, named.slice(0, i))),
    ...writes.flatMap((w) => [() => placeOf(w, created), () => ofItsKind(w)]),
  ]
  return checks.reduce<Either<SpillwayError, void>>((done, check) => E.flatMap(check)(done), E.right(undefined))
}

/** The free bytes of a file system, and its number. */
export interface FreeRoom {
  readonly device: number
  readonly bytes: number
  /** The bytes in all. */
  readonly size: number
}

export const freeRoom = (path: string): FreeRoom | undefined =>
  attempt(() => {
    const at = existingPart(path)
    const { bavail, blocks, bsize } = statfsSync(at)
    return { device: statSync(at).dev, bytes: bavail * bsize, size: blocks * bsize }
  })
