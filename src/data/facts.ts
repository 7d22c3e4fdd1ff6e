// Facts about the files of data, for the record of a run. In: data. Out: place, number of files, newest time, and a hash of names and sizes.
// Invariant: no file is opened except a list of images, so that large folders are cheap.
// Worked example: two runs with one hash and one newest time read the same files, unless somebody forged the times.
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { attempt } from '../errors/exceptions'
import { statAt } from '../files/whole'
import { type Given, imagesOf, isFolder, listedIn, pathOf } from './reads'

export interface DataFacts {
  /** The path of the data, or words for data without files. */
  readonly place: string
  readonly files?: number
  /** Time of the newest file, as ISO 8601. */
  readonly newest?: string
  /** Hash of the names and the sizes. */
  readonly sha256?: string
}

/** Sizes and times are read of at most this number of files, evenly spread. A folder may have millions of files. */
const MOST_READ = 4096

const filesAt = (path: string, images?: string): readonly string[] =>
  isFolder(path)
    ? (attempt(() => readdirSync(path, { recursive: true, withFileTypes: true })) ?? [])
        .filter((e) => !e.isDirectory())
        .map((e) => join(e.parentPath ?? e.path, e.name))
        .sort()
    : [path, ...listedIn(path, images)]

export const dataFacts = (given: Given): DataFacts => {
  const path = pathOf(given)
  if (path === undefined) return { place: given === undefined ? 'synthetic' : 'a source in the script' }
  const files = filesAt(path, imagesOf(given))
  const every = Math.max(1, Math.ceil(files.length / MOST_READ))
  const hash = createHash('sha256')
  let newest = 0
  files.forEach((file, i) => {
    const stat = i % every === 0 ? statAt(file) : undefined
    if (stat) newest = Math.max(newest, stat.mtimeMs)
    hash.update(`${relative(path, file)}\0${stat?.size ?? ''}\0`)
  })
  return {
    place: resolve(path),
    files: files.length,
    ...(newest > 0 ? { newest: new Date(newest).toISOString() } : {}),
    sha256: hash.digest('hex'),
  }
}
