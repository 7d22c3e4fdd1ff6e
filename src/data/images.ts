// Image files as samples. In: a folder of classes, of images and masks, or a list. Out: which files a sample is made of. Invariant: files
// are listed in the order of their names, so a data set has one order; a mask that is missing is refused by its image's name.
import { createHash } from 'node:crypto'
import { type Dirent, fstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, extname, join, relative, resolve, sep } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { readRange, statAt, withFile } from '../files/whole'
import { IMAGE } from './decode'

/** Files of a sample: an image, and its class or its mask; of what is predicted, neither. */
export interface ImageSample {
  readonly image: string
  readonly label?: number
  readonly mask?: string
}

export interface ImageList {
  readonly samples: readonly ImageSample[]
  /** Names of the classes, where they have any, in the order of their labels. */
  readonly classes?: readonly string[]
}

const refused = (file: string, reason: string): Either<SpillwayError, never> =>
  E.left({ tag: 'FileRefused', kind: 'data', file, reason })

const byName = (a: Dirent, b: Dirent): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
const entriesOf = (folder: string): readonly Dirent[] => readdirSync(folder, { withFileTypes: true }).sort(byName)
const isFolder = (at: string): boolean => statAt(at)?.isDirectory() ?? false
const foldersIn = (folder: string): readonly string[] =>
  entriesOf(folder)
    .filter((e) => !e.name.startsWith('.') && (e.isDirectory() || (e.isSymbolicLink() && isFolder(join(folder, e.name)))))
    .map((e) => e.name)
const imagesIn = (folder: string): readonly string[] =>
  entriesOf(folder)
    .filter((e) => !e.name.startsWith('.') && IMAGE.test(e.name))
    .map((e) => e.name)
const stem = (file: string): string => basename(file, extname(file))

const LAYOUTS =
  'allowed: one folder of images per class, images/NAME.png beside masks/NAME.png, or a .csv or .json list of image and label or mask'

// ---------------------------------------------------------------- folders

export const PAIRS = [
  ['images', 'masks'],
  ['input', 'target'],
] as const

const pairedIn = (folder: string, images: string, masks: string): Either<SpillwayError, ImageList> => {
  const found = new Map(imagesIn(join(folder, masks)).map((name) => [stem(name), name]))
  return pipe(
    imagesIn(join(folder, images)),
    E.traverseArray((name): Either<SpillwayError, ImageSample> => {
      const mask = found.get(stem(name))
      const image = join(folder, images, name)
      return mask === undefined
        ? refused(image, `it has no mask: ${join(folder, masks)} has no image named ${stem(name)}`)
        : E.right({ image, mask: join(folder, masks, mask) })
    }),
    E.map((samples) => ({ samples })),
  )
}

const classesIn = (folder: string, classes: readonly string[]): ImageList => ({
  samples: classes.flatMap((name, label) =>
    imagesIn(join(folder, name)).map((file) => ({ image: join(folder, name, file), label })),
  ),
  classes,
})

const folderOf = (folder: string): Either<SpillwayError, ImageList> => {
  const folders = foldersIn(folder)
  const pair = PAIRS.find((names) => names.every((n) => folders.includes(n)))
  return pair ? pairedIn(folder, pair[0], pair[1]) : E.right(classesIn(folder, folders))
}

// ---------------------------------------------------------------- lists

type Row = Readonly<Record<string, unknown>>

/** Lines of fields, which may stand in quotes; the first names them. */
const csvRows = (text: string): Either<string, readonly Row[]> => {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '')
  const fields = (line: string): readonly string[] =>
    [...line.matchAll(/(?:^|,)\s*(?:"((?:[^"]|"")*)"|([^,]*))/g)].map((m) => (m[1]?.replaceAll('""', '"') ?? m[2] ?? '').trim())
  const [head = [], ...rows] = lines.map(fields)
  const odd = rows.findIndex((r) => r.length !== head.length)
  return odd >= 0
    ? E.left(`line ${odd + 2} has ${rows[odd]!.length} fields, but the header has ${head.length}`)
    : E.right(rows.map((r) => Object.fromEntries(head.map((name, i) => [name, r[i]!]))))
}

const jsonRows = (text: string): Either<string, readonly Row[]> => {
  try {
    const rows: unknown = JSON.parse(text)
    return Array.isArray(rows) && rows.every((r) => typeof r === 'object' && r !== null)
      ? E.right(rows as readonly Row[])
      : E.left('it is not a list of objects with image and label or mask')
  } catch (e) {
    return E.left(`it is not JSON: ${(e as Error).message}`)
  }
}

/** Numbers where all labels are such, else the sorted names of classes. */
const labelsIn = (rows: readonly Row[]): { readonly of: (row: Row) => number; readonly classes?: readonly string[] } => {
  const names = rows.map((r) => String(r['label']))
  if (names.every((n) => /^-?\d+$/.test(n))) return { of: (r) => Number(r['label']) }
  const classes = [...new Set(names)].sort()
  const numbers = new Map(classes.map((name, i) => [name, i]))
  return { of: (r) => numbers.get(String(r['label']))!, classes }
}

const listOf = (path: string, rows: readonly Row[]): Either<SpillwayError, ImageList> => {
  const has = (key: string) => (row: Row) => row[key] !== undefined && row[key] !== ''
  const kind = rows.every(has('label')) ? 'label' : 'mask'
  const odd = rows.findIndex((r) => typeof r['image'] !== 'string' || !has('image')(r) || !has(kind)(r))
  if (odd >= 0) return refused(path, `its entry ${odd + 1} must have image, and label or mask as the other entries`)
  const at = (file: unknown): string => resolve(dirname(path), String(file))
  const { of, classes } = labelsIn(rows)
  const samples = rows.map((r) => ({ image: at(r['image']), ...(kind === 'label' ? { label: of(r) } : { mask: at(r['mask']) }) }))
  return E.right({ samples: samples as readonly ImageSample[], ...(kind === 'label' && classes ? { classes } : {}) })
}

const LIST = /\.(csv|json)$/i

/** Whether a path is meant as images. */
export const holdsImages = (path: string): boolean => {
  const stat = statAt(path)
  if (!stat) return false
  if (!stat.isDirectory()) return LIST.test(path)
  if (readdirSync(path).some((n) => /\.(npy|safetensors)$/.test(n))) return false
  return foldersIn(path).some((n) => imagesIn(join(path, n)).length > 0)
}

/** Whether a path is meant as arrays in files. */
export const holdsArrays = (path: string): boolean => {
  const stat = statAt(path)
  const has = (folder: string): boolean => readdirSync(folder).some((n) => /\.(npy|safetensors)$/.test(n))
  if (!stat?.isDirectory()) return /\.(npy|safetensors)$/.test(path)
  return has(path) || foldersIn(path).some((n) => has(join(path, n)))
}

const openList = (path: string): Either<SpillwayError, ImageList> => {
  const text = readFileSync(path, 'utf8').replace(/^\ufeff/, '')
  const rows = path.toLowerCase().endsWith('.json') ? jsonRows(text) : csvRows(text)
  return E.isLeft(rows) ? refused(path, rows.left) : listOf(path, rows.right)
}

export const openImages = (path: string): Either<SpillwayError, ImageList> =>
  pipe(
    onFile(
      'data',
      path,
    )(() => (statSync(path).isDirectory() ? folderOf(path) : LIST.test(path) ? openList(path) : refused(path, LAYOUTS))),
    E.filterOrElse(
      ({ samples }) => samples.length > 0,
      (): SpillwayError => ({ tag: 'FileRefused', kind: 'data', file: path, reason: `it has no images; ${LAYOUTS}` }),
    ),
  )

// ---------------------------------------------------------------- images alone

/** Whether a path is meant as images to look at: an image, a folder of them, or what samples are made of. */
export const holdsPictures = (path: string): boolean => {
  const stat = statAt(path)
  return (
    stat !== undefined &&
    (stat.isDirectory() ? imagesIn(path).length > 0 || holdsImages(path) : IMAGE.test(path) || LIST.test(path))
  )
}

/** Image files and what each is called: as its file, in a folder of folders with that folder's name before it. */
export const picturesAt = (path: string): Either<SpillwayError, readonly { readonly file: string; readonly name: string }[]> => {
  const called = (folder: string) => (file: string) => ({
    file,
    name: relative(folder, file).slice(0, -extname(file).length).split(sep).join('-'),
  })
  const found = onFile(
    'data',
    path,
  )((): Either<SpillwayError, readonly { readonly file: string; readonly name: string }[]> => {
    if (!statSync(path).isDirectory() && IMAGE.test(path)) return E.right([called(dirname(path))(path)])
    const own = statSync(path).isDirectory() ? imagesIn(path) : []
    if (own.length > 0) return E.right(own.map((name) => called(path)(join(path, name))))
    const isList = !statSync(path).isDirectory()
    return E.map(({ samples }: ImageList) => samples.map(({ image }) => called(isList ? dirname(image) : path)(image)))(
      openImages(path),
    )
  })
  return pipe(
    found,
    E.filterOrElse(
      (all) => new Set(all.map((p) => p.name)).size === all.length,
      (all): SpillwayError => {
        const { name } = all.find((p, i) => all.findIndex((q) => q.name === p.name) !== i)!
        return { tag: 'FileRefused', kind: 'data', file: path, reason: `two of its images are named '${name}'` }
      },
    ),
  )
}

// ---------------------------------------------------------------- what they are

const ENDS_BYTES = 64 * 1024

/** Names, labels and bytes of all files, of large ones their sizes and first bytes: the same wherever they lie. */
export const imagesContent = ({ samples }: ImageList): Either<SpillwayError, string> => {
  const hash = createHash('sha256')
  for (const s of samples) {
    hash.update(`${basename(s.image)} ${s.mask === undefined ? s.label : basename(s.mask)}\n`)
    for (const file of [s.image, ...(s.mask === undefined ? [] : [s.mask])]) {
      const read = withFile('data', file, (fd) => {
        const { size } = fstatSync(fd)
        hash.update(`${size}\n`)
        const first = readRange(fd, 0, Math.min(size, ENDS_BYTES))
        return first ? E.right(void hash.update(first)) : E.left('it ends before its last byte')
      })
      if (E.isLeft(read)) return read
    }
  }
  return E.right(`${samples.length} images, sha256 ${hash.digest('hex').slice(0, 16)}`)
}
