// Image files as samples. In: a folder of classes, of images and masks, or a list. Out: which files a sample is made of. Invariant: files
// are listed in the order of their names, so a data set has one order; a mask that is missing is refused by its image's name.
import { createHash } from 'node:crypto'
import { type Dirent, fstatSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, extname, join, relative, sep } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { errorText, type SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { contentsFix, contentsText, lackText } from '../files/contents'
import { readRange, statAt, withFile } from '../files/whole'
import { annotatedIn, type Annotating, withLabels } from './annotated'
import { type KnownClasses, numbered } from './classes'
import { IMAGE } from './decode'
import { type Damaged, type Found, type ImageList, type ImageSample, isReadable, type LeftOut, refused } from './found'
import { LIST, type NamedSample, readList } from './lists'

const byName = (a: Dirent, b: Dirent): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
const entriesOf = (folder: string): readonly Dirent[] => readdirSync(folder, { withFileTypes: true }).sort(byName)
const isFolder = (at: string): boolean => statAt(at)?.isDirectory() ?? false
const isSeen = (e: Dirent): boolean => !e.name.startsWith('.')
const isFolderIn =
  (folder: string) =>
  (e: Dirent): boolean =>
    e.isDirectory() || (e.isSymbolicLink() && isFolder(join(folder, e.name)))
const foldersIn = (folder: string): readonly string[] =>
  entriesOf(folder)
    .filter((e) => isSeen(e) && isFolderIn(folder)(e))
    .map((e) => e.name)

interface Listing {
  readonly images: readonly string[]
  readonly leftOut: LeftOut
}

/** The images of a folder, and the counts of its other entries. */
const listingOf = (folder: string): Listing => {
  const [images, leftOut]: [string[], string[]] = [[], []]
  for (const e of entriesOf(folder).filter(isSeen))
    if (isFolderIn(folder)(e)) leftOut.push('nested folder')
    else if (!IMAGE.test(e.name)) leftOut.push(`${extname(e.name).toLowerCase() || 'unnamed'} file`)
    else if (isReadable(join(folder, e.name))) images.push(e.name)
    else leftOut.push('unreadable file')
  return { images, leftOut }
}
const imagesIn = (folder: string): readonly string[] => listingOf(folder).images

/** Counts of all data of a path that are left out, in words. */
export const leftOutText = (path: string, leftOut: LeftOut): string | undefined => {
  if (leftOut.length === 0) return undefined
  const counts = new Map<string, number>()
  for (const kind of leftOut) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  const words = [...counts].map(([kind, n]) => `${n} ${n === 1 ? kind : kind.replace(/(file|folder|mask|image)/, '$1s')}`)
  return `data ${path}: left out ${words.join(', ')}`
}

/** The note about data that are left out; with `strict` they are refused. */
export const checkedWhole = (path: string, leftOut: LeftOut, strict: boolean): Either<SpillwayError, readonly string[]> => {
  const text = leftOutText(path, leftOut)
  if (text === undefined) return E.right([])
  return strict
    ? E.left({
        tag: 'FileRefused',
        kind: 'data',
        file: path,
        reason: `${text.slice(text.indexOf('left out'))}: remove them, or run without --strict-data (strictData)`,
      })
    : E.right([text])
}
const stem = (file: string): string => basename(file, extname(file))

const LAYOUTS =
  'allowed: one folder of images per class, or images/NAME.png beside masks/NAME.png, or NAME.input.npy beside NAME.target.npy, or a .csv or .json list of image and label or mask, or COCO annotations'
/** The likely fix for images without labels. */
const UNLABELLED = 'sort the images into one folder per class, or write a list: labels.csv with the header image,label'

// ---------------------------------------------------------------- folders

export const PAIRS = [
  ['images', 'masks'],
  ['input', 'target'],
] as const

const pairIn = (folders: readonly string[]) => PAIRS.find((names) => names.every((n) => folders.includes(n)))

const pairedIn = (folder: string, images: string, masks: string): Either<SpillwayError, Found> => {
  const [left, right] = [listingOf(join(folder, images)), listingOf(join(folder, masks))]
  const found = new Map(right.images.map((name) => [stem(name), name]))
  const used = new Set(left.images.map(stem))
  const unused = right.images.filter((name) => !used.has(stem(name))).map(() => 'mask without an image')
  return pipe(
    left.images,
    E.traverseArray((name): Either<SpillwayError, NamedSample> => {
      const mask = found.get(stem(name))
      const image = join(folder, images, name)
      return mask === undefined
        ? refused(image, `it has no mask: ${join(folder, masks)} has no image named ${stem(name)}`)
        : E.right({ image, mask: join(folder, masks, mask) })
    }),
    E.map((samples) => ({ samples, leftOut: [...left.leftOut, ...right.leftOut, ...unused] })),
  )
}

const classesIn = (folder: string, folders: readonly string[]): Found => {
  const found = folders.map((label) => ({ label, ...listingOf(join(folder, label)) }))
  return {
    samples: found.flatMap(({ label, images }) => images.map((file) => ({ image: join(folder, label, file), label }))),
    folders,
    leftOut: [...imagesIn(folder).map(() => 'image beside the class folders'), ...found.flatMap((f) => f.leftOut)],
  }
}

/** Names of sets, and of the folders of a parent that are never classes together. */
const TRAINING = ['train'] as const
const VALIDATION = ['val', 'valid', 'validation'] as const
const SET_NAMES: readonly string[] = [...TRAINING, ...VALIDATION, 'test']

const folderOf = (folder: string): Either<SpillwayError, Found> => {
  const folders = foldersIn(folder)
  const pair = pairIn(folders)
  if (pair) return pairedIn(folder, pair[0], pair[1])
  if (folders.length < 2 || !folders.every((name) => SET_NAMES.includes(name.toLowerCase())))
    return E.right(classesIn(folder, folders))
  const held = folders.map((name) => `${name}/ holds ${contentsText(join(folder, name)) || 'nothing'}`).join(', ')
  return refused(folder, `its folders are sets, but have no labels: ${held}; ${LAYOUTS}; in each set, ${UNLABELLED}`)
}

// ---------------------------------------------------------------- both

/** Returns true if a path means images. */
export const holdsImages = (path: string): boolean => {
  const stat = statAt(path)
  if (!stat) return false
  if (!stat.isDirectory()) return LIST.test(path)
  if (readdirSync(path).some((n) => /\.(npy|safetensors)$/.test(n))) return false
  return foldersIn(path).some((n) => imagesIn(join(path, n)).length > 0)
}

/** Returns true if a path means arrays in files. */
export const holdsArrays = (path: string): boolean => {
  const stat = statAt(path)
  const has = (folder: string): boolean => readdirSync(folder).some((n) => /\.(npy|safetensors)$/.test(n))
  if (!stat?.isDirectory()) return /\.(npy|safetensors)$/.test(path)
  return has(path) || foldersIn(path).some((n) => has(join(path, n)))
}

/** The samples of a path, with labels as texts. */
const foundAt = (path: string, o: Annotating): Either<SpillwayError, Found> => {
  if (statSync(path).isDirectory()) return folderOf(path)
  if (!LIST.test(path)) return refused(path, LAYOUTS)
  return pipe(
    readList(path),
    E.mapLeft((reason): SpillwayError => ({ tag: 'FileRefused', kind: 'data', file: path, reason })),
    E.flatMap((list): Either<SpillwayError, Found> => {
      if ('coco' in list) return annotatedIn(path, list.coco, o)
      if (o.images !== undefined)
        return refused(path, '--images (images) applies to COCO annotations; this list names its images')
      const { samples, at } = list
      const lost = samples.findIndex(({ image, mask }) => !isReadable(image) || (mask !== undefined && !isReadable(mask)))
      if (lost < 0) return E.right({ samples, placeOf: (i) => at[i]!, leftOut: [] })
      const { image, mask } = samples[lost]!
      return refused(path, `${at[lost]}: ${isReadable(image) ? mask : image} cannot be read`)
    }),
  )
}

/** Subfolders that are data sets of their own, such as train and val. */
const setsIn = (path: string): readonly string[] =>
  statAt(path)?.isDirectory()
    ? foldersIn(path).filter((name) => holdsImages(join(path, name)) || holdsArrays(join(path, name)))
    : []

/** The sets of a parent folder: `train`, the set for evaluations, and the folders that are neither. */
export interface Sets {
  readonly train: string
  readonly validation: string
  readonly others: readonly string[]
}

/** The sets of a folder that holds one for training and one for evaluations. Other folders, such as a `test` of unlabelled images, do not matter. */
export const setsAt = (path: string): Sets | undefined => {
  const sets = setsIn(path)
  const named = (names: readonly string[]): string | undefined => sets.find((set) => names.includes(set.toLowerCase()))
  const [train, validation] = [named(TRAINING), named(VALIDATION)]
  return train === undefined || validation === undefined || pairIn(foldersIn(path)) !== undefined
    ? undefined
    : { train, validation, others: foldersIn(path).filter((name) => name !== train && name !== validation) }
}

/** Reason for a path without samples, with the fix for the usual cases. */
const emptyReason = (path: string): string => {
  const sets = setsIn(path)
  if (sets.length > 0) {
    const first = sets.find((name) => /^train/i.test(name)) ?? sets[0]!
    return `it holds data sets, not samples: ${sets.join(', ')}; name one of them, e.g. ${join(path, first)}`
  }
  if (!statAt(path)?.isDirectory())
    return LIST.test(path)
      ? 'the list names no images: add one per row of a .csv, or per entry of a .json'
      : `it has no images; ${LAYOUTS}`
  const isOfImages = imagesIn(path).length > 0
  return `${lackText(path, isOfImages ? 'labels' : 'samples')}; ${LAYOUTS}; ${isOfImages ? UNLABELLED : contentsFix(path)}`
}

/** A kind of data that is left out. */
const DAMAGED = 'damaged image'

/** The samples without those whose images are damaged. */
const intactOf = (found: Found, { damaged }: Annotating): Found => {
  if (!damaged || damaged.size === 0) return found
  const { samples, annotated, placeOf, leftOut } = found
  const kept = [...samples.keys()].filter((i) => !damaged.has(samples[i]!.image))
  return {
    ...found,
    samples: kept.map((i) => samples[i]!),
    ...(annotated ? { annotated: kept.map((i) => annotated[i]!) } : {}),
    ...(placeOf ? { placeOf: (i: number) => placeOf(kept[i]!) } : {}),
    leftOut: [...leftOut, ...samples.slice(kept.length).map(() => DAMAGED)],
  }
}
const findImages = (path: string, o: Annotating = {}): Either<SpillwayError, Found> =>
  pipe(
    onFile('data', path)(() => foundAt(path, o)),
    E.map((found) => intactOf(found, o)),
    E.filterOrElse(
      ({ samples }) => samples.length > 0,
      (): SpillwayError => ({ tag: 'FileRefused', kind: 'data', file: path, reason: emptyReason(path) }),
    ),
  )

/** Returns true if a path is meant as image data, also if these lack labels or are one folder below. */
export const meansImages = (path: string): boolean =>
  holdsImages(path) ||
  (!holdsArrays(path) && statAt(path)?.isDirectory() === true && (imagesIn(path).length > 0 || setsIn(path).length > 0))

/** The images of a path. `known` are the class names that their labels must follow. */
export const openImages = (path: string, known?: KnownClasses, o: Annotating = {}): Either<SpillwayError, ImageList> =>
  pipe(
    findImages(path, o),
    E.flatMap((found): Either<SpillwayError, ImageList> => {
      if (found.annotated)
        return E.mapLeft((reason: string): SpillwayError => ({ tag: 'FileRefused', kind: 'data', file: path, reason }))(
          withLabels(found, known, o.wanted ?? 'files'),
        )
      const { samples, folders, placeOf, leftOut } = found
      const texts = samples.flatMap(({ label }) => label ?? [])
      const numbersOf = (labels: readonly number[]): readonly ImageSample[] =>
        samples.map(({ label: _, ...files }, i) => ({ ...files, ...(texts.length > 0 ? { label: labels[i]! } : {}) }))
      if (texts.length === 0) return E.right({ samples: numbersOf([]), leftOut })
      return pipe(
        numbered({ texts, placeOf: (i) => (placeOf ? `${placeOf(i)}: ` : ''), ...(folders ? { folders } : {}) }, known),
        E.bimap(
          (reason): SpillwayError => ({ tag: 'FileRefused', kind: 'data', file: path, reason }),
          ({ labels, ...rest }) => ({ samples: numbersOf(labels), ...rest, leftOut, ...(placeOf ? { placeOf } : {}) }),
        ),
      )
    }),
  )

// ---------------------------------------------------------------- images alone

/** Returns true if a path means images to look at: an image, a folder of them, or samples. */
export const holdsPictures = (path: string): boolean => {
  const stat = statAt(path)
  return (
    stat !== undefined &&
    (stat.isDirectory() ? imagesIn(path).length > 0 || holdsImages(path) : IMAGE.test(path) || LIST.test(path))
  )
}

/** Data of a path that predictions leave out. */
export const leftOutAt = (path: string, damaged?: Damaged): Either<SpillwayError, LeftOut> => {
  const own = statAt(path)?.isDirectory() ? listingOf(path) : undefined
  if (own && own.images.length > 0) return E.right([...own.leftOut, ...Array.from(damaged?.keys() ?? [], () => DAMAGED)])
  return IMAGE.test(path) ? E.right([]) : E.map(({ leftOut }: Found) => leftOut)(findImages(path, { damaged }))
}

/** The errors of damaged images, in words. */
export const damagedNotes = (path: string, damaged: Damaged | undefined): readonly string[] =>
  Array.from(damaged?.values() ?? [], (error) => `data ${path}: left out: ${errorText(error)}`)

/** Image files and their names: that of the file, in a folder of folders after that folder's name. */
export const picturesAt = (
  path: string,
  damaged?: Damaged,
): Either<SpillwayError, readonly { readonly file: string; readonly name: string }[]> => {
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
    const isIntact = ({ file }: { readonly file: string }): boolean => !damaged?.has(file)
    if (own.length > 0) return E.right(own.map((name) => called(path)(join(path, name))).filter(isIntact))
    const isList = !statSync(path).isDirectory()
    return E.map(({ samples }: Found) => samples.map(({ image }) => called(isList ? dirname(image) : path)(image)))(
      findImages(path, { damaged }),
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

/** The files of a sample. */
export interface NamedFiles {
  readonly image: string
  readonly mask?: string
}

/** The files of all samples of a path: images with masks, or images alone. */
export const namedFilesAt = (path: string, images?: string): Either<SpillwayError, readonly NamedFiles[]> =>
  pipe(
    holdsImages(path)
      ? E.map(({ samples }: Found) => samples)(findImages(path, { images }))
      : E.map((all: readonly { readonly file: string }[]) => all.map(({ file }) => ({ image: file })))(picturesAt(path)),
    E.map((all: readonly NamedFiles[]) => all),
  )

// ---------------------------------------------------------------- what they are

const ENDS_BYTES = 64 * 1024

/** Names, labels and bytes of all files, of large ones their sizes and first bytes: the same wherever they lie. */
export const imagesContent = ({ samples }: ImageList): Either<SpillwayError, string> => {
  const hash = createHash('sha256')
  for (const s of samples) {
    const { mask, label, labels } = s
    const target =
      mask === undefined ? (labels?.join() ?? label) : typeof mask === 'string' ? basename(mask) : JSON.stringify(mask.shapes)
    hash.update(`${basename(s.image)} ${target}\n`)
    for (const file of [s.image, ...(typeof mask === 'string' ? [mask] : [])]) {
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
