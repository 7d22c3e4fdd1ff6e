// `slides`: samples of slide and scene files, read by regions. In: a folder and options. Out: Data: whole slides, or the tiles of a grid that have
// tissue; labels by folder, or masks. Invariant: headers are read here; pixels are decoded when a region is read, and in no more tiles of the file
// than it touches.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, extname, join, relative, sep } from 'node:path'
import { known } from '../../../staging/core/known'
import { optionsFor } from '../../../staging/core/options'
import { choice, either, legal, made, path as isPath, valueText, withValues } from '../../../staging/core/values'
import { SpillwayException, usage } from '../../errors/errors'
import { type Georeference, resizedGeoreference } from '../../files/georeference'
import { type Augment, augmentProblem, type Fit, FITS } from '../augment'
import {
  type Data,
  isChannels,
  type PixelSize,
  type Region,
  type SlideTile,
  type Sample,
  type Scaling,
  type Wanted,
} from '../data'
import { openSlide, regionOf, SLIDE, type Slide } from './slide'
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
   * A `masked` network counts only the slide. Masks have the label that the loss ignores there, or 0. Default: the size of each slide.
   *
   * @example await slides('slides/', { blocks: 32, canvas: [8192, 8192] })
   */
  readonly canvas?: number | PixelSize
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
const FORMS = 'a slide, a folder of slides, a folder with one folder of slides per class, or a folder with images/ and masks/'

const stem = (file: string): string => basename(file, extname(file)).replace(/\.ome$/i, '')

/** Pairs of slides and masks of the same name. */
const withMasks = (folder: string): readonly Found[] => {
  const masks = new Map(slidesIn(join(folder, 'masks')).map((file) => [stem(file), file]))
  return slidesIn(join(folder, 'images')).map((file) => {
    const mask = masks.get(stem(file))
    return mask === undefined ? refused(`slides: ${file} has no mask ${join(folder, 'masks', stem(file))}.tif`) : { file, mask }
  })
}

const foundAt = (at: string): { readonly found: readonly Found[]; readonly classes?: readonly string[] } => {
  if (!existsSync(at)) return refused(`slides: ${at} is not there; allowed: ${FORMS}`)
  if (!statSync(at).isDirectory() || isZarr(at))
    return SLIDE.test(at) ? { found: [{ file: at }] } : refused(`slides: ${at} is not a slide; allowed: ${KINDS}`)
  const folders = foldersIn(at)
  if (folders.includes('images') && folders.includes('masks')) return { found: withMasks(at) }
  const flat = slidesIn(at)
  if (flat.length > 0) return { found: flat.map((file) => ({ file })) }
  const classes = folders.filter((name) => slidesIn(join(at, name)).length > 0)
  if (classes.length === 0) return refused(`slides: ${at} has no slides (${KINDS}); allowed: ${FORMS}`)
  return { found: classes.flatMap((name, label) => slidesIn(join(at, name)).map((file) => ({ file, label }))), classes }
}

// ---------------------------------------------------------------- samples

interface Labelled {
  readonly slide: Slide
  readonly label?: number
  readonly mask?: Slide
}
/** A rectangle of a slide that is a sample. */
interface Part {
  readonly of: Labelled
  readonly region: Region
}

const opened =
  (o: SlideOptions) =>
  ({ file, label, mask }: Found): Labelled => {
    const slide = openSlide(file, o)
    if (mask === undefined) return { slide, ...(label === undefined ? {} : { label }) }
    const whole = openSlide(mask, {})
    // The coarsest level of the mask with at least the slide's detail.
    const at = Math.max(1, whole.pyramid.levels.filter((l) => l.width >= slide.level.width).length) - 1
    const level = whole.pyramid.levels[at]!
    if (level.channels !== 1)
      refused(`slides: ${mask}: its pixels have ${level.channels} channels; a mask has one label per pixel`)
    return { slide, mask: { ...whole, at, level } }
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
    starts(level.width, width).map((left) => ({ of, region: { top, left, height, width } })),
  )
}

/** A whole slide, or a canvas with the slide at its top left. */
const wholeOn =
  (canvas: PixelSize | undefined) =>
  (of: Labelled): Part => {
    const { file, level } = of.slide
    const [height, width] = canvas ?? [level.height, level.width]
    if (level.height > height || level.width > width)
      refused(
        `slides: ${file} has ${level.height} x ${level.width} pixels at this level, more than the canvas of ${height} x ${width}`,
      )
    return { of, region: { top: 0, left: 0, height, width } }
  }

/** A rectangle of a slide, or of a canvas around it. */
const regionOn = async (slide: Slide, r: Region): Promise<Uint8Array | Uint16Array> => {
  const { channels, bits } = slide.level
  const height = Math.min(r.height, slide.level.height - r.top)
  const width = Math.min(r.width, slide.level.width - r.left)
  if (height === r.height && width === r.width) return regionOf(slide, r)
  const out = new (bits === 16 ? Uint16Array : Uint8Array)(r.height * r.width * channels)
  if (height <= 0 || width <= 0) return out
  const pixels = await regionOf(slide, { ...r, height, width })
  for (let y = 0; y < height; y++)
    out.set(pixels.subarray(y * width * channels, (y + 1) * width * channels), y * r.width * channels)
  return out
}

/** The labels of a rectangle of a slide, or of a canvas around it, which has the label `outside` there. */
const labelsOn = async (of: SlideAndMask, r: Region, outside: number): Promise<Uint8Array | Int32Array> => {
  const { level } = of.slide
  const height = Math.min(r.height, level.height - r.top)
  const width = Math.min(r.width, level.width - r.left)
  if (height === r.height && width === r.width) return labelsIn(of, r)
  const isByte = outside >= 0 && outside <= 255
  const out = new (isByte ? Uint8Array : Int32Array)(r.height * r.width).fill(outside)
  if (height <= 0 || width <= 0) return out
  const labels = await labelsIn(of, { ...r, height, width })
  for (let y = 0; y < height; y++) out.set(labels.subarray(y * width, (y + 1) * width), y * r.width)
  return out
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

/** A rectangle of a sample, with 0 in the sample's blocks without tissue. If it has no others, nothing is decoded. */
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
  const empty = cut(region.top, region.height, sample.top, sample.top + sample.height).flatMap(([top, bottom]) =>
    cut(region.left, region.width, sample.left, sample.left + sample.width).map(([left, right]) => {
      const block = { top, left, height: bottom - top, width: right - left }
      const isBeyond = top >= slide.level.height || left >= slide.level.width
      return { ...block, isEmpty: isBeyond || share(block) === 0 }
    }),
  )
  const count = region.height * region.width * channels
  if (empty.every((b) => b.isEmpty)) return bits === 16 ? new Uint16Array(count) : new Uint8Array(count)
  const pixels = await regionOn(slide, region)
  for (const b of empty.filter((b) => b.isEmpty)) {
    const [left, right] = [Math.max(b.left, region.left), Math.min(b.left + b.width, region.left + region.width)]
    const [top, bottom] = [Math.max(b.top, region.top), Math.min(b.top + b.height, region.top + region.height)]
    for (let y = top; y < bottom; y++) {
      const row = (y - region.top) * region.width
      pixels.fill(0, (row + left - region.left) * channels, (row + right - region.left) * channels)
    }
  }
  return pixels
}

/** Returns true for pixels of a sample in blocks without tissue, and beyond the slide. */
const emptyIn = ({ of: { slide }, region }: Part, { side, tissue }: Blocks): ((y: number, x: number) => boolean) => {
  const share = tissue.get(slide.file)!
  const columns = Math.ceil(region.width / side)
  const known = new Map<number, boolean>()
  return (y, x) => {
    const [row, column] = [Math.floor(y / side), Math.floor(x / side)]
    const [top, left] = [region.top + row * side, region.left + column * side]
    const height = Math.min(side, region.top + region.height - top)
    const width = Math.min(side, region.left + region.width - left)
    const isEmpty = (): boolean =>
      top >= slide.level.height || left >= slide.level.width || share({ top, left, height, width }) === 0
    const is = known.get(row * columns + column) ?? isEmpty()
    known.set(row * columns + column, is)
    return is
  }
}

/** 16-bit numbers are shares of 65535, as those of images. */
const numbersOf = (pixels: Uint8Array | Uint16Array): Uint8Array | Float32Array =>
  pixels instanceof Uint16Array ? Float32Array.from(pixels, (x) => x / 65535) : pixels

/** With a key, only this value of the sample is read. */
const sampleOf = async (
  { of, region: own }: Part,
  { top, left, height, width }: Region,
  { key, outside = 0 }: Wanted,
  blocks: Blocks | undefined,
): Promise<Sample> => {
  const region = { top: own.top + top, left: own.left + left, height, width }
  const { slide, label, mask } = of
  const [pixels, labels] = await Promise.all([
    key === 'target' ? undefined : blocks ? pixelsIn(slide, own, region, blocks) : regionOn(slide, region),
    mask && key !== 'input' ? labelsOn({ slide, mask }, region, outside) : label,
  ])
  return { ...(pixels ? { input: numbersOf(pixels) } : {}), ...(labels === undefined ? {} : { target: labels }) }
}

/** Names of outputs: paths below the folder, without their kind. */
const slideNameOf = (root: string, { slide }: Labelled): string => {
  const below = relative(root, slide.file)
  const name = (below === '' ? basename(root) : below).replaceAll(sep, '-')
  return name.slice(0, -extname(name).length)
}
const outputNameOf = (root: string, { of, region }: Part, isTile: boolean): string =>
  `${slideNameOf(root, of)}${isTile ? `-${region.top}-${region.left}` : ''}`

const tileOf = (root: string, { of, region }: Part): SlideTile => {
  const { file, pyramid, level } = of.slide
  const { height, width } = pyramid.levels[0]!
  const [down, across] = [height / level.height, width / level.width]
  return {
    ...{ file, name: slideNameOf(root, of), slide: [height, width] },
    ...{ x: Math.round(region.left * across), y: Math.round(region.top * down) },
    ...{ width: Math.round(region.width * across), height: Math.round(region.height * down) },
  }
}

/** The place of a slide's level. */
const georeferenceOf = ({ pyramid, level }: Slide): Georeference | undefined => {
  const { width, height } = pyramid.levels[0]!
  return pyramid.georeference && resizedGeoreference(pyramid.georeference, width / level.width, height / level.height)
}

const nameOf = ({ of, region }: Part, isTile: boolean): string =>
  isTile ? `${of.slide.file}, tile at row ${region.top}, column ${region.left}` : of.slide.file

/** The identity of the data: names and sizes of the files, and the options. */
const identityOf = (at: string, found: readonly Found[], o: SlideOptions): string => {
  const hash = createHash('sha256')
  for (const { file, mask } of found)
    for (const f of [file, ...(mask ? [mask] : [])]) hash.update(`${f.slice(at.length)} ${statSync(f).size}\n`)
  return `slides ${hash.update(JSON.stringify(o)).digest('hex').slice(0, 16)}`
}

/** The slides of a path, with checked options. */
const openedAt = (path: string, o: SlideOptions) => {
  if (!isPath.is(path)) refused(`slides: the path is ${valueText(path)}; allowed: a path of a file or folder`)
  known(OPTIONS, o)
  const problem = o.augment && augmentProblem(o.augment)
  if (problem !== undefined) refused(`slides: ${problem}`)
  const { level, microns, tiles, tissue = 0 } = o
  if (level !== undefined && microns !== undefined) refused('slides: level and microns exclude each other: set one of them')
  if (o.canvas !== undefined && tiles !== undefined) refused('slides: canvas is for whole slides: leave canvas or tiles out')
  if (tissue > 0 && tiles === undefined) refused('slides: tissue selects tiles: set tiles, too, e.g. tiles: 512')
  const { found, classes } = foundAt(path)
  return { all: found.map(opened(o)), classes, name: identityOf(path, found, o), root: path }
}

type OpenedSlides = ReturnType<typeof openedAt>

const asData = (
  { name, classes, root }: OpenedSlides,
  o: SlideOptions,
  parts: readonly Part[],
  tissue: Tissue | undefined,
): Data => {
  const blocks = o.blocks !== undefined && tissue ? { side: o.blocks, tissue } : undefined
  const { fit, augment, mean, std } = o
  const isTile = o.tiles !== undefined
  const tileRows = parts[0]?.of.slide.level.tile?.height
  return {
    set: {
      kind: 'own',
      length: parts.length,
      layout: 'NHWC',
      name,
      size: (i) => [parts[i]!.region.height, parts[i]!.region.width],
      read: (i, region, wanted = {}) => sampleOf(parts[i]!, region, wanted, blocks),
      ...(isTile || !tileRows ? {} : { tileRows }),
      nameOf: (i) => nameOf(parts[i]!, isTile),
      outputName: (i) => outputNameOf(root, parts[i]!, isTile),
      ...(isTile ? { tileOf: (i: number) => tileOf(root, parts[i]!) } : {}),
      micronsOf: (i) => parts[i]!.of.slide.level.microns,
      ...(isTile ? {} : { georeferenceOf: (i: number) => georeferenceOf(parts[i]!.of.slide) }),
      ...(blocks ? { emptyOf: (i: number) => emptyIn(parts[i]!, blocks) } : {}),
      ...Object.fromEntries(Object.entries({ fit, augment, mean, std, classes }).filter(([, value]) => value !== undefined)),
    },
    parts: [],
  }
}

/** Shares of tissue in rectangles of slides, by file. */
export type Tissue = ReadonlyMap<string, (region: Region) => number>

/** Looks for tissue in each slide, which takes time. */
export const tissueAt = async (path: string, o: SlideOptions): Promise<Tissue> =>
  new Map(await Promise.all(openedAt(path, o).all.map(async ({ slide }) => [slide.file, await tissueOf(slide)] as const)))

/** All slides or tiles; with `tissue`, the tiles with enough of it. Also returns the number of all tiles. */
export const slidesAt = (path: string, o: SlideOptions, tissue?: Tissue): { readonly data: Data; readonly tiles: number } => {
  const at = openedAt(path, o)
  const size = sizeOf(o.tiles)
  const all = size ? at.all.flatMap((of) => tilesOf(of, size)) : at.all.map(wholeOn(sizeOf(o.canvas)))
  const kept = tissue && size ? all.filter(({ of, region }) => tissue.get(of.slide.file)!(region) >= (o.tissue ?? 0)) : all
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
  const { tissue = 0, blocks } = o
  return slidesAt(path, o, tissue > 0 || blocks !== undefined ? await tissueAt(path, o) : undefined).data
}
