// Files that are whole or absent. In: a path and a writer. Out: the file under its name, with its size and digest. Invariant: at any moment of the
// process's death, the name shows the old file or the new one, complete and on the disk.
import { createHash, randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { type Either, isLeft, isRight, left, mapLeft, right, tryCatch } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { FileKind, SpillwayError } from '../errors/errors'
import { attempt, onFile } from '../errors/exceptions'

/**
 * A file that was written completely.
 *
 * @example const line = ({ bytes, sha256 }: Written) => `${bytes} bytes, ${sha256}`
 */
export interface Written {
  readonly bytes: number
  readonly sha256: string
}

/** The reason why a path is no file; undefined for a file. */
export const oddity = (s: Stats): string | undefined => {
  if (s.isFile()) return undefined
  const what = s.isDirectory() ? 'a folder' : s.isFIFO() ? 'a FIFO' : s.isSocket() ? 'a socket' : 'a device'
  return `it is ${what}, not a file`
}

const withOpen = <A>(path: string, flags: string | number, use: (fd: number) => A): A => {
  const fd = openSync(path, flags, 0o644)
  try {
    return use(fd)
  } finally {
    closeSync(fd)
  }
}

/** The bytes of a file, or the names in a folder, are on the disk then. */
export const synced = (path: string): void => withOpen(path, constants.O_RDONLY, fsyncSync)

const CHUNK_BYTES = 32 * 1024 * 1024

/** A short write is no error: the rest follows. */
const writeAll = (fd: number, bytes: Uint8Array): void => {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, Math.min(CHUNK_BYTES, bytes.length - at))
}

const TEMPORARY = /^\.(.+)\.(\d+)\.[0-9a-f]{12}\.part$/
/** The name of an unfinished file: `removeLeftovers` finds those of killed writers. */
export const temporaryName = (path: string): string =>
  join(dirname(path), `.${basename(path)}.${process.pid}.${randomBytes(6).toString('hex')}.part`)

/** Pieces of a file in order, each made when its turn comes, so that only one is in memory. */
export type ByteStream = Iterable<Either<SpillwayError, Uint8Array>>

const writeThrough = (fd: number, pieces: ByteStream): Either<SpillwayError, Written> => {
  const hash = createHash('sha256')
  let bytes = 0
  for (const piece of pieces) {
    if (isLeft(piece)) return piece
    writeAll(fd, piece.right)
    hash.update(piece.right)
    bytes += piece.right.length
  }
  fsyncSync(fd)
  return right({ bytes, sha256: hash.digest('hex') })
}

/** The facts of a path; below a file there are none. */
export const statAt = (path: string): Stats | undefined => {
  const stat = tryCatch(
    () => statSync(path, { throwIfNoEntry: false }),
    (e) => e as NodeJS.ErrnoException,
  )
  if (isRight(stat)) return stat.right
  if (stat.left.code !== 'ENOTDIR') throw stat.left
  return undefined
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Removes temporary files and folders of killed writers; those of live writers stay. `of`: only those of the file of this name. */
export const removeLeftovers = (directory: string, of?: string): void => {
  for (const name of readdirSync(directory)) {
    const [, whole, pid = 0] = TEMPORARY.exec(name) ?? []
    if (Number(pid) === 0 || (of !== undefined && whole !== of)) continue
    if (Number(pid) === process.pid || !isAlive(Number(pid))) rmSync(join(directory, name), { force: true, recursive: true })
  }
}

/** Removes those of killed writers of one file; a folder that nobody can list has none. */
export const removeLeftoversOf = (path: string): void => void attempt(() => removeLeftovers(dirname(path), basename(path)))

const MOST_LINKS = 40

/** The file that a path names: a link counts as its target, which may be missing. */
export const linked = (path: string): string => {
  let at = resolve(path)
  for (let i = 0; i < MOST_LINKS; i++) {
    const from = at
    const target = attempt(() => readlinkSync(from))
    if (target === undefined) break
    at = resolve(attempt(() => realpathSync(dirname(from))) ?? dirname(from), target)
  }
  return at
}

/**
 * For a file that a user names, 'follow': the target of a link is replaced, and leftovers of earlier writers are removed. For names that we
 * choose, 'replace': a link is replaced itself, so that nobody directs our writes elsewhere.
 */
export type Links = 'follow' | 'replace'

/** A folder or a device at the place of a file, in words. */
const inTheWay = (path: string): string | undefined => {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  return stat === undefined || stat.isSymbolicLink() ? undefined : oddity(stat)
}

export const writeWhole = (path: string, pieces: ByteStream, links: Links = 'follow'): Either<SpillwayError, Written> =>
  onFile(
    'output',
    path,
  )(() => {
    const to = links === 'follow' ? linked(path) : path
    const odd = inTheWay(to)
    if (odd !== undefined) return left({ tag: 'FileRefused', kind: 'output', file: path, reason: odd })
    if (links === 'follow') removeLeftoversOf(to)
    const temporary = temporaryName(to)
    try {
      const written = withOpen(temporary, 'wx', (fd) => writeThrough(fd, pieces))
      if (isRight(written)) {
        renameSync(temporary, to)
        synced(dirname(to))
      }
      return written
    } finally {
      rmSync(temporary, { force: true })
    }
  })

/** A file that is filled piece by piece, in any order, and has its name once it is whole; after that `drop` does nothing. */
export interface Filling {
  readonly put: (offset: number, bytes: Uint8Array) => void
  readonly done: () => void
  readonly drop: () => void
}
export const fillWhole = (path: string, links: Links = 'follow'): Filling => {
  const to = links === 'follow' ? linked(path) : path
  if (links === 'follow') removeLeftoversOf(to)
  const temporary = temporaryName(to)
  const fd = openSync(temporary, 'wx', 0o644)
  let isOpen = true
  // Once only: a closed number may be another file's by then.
  const close = (): void => {
    if (isOpen) closeSync(fd)
    isOpen = false
  }
  return {
    put: (offset, bytes) => {
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, Math.min(CHUNK_BYTES, bytes.length - at), offset + at)
    },
    done: () => {
      fsyncSync(fd)
      close()
      renameSync(temporary, to)
      synced(dirname(to))
    },
    drop: () => {
      close()
      rmSync(temporary, { force: true })
    },
  }
}

export const writeWholeText = (path: string, text: string, links: Links = 'follow'): Either<SpillwayError, Written> =>
  writeWhole(path, [right(Buffer.from(text, 'utf8'))], links)

export const madeFolder = (path: string): Either<SpillwayError, void> =>
  onFile('output', path)(() => right(void mkdirSync(path, { recursive: true })))

// ---------------------------------------------------------------- reading

/** Bytes [offset, offset + bytes) of an open file; undefined when the file ends before. */
export const readRange = (fd: number, offset: number, bytes: number): Uint8Array<ArrayBuffer> | undefined => {
  const into = new Uint8Array(bytes)
  for (let at = 0; at < bytes; ) {
    const n = readSync(fd, into, at, Math.min(bytes - at, 1 << 30), offset + at)
    if (n === 0) return undefined
    at += n
  }
  return into
}

/** Not blocking: nobody may ever write into a FIFO. */
const READING = constants.O_RDONLY | constants.O_NONBLOCK

/** A file of untrusted bytes that is there and may be read; `use` refuses it in words. */
export const withFile = <A>(
  kind: FileKind,
  path: string,
  use: (fd: number, fileBytes: number) => Either<string, A>,
): Either<SpillwayError, A> =>
  onFile(
    kind,
    path,
  )(() =>
    pipe(
      withOpen(path, READING, (fd) => {
        const stat = fstatSync(fd)
        const odd = oddity(stat)
        return odd === undefined ? use(fd, stat.size) : left(odd)
      }),
      mapLeft((reason) => ({ tag: 'FileRefused', kind, file: path, reason })),
    ),
  )

/** Longer ones are read by nobody. */
const LONGEST_TEXT = 2 ** 28

export const readText = (kind: FileKind, file: string): Either<SpillwayError, string> =>
  withFile(kind, file, (fd, bytes) =>
    bytes > LONGEST_TEXT ? left(`it has ${bytes} bytes; allowed: at most ${LONGEST_TEXT}`) : right(readFileSync(fd, 'utf8')),
  )
