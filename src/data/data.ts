// What a run is fed, as users say it. In: files, a function that reads a sample, or anything that can be iterated. Out: Data, and parts of
// it. Invariant: immutable; nothing is read and nothing opened here.
import { known } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { SpillwayException, usage } from '../errors/errors'
import { type Augment, augmentProblem, type Fit, FITS } from './augment'
import type { Part } from './order'

/** One value of a sample: its numbers in the order of the data's layout; a class label may stand alone. */
export type SampleValue = number | Uint8Array | Uint8ClampedArray | Int32Array | Float32Array | Float64Array | readonly number[]
/** What a model is fed, by name: `input` and `target` where there is one of each, else as the model calls them. */
export type Sample = Readonly<Record<string, SampleValue>>

/** How numbers become what the model sees. */
export interface Numbers {
  /** Of each value: channels first (default, as in PyTorch), or last, as pixels lie in images. @example source({ length, read, layout: 'NHWC' }) */
  readonly layout?: 'NCHW' | 'NHWC'
  /**
   * Of each channel of the inputs, subtracted. Bytes are first divided by 255, so that these are between 0 and 1, as in torchvision.
   *
   * @example source({ length, read, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] })
   */
  readonly mean?: readonly number[]
  /** Of each channel of the inputs, by which they are divided after that. @example source({ length, read, std: [0.5] }) */
  readonly std?: readonly number[]
}

/** Samples that a function reads, in any order. */
export interface OwnSource extends Numbers {
  /** How many samples there are. @example source({ length: 1000, read }) */
  readonly length: number
  /** Sample i, counted from 0: what it throws ends the run, as it is. @example source({ length, read: async (i) => load(i) }) */
  readonly read: (i: number) => Sample | Promise<Sample>
  /** What the data are, for a run that is resumed: other words are another run. @example source({ length, read, name: 'slides, 3rd scan' }) */
  readonly name?: string
  /**
   * What happens to samples by chance. The input is images, as bytes or as floats, and a target of its height and width follows.
   *
   * @example source({ length: 1000, read, augment: { flip: 'horizontal', crop: true } })
   */
  readonly augment?: Augment
}

/** A rectangle of an image, in pixels; all of it is inside. */
export interface Region {
  readonly top: number
  readonly left: number
  readonly height: number
  readonly width: number
}

/** Height and width, in pixels. */
export type PixelSize = readonly [height: number, width: number]

/** Samples of which regions are read: images that are larger than what the model sees, and may be larger than memory. */
export interface RegionSource extends Omit<OwnSource, 'read'> {
  /**
   * Height and width of all images, or of image i.
   *
   * @example source({ length: 20, size: [40_000, 60_000], read: (i, region) => slide(i, region) })
   */
  readonly size: PixelSize | ((i: number) => PixelSize | Promise<PixelSize>)
  /**
   * Image i, counted from 0, as far as the region goes: as many rows and columns as that has. A target with something for each pixel is given
   * for the region, too.
   *
   * @example source({ length: 20, size: [40_000, 60_000], read: (i, { top, left, height, width }) => ({ input: pixels(i, top, left, height, width) }) })
   */
  readonly read: (i: number, region: Region) => Sample | Promise<Sample>
  /**
   * What of an image the model sees: 'crop' (default) the middle as it is, 'cover' the largest rectangle of the model's shape in the middle,
   * resized, 'stretch' all of it, 'pad' all of it with a border. With `augment: { crop: true }` a rectangle anywhere.
   *
   * @example source({ length: 20, size: [4000, 6000], fit: 'cover', read: (i, region) => slide(i, region) })
   */
  readonly fit?: Fit
}

/** Samples one after the other. */
export type Samples = Iterable<Sample> | AsyncIterable<Sample>
/** What is told of samples that come one after the other. */
export type StreamOptions = Numbers & Pick<OwnSource, 'name' | 'augment'>

/** How image files become what the model is fed. */
export interface ImageOptions extends Pick<Numbers, 'mean' | 'std'> {
  /**
   * What becomes of images of another size than the model's: 'cover' (default) takes the largest rectangle of the model's shape in the middle
   * and resizes it, 'stretch' resizes all of it, 'pad' resizes it until all of it is inside, 'crop' takes the middle without resizing.
   *
   * @example folder('cats/', { fit: 'pad' })
   */
  readonly fit?: Fit
  /** What happens to images by chance. @example folder('cats/', { augment: { flip: 'horizontal', crop: true } }) */
  readonly augment?: Augment
  /** Bits of a number: 16 keeps those of 16-bit TIFF and PNG; default 8, which refuses them. @example folder('scans/', { depth: 16 }) */
  readonly depth?: 8 | 16
  /** Images that declare more pixels are refused before they are decoded; default 268435456. @example folder('slides/', { mostPixels: 1e9 }) */
  readonly mostPixels?: number
}

/** How arrays in files become what the model is fed. */
export interface FilesOptions extends Numbers {
  /**
   * What happens to samples by chance: the input is images, and a target of their height and width follows.
   *
   * @example files('slides/', { augment: { flip: 'horizontal', crop: true } })
   */
  readonly augment?: Augment
  /**
   * What becomes of arrays of another height and width than the model's, as `folder` has it; without `fit` and `augment` they are of the
   * model's.
   *
   * @example files('slides/', { fit: 'crop', augment: { crop: true } })
   */
  readonly fit?: Fit
}

const FILES = optionsFor<FilesOptions>()('files', 'layout', 'mean', 'std', 'augment', 'fit')
const FOLDER = optionsFor<ImageOptions>()('folder', 'fit', 'augment', 'depth', 'mostPixels', 'mean', 'std')
const OWN = optionsFor<RegionSource>()('source', 'length', 'read', 'size', 'fit', 'layout', 'mean', 'std', 'name', 'augment')
const SOURCE = optionsFor<StreamOptions>()('source', 'layout', 'mean', 'std', 'name', 'augment')

export type DataSet =
  | ({ readonly kind: 'images'; readonly path: string } & ImageOptions & Pick<Numbers, 'layout'>)
  | ({ readonly kind: 'files'; readonly path: string } & FilesOptions)
  | ({ readonly kind: 'own' } & Omit<OwnSource, 'read'> &
      Pick<RegionSource, 'read'> &
      Partial<Pick<RegionSource, 'size' | 'fit'>> & { readonly nameOf?: (i: number) => string })
  | ({ readonly kind: 'stream'; readonly open: () => Samples; readonly once: boolean } & StreamOptions)

/** Samples to train with: `files`, `source`, and parts of them. */
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

const fitOf = (what: string, { fit }: { readonly fit?: Fit }): void => {
  if (fit !== undefined && !FITS.includes(fit)) refused(`${what}: fit is '${String(fit)}'; allowed: ${FITS.join(', ')}`)
}

const numbersOf = <N extends Numbers>(what: string, o: N): N => {
  if (o.layout !== undefined && o.layout !== 'NCHW' && o.layout !== 'NHWC')
    refused(`${what}: layout is '${String(o.layout)}'; allowed: NCHW, NHWC`)
  for (const [name, list] of [
    ['mean', o.mean],
    ['std', o.std],
  ] as const)
    if (list && !(Array.isArray(list) && list.length > 0 && list.every((n) => Number.isFinite(n) && (name === 'mean' || n > 0))))
      refused(`${what}: ${name} must be a list of ${name === 'mean' ? 'numbers' : 'numbers above 0'}, one for each channel`)
  return o
}

/**
 * Samples in .npy or .safetensors files, as `--data` finds them in a folder, with how their numbers are meant.
 *
 * @example train(net, plan, { steps: 100, data: files('slides/', { mean: [0.5], std: [0.25] }), shuffle: true })
 */
export const files = (path: string, o: FilesOptions = {}): Data => {
  fitOf('files', known(FILES, o))
  return { set: { kind: 'files', path, ...augmentOf('files', numbersOf('files', o)) }, parts: [] }
}

/**
 * Images in a folder: one folder for each class, in the order of their names; or images/NAME beside masks/NAME; or the path of a .csv or .json
 * list of image and label or mask. PNG, JPEG, WebP and TIFF, decoded by the package sharp.
 *
 * @example train(net, plan, { steps: 100, data: folder('cats/', { augment: { flip: 'horizontal' } }), shuffle: true })
 */
export const folder = (path: string, o: ImageOptions = {}): Data => {
  known(FOLDER, o)
  fitOf('folder', o)
  if (o.depth !== undefined && o.depth !== 8 && o.depth !== 16) refused(`folder: depth is ${String(o.depth)}; allowed: 8, 16`)
  if (o.mostPixels !== undefined && !(Number.isSafeInteger(o.mostPixels) && o.mostPixels > 0))
    refused(`folder: mostPixels is ${o.mostPixels}; allowed: whole numbers of at least 1`)
  return { set: { kind: 'images', path, ...augmentOf('folder', numbersOf('folder', o)), layout: 'NHWC' }, parts: [] }
}

/** Sizes, where there are any, and what needs them. */
const regionsOf = (from: OwnSource | RegionSource): void => {
  const { size, fit } = from as Partial<RegionSource>
  if (size === undefined && (fit !== undefined || from.read.length > 1))
    refused(
      `source: ${fit === undefined ? 'read takes a region' : 'fit applies to images of any size'}: add the image size, as size: [height, width] or size: (i) => [height, width]`,
    )
  fitOf('source', { ...(fit === undefined ? {} : { fit }) })
  const isSize = Array.isArray(size) && size.length === 2 && size.every((n) => Number.isSafeInteger(n) && n >= 1)
  if (size !== undefined && typeof size !== 'function' && !isSize)
    refused(`source: size is ${JSON.stringify(size)}; allowed: [height, width] in pixels, or a function of i that returns it`)
}

const isPlain = (o: object): boolean => Object.getPrototypeOf(o) === Object.prototype

const isIterable = (u: unknown): u is Samples =>
  typeof u === 'object' && u !== null && (Symbol.iterator in u || Symbol.asyncIterator in u)

/** Without what happens to samples by chance: as evaluations see them. */
export const asTheyAre = ({ set, parts }: Data): Data => ({ set: { ...set, augment: {} }, parts })

/** An iterator that gives itself can be gone through once. */
const isOnce = (u: Samples): boolean =>
  Symbol.asyncIterator in u ? (u[Symbol.asyncIterator]() as unknown) === u : (u[Symbol.iterator]() as unknown) === u

/**
 * Samples that are made in TypeScript: by a function that reads any of them, or a region of any of them, or one after the other by whatever can
 * be iterated. A function that gives something to iterate is called for each epoch.
 *
 * @example const data = source({ length: 1000, read: (i) => ({ input: pixels(i), target: labels(i) }) })
 * @example const slides = source({ length: 20, size: [4000, 6000], read: (i, { height, width }) => ({ input: new Uint8Array(3 * height * width).fill(i) }) })
 */
export function source(images: RegionSource): Data
export function source(own: OwnSource): Data
export function source(samples: Samples | (() => Samples), o?: StreamOptions): Data
export function source(from: OwnSource | RegionSource | Samples | (() => Samples), o: StreamOptions = {}): Data {
  known(SOURCE, o)
  if (typeof from === 'function')
    return { set: { kind: 'stream', open: from, once: false, ...augmentOf('source', numbersOf('source', o)) }, parts: [] }
  if (isIterable(from))
    return {
      set: { kind: 'stream', open: () => from, once: isOnce(from), ...augmentOf('source', numbersOf('source', o)) },
      parts: [],
    }
  if (typeof from !== 'object' || from === null || typeof from.read !== 'function')
    return refused('source: pass { length, read }, an iterable, or a function that returns one of them')
  if (!Number.isSafeInteger(from.length) || from.length < 1 || from.length >= 2 ** 32)
    return refused(`source: length is ${from.length}; allowed: whole numbers of at least 1`)
  // A class may have more than what is asked of it.
  if (isPlain(from)) known(OWN, from)
  regionsOf(from)
  const { length, size, fit, layout, mean, std, name, augment } = augmentOf('source', numbersOf('source', from)) as RegionSource
  const given = Object.entries({ length, size, fit, layout, mean, std, name, augment }).filter(([, value]) => value !== undefined)
  const read = (i: number, region: Region): Sample | Promise<Sample> => from.read(i, region)
  return { set: { kind: 'own', read, ...(Object.fromEntries(given) as Omit<RegionSource, 'read'>) }, parts: [] }
}

// ---------------------------------------------------------------- parts

const withPart = (what: string, data: Data, part: Part): Data => {
  if (data.set.kind === 'stream') refused(`${what}: a stream of samples cannot be split: pass { length, read }`)
  return { ...data, parts: [...data.parts, part] }
}

/**
 * Two parts without a common sample: a share of them, drawn by a seed (default 0), and the rest.
 *
 * @example const [training, validation] = split(files('slides/'), 0.8)
 */
export const split = (data: Data, share: number, seed = 0): readonly [Data, Data] => {
  if (!(share > 0 && share < 1)) refused(`split: the share is ${share}; allowed: numbers between 0 and 1`)
  if (!Number.isSafeInteger(seed) || seed < 0) refused(`split: the seed is ${seed}; allowed: whole numbers of at least 0`)
  const part = (from: number, to: number): Data => withPart('split', data, { kind: 'share', from, to, seed })
  return [part(0, share), part(share, 1)]
}

/**
 * One of several parts of the same size, or nearly: of 10 samples, shard 1 of 4 has samples 1, 5 and 9.
 *
 * @example const mine = shard(files('slides/'), 1, 4)
 */
export const shard = (data: Data, index: number, of: number): Data => {
  if (!(Number.isSafeInteger(of) && Number.isSafeInteger(index) && index >= 0 && index < of))
    refused(`shard: ${index} of ${of}; allowed: 0 to n - 1 of n`)
  return withPart('shard', data, { kind: 'shard', index, of })
}

/**
 * These samples, counted from 0, in this order.
 *
 * @example const few = pick(files('slides/'), [0, 3, 4])
 */
export const pick = (data: Data, samples: readonly number[]): Data =>
  withPart('pick', data, { kind: 'list', samples: [...samples] })
