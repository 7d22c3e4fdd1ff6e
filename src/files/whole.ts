// Files that are whole or not there. In: a path and a writer. Out: the file under its name, with its size and digest.
// Invariant: whatever moment the process dies at, the name shows the old file or the new one, complete and on the disk.
import { createHash, randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** Takes bytes in order; returns when they are with the kernel. */
export type Sink = (bytes: Uint8Array) => void
export interface Written {
  readonly bytes: number
  readonly sha256: string
}

const CHUNK_BYTES = 32 * 1024 * 1024

/** A short write is no error: the rest follows. */
const writeAll = (fd: number, bytes: Uint8Array): void => {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, Math.min(CHUNK_BYTES, bytes.length - at))
}

const syncDirectory = (directory: string): void => {
  const fd = openSync(directory, constants.O_RDONLY)
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

const TEMPORARY = /^\.(.+)\.(\d+)\.[0-9a-f]{12}\.part$/
const temporaryName = (path: string): string =>
  join(dirname(path), `.${basename(path)}.${process.pid}.${randomBytes(6).toString('hex')}.part`)

export const writeWhole = (path: string, write: (sink: Sink) => void): Written => {
  const temporary = temporaryName(path)
  const hash = createHash('sha256')
  let bytes = 0
  const fd = openSync(temporary, 'wx', 0o644)
  try {
    try {
      write((piece) => {
        writeAll(fd, piece)
        hash.update(piece)
        bytes += piece.length
      })
      fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    renameSync(temporary, path)
  } catch (e) {
    rmSync(temporary, { force: true })
    throw e
  }
  syncDirectory(dirname(path))
  return { bytes, sha256: hash.digest('hex') }
}

export const writeWholeText = (path: string, text: string): Written => writeWhole(path, (sink) => sink(Buffer.from(text, 'utf8')))

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Removes what a killed writer left; the files of writers that live are theirs. */
export const removeLeftovers = (directory: string): void => {
  for (const name of readdirSync(directory)) {
    const pid = Number(TEMPORARY.exec(name)?.[2] ?? 0)
    if (pid > 0 && (pid === process.pid || !isAlive(pid))) rmSync(join(directory, name), { force: true })
  }
}

// ---------------------------------------------------------------- reading

/** Bytes [offset, offset + bytes) of an open file; undefined when the file ends before. */
export const readRange = (fd: number, offset: number, bytes: number): Uint8Array | undefined => {
  const into = new Uint8Array(bytes)
  for (let at = 0; at < bytes; ) {
    const n = readSync(fd, into, at, Math.min(bytes - at, 1 << 30), offset + at)
    if (n === 0) return undefined
    at += n
  }
  return into
}

export const withFile = <A>(path: string, use: (fd: number, fileBytes: number) => A): A => {
  const fd = openSync(path, 'r')
  try {
    return use(fd, fstatSync(fd).size)
  } finally {
    closeSync(fd)
  }
}
