// Slide files of a path. In: a file, a list, or a folder with classes, masks or bags. Out: each slide with its label, mask and bag.
import { isLeft } from 'fp-ts/Either'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, extname, join, resolve } from 'node:path'
import { statAt } from '../../files/whole'
import { numbered } from '../classes'
import { LIST, readList } from '../lists'
import { SLIDE } from './slide'
import { refused, type SlideOptions } from './slideoptions'
import { isZarr } from './zarr'

export interface Found {
  readonly file: string
  readonly label?: number
  readonly mask?: string
  /** Slides with the same name are one sample. */
  readonly bag?: string
}

const slidesIn = (folder: string): readonly string[] =>
  readdirSync(folder)
    .filter((name) => SLIDE.test(name))
    .sort()
    .map((name) => join(folder, name))

const foldersIn = (folder: string): readonly string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !SLIDE.test(entry.name))
    .map(({ name }) => name)
    .sort()

/** Names that only slides have. */
const OWN_KINDS = /\.(svs|btf|tf8|tf2|zarr)$/i

/** Returns true for a slide, and for a folder of slides, whose names no other image has. */
export const isSlide = (at: string): boolean => {
  const stat = statAt(at)
  if (!stat?.isDirectory() || isZarr(at)) return stat !== undefined && OWN_KINDS.test(at)
  const holds = (folder: string): boolean => readdirSync(folder).some((name) => OWN_KINDS.test(name))
  return holds(at) || foldersIn(at).some((name) => holds(join(at, name)))
}

const KINDS = '.svs, .tif, .tiff, .btf, .tf8, .tf2, .zarr'

const FORMS =
  'a slide, a folder of slides, a folder with one folder of slides per class, a folder with images/ and masks/, or a list such as list.csv'

const stem = (file: string): string => basename(file, extname(file)).replace(/\.ome$/i, '')

/** Pairs of slides and masks of the same name. */
const withMasks = (folder: string): readonly Found[] => {
  const masks = new Map(slidesIn(join(folder, 'masks')).map((file) => [stem(file), file]))
  return slidesIn(join(folder, 'images')).map((file) => {
    const mask = masks.get(stem(file))
    return mask === undefined ? refused(`slides: ${file} has no mask ${join(folder, 'masks', stem(file))}.tif`) : { file, mask }
  })
}

/** The slides of a class: those of its folder, and a bag for each folder below. */
const ofClass = (folder: string, name: string, label: number): readonly Found[] => [
  ...slidesIn(join(folder, name)).map((file) => ({ file, label })),
  ...foldersIn(join(folder, name)).flatMap((bag) =>
    slidesIn(join(folder, name, bag)).map((file) => ({ file, label, bag: join(name, bag) })),
  ),
]

export interface FoundAll {
  readonly found: readonly Found[]
  readonly classes?: readonly string[]
}

/** The slides of a list, with labels or masks; a column `bag` names the bag of each. */
const inList = (list: string): FoundAll => {
  const read = readList(list)
  const odd = (reason: string): never => refused(`slides: ${list}: ${reason}`)
  if (isLeft(read)) return odd(read.left)
  if ('coco' in read.right) return odd('it has COCO annotations; allowed: a list of slides')
  const { samples, at } = read.right
  samples.forEach(({ image }, i) => {
    if (!existsSync(image)) odd(`${at[i]}: ${image} is not there`)
    if (!SLIDE.test(image)) odd(`${at[i]}: ${image} is not a slide; allowed: ${KINDS}`)
  })
  const texts = samples.flatMap(({ label }) => (label === undefined ? [] : [label]))
  const named = numbered({ texts, placeOf: (i) => `${at[i]}: ` }, undefined)
  if (isLeft(named)) return odd(named.left)
  const { labels, classes } = named.right
  const found = samples.map(
    ({ image, mask, bag }, i): Found => ({
      file: image,
      ...(mask === undefined ? { label: labels[i]! } : { mask }),
      ...(bag === undefined ? {} : { bag }),
    }),
  )
  const labelOf = new Map<string, number | undefined>()
  found.forEach(({ bag, label }, i) => {
    if (bag === undefined) return
    if (labelOf.has(bag) && labelOf.get(bag) !== label) odd(`${at[i]}: bag ${bag} has another label in a line above`)
    labelOf.set(bag, label)
  })
  return { found, ...(classes ? { classes } : {}) }
}

/** The slides of a folder of bags, without labels: a bag for each folder in it. */
const unlabelledBags = (at: string, folders: readonly string[]): FoundAll => ({
  found: folders.flatMap((bag) => slidesIn(join(at, bag)).map((file) => ({ file, bag }))),
})

export const foundAt = (at: string, { bags = false }: SlideOptions): FoundAll => {
  if (!existsSync(at)) return refused(`slides: ${at} is not there; allowed: ${FORMS}`)
  if (!statSync(at).isDirectory() && LIST.test(at)) return inList(at)
  if (!statSync(at).isDirectory() || isZarr(at))
    return SLIDE.test(at) ? { found: [{ file: at }] } : refused(`slides: ${at} is not a slide; allowed: ${KINDS}`)
  const folders = foldersIn(at)
  if (folders.includes('images') && folders.includes('masks')) return { found: withMasks(at) }
  const flat = slidesIn(at)
  if (flat.length > 0) return { found: flat.map((file) => (bags ? { file, bag: basename(resolve(at)) } : { file })) }
  const classes = folders.filter((name) => ofClass(at, name, 0).length > 0)
  if (classes.length === 0) return refused(`slides: ${at} has no slides (${KINDS}); allowed: ${FORMS}`)
  const found = classes.flatMap((name, label) => ofClass(at, name, label))
  return bags && found.every(({ bag }) => bag === undefined) ? unlabelledBags(at, classes) : { found, classes }
}
