// Names and places of samples, for outputs of predictions. In: the parts of all samples. Out: a name for each, its tile, its place on the canvas.
import { basename, dirname, extname, relative } from 'node:path'
import { type Georeference, resizedGeoreference } from '../../files/georeference'
import type { SlidePlace, SlideTile } from '../data'
import { LIST } from '../lists'
import { firstOf, type Labelled, type Part, type Placed } from './parts'
import { type Blocks, emptyIn } from './regions'
import type { Slide } from './slide'

/** Names of outputs: paths below the folder, without their kind. */
const slideNameOf = (root: string, { slide }: Labelled): string => {
  const below = relative(LIST.test(root) ? dirname(root) : root, slide.file)
  const name = (below === '' ? basename(root) : below).replaceAll(/[\\/]/g, '-').replace(/^[.-]+/, '')
  return name.slice(0, -extname(name).length)
}

/** The wanted names in their order; a name that is in use gets a number. Worked example: a, a, b become a, a-2, b. */
const distinct = (wanted: readonly string[]): readonly string[] => {
  const used = new Set<string>()
  return wanted.map((want) => {
    let name = want
    for (let n = 2; used.has(name); n++) name = `${want}-${n}`
    used.add(name)
    return name
  })
}

/** Names of outputs: no two slides, and no two samples, have one. */
interface Names {
  readonly ofSlide: ReadonlyMap<string, string>
  /** The names of the slides of each sample. */
  readonly ofPlaced: readonly (readonly string[])[]
  readonly ofSample: readonly string[]
}

export const namesOf = (root: string, parts: readonly Part[], isTile: boolean): Names => {
  const slides = new Map(parts.flatMap(({ placed }) => placed.map(({ of }) => [of.slide.file, of] as const)))
  const named = distinct(Array.from(slides.values(), (of) => slideNameOf(root, of)))
  const ofSlide = new Map(Array.from(slides.keys(), (file, i) => [file, named[i]!] as const))
  const placeName = ({ of, region }: Placed): string =>
    `${ofSlide.get(of.slide.file)!}${isTile ? `-${region.top}-${region.left}` : ''}`
  const places = distinct(parts.flatMap(({ placed }) => placed.map(placeName)))
  let next = 0
  return {
    ofSlide,
    ofPlaced: parts.map(({ placed }) => placed.map(() => places[next++]!)),
    ofSample: distinct(parts.map((part) => firstOf(part).of.bag?.replaceAll(/[\\/]/g, '-') ?? placeName(firstOf(part)))),
  }
}

export const tileOf = (name: string, part: Part): SlideTile => {
  const { of, region } = firstOf(part)
  const { file, pyramid, level } = of.slide
  const { height, width } = pyramid.levels[0]!
  const [down, across] = [height / level.height, width / level.width]
  return {
    ...{ file, name, slide: [height, width] },
    ...{ x: Math.round(region.left * across), y: Math.round(region.top * down) },
    ...{ width: Math.round(region.width * across), height: Math.round(region.height * down) },
  }
}

/** The place of a slide's level. */
const georeferenceOf = ({ pyramid, level }: Slide): Georeference | undefined => {
  const { width, height } = pyramid.levels[0]!
  return pyramid.georeference && resizedGeoreference(pyramid.georeference, width / level.width, height / level.height)
}

/** The slides of a sample, for the outputs of predictions. */
export const placesOf = (
  names: readonly string[],
  part: Part,
  isTile: boolean,
  blocks: Blocks | undefined,
): readonly SlidePlace[] =>
  part.placed.map((p, i) => ({
    ...{ top: p.top, left: p.left, height: p.region.height, width: p.region.width },
    name: names[i]!,
    microns: p.of.slide.level.microns,
    georeference: isTile ? undefined : georeferenceOf(p.of.slide),
    isEmpty: blocks && emptyIn(p, blocks),
  }))

export const nameOf = (part: Part, isTile: boolean): string => {
  const { of, region } = firstOf(part)
  if (isTile) return `${of.slide.file}, tile at row ${region.top}, column ${region.left}`
  return of.bag === undefined ? of.slide.file : `bag ${of.bag}`
}
