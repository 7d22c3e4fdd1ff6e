// `slides`: samples of slide and scene files, read by regions. In: a folder and options. Out: Data: whole slides, or the tiles of a grid that have
// tissue; labels by folder, or masks. Invariant: headers are read here; pixels are decoded when a region is read, and in no more tiles of the file
// than it touches.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, extname, join, relative, resolve } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { known } from '../../../staging/core/known'
import { optionsFor } from '../../../staging/core/options'
import { choice, either, flag, legal, made, path as isPath, valueText, withValues } from '../../../staging/core/values'
import { errorText, type SpillwayError, SpillwayException, usage } from '../../errors/errors'
import { type Georeference, resizedGeoreference } from '../../files/georeference'
import { type Augment, augmentProblem, type Fit, FITS } from '../augment'
import {
  type Data,
  isChannels,
  type PixelSize,
  type Region,
  type SlidePlace,
  type SlideTile,
  type Sample,
  type Scaling,
  type Wanted,
} from '../data'
import { numbered } from '../classes'
import { LIST, readList } from '../lists'
import { damageIn } from '../damaged'
import type { Damaged } from '../found'
import { decodeAll, openSlide, regionOf, SLIDE, type Slide } from './slide'
import { tissueOf } from './tissue'
import { isZarr } from './zarr'
import type { Level } from './tiff'

/**
 * Options of `slides`.
 *
 * @example const options: SlideOptions = { microns: 0.5, tiles: 512, tissue: 0.25 }
 */
export interface SlideOptions extends Scaling {
  /** Level of the pyramid; 0 is the finest. Default 0. @example await slides('slides/', { level: 1 }) */
  readonly level?: number
  /**
   * Microns per pixel, instead of a level: each slide uses its nearest level, which may differ by 10 percent. Default: none.
   *
   * @example await slides('slides/', { microns: 0.5 })
   */
  readonly microns?: number
  /**
   * Size of tiles: each tile of a grid over each slide is then a sample. Default: whole slides are samples.
   *
   * @example await slides('slides/', { tiles: 512 })
   */
  readonly tiles?: number | PixelSize
  /**
   * Least share of a tile that has tissue, or data if the file names a value for none. Other tiles are left out. Default 0.
   *
   * @example await slides('slides/', { tiles: 512, tissue: 0.25 })
   */
  readonly tissue?: number
  /**
   * Side of square blocks for a `masked` network: pixels of blocks without tissue become 0. Default: pixels stay.
   *
   * @example await slides('slides/', { blocks: 32 })
   */
  readonly blocks?: number
  /**
   * Size of whole slides as samples, [height, width]: a smaller slide is at the top left, and the pixels beyond it are 0.
   * A `masked` network counts only the slide. Masks have the label that the loss ignores there, or 0. The slides of a bag
   * are on one canvas. Default: the size of each slide.
   *
   * @example await slides('slides/', { blocks: 32, canvas: [8192, 8192] })
   */
  readonly canvas?: number | PixelSize
  /**
   * If true, each folder that holds slides is a bag, the path itself included. Default: the folders below class folders are bags.
   *
   * @example await slides('patients/', { bags: true, blocks: 32, canvas: 8192 })
   */
  readonly bags?: boolean
  /**
   * If true, leaves out slides that cannot be decoded, with their bags. It decodes each slide and mask once. Runs print a note for each
   * damaged slide. Default false: a run ends with an error at the first damaged tile.
   *
   * @example await slides('slides/', { microns: 0.5, skipDamaged: true })
   */
  readonly skipDamaged?: boolean
  /**
   * Part of a slide or tile for the model: 'crop' (default) the middle, 'cover' the middle resized, 'stretch' or 'pad' all of it.
   *
   * @example await slides('slides/', { fit: 'cover' })
   */
  readonly fit?: Fit
  /** Random changes; `crop: true` takes a random rectangle. Default: none. @example await slides('slides/', { augment: { crop: true } }) */
  readonly augment?: Augment
}

const SIDE = legal('', (u) => Number.isSafeInteger(u) && Number(u) >= 1)
const SIZE = either(
  'a side in pixels, or [height, width]',
  SIDE,
  legal('', (u) => Array.isArray(u) && u.length === 2 && u.every(SIDE.is)),
)
const OPTIONS = withValues(
  optionsFor<SlideOptions>()(
    'slides',
    'level',
    'microns',
    'tiles',
    'tissue',
    'blocks',
    'canvas',
    'bags',
    'skipDamaged',
    'fit',
    'augment',
    'mean',
    'std',
  ),
  {
    level: legal('whole numbers of at least 0', (u) => Number.isSafeInteger(u) && Number(u) >= 0),
    microns: legal('numbers above 0', (u) => Number.isFinite(u) && Number(u) > 0),
    tiles: SIZE,
    canvas: SIZE,
    bags: flag,
    skipDamaged: flag,
    tissue: legal('shares from 0 to 1', (u) => Number.isFinite(u) && Number(u) >= 0 && Number(u) <= 1),
    blocks: legal('whole numbers of at least 1', SIDE.is),
    fit: choice(FITS),
    augment: made("an object such as { flip: 'both' }"),
    mean: legal('a list of numbers, one for each channel', isChannels(Number.NEGATIVE_INFINITY)),
    std: legal('a list of numbers above 0, one for each channel', isChannels(0)),
  },
  { prefix: 'slides: ' },
)

const refused = (message: string): never => {
  throw new SpillwayException(usage(message))
}

// ---------------------------------------------------------------- files

interface Found {
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
  const stat = statSync(at, { throwIfNoEntry: false })
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

interface FoundAll {
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

const foundAt = (at: string, { bags = false }: SlideOptions): FoundAll => {
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

// ---------------------------------------------------------------- samples

interface Labelled {
  readonly slide: Slide
  readonly label?: number
  readonly mask?: Slide
  readonly bag?: string
}
/** A rectangle of a slide, and its place in a sample. */
interface Placed {
  readonly of: Labelled
  readonly region: Region
  readonly top: number
  readonly left: number
}
/** A sample: a whole slide, a tile of one, or the slides of a bag, on a canvas that may be larger. */
interface Part {
  readonly height: number
  readonly width: number
  /** At least one. */
  readonly placed: readonly Placed[]
}

const opened =
  (o: SlideOptions) =>
  ({ file, label, mask, bag }: Found): Labelled => {
    const slide = openSlide(file, o)
    const own = { slide, ...(bag === undefined ? {} : { bag }) }
    if (mask === undefined) return { ...own, ...(label === undefined ? {} : { label }) }
    const whole = openSlide(mask, {})
    // The coarsest level of the mask with at least the slide's detail.
    const at = Math.max(1, whole.pyramid.levels.filter((l) => l.width >= slide.level.width).length) - 1
    const level = whole.pyramid.levels[at]!
    if (level.channels !== 1)
      refused(`slides: ${mask}: its pixels have ${level.channels} channels; a mask has one label per pixel`)
    return { ...own, mask: { ...whole, at, level } }
  }

/** Starts of tiles along a side. The last tile ends at the border, so it may overlap the one before it. */
const starts = (side: number, tile: number): readonly number[] =>
  Array.from({ length: Math.ceil(side / tile) }, (_, i) => Math.min(i * tile, side - tile))

const sizeOf = (size: number | PixelSize | undefined): PixelSize | undefined => (typeof size === 'number' ? [size, size] : size)

const tilesOf = (of: Labelled, [height, width]: PixelSize): readonly Part[] => {
  const { level, file } = of.slide
  if (level.height < height || level.width < width)
    refused(`slides: ${file} has ${level.height} x ${level.width} pixels at this level, less than a tile of ${height} x ${width}`)
  return starts(level.height, height).flatMap((top) =>
    starts(level.width, width).map((left) => ({
      ...{ height, width },
      placed: [{ of, region: { top, left, height, width }, top: 0, left: 0 }],
    })),
  )
}

/** Whole slides in rows, from the top left, `side` pixels or more apart and at multiples of `side`. Returns undefined if they need more room. */
const shelved = (of: readonly Labelled[], [height, width]: PixelSize, side: number): readonly Placed[] | undefined => {
  const after = (n: number): number => (Math.ceil(n / side) + 1) * side
  let [top, left, next] = [0, 0, 0]
  const placed = of.map((one): Placed => {
    const { level } = one.slide
    if (left > 0 && left + level.width > width) [top, left] = [next, 0]
    const at = { of: one, region: { top: 0, left: 0, height: level.height, width: level.width }, top, left }
    left += after(level.width)
    next = Math.max(next, top + after(level.height))
    return at
  })
  const isInside = ({ region, ...at }: Placed): boolean => at.top + region.height <= height && at.left + region.width <= width
  return placed.every(isInside) ? placed : undefined
}

/** Whole slides as samples. Those of a bag are on one canvas, with an empty block between them. */
const wholes = (all: readonly Labelled[], { canvas, blocks }: SlideOptions): readonly Part[] => {
  const size = sizeOf(canvas)
  return bagsOf(all).map((of) => {
    const [{ slide, bag }] = of as readonly [Labelled, ...Labelled[]]
    if (bag !== undefined && (size === undefined || blocks === undefined))
      return refused(`slides: bag ${bag} has its slides on one canvas, a block apart: set blocks and canvas`)
    const [height, width] = size ?? [slide.level.height, slide.level.width]
    const placed = shelved(of, [height, width], blocks ?? 1)
    const odd = of.find(({ slide: { level } }) => level.channels !== slide.level.channels || level.bits !== slide.level.bits)
    if (odd)
      return refused(
        `slides: bag ${bag}: ${odd.slide.file} has ${odd.slide.level.channels} channels of ${odd.slide.level.bits} bits, but ${slide.file} has ${slide.level.channels} of ${slide.level.bits}`,
      )
    if (placed) return { height, width, placed }
    const { level, file } = slide
    const found = bag === undefined ? `${file} has ${level.height} x ${level.width} pixels` : `bag ${bag} has ${of.length} slides`
    return refused(`slides: ${found} at this level, more than the canvas of ${height} x ${width}`)
  })
}

/** The slides of each bag; a slide without a bag is alone. In the order of the first slide of each. */
const bagsOf = (all: readonly Labelled[]): readonly (readonly Labelled[])[] => {
  const bags = new Map<string, Labelled[]>()
  for (const one of all) {
    const key = one.bag === undefined ? `slide ${one.slide.file}` : `bag ${one.bag}`
    const there = bags.get(key)
    if (there) there.push(one)
    else bags.set(key, [one])
  }
  return [...bags.values()]
}

type Pixels = Uint8Array | Uint16Array | Int32Array

/** A region of a sample, composed of the parts of its slides; `blank` is between them. */
const composed = async <A extends Pixels>(
  { placed }: Part,
  r: Region,
  read: (placed: Placed, from: Region) => Promise<A>,
  channels: number,
  blank: (length: number) => A,
): Promise<A> => {
  const shared = placed.flatMap((p) => {
    const [top, left] = [Math.max(r.top, p.top), Math.max(r.left, p.left)]
    const height = Math.min(r.top + r.height, p.top + p.region.height) - top
    const width = Math.min(r.left + r.width, p.left + p.region.width) - left
    const from = { top: p.region.top + top - p.top, left: p.region.left + left - p.left, height, width }
    return height > 0 && width > 0 ? [{ p, from, top: top - r.top, left: left - r.left }] : []
  })
  const [only] = shared
  if (only && only.from.height === r.height && only.from.width === r.width) return read(only.p, only.from)
  const out = blank(r.height * r.width * channels)
  for (const { p, from, top, left } of shared) {
    const pixels = await read(p, from)
    const row = from.width * channels
    for (let y = 0; y < from.height; y++)
      out.set(pixels.subarray(y * row, (y + 1) * row), ((top + y) * r.width + left) * channels)
  }
  return out
}

/** The labels of a region of a sample; pixels beyond its slides have the label `outside`. */
const labelsOn = (part: Part, r: Region, outside: number): Promise<Uint8Array | Int32Array> => {
  const isByte = outside >= 0 && outside <= 255
  const blank = (length: number): Uint8Array | Int32Array => new (isByte ? Uint8Array : Int32Array)(length).fill(outside)
  const read = ({ of: { slide, mask } }: Placed, from: Region): Promise<Uint8Array> => labelsIn({ slide, mask: mask! }, from)
  return composed<Uint8Array | Int32Array>(part, r, read, 1, blank)
}

interface SlideAndMask {
  readonly slide: Slide
  readonly mask: Slide
}

/** The labels of a rectangle of the slide: those of the mask's nearest pixels. */
const labelsIn = async ({ slide, mask }: SlideAndMask, region: Region): Promise<Uint8Array> => {
  const along = (from: number, length: number, side: keyof Pick<Level, 'width' | 'height'>): Int32Array =>
    Int32Array.from({ length }, (_, i) =>
      Math.min(mask.level[side] - 1, Math.floor(((from + i + 0.5) * mask.level[side]) / slide.level[side])),
    )
  const [rows, columns] = [along(region.top, region.height, 'height'), along(region.left, region.width, 'width')]
  const [top, left] = [rows[0]!, columns[0]!]
  const [height, width] = [rows.at(-1)! - top + 1, columns.at(-1)! - left + 1]
  const labels = await regionOf(mask, { top, left, height, width })
  const out = new Uint8Array(region.height * region.width)
  for (let y = 0; y < region.height; y++)
    for (let x = 0; x < region.width; x++) out[y * region.width + x] = labels[(rows[y]! - top) * width + columns[x]! - left]!
  return out
}

/** Blocks of pixels, and the shares of tissue in rectangles of slides. */
interface Blocks {
  readonly side: number
  readonly tissue: Tissue
}

/** A rectangle of a slide, with 0 in the blocks of `sample` without tissue. If it has no others, nothing is decoded. */
const pixelsIn = async (
  slide: Slide,
  sample: Region,
  region: Region,
  { side, tissue }: Blocks,
): Promise<Uint8Array | Uint16Array> => {
  const share = tissue.get(slide.file)!
  const { channels, bits } = slide.level
  const cut = (from: number, length: number, first: number, end: number): readonly (readonly [number, number])[] => {
    const count = Math.ceil((from + length - first) / side)
    const starts = Array.from({ length: count }, (_, i) => first + i * side)
    return starts.flatMap((at) => (at + side > from ? [[at, Math.min(at + side, end)] as const] : []))
  }
  const blocks = cut(region.top, region.height, sample.top, sample.top + sample.height).flatMap(([top, bottom]) =>
    cut(region.left, region.width, sample.left, sample.left + sample.width).map(([left, right]) => ({
      ...{ top, left, height: bottom - top, width: right - left },
    })),
  )
  const empty = blocks.filter((b) => share(b) === 0)
  const count = region.height * region.width * channels
  if (empty.length === blocks.length) return bits === 16 ? new Uint16Array(count) : new Uint8Array(count)
  const pixels = await regionOf(slide, region)
  for (const b of empty) {
    const [left, right] = [Math.max(b.left, region.left), Math.min(b.left + b.width, region.left + region.width)]
    const [top, bottom] = [Math.max(b.top, region.top), Math.min(b.top + b.height, region.top + region.height)]
    for (let y = top; y < bottom; y++) {
      const row = (y - region.top) * region.width
      pixels.fill(0, (row + left - region.left) * channels, (row + right - region.left) * channels)
    }
  }
  return pixels
}

/** Returns true for pixels of a placed rectangle in blocks without tissue. */
const emptyIn = ({ of: { slide }, region }: Placed, { side, tissue }: Blocks): ((y: number, x: number) => boolean) => {
  const share = tissue.get(slide.file)!
  const columns = Math.ceil(region.width / side)
  const known = new Map<number, boolean>()
  return (y, x) => {
    const [row, column] = [Math.floor(y / side), Math.floor(x / side)]
    const [top, left] = [region.top + row * side, region.left + column * side]
    const height = Math.min(side, region.top + region.height - top)
    const width = Math.min(side, region.left + region.width - left)
    const is = known.get(row * columns + column) ?? share({ top, left, height, width }) === 0
    known.set(row * columns + column, is)
    return is
  }
}

/** 16-bit numbers are shares of 65535, as those of images. */
const numbersOf = (pixels: Uint8Array | Uint16Array): Uint8Array | Float32Array =>
  pixels instanceof Uint16Array ? Float32Array.from(pixels, (x) => x / 65535) : pixels

/** With a key, only this value of the sample is read. */
const sampleOf = async (
  part: Part,
  region: Region,
  { key, outside = 0 }: Wanted,
  blocks: Blocks | undefined,
): Promise<Sample> => {
  const [{ of }] = part.placed as readonly [Placed, ...Placed[]]
  const { channels, bits } = of.slide.level
  const read = (p: Placed, from: Region): Promise<Uint8Array | Uint16Array> =>
    blocks ? pixelsIn(p.of.slide, p.region, from, blocks) : regionOf(p.of.slide, from)
  const blank = (length: number): Uint8Array | Uint16Array => new (bits === 16 ? Uint16Array : Uint8Array)(length)
  const [pixels, labels] = await Promise.all([
    key === 'target' ? undefined : composed<Uint8Array | Uint16Array>(part, region, read, channels, blank),
    of.mask && key !== 'input' ? labelsOn(part, region, outside) : of.label,
  ])
  return { ...(pixels ? { input: numbersOf(pixels) } : {}), ...(labels === undefined ? {} : { target: labels }) }
}

/** Names of outputs: paths below the folder, without their kind. */
const slideNameOf = (root: string, { slide }: Labelled): string => {
  const below = relative(LIST.test(root) ? dirname(root) : root, slide.file)
  const name = (below === '' ? basename(root) : below).replaceAll(/[\\/]/g, '-').replace(/^[.-]+/, '')
  return name.slice(0, -extname(name).length)
}
const firstOf = ({ placed }: Part): Placed => placed[0]!

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

const namesOf = (root: string, parts: readonly Part[], isTile: boolean): Names => {
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

const tileOf = (name: string, part: Part): SlideTile => {
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
const placesOf = (names: readonly string[], part: Part, isTile: boolean, blocks: Blocks | undefined): readonly SlidePlace[] =>
  part.placed.map((p, i) => ({
    ...{ top: p.top, left: p.left, height: p.region.height, width: p.region.width },
    name: names[i]!,
    microns: p.of.slide.level.microns,
    georeference: isTile ? undefined : georeferenceOf(p.of.slide),
    isEmpty: blocks && emptyIn(p, blocks),
  }))

const nameOf = (part: Part, isTile: boolean): string => {
  const { of, region } = firstOf(part)
  if (isTile) return `${of.slide.file}, tile at row ${region.top}, column ${region.left}`
  return of.bag === undefined ? of.slide.file : `bag ${of.bag}`
}

/** The identity of the data: names and sizes of the files, and the options. */
const identityOf = (at: string, found: readonly Found[], o: SlideOptions): string => {
  const hash = createHash('sha256')
  const isList = LIST.test(at)
  for (const { file, mask, label, bag } of found) {
    for (const f of [file, ...(mask ? [mask] : [])])
      hash.update(`${isList ? relative(dirname(at), f) : f.slice(at.length)} ${statSync(f).size}\n`)
    if (isList || bag !== undefined) hash.update(`label ${label}, bag ${bag}\n`)
  }
  return `slides ${hash.update(JSON.stringify(o)).digest('hex').slice(0, 16)}`
}

/** The samples without damaged slides; a bag with such a slide is left out whole. */
const intactOf = (path: string, found: readonly Found[], damaged: Damaged): readonly Found[] => {
  const bags = new Set(found.filter(({ file }) => damaged.has(file)).map(({ bag }) => bag))
  const kept = found.filter(({ file, bag }) => !damaged.has(file) && (bag === undefined || !bags.has(bag)))
  const [first] = found.flatMap(({ file }) => damaged.get(file) ?? [])
  return kept.length > 0 ? kept : refused(`slides: ${path}: no slide is left: ${errorText(first!)}`)
}

const NO_DAMAGE: Damaged = new Map()

/** Decodes all slides and masks of a path, one after the other. Returns the errors of the damaged ones, by the file of the slide. */
export const damagedAt = async (path: string, o: SlideOptions): Promise<Damaged> => {
  const damaged = new Map<string, SpillwayError>()
  for (const one of checkedFound(path, o).found) {
    const error = await damageIn(async () => {
      const { slide, mask } = opened(o)(one)
      await decodeAll(slide)
      if (mask) await decodeAll(mask)
    })
    if (error) damaged.set(one.file, error)
  }
  return damaged
}

/** The files of a path, with checked options. */
const checkedFound = (path: string, o: SlideOptions): FoundAll => {
  if (!isPath.is(path)) refused(`slides: the path is ${valueText(path)}; allowed: a path of a file or folder`)
  known(OPTIONS, o)
  const problem = o.augment && augmentProblem(o.augment)
  if (problem !== undefined) refused(`slides: ${problem}`)
  const { level, microns, tiles, tissue = 0 } = o
  if (level !== undefined && microns !== undefined) refused('slides: level and microns exclude each other: set one of them')
  if (o.canvas !== undefined && tiles !== undefined) refused('slides: canvas is for whole slides: leave canvas or tiles out')
  if (tissue > 0 && tiles === undefined) refused('slides: tissue selects tiles: set tiles, too, e.g. tiles: 512')
  return foundAt(path, o)
}

/** The opened slides of a path, without the damaged ones. */
const openedAt = (path: string, asked: SlideOptions, damaged: Damaged) => {
  const { found: all, classes } = checkedFound(path, asked)
  const { skipDamaged: _, ...o } = asked
  const errors = all.flatMap(({ file }) => damaged.get(file) ?? [])
  const found = errors.length === 0 ? all : intactOf(path, all, damaged)
  const notes = [
    ...errors.map((error) => `data ${path}: left out: ${errorText(error)}`),
    ...(errors.length === 0 ? [] : [`data ${path}: left out ${all.length - found.length} of ${all.length} slides`]),
  ]
  return { all: found.map(opened(o)), classes, name: identityOf(path, found, o), root: path, notes }
}

type OpenedSlides = ReturnType<typeof openedAt>

const asData = (
  { name, classes, root, notes }: OpenedSlides,
  o: SlideOptions,
  parts: readonly Part[],
  tissue: Tissue | undefined,
): Data => {
  const blocks = o.blocks !== undefined && tissue ? { side: o.blocks, tissue } : undefined
  const { fit, augment, mean, std } = o
  const isTile = o.tiles !== undefined
  const names = namesOf(root, parts, isTile)
  const tileRows = parts[0]?.placed[0]?.of.slide.level.tile?.height
  return {
    set: {
      kind: 'own',
      length: parts.length,
      layout: 'NHWC',
      name,
      size: (i) => [parts[i]!.height, parts[i]!.width],
      read: (i, region, wanted = {}) => sampleOf(parts[i]!, region, wanted, blocks),
      ...(isTile || !tileRows ? {} : { tileRows }),
      nameOf: (i) => nameOf(parts[i]!, isTile),
      notes,
      outputName: (i) => names.ofSample[i]!,
      ...(isTile ? { tileOf: (i: number) => tileOf(names.ofSlide.get(firstOf(parts[i]!).of.slide.file)!, parts[i]!) } : {}),
      ...(blocks && parts.some(({ placed }) => placed.length > 1) ? { apart: blocks.side } : {}),
      placesOf: (i) => placesOf(names.ofPlaced[i]!, parts[i]!, isTile, blocks),
      ...Object.fromEntries(Object.entries({ fit, augment, mean, std, classes }).filter(([, value]) => value !== undefined)),
    },
    parts: [],
  }
}

/** Shares of tissue in rectangles of slides, by file. */
export type Tissue = ReadonlyMap<string, (region: Region) => number>

const isTissue = ({ of, region }: Placed, shares: Tissue, { tissue = 0 }: SlideOptions): boolean =>
  shares.get(of.slide.file)!(region) >= tissue

/** Looks for tissue in each slide, which takes time. */
export const tissueAt = async (path: string, o: SlideOptions, damaged = NO_DAMAGE): Promise<Tissue> =>
  new Map(
    await Promise.all(openedAt(path, o, damaged).all.map(async ({ slide }) => [slide.file, await tissueOf(slide)] as const)),
  )

/** A canvas for all samples of several paths, and the slides that it serves. */
export interface Canvas {
  readonly size: PixelSize
  /** Sizes of all slides, the smallest area first. */
  readonly slides: readonly PixelSize[]
}

/** Sides of a canvas without blocks are multiples of this number. */
const CANVAS_STEP = 32

const byArea = (a: PixelSize, b: PixelSize): number => a[0] * a[1] - b[0] * b[1]

/** Widths of a canvas on which rows of a bag's slides end exactly. */
const widthsFor = (bag: readonly Labelled[], side: number): readonly number[] =>
  bag.map((_, n) =>
    bag.slice(0, n + 1).reduce((sum, { slide: { level } }, i) => sum + (i > 0 ? side : 0) + up(level.width, side), 0),
  )
const up = (n: number, step: number): number => Math.ceil(n / step) * step

/** The smallest canvas on which each slide and each bag fits, with sides that are multiples of a block. */
export const canvasFor = (paths: readonly string[], o: SlideOptions, damaged = NO_DAMAGE): Canvas => {
  const side = o.blocks ?? CANVAS_STEP
  const bags = paths.flatMap((path) => bagsOf(openedAt(path, o, damaged).all))
  const levels = bags.flat().map(({ slide: { level } }) => level)
  const least = up(Math.max(...levels.map((l) => l.width)), side)
  const rowsAt = (width: number): number =>
    Math.max(
      ...bags.flatMap((bag) =>
        shelved(bag, [Number.POSITIVE_INFINITY, width], side)!.map((p) => up(p.top + p.region.height, side)),
      ),
    )
  const widths = [...new Set([least, ...bags.flatMap((bag) => widthsFor(bag, side))])].filter((width) => width >= least)
  const sizes = widths.map((width): PixelSize => [rowsAt(width), width])
  return {
    size: [...sizes].sort(byArea)[0]!,
    slides: levels.map((l): PixelSize => [l.height, l.width]).sort(byArea),
  }
}

/** All slides or tiles; with `tissue`, the tiles with enough of it. Also returns the number of all tiles. */
export const slidesAt = (
  path: string,
  o: SlideOptions,
  tissue?: Tissue,
  damaged = NO_DAMAGE,
): { readonly data: Data; readonly tiles: number } => {
  const at = openedAt(path, o, damaged)
  const size = sizeOf(o.tiles)
  const all = size ? at.all.flatMap((of) => tilesOf(of, size)) : wholes(at.all, o)
  const kept = tissue && size ? all.filter((part) => isTissue(firstOf(part), tissue, o)) : all
  if (kept.length === 0) refused(`slides: no tile of ${path} has ${100 * (o.tissue ?? 0)} % of tissue: lower tissue`)
  return { data: asData(at, o, kept, tissue), tiles: all.length }
}

/**
 * Creates data from slide and scene files: tiled TIFF, BigTIFF, GeoTIFF, SVS and OME-Zarr with their pyramids. Only the regions that a step or a
 * prediction needs are decoded. The path is a slide, a folder of slides, a folder with one folder per class, or a folder with
 * `images/` and `masks/`. It needs the package sharp, or zarrita for OME-Zarr.
 *
 * @param path The slide or the folder.
 * @param o Level, tiles, tissue, normalisation and augmentation.
 * @example
 * const tumours = await slides('slides/', { microns: 0.5, tiles: 512, tissue: 0.25, augment: { flip: 'both', turns: true } })
 * await train(net, plan, { epochs: 10, data: tumours })
 */
export const slides = async (path: string, o: SlideOptions = {}): Promise<Data> => {
  const { tissue = 0, blocks, skipDamaged = false } = o
  const damaged = skipDamaged ? await damagedAt(path, o) : NO_DAMAGE
  return slidesAt(path, o, tissue > 0 || blocks !== undefined ? await tissueAt(path, o, damaged) : undefined, damaged).data
}
