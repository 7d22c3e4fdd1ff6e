// The files that data are read from. In: data, and the option that names them. Out: places for the check against outputs
// (files/places.ts). Invariant: only names are read, and lists of images.
import { type Dirent, readdirSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { attempt } from '../errors/exceptions'
import { DATA_FILE, type Read } from '../files/places'
import { statAt } from '../files/whole'
import type { Data } from './data'
import { openImages, PAIRS } from './images'

/** Data as `train`, `evaluate` and `predict` accept them; an evaluation carries its own. */
export type Given = string | Data | { readonly data: string | Data } | undefined

/** The path of data; undefined for synthetic data and samples from a script. */
export const pathOf = (given: Given): string | undefined => {
  if (given === undefined || typeof given === 'string') return given
  if ('data' in given) return pathOf(given.data)
  return 'path' in given.set ? given.set.path : undefined
}

/** The folder of the images of COCO annotations. */
export const imagesOf = (given: Given): string | undefined => {
  if (given === undefined || typeof given === 'string') return undefined
  if ('data' in given) return imagesOf(given.data)
  return given.set.kind === 'images' ? given.set.images : undefined
}

/** Data in the folder itself: then its subfolders are not read. */
const isFlat = (entries: readonly Dirent[]): boolean => entries.some((e) => DATA_FILE.test(e.name))

const entriesOf = (folder: string): readonly Dirent[] => attempt(() => readdirSync(folder, { withFileTypes: true })) ?? []
export const isFolder = (path: string): boolean => statAt(path)?.isDirectory() ?? false

const linksIn = (folder: string): readonly string[] =>
  entriesOf(folder).flatMap((e) => (e.isSymbolicLink() ? [join(folder, e.name)] : []))

/** A folder of samples, of classes, or of images and masks. */
const folders = (by: string, path: string): readonly Read[] => {
  const entries = entriesOf(path)
  const listed = (folder: string) => (): readonly string[] => linksIn(folder)
  const inner = entries.flatMap((e) => (e.isDirectory() || (e.isSymbolicLink() && isFolder(join(path, e.name))) ? [e.name] : []))
  const pair = PAIRS.find((names) => names.every((n) => inner.includes(n)))
  const nested = !isFlat(entries) && pair === undefined
  const read = isFlat(entries) ? [] : (pair ?? inner)
  return [
    { by, path, nested, listed: listed(path) },
    ...read.map((n) => join(path, n)).map((folder) => ({ by, path: folder, nested: false, listed: listed(folder) })),
  ]
}

/** The files that a list of images names; `images`: the folder of the images of COCO annotations. */
export const listedIn = (path: string, images?: string): readonly string[] =>
  pipe(
    openImages(path, undefined, { images }),
    E.match(
      () => [],
      ({ samples }) => samples.flatMap(({ image, mask }) => (typeof mask === 'string' ? [image, mask] : [image])),
    ),
  )

/** The files and folders of the data of an option; nothing for samples from a script. */
export const readingData = (by: string, given: Given): readonly Read[] => {
  const path = pathOf(given)
  if (path === undefined || path === '') return []
  return isFolder(path) ? folders(by, path) : [{ by, path, listed: () => listedIn(path, imagesOf(given)) }]
}
