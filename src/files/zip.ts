// Zip archives of untrusted bytes, by yauzl. In: an open file. Out: for each part whose bytes are stored as they are, where these lie in the file;
// nothing is unpacked. Invariant: every part lies inside the file, and there are no more than anybody needs.
// yauzl reads through the functions below, which answer at once: so its callbacks have come when its calls return.
import { readSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { fromRandomAccessReader, RandomAccessReader, type Entry, type ZipFile } from 'yauzl'

/** A part of an archive; of one that is compressed `isStored` is false. */
export interface ZipPart {
  readonly name: string
  readonly isStored: boolean
  readonly offset: number
  readonly bytes: number
}

/** Parts of one archive; networks have thousands. */
const MOST_PARTS = 2 ** 16

class Reading extends RandomAccessReader {
  constructor(private readonly fd: number) {
    super()
  }
  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (err: Error | null, bytesRead: number) => void,
  ): void {
    let read = 0
    while (read < length && position >= 0 && Number.isSafeInteger(position)) {
      const n = readSync(this.fd, buffer, offset + read, length - read, position + read)
      if (n === 0) break
      read += n
    }
    callback(null, read)
  }
}

/** The answer of a call that is complete when it returns. */
const answered = <A>(call: (callback: (error: Error | null, answer?: A) => void) => void): Either<string, A> => {
  let answer: Either<string, A> = E.left('it is truncated')
  call((error, a) => {
    answer = error ? E.left(error.message) : a === undefined ? answer : E.right(a)
  })
  return answer
}

const nextOf = (zip: ZipFile): Either<string, Entry> =>
  answered((callback) => {
    const onEntry = (entry: Entry): void => callback(null, entry)
    zip.once('entry', onEntry)
    zip.readEntry()
    zip.off('entry', onEntry)
  })

const partOf = (zip: ZipFile, entry: Entry, fileBytes: number): Either<string, ZipPart> => {
  const { fileName: name, compressedSize: bytes, compressionMethod, uncompressedSize } = entry
  const start = answered<{ readonly fileDataStart: number }>((callback) =>
    zip.readLocalFileHeader(entry, { minimal: true }, (error, header) => callback(error, header ?? undefined)),
  )
  if (E.isLeft(start)) return start
  const offset = start.right.fileDataStart
  if (offset + bytes > fileBytes) return E.left(`its part '${name}' exceeds its end`)
  const isStored = compressionMethod === 0 && !entry.isEncrypted()
  return isStored && bytes !== uncompressedSize
    ? E.left(`its part '${name}' has ${bytes} bytes instead of the declared ${uncompressedSize}`)
    : E.right({ name, isStored, offset, bytes })
}

/** All parts of an archive, by name. */
export const zipParts = (fd: number, fileBytes: number): Either<string, ReadonlyMap<string, ZipPart>> => {
  const opened = answered<ZipFile>((callback) =>
    fromRandomAccessReader(new Reading(fd), fileBytes, { lazyEntries: true, autoClose: false }, (error, zip) =>
      callback(error, zip),
    ),
  )
  if (E.isLeft(opened)) return opened
  const zip = opened.right
  if (zip.entryCount > MOST_PARTS) return E.left(`it declares ${zip.entryCount} parts; allowed: at most ${MOST_PARTS}`)
  let failed: string | undefined
  zip.on('error', (error: Error) => {
    failed = error.message
  })
  const parts = new Map<string, ZipPart>()
  for (let i = 0; i < zip.entryCount; i++) {
    const entry = nextOf(zip)
    if (failed !== undefined) return E.left(failed)
    if (E.isLeft(entry)) return entry
    const part = partOf(zip, entry.right, fileBytes)
    if (E.isLeft(part)) return part
    if (parts.has(part.right.name)) return E.left(`it has two parts named '${part.right.name}'`)
    parts.set(part.right.name, part.right)
  }
  return E.right(parts)
}
