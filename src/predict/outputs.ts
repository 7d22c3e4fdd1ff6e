// The places of written predictions. In: images of an output as the device stores them (rows of pixels, channels innermost), band by band. Out: files
// in NumPy's or safetensors' order (channels outermost), or arrays. Invariant: a file has its name once it is whole. Worked example: of [2,3]
// channels by pixels a band of two pixels is c0 c1 c0 c1; it is written to rows of plane 0 and of plane 1.
import type { Georeference } from '../files/georeference'
import { mkdirSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Form } from '../../dsl'
import { orThrow } from '../errors/exceptions'
import { bigTiffInto } from '../files/bigtiff'
import { npyHead } from '../files/npy'
import { rowText } from '../files/rows'
import { headerOf } from '../files/safetensors'
import { type Filling, fillWhole, writeWhole } from '../files/whole'
import { fillFolder, zarrInto } from '../files/zarrinto'
import { pngOfClasses, pngOfPixels, tinted } from '../files/pictures'
import { MOST_HELD_BYTES } from './batches'
import { type Into, type SlideFile, slideFile } from './slidefile'
import type { Region } from '../data/data'
import { allClasses, type Ranked, rankedHead, rankedRow, tileHead, tileRow } from './ranked'

/** Of each image. */
export interface OutputShape {
  readonly type: keyof typeof STORED
  readonly shape: readonly [c: number, h: number, w: number]
  /** Class numbers have no channels. */
  readonly classes: boolean
}

/**
 * The output of one image, in the order channels, rows, columns.
 *
 * @example const largest = ({ values }: Prediction) => values.indexOf(Math.max(...values))
 */
export interface Prediction {
  readonly name: string
  /** Sizes: [C, H, W], or [H, W] of classes. */
  readonly shape: readonly number[]
  readonly values: Float32Array | Float64Array | Int32Array
}

/** Takes planes of rows: those of a channel from some row on. */
type Put = (channel: number, row: number, plane: Uint8Array) => void

export interface Outputs {
  /** The image of this number begins; the one before it is complete. */
  readonly image: (index: number) => Put
  /** The last image is complete. */
  readonly end: () => void
  /** Waits for files that are written while the next image runs. */
  readonly settled?: () => Promise<void>
  /** Removes incomplete files. */
  readonly drop: () => void
  readonly written: () => readonly string[]
  readonly kept: () => readonly Prediction[]
}

/** The output of image i. */
type ShapeOfImage = (i: number) => OutputShape

/** The name of each type of element in files, and its array. */
const STORED = {
  f32: { npy: 'f4', tensor: 'F32', array: Float32Array },
  f64: { npy: 'f8', tensor: 'F64', array: Float64Array },
  i32: { npy: 'i4', tensor: 'I32', array: Int32Array },
} as const
const elementBytes = ({ type }: OutputShape): number => STORED[type].array.BYTES_PER_ELEMENT
export const imageBytes = (o: OutputShape): number => o.shape.reduce((n, d) => n * d, elementBytes(o))

/** The numbers of an image as the device stores them. */
export const numbersIn = ({ type }: OutputShape, bytes: Uint8Array): Values =>
  new STORED[type].array(bytes.slice().buffer as ArrayBuffer)

const NOTHING = { written: () => [], kept: () => [] } as const

const shapeOf = ({ shape, classes }: OutputShape): readonly number[] => (classes ? shape.slice(1) : shape)
const putAt = (into: Pick<Filling, 'put'>, from: number, o: OutputShape): Put => {
  const [, h, w] = o.shape
  return (channel, row, plane) => into.put(from + (channel * h + row) * w * elementBytes(o), plane)
}

/** One array of all images. */
const inOneFile = (path: string, shapeOfImage: ShapeOfImage, images: number): Outputs => {
  const o = shapeOfImage(0)
  const shape = [images, ...shapeOf(o)]
  const head =
    extname(path) === '.npy'
      ? npyHead(STORED[o.type].npy, shape)
      : headerOf([{ name: 'output', type: STORED[o.type].tensor, shape }])
  const file = fillWhole(path)
  file.put(0, head)
  return {
    ...NOTHING,
    image: (i) => putAt(file, head.length + i * imageBytes(o), o),
    end: file.done,
    drop: file.drop,
    written: () => [path],
  }
}

/** A file for each image. */
const inFolder = (folder: string, shapeOfImage: ShapeOfImage, nameOf: (i: number) => string): Outputs => {
  const written: string[] = []
  let open: { readonly file: Filling; readonly path: string } | undefined
  const close = (): void => {
    if (!open) return
    open.file.done()
    written.push(open.path)
    open = undefined
  }
  mkdirSync(folder, { recursive: true })
  return {
    ...NOTHING,
    image: (i) => {
      close()
      const o = shapeOfImage(i)
      const path = join(folder, `${nameOf(i)}.npy`)
      const file = fillWhole(path, 'replace')
      open = { file, path }
      const head = npyHead(STORED[o.type].npy, shapeOf(o))
      file.put(0, head)
      return putAt(file, head.length, o)
    },
    end: close,
    drop: () => {
      open?.file.drop()
      open = undefined
    },
    written: () => written,
  }
}

/** A picture for each image. */
const asPictures = (folder: string, shapeOfImage: ShapeOfImage, nameOf: (i: number) => string): Outputs => {
  const written: string[] = []
  let open: { readonly path: string; readonly classes: Uint8Array; readonly w: number; readonly h: number } | undefined
  const close = (): void => {
    if (!open) return
    const { path, classes, w, h } = open
    orThrow(writeWhole(path, [E.right(pngOfClasses(w, h, classes))], 'replace'))
    written.push(path)
    open = undefined
  }
  return {
    ...NOTHING,
    image: (i) => {
      close()
      const [, h, w] = shapeOfImage(i).shape
      const classes = new Uint8Array(h * w)
      open = { path: join(folder, `${nameOf(i)}.png`), classes, w, h }
      return (_, row, plane) =>
        classes.set(new Int32Array(plane.buffer as ArrayBuffer, plane.byteOffset, plane.byteLength / 4), row * w)
    },
    end: close,
    drop: () => {
      open = undefined
    },
    written: () => written,
  }
}

/** A place of a prediction with a pyramid. */
interface PyramidPlace {
  readonly into: Into
  readonly done: () => void
  readonly drop: () => void
}

/** Formats with a pyramid: the ends of their names, and their places. */
const PYRAMIDS: Readonly<Record<'tiff' | 'zarr', readonly [end: string, open: (path: string) => PyramidPlace]>> = {
  tiff: [
    'tif',
    (path) => {
      const file = fillWhole(path, 'replace')
      return { into: (of) => bigTiffInto(file, of), done: file.done, drop: file.drop }
    },
  ],
  zarr: [
    'zarr',
    (path) => {
      const folder = fillFolder(path)
      return { into: (of) => zarrInto(folder, of), done: folder.done, drop: folder.drop }
    },
  ],
}
export const hasPyramid = (format: Format | undefined): format is keyof typeof PYRAMIDS =>
  format !== undefined && format in PYRAMIDS

/** An image with a pyramid, and a small picture, for each image. Bands of rows are compressed as they are given. */
const asPyramids = (
  { shapeOfImage, nameOf, factsOf, form, classes }: OutputsOf,
  folder: string,
  format: keyof typeof PYRAMIDS,
): Outputs => {
  const [end, openPlace] = PYRAMIDS[format]
  const pathOf = (i: number): string => join(folder, `${nameOf(i)}.${end}`)
  const written: string[] = []
  let open: { readonly place: PyramidPlace; readonly slide: SlideFile; readonly i: number } | undefined
  const close = (): void => {
    if (!open) return
    const { place, slide, i } = open
    slide.end()
    place.done()
    const picture = slide.overview()
    if (picture) orThrow(writeWhole(join(folder, `${nameOf(i)}-overview.png`), [E.right(picture)], 'replace'))
    written.push(pathOf(i))
    open = undefined
  }
  return {
    ...NOTHING,
    image: (i) => {
      close()
      const o = shapeOfImage(i)
      const place = openPlace(pathOf(i))
      const planes = (bytes: Uint8Array): Values =>
        new STORED[o.type].array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength / elementBytes(o))
      const facts = { microns: undefined, ...factsOf?.(i) }
      const slide = slideFile(place.into, { shape: o.shape, isClasses: o.classes, form, ...facts, classes })
      open = { place, slide, i }
      return (channel, _, plane) => slide.put(channel, planes(plane))
    },
    end: close,
    drop: () => {
      open?.place.drop()
      open = undefined
    },
    written: () => written,
  }
}

/** A picture as bytes of red, green and blue. */
export interface Picture {
  readonly height: number
  readonly width: number
  readonly pixels: Uint8Array
}

/** The picture of each image, tinted by the classes of its pixels. */
const asOverlays = (
  folder: string,
  shapeOfImage: ShapeOfImage,
  nameOf: (i: number) => string,
  pictureOf: (i: number) => Promise<Picture>,
): Outputs => {
  const written: string[] = []
  const pending: Promise<void>[] = []
  let open: { readonly i: number; readonly classes: Int32Array } | undefined
  const write = async (i: number, classes: Int32Array): Promise<void> => {
    const [, h, w] = shapeOfImage(i).shape
    const { height, width, pixels } = await pictureOf(i)
    const classOf = (at: number): number =>
      classes[Math.floor((Math.floor(at / width) * h) / height) * w + Math.floor(((at % width) * w) / width)]!
    const path = join(folder, `${nameOf(i)}.png`)
    orThrow(writeWhole(path, [E.right(pngOfPixels(width, height, tinted(Uint8Array.from(pixels), classOf)))], 'replace'))
  }
  const close = (): void => {
    if (!open) return
    const { i, classes } = open
    written.push(join(folder, `${nameOf(i)}.png`))
    pending.push(write(i, classes))
    open = undefined
  }
  return {
    ...NOTHING,
    image: (i) => {
      close()
      const [, h, w] = shapeOfImage(i).shape
      const classes = new Int32Array(h * w)
      open = { i, classes }
      return (_, row, plane) =>
        classes.set(new Int32Array(plane.buffer as ArrayBuffer, plane.byteOffset, plane.byteLength / 4), row * w)
    },
    end: close,
    settled: async () => {
      await Promise.all(pending.splice(0))
    },
    drop: () => {
      open = undefined
    },
    written: () => written,
  }
}

/** Appends text to a file. */
const appending = (path: string) => {
  const file = fillWhole(path)
  let at = 0
  const put = (text: string): void => {
    const bytes = Buffer.from(text, 'utf8')
    file.put(at, bytes)
    at += bytes.length
  }
  return { put, done: file.done, drop: file.drop }
}

/** Converts this number of values to text at a time. */
const TEXT_NUMBERS = 2 ** 16
/** Digits that give back the same number of 32 bits. */
const SINGLE_DIGITS = 9

const shortest = ({ type }: OutputShape): ((x: number) => number) =>
  type === 'f32' ? (x) => Number(x.toPrecision(SINGLE_DIGITS)) : (x) => x

/** Calls `write` for each complete image, in the order of images. */
const asText = (
  path: string,
  o: OutputShape,
  before: string,
  write: (i: number, values: Values, put: Text) => void,
  after = '',
) => {
  const file = appending(path)
  const values = new STORED[o.type].array(o.shape.reduce((n, d) => n * d, 1))
  const bytes = new Uint8Array(values.buffer)
  let open: number | undefined
  const close = (): void => {
    if (open !== undefined) write(open, values, file.put)
    open = undefined
  }
  file.put(before)
  return {
    ...NOTHING,
    image: (i: number) => {
      close()
      open = i
      return putAt({ put: (at, plane) => bytes.set(plane, at) }, 0, o)
    },
    end: () => {
      close()
      file.put(after)
      file.done()
    },
    drop: file.drop,
    written: () => [path],
  }
}
type Values = Prediction['values']
type Text = (text: string) => void

/** The class of an image that has one class, if classes have names. */
const className = ({ classes: isClasses, shape }: OutputShape, values: Values, classes: readonly string[]): string | undefined =>
  isClasses && shape.every((n) => n === 1) ? classes[values[0]!] : undefined

/** A list of objects: one document, or one object per line. */
const asObjects = (path: string, o: OutputShape, nameOf: (i: number) => string, classes: readonly string[]): Outputs => {
  const isLines = extname(path) === '.jsonl'
  const short = shortest(o)
  const write = (i: number, values: Values, put: Text): void => {
    const label = className(o, values, classes)
    const about = { name: nameOf(i), ...(label === undefined ? {} : { class: label }), shape: shapeOf(o) }
    put(`${isLines || i === 0 ? '' : ',\n'}${JSON.stringify(about).slice(0, -1)},"values":[`)
    for (let at = 0; at < values.length; at += TEXT_NUMBERS) {
      const numbers = Array.from(values.subarray(at, at + TEXT_NUMBERS), short)
      put(`${at === 0 ? '' : ','}${JSON.stringify(numbers).slice(1, -1)}`)
    }
    put(isLines ? ']}\n' : ']}')
  }
  return isLines ? asText(path, o, '', write) : asText(path, o, '[\n', write, '\n]\n')
}

/** Returns true if an output has one number per channel, or is one class: then it fits in a row. */
export const isOneRow = ({ shape: [, h, w] }: OutputShape): boolean => h === 1 && w === 1

/** A row per image: its class, or a column per channel. */
const asRows = (path: string, o: OutputShape, nameOf: (i: number) => string, classes: readonly string[]): Outputs => {
  const [channels] = o.shape
  const names = classes.length === channels ? classes : Array.from({ length: channels }, (_, c) => String(c))
  const short = shortest(o)
  return asText(path, o, rowText(['name', ...(o.classes ? ['class'] : names)]), (i, values, put) =>
    put(rowText([nameOf(i), ...(o.classes ? [className(o, values, classes) ?? values[0]!] : Array.from(values, short))])),
  )
}

/** A row, or an object, per image: its file, its class with the confidence, and the five best classes. `tiles`: the classes of tiles. */
const asRanking = (
  path: string,
  o: OutputShape,
  ranked: NonNullable<OutputsOf['ranked']>,
  tiles?: readonly string[],
): Outputs => {
  const [channels] = o.shape
  if (extname(path) === '.csv' && tiles)
    return asText(path, o, tileHead(tiles), (i, values, put) => put(tileRow(ranked(i, values), tiles)))
  if (extname(path) === '.csv')
    return asText(path, o, rankedHead(Math.max(2, channels)), (i, values, put) => put(rankedRow(ranked(i, values))))
  if (extname(path) === '.jsonl') return asText(path, o, '', (i, values, put) => put(`${JSON.stringify(ranked(i, values))}\n`))
  return asText(path, o, '[\n', (i, values, put) => put(`${i === 0 ? '' : ',\n'}${JSON.stringify(ranked(i, values))}`), '\n]\n')
}

/** In the answer. */
const inMemory = (shapeOfImage: ShapeOfImage, nameOf: (i: number) => string): Outputs => {
  const kept: Prediction[] = []
  return {
    ...NOTHING,
    image: (i) => {
      const o = shapeOfImage(i)
      const values = new STORED[o.type].array(o.shape.reduce((n, d) => n * d, 1))
      const bytes = new Uint8Array(values.buffer)
      kept.push({ name: nameOf(i), shape: shapeOf(o), values })
      return putAt({ put: (at, plane) => bytes.set(plane, at) }, 0, o)
    },
    end: () => {},
    drop: () => {},
    kept: () => kept,
  }
}

const ONE_FILE = ['.npy', '.safetensors', '.csv', '.json', '.jsonl']
export const isOneFile = (out: string): boolean => ONE_FILE.includes(extname(out))

/** Formats of the files in a folder: arrays; of classes also masks, and pictures tinted by their classes; tiled TIFFs and OME-Zarr with a pyramid. */
export const FORMATS = ['npy', 'png', 'overlay', 'tiff', 'zarr'] as const
/** The formats of output files. */
export type Format = (typeof FORMATS)[number]

/** Facts of the slide of an output. */
export interface OutputFacts {
  /** Microns per pixel, if they are known. */
  readonly microns?: number | undefined
  /** The place on the earth, if it is known. */
  readonly georeference?: Georeference | undefined
  /** Pixels without data, if there are such. */
  readonly isEmpty?: ((y: number, x: number) => boolean) | undefined
}

/** Place and form of the outputs of images. */
export interface OutputsOf {
  readonly out: string | undefined
  readonly shapeOfImage: ShapeOfImage
  readonly images: number
  readonly nameOf: (i: number) => string
  readonly format?: Format | undefined
  readonly classes?: readonly string[]
  readonly pictureOf?: ((i: number) => Promise<Picture>) | undefined
  readonly factsOf?: ((i: number) => OutputFacts) | undefined
  readonly form?: Form | undefined
  /** True if images are tiles of slides. */
  readonly areTiles?: boolean
  /** Ranks the probabilities of an image; only for one result per image. */
  readonly ranked?: ((i: number, probabilities: ArrayLike<number>) => Ranked) | undefined
}

export const outputsTo = (o: OutputsOf): Outputs => {
  const { out, shapeOfImage, images, nameOf, format = 'npy', classes = [], pictureOf, ranked, areTiles = false } = o
  if (out === undefined) return inMemory(shapeOfImage, nameOf)
  if (format === 'overlay' && pictureOf) return asOverlays(out, shapeOfImage, nameOf, pictureOf)
  if (hasPyramid(format)) return asPyramids(o, out, format)
  if (format === 'png') return asPictures(out, shapeOfImage, nameOf)
  const isTable = extname(out) === '.csv'
  const isList = extname(out) === '.json' || extname(out) === '.jsonl'
  if (ranked && (isTable || isList)) {
    const [channels] = shapeOfImage(0).shape
    return asRanking(out, shapeOfImage(0), ranked, areTiles ? allClasses(channels, classes) : undefined)
  }
  if (isTable) return asRows(out, shapeOfImage(0), nameOf, classes)
  if (isList) return asObjects(out, shapeOfImage(0), nameOf, classes)
  return isOneFile(out) ? inOneFile(out, shapeOfImage, images) : inFolder(out, shapeOfImage, nameOf)
}

/** Names of images: their files', with numbers where a file has several. */
export const namesOf = (files: readonly { readonly path: string; readonly samples: number }[]): readonly string[] =>
  files.flatMap(({ path, samples }) => {
    const stem = basename(path, extname(path)).replace(/\.input$/, '')
    const digits = String(samples - 1).length
    return samples === 1 ? [stem] : Array.from({ length: samples }, (_, i) => `${stem}-${String(i).padStart(digits, '0')}`)
  })

export const OUTPUT_BAND_BYTES = 16 * 2 ** 20

/** Larger outputs of a batch wait in a file. Images with a pyramid are written from it in bands. */
export const mostHeld = (format: Format | undefined): number => (hasPyramid(format) ? OUTPUT_BAND_BYTES : MOST_HELD_BYTES)

/** Moves a rectangle of an image, a band of rows at a time, to the places of its planes. */
export const writeImage = (o: OutputShape, cut: Region, read: (offset: number, bytes: number) => Uint8Array, put: Put): void => {
  const [c, , w] = o.shape
  const Numbers = STORED[o.type].array
  const rowBytes = c * w * elementBytes(o)
  const rows = Math.max(1, Math.floor(OUTPUT_BAND_BYTES / rowBytes))
  for (let row = 0; row < cut.height; row += rows) {
    const n = Math.min(rows, cut.height - row)
    const bytes = read((cut.top + row) * rowBytes, n * rowBytes)
    if (c === 1 && cut.width === w) {
      put(0, row, bytes)
      continue
    }
    const band = new Numbers(bytes.buffer as ArrayBuffer, bytes.byteOffset, c * w * n)
    for (let channel = 0; channel < c; channel++) {
      const plane = new Numbers(n * cut.width)
      for (let y = 0, p = 0; y < n; y++)
        for (let x = 0, at = (y * w + cut.left) * c + channel; x < cut.width; x++, at += c) plane[p++] = band[at]!
      put(channel, row, new Uint8Array(plane.buffer))
    }
  }
}
