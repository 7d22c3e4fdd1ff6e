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

const FILES = optionsFor<Numbers>()('files', 'layout', 'mean', 'std')
const FOLDER = optionsFor<ImageOptions>()('folder', 'fit', 'augment', 'depth', 'mostPixels', 'mean', 'std')
const SOURCE = optionsFor<StreamOptions>()('source', 'layout', 'mean', 'std', 'name', 'augment')

export type DataSet =
  | ({ readonly kind: 'images'; readonly path: string } & ImageOptions & Pick<Numbers, 'layout'>)
  | ({ readonly kind: 'files'; readonly path: string } & Numbers)
  | ({ readonly kind: 'own' } & OwnSource)
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

const numbersOf = <N extends Numbers>(what: string, o: N): N => {
  if (o.layout !== undefined && o.layout !== 'NCHW' && o.layout !== 'NHWC')
    refused(`${what}: layout is '${String(o.layout)}'; legal are NCHW and NHWC`)
  for (const [name, list] of [
    ['mean', o.mean],
    ['std', o.std],
  ] as const)
    if (list && !(Array.isArray(list) && list.length > 0 && list.every((n) => Number.isFinite(n) && (name === 'mean' || n > 0))))
      refused(`${what}: ${name} is a list of ${name === 'mean' ? 'numbers' : 'numbers above 0'}, one for each channel`)
  return o
}

/**
 * Samples in .npy or .safetensors files, as `--data` finds them in a folder, with how their numbers are meant.
 *
 * @example train(net, plan, { steps: 100, data: files('slides/', { mean: [0.5], std: [0.25] }), shuffle: true })
 */
export const files = (path: string, o: Numbers = {}): Data => ({
  set: { kind: 'files', path, ...numbersOf('files', known(FILES, o)) },
  parts: [],
})

/**
 * Images in a folder: one folder for each class, in the order of their names; or images/NAME beside masks/NAME; or the path of a .csv or .json
 * list of image and label or mask. PNG, JPEG, WebP and TIFF, decoded by the package sharp.
 *
 * @example train(net, plan, { steps: 100, data: folder('cats/', { augment: { flip: 'horizontal' } }), shuffle: true })
 */
export const folder = (path: string, o: ImageOptions = {}): Data => {
  known(FOLDER, o)
  if (o.fit !== undefined && !FITS.includes(o.fit)) refused(`folder: fit is '${String(o.fit)}'; legal: ${FITS.join(', ')}`)
  if (o.depth !== undefined && o.depth !== 8 && o.depth !== 16) refused(`folder: depth is ${String(o.depth)}; legal: 8, 16`)
  if (o.mostPixels !== undefined && !(Number.isSafeInteger(o.mostPixels) && o.mostPixels > 0))
    refused(`folder: mostPixels is ${o.mostPixels}; legal are whole numbers of at least 1`)
  return { set: { kind: 'images', path, ...augmentOf('folder', numbersOf('folder', o)), layout: 'NHWC' }, parts: [] }
}

const isIterable = (u: unknown): u is Samples =>
  typeof u === 'object' && u !== null && (Symbol.iterator in u || Symbol.asyncIterator in u)

/** Without what happens to samples by chance: as evaluations see them. */
export const asTheyAre = ({ set, parts }: Data): Data =>
  set.kind === 'files' ? { set, parts } : { set: { ...set, augment: {} }, parts }

/** An iterator that gives itself can be gone through once. */
const isOnce = (u: Samples): boolean =>
  Symbol.asyncIterator in u ? (u[Symbol.asyncIterator]() as unknown) === u : (u[Symbol.iterator]() as unknown) === u

/**
 * Samples that are made in TypeScript: by a function that reads any of them, or one after the other by whatever can be iterated. A
 * function that gives something to iterate is called for each epoch.
 *
 * @example const data = source({ length: 1000, read: (i) => ({ input: pixels(i), target: labels(i) }) })
 */
export function source(own: OwnSource): Data
export function source(samples: Samples | (() => Samples), o?: StreamOptions): Data
export function source(from: OwnSource | Samples | (() => Samples), o: StreamOptions = {}): Data {
  known(SOURCE, o)
  if (typeof from === 'function')
    return { set: { kind: 'stream', open: from, once: false, ...augmentOf('source', numbersOf('source', o)) }, parts: [] }
  if (isIterable(from))
    return {
      set: { kind: 'stream', open: () => from, once: isOnce(from), ...augmentOf('source', numbersOf('source', o)) },
      parts: [],
    }
  if (typeof from !== 'object' || from === null || typeof from.read !== 'function')
    return refused('source: it takes { length, read }, something to iterate, or a function that gives that')
  if (!Number.isSafeInteger(from.length) || from.length < 1 || from.length >= 2 ** 32)
    return refused(`source: length is ${from.length}; legal are whole numbers of at least 1`)
  return { set: { kind: 'own', ...augmentOf('source', numbersOf('source', from)) }, parts: [] }
}

// ---------------------------------------------------------------- parts

const withPart = (what: string, data: Data, part: Part): Data => {
  if (data.set.kind === 'stream') refused(`${what}: samples that come one after the other have no parts: give { length, read }`)
  return { ...data, parts: [...data.parts, part] }
}

/**
 * Two parts without a common sample: a share of them, drawn by a seed (default 0), and the rest.
 *
 * @example const [training, validation] = split(files('slides/'), 0.8)
 */
export const split = (data: Data, share: number, seed = 0): readonly [Data, Data] => {
  if (!(share > 0 && share < 1)) refused(`split: the share is ${share}; legal are numbers between 0 and 1`)
  if (!Number.isSafeInteger(seed) || seed < 0) refused(`split: the seed is ${seed}; legal are whole numbers of at least 0`)
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
    refused(`shard: ${index} of ${of}; legal are 0 to n - 1 of n`)
  return withPart('shard', data, { kind: 'shard', index, of })
}

/**
 * These samples, counted from 0, in this order.
 *
 * @example const few = pick(files('slides/'), [0, 3, 4])
 */
export const pick = (data: Data, samples: readonly number[]): Data =>
  withPart('pick', data, { kind: 'list', samples: [...samples] })
