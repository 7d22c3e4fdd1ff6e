// The data of a run, in the users' form. In: files, a function that reads a sample, or an iterable. Out: Data, and parts of it. Invariant: immutable;
// nothing is read and nothing opened here.
import type { Georeference } from '../files/georeference'
import { known } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { atLeast, callable, choice, either, legal, made, path, text, valueText, withValues } from '../../staging/core/values'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import { type Augment, augmentProblem, type Fit, FITS, type Taking, TAKINGS } from './augment'
import type { Damaged } from './found'
import type { Part } from './order'

/**
 * The numbers of one value of a sample, in the order of the data's layout. A class label may be a plain number.
 *
 * @example const image: SampleValue = new Uint8Array(3 * 64 * 64)
 */
export type SampleValue = number | Uint8Array | Uint8ClampedArray | Int32Array | Float32Array | Float64Array | readonly number[]
/**
 * One sample: numbers by name. The names are `input` and `target`, or the names of the step's fed tensors.
 *
 * @example const sample: Sample = { input: new Float32Array(3 * 64 * 64), target: 4 }
 */
export type Sample = Readonly<Record<string, SampleValue>>

/** Normalisation of input numbers. */
export interface Scaling {
  /**
   * Numbers subtracted from the inputs, one per channel. Bytes are first divided by 255. Default 0.
   *
   * @example source({ length, read, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] })
   */
  readonly mean?: readonly number[]
  /**
   * Divisors of the inputs after the mean is subtracted, one per channel. Default 1.
   *
   * @example source({ length, read, std: [0.5] })
   */
  readonly std?: readonly number[]
}

/**
 * Layout and normalisation of input numbers.
 *
 * @example const numbers: Numbers = { layout: 'NHWC', mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
 */
export interface Numbers extends Scaling {
  /**
   * Order of the numbers of a sample: 'NCHW' (channels first) or 'NHWC' (channels last). Default 'NCHW'.
   *
   * @example source({ length, read, layout: 'NHWC' })
   */
  readonly layout?: 'NCHW' | 'NHWC'
}

/** Name, classes and random changes of samples. */
export interface Described {
  /**
   * Name of the data. A resumed run must have the same name. Default: none.
   *
   * @example source({ length, read, name: 'slides, 3rd scan' })
   */
  readonly name?: string
  /**
   * Names of the classes, in the order of their labels. Weights, pages and predictions carry them; other labels are
   * refused. Default: none.
   *
   * @example source({ length: 1000, read, classes: ['cat', 'dog'] })
   */
  readonly classes?: readonly string[]
  /**
   * Random changes of the inputs, which must be images; a target of the same size follows. Default: none.
   *
   * @example source({ length: 1000, read, augment: { flip: 'horizontal', crop: true } })
   */
  readonly augment?: Augment
}

/**
 * Options of `source` for a function that reads sample i.
 *
 * @example const own: OwnSource = { length: 1000, read: (i) => ({ input: pixels(i), target: labels(i) }) }
 */
export interface OwnSource extends Described, Numbers {
  /** Number of samples. @example source({ length: 1000, read }) */
  readonly length: number
  /**
   * Returns sample i, counted from 0. An exception ends the run and is passed on.
   *
   * @example source({ length, read: async (i) => load(i) })
   */
  readonly read: (i: number) => Sample | Promise<Sample>
}

/**
 * A rectangle inside an image, in pixels.
 *
 * @example const area = ({ height, width }: Region) => height * width
 */
export interface Region {
  readonly top: number
  readonly left: number
  readonly height: number
  readonly width: number
}

/** Height and width, in pixels. @example const size: PixelSize = [4000, 6000] */
export type PixelSize = readonly [height: number, width: number]

/**
 * Options of `source` for images of which only regions are read. Images may be larger than memory.
 *
 * @example
 * const slides: RegionSource = {
 *   length: 20, size: [4000, 6000],
 *   read: (i, { height, width }) => ({ input: new Uint8Array(3 * height * width).fill(i) }),
 * }
 */
export interface RegionSource extends Described, Numbers {
  /** Number of images. @example source({ length: 20, size: [4000, 6000], read }) */
  readonly length: number
  /**
   * Height and width in pixels, of all images or of image i.
   *
   * @example
   * source({ length: 20, size: [40_000, 60_000], read: (i, { height, width }) => ({ input: new Uint8Array(3 * height * width) }) })
   */
  readonly size: PixelSize | ((i: number) => PixelSize | Promise<PixelSize>)
  /**
   * Returns a region of image i, counted from 0. A target per pixel has the size of the region, too.
   *
   * @example
   * source({ length: 20, size: [40_000, 60_000], read: (i, { height, width }) => ({ input: new Uint8Array(3 * height * width) }) })
   */
  readonly read: (i: number, region: Region) => Sample | Promise<Sample>
  /**
   * Part of the image for the model: 'crop' (default) the middle, 'cover' the middle resized, 'stretch' or
   * 'pad' the whole image.
   *
   * @example
   * source({ length: 20, size: [4000, 6000], fit: 'cover', read: (i, { height, width }) => ({ input: new Uint8Array(3 * height * width) }) })
   */
  readonly fit?: Fit
}

/**
 * Samples in sequence: an iterable or an async iterable.
 *
 * @example
 * async function* stream(): Samples { yield { input: pixels(0), target: 4 } }
 * source(stream)
 */
export type Samples = Iterable<Sample> | AsyncIterable<Sample>
/**
 * Options of `source` for samples in sequence.
 *
 * @example const options: StreamOptions = { name: 'camera', mean: [0.5] }
 */
export type StreamOptions = Numbers & Described

/**
 * Options of `folder`.
 *
 * @example const options: ImageOptions = { fit: 'pad', augment: { flip: 'horizontal' } }
 */
export interface ImageOptions extends Scaling {
  /**
   * Handling of images of another size: 'cover' (default) resizes and cuts the middle, 'stretch' resizes, 'pad'
   * adds a border, 'crop' cuts the middle. 'own' keeps each image at its own size, for evaluations and
   * predictions.
   *
   * @example folder('cats/', { fit: 'pad' })
   */
  readonly fit?: Taking
  /** Random changes of the images. Default: none. @example folder('cats/', { augment: { flip: 'horizontal', crop: true } }) */
  readonly augment?: Augment
  /**
   * Folder of the images of COCO annotations. Default: the folder of the .json file.
   *
   * @example folder('instances.json', { images: 'val2017/' })
   */
  readonly images?: string
  /**
   * Bits per number: 8 or 16. 16 keeps the precision of 16-bit TIFF and PNG. Default 8, which refuses such
   * files.
   *
   * @example folder('scans/', { depth: 16 })
   */
  readonly depth?: 8 | 16
  /**
   * Largest number of pixels of an image; larger images are refused before they are decoded. Default 268435456.
   *
   * @example folder('slides/', { mostPixels: 1e9 })
   */
  readonly mostPixels?: number
}

/**
 * Options of `files`.
 *
 * @example const options: FilesOptions = { mean: [0.5], std: [0.25], fit: 'crop' }
 */
export interface FilesOptions extends Numbers {
  /**
   * Random changes of the inputs, which must be images; a target of the same size follows. Default: none.
   *
   * @example files('slides/', { augment: { flip: 'horizontal', crop: true } })
   */
  readonly augment?: Augment
  /**
   * Handling of arrays of another height and width, as in `folder`. Default: they must match the model.
   *
   * @example files('slides/', { fit: 'crop', augment: { crop: true } })
   */
  readonly fit?: Fit
}

export const isChannels = (least: number) => (u: unknown) =>
  Array.isArray(u) && u.length > 0 && u.every((n) => Number.isFinite(n) && n > least)
const NUMBERS = {
  layout: choice(['NCHW', 'NHWC']),
  mean: legal('a list of numbers, one for each channel', isChannels(Number.NEGATIVE_INFINITY)),
  std: legal('a list of numbers above 0, one for each channel', isChannels(0)),
}
const IMAGES = { fit: choice(FITS), augment: made("an object such as { flip: 'horizontal' }") }
const FILES = withValues(
  optionsFor<FilesOptions>()('files', 'layout', 'mean', 'std', 'augment', 'fit'),
  { ...NUMBERS, ...IMAGES },
  { prefix: 'files: ' },
)
const FOLDER = withValues(
  optionsFor<ImageOptions>()('folder', 'fit', 'augment', 'images', 'depth', 'mostPixels', 'mean', 'std'),
  {
    mean: NUMBERS.mean,
    std: NUMBERS.std,
    ...IMAGES,
    fit: choice(TAKINGS),
    images: path,
    depth: choice([8, 16]),
    mostPixels: atLeast(1),
  },
  { prefix: 'folder: ' },
)
const SIZE = either(
  '[height, width] in pixels, or a function of i that returns it',
  callable,
  legal('', (u) => Array.isArray(u) && u.length === 2 && u.every((n) => Number.isSafeInteger(n) && n >= 1)),
)
const CLASS_NAMES = legal(
  "a list of different names such as ['cat', 'dog']",
  (u) => Array.isArray(u) && u.length > 0 && u.every((n) => typeof n === 'string' && n !== '') && new Set(u).size === u.length,
)
const OWN = withValues(
  optionsFor<RegionSource>()('source', 'length', 'read', 'size', 'fit', 'layout', 'mean', 'std', 'name', 'classes', 'augment'),
  {
    ...NUMBERS,
    ...IMAGES,
    length: legal('whole numbers of at least 1', (u) => Number.isSafeInteger(u) && Number(u) >= 1 && Number(u) < 2 ** 32),
    read: callable,
    size: SIZE,
    name: text,
    classes: CLASS_NAMES,
  },
  { prefix: 'source: ', required: ['length', 'read'] },
)
const SOURCE = withValues(
  optionsFor<StreamOptions>()('source', 'layout', 'mean', 'std', 'name', 'classes', 'augment'),
  { ...NUMBERS, augment: IMAGES.augment, name: text, classes: CLASS_NAMES },
  { prefix: 'source: ' },
)

/** A tile, in pixels of the slide's finest level. */
export interface SlideTile {
  readonly file: string
  /** Name of the slide in names of outputs. */
  readonly name: string
  /** Height and width of the slide. */
  readonly slide: PixelSize
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** A slide on a sample, in pixels of the sample. A prediction has an output for each. */
export interface SlidePlace extends Region {
  /** Name of its output. */
  readonly name: string
  /** Scale of its pixels, if the file states it. */
  readonly microns: number | undefined
  /** Its place on the earth, if the file states it. */
  readonly georeference: Georeference | undefined
  /** Pixels of the slide without data: outputs have none there. */
  readonly isEmpty: ((y: number, x: number) => boolean) | undefined
}

/** The needed part of a region: with a key, only this value; and the label of pixels beyond an image. */
export interface Wanted {
  readonly key?: string
  readonly outside?: number
}

export type DataSet =
  | ({
      readonly kind: 'images'
      readonly path: string
      readonly damaged?: Damaged
      readonly fault?: SpillwayError
    } & ImageOptions &
      Pick<Numbers, 'layout'>)
  | ({ readonly kind: 'files'; readonly path: string } & FilesOptions)
  | ({ readonly kind: 'own' } & Omit<OwnSource, 'read'> &
      Partial<Pick<RegionSource, 'size' | 'fit'>> & {
        readonly read: (i: number, region: Region, wanted?: Wanted) => Sample | Promise<Sample>
        /** Rows of a file's tiles, for images that are stored in tiles. */
        readonly tileRows?: number
        /** The most bytes of a band of rows, with numbers of four bytes; tests set fewer than the usual number. */
        readonly bandBytes?: number
        readonly nameOf?: (i: number) => string
        /** Notes about data that are left out. */
        readonly notes?: readonly string[]
        readonly outputName?: (i: number) => string
        /** Pixels between the slides of a sample, if it has several: no layer may read farther. */
        readonly apart?: number
        /** The slides of a sample. */
        readonly placesOf?: (i: number) => readonly SlidePlace[]
        /** The place of a sample that is a tile of a slide. */
        readonly tileOf?: (i: number) => SlideTile
      })
  | ({ readonly kind: 'stream'; readonly open: () => Samples; readonly once: boolean } & StreamOptions)

export type FilesSet = Extract<DataSet, { readonly kind: 'files' }>
export type ImageSet = Extract<DataSet, { readonly kind: 'images' }>

/**
 * Samples for training or evaluation, as `files`, `folder` and `source` create them.
 *
 * @example const data: Data = folder('cats/')
 */
export interface Data {
  readonly set: DataSet
  readonly parts: readonly Part[]
}

const refused = (message: string): never => {
  throw new SpillwayException(usage(message))
}

const augmentOf = <N extends { readonly augment?: Augment }>(what: string, o: N): N => {
  const problem = o.augment && augmentProblem(o.augment)
  if (problem !== undefined) refused(`${what}: ${problem}`)
  return o
}

/** A path that names something. */
const pathOf = (what: string, given: string): string => {
  if (!path.is(given)) refused(`${what}: the path is ${valueText(given)}; allowed: a path of a file or folder`)
  return given
}

/**
 * Creates data from .npy or .safetensors files: a folder with `input` and `target`, or with pairs `NAME.input`
 * and `NAME.target`.
 *
 * @param path The folder or file.
 * @param o Layout, normalisation, fit and augmentation.
 * @example
 * const slides = files('slides/', { mean: [0.5], std: [0.25] })
 * await train(net, plan, { steps: 100, data: slides })
 */
export const files = (path: string, o: FilesOptions = {}): Data => ({
  set: { kind: 'files', path: pathOf('files', path), ...augmentOf('files', known(FILES, o)) },
  parts: [],
})

/**
 * Creates data from a folder of images: one subfolder per class, or `images/NAME` beside `masks/NAME`. The path
 * may also be a .csv or .json list of images with labels or masks, COCO annotations, or a parent folder with `train/` and `val/`. PNG, JPEG, WebP, TIFF, AVIF and GIF need the package
 * sharp.
 *
 * @param path The folder or the list.
 * @param o Fit, normalisation and augmentation.
 * @example
 * const cats = folder('cats/', { augment: { flip: 'horizontal' } })
 * await train(net, plan, { steps: 100, data: cats })
 */
export const folder = (path: string, o: ImageOptions = {}): Data => ({
  set: { kind: 'images', path: pathOf('folder', path), ...augmentOf('folder', known(FOLDER, o)), layout: 'NHWC' },
  parts: [],
})

/** Checks sizes, and the options that need them. */
const regionsOf = (from: OwnSource | RegionSource): void => {
  const { size, fit } = from as Partial<RegionSource>
  if (size === undefined && (fit !== undefined || from.read.length > 1))
    refused(
      `source: ${fit === undefined ? 'read takes a region' : 'fit applies to images of any size'}: add the image size, as size: [height, width] or size: (i) => [height, width]`,
    )
}

const isPlain = (o: object): boolean => Object.getPrototypeOf(o) === Object.prototype

const isIterable = (u: unknown): u is Samples =>
  typeof u === 'object' && u !== null && (Symbol.iterator in u || Symbol.asyncIterator in u)

/** Without random changes: the data of evaluations. */
export const asTheyAre = ({ set, parts }: Data): Data => ({ set: { ...set, augment: {} }, parts })

/** An iterator that gives itself can be gone through once. */
const isOnce = (u: Samples): boolean =>
  Symbol.asyncIterator in u ? (u[Symbol.asyncIterator]() as unknown) === u : (u[Symbol.iterator]() as unknown) === u

/**
 * Creates data from your own code: a function that reads sample i, a function that reads a region of image i,
 * or an iterable. An iterable must be a function that returns it, if the run has several epochs.
 *
 * @example source({ length: 1000, read: (i) => ({ input: pixels(i), target: labels(i) }) })
 */
export function source(images: RegionSource): Data
/**
 * Creates data from your own code: a function that reads sample i, a function that reads a region of image i,
 * or an iterable. An iterable must be a function that returns it, if the run has several epochs.
 *
 * @example source({ length: 1000, read: (i) => ({ input: pixels(i), target: labels(i) }) })
 */
export function source(own: OwnSource): Data
/**
 * Creates data from your own code: a function that reads sample i, a function that reads a region of image i,
 * or an iterable. An iterable must be a function that returns it, if the run has several epochs.
 *
 * @example source({ length: 1000, read: (i) => ({ input: pixels(i), target: labels(i) }) })
 */
export function source(samples: Samples | (() => Samples), o?: StreamOptions): Data
export function source(from: OwnSource | RegionSource | Samples | (() => Samples), o: StreamOptions = {}): Data {
  known(SOURCE, o)
  if (typeof from === 'function')
    return { set: { kind: 'stream', open: from, once: false, ...augmentOf('source', o) }, parts: [] }
  if (isIterable(from))
    return {
      set: { kind: 'stream', open: () => from, once: isOnce(from), ...augmentOf('source', o) },
      parts: [],
    }
  if (typeof from !== 'object' || from === null || typeof from.read !== 'function')
    return refused('source: pass { length, read }, an iterable, or a function that returns one of them')
  // A class may have other members, too.
  known(OWN, isPlain(from) ? from : Object.fromEntries(OWN.keys.map((key) => [key, (from as Partial<RegionSource>)[key]])))
  regionsOf(from)
  const { length, size, fit, layout, mean, std, name, classes, augment } = augmentOf('source', from) as RegionSource
  const given = Object.entries({ length, size, fit, layout, mean, std, name, classes, augment }).filter(
    ([, value]) => value !== undefined,
  )
  const read = (i: number, region: Region): Sample | Promise<Sample> => from.read(i, region)
  return { set: { kind: 'own', read, ...(Object.fromEntries(given) as Omit<RegionSource, 'read'>) }, parts: [] }
}

// ---------------------------------------------------------------- parts

const withPart = (what: string, data: Data, part: Part): Data => {
  if (data.set.kind === 'stream') refused(`${what}: a stream of samples cannot be split: pass { length, read }`)
  return { ...data, parts: [...data.parts, part] }
}

/**
 * Returns two parts without a common sample: a random share, and the rest.
 *
 * @param data The data.
 * @param share Share of the first part, between 0 and 1.
 * @param seed Seed of the draw. Default 0.
 * @example const [training, validation] = split(files('slides/'), 0.8)
 */
export const split = (data: Data, share: number, seed = 0): readonly [Data, Data] => {
  if (!(share > 0 && share < 1)) refused(`split: the share is ${share}; allowed: numbers between 0 and 1`)
  if (!Number.isSafeInteger(seed) || seed < 0) refused(`split: the seed is ${seed}; allowed: whole numbers of at least 0`)
  const part = (from: number, to: number): Data => withPart('split', data, { kind: 'share', from, to, seed })
  return [part(0, share), part(share, 1)]
}

/**
 * Returns one of several equal parts. Of 10 samples, shard 1 of 4 has samples 1, 5 and 9.
 *
 * @param data The data.
 * @param index Number of the part, counted from 0.
 * @param of Number of parts.
 * @example const mine = shard(files('slides/'), 1, 4)
 */
export const shard = (data: Data, index: number, of: number): Data => {
  if (!(Number.isSafeInteger(of) && Number.isSafeInteger(index) && index >= 0 && index < of))
    refused(`shard: ${index} of ${of}; allowed: 0 to n - 1 of n`)
  return withPart('shard', data, { kind: 'shard', index, of })
}

/**
 * Returns the chosen samples, in the given order.
 *
 * @param data The data.
 * @param samples Numbers of the samples, counted from 0.
 * @example const few = pick(files('slides/'), [0, 3, 4])
 */
export const pick = (data: Data, samples: readonly number[]): Data =>
  withPart('pick', data, { kind: 'list', samples: [...samples] })
