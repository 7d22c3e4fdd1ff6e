// The pyramid of a TIFF, BigTIFF or SVS file, from its directories alone. In: untrusted bytes. Out: the levels, finest first, with the place
// where sharp finds each; the scale in microns per pixel. Invariant: no pixel is read; offsets outside the file, cycles of directories and
// sizes above the limits are refused. (TIFF 6.0, sections 2 and 15; BigTIFF; Aperio's ImageDescription; OME-TIFF's SubIFDs.)
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import { GEO_TAGS, type Georeference } from '../../files/georeference'
import type { Either } from 'fp-ts/Either'

/** The place of a level for sharp: a page, or a directory below a page. */
export interface Place {
  readonly page: number
  readonly subifd?: number
}

/** An array of an OME-Zarr image, and its axes in order: t, c, z, y and x, or some of them. */
export interface ZarrArray {
  readonly folder: string
  readonly axes: string
  /** Bytes of a decoded chunk. */
  readonly chunkBytes: number
  /** Its compression, 'none' without one; 'shards' for chunks in shards. */
  readonly compression: string
}

export interface Level extends Place {
  /** The array of a level of an OME-Zarr image. */
  readonly array?: ZarrArray
  readonly width: number
  readonly height: number
  /** Without opacity. */
  readonly channels: number
  readonly hasOpacity: boolean
  /** True if the first channels are red, green and blue. */
  readonly isColour: boolean
  /** Bits per number. */
  readonly bits: number
  readonly isTiled: boolean
  /** Size of its tiles, if it has any. */
  readonly tile?: { readonly width: number; readonly height: number }
  /** Microns per pixel, if the file says it. */
  readonly microns?: number
}

export interface Pyramid {
  /** Finest first. */
  readonly levels: readonly Level[]
  /** The value of pixels without data. */
  readonly noData?: number
  /** The place of the finest level on the earth, if the file states it. */
  readonly georeference?: Georeference
  /** The text of the first directory: a scanner's parameters, or the kind of a prediction. */
  readonly description: string
}

const TAG = {
  subfile: 254,
  width: 256,
  height: 257,
  bits: 258,
  compression: 259,
  photometric: 262,
  description: 270,
  samples: 277,
  xResolution: 282,
  planes: 284,
  unit: 296,
  tileWidth: 322,
  tileLength: 323,
  subIfds: 330,
  extraSamples: 338,
  noData: 42113,
} as const

/** Bytes of a number of each type: byte, ascii, short, long, rational, …, long8, slong8, ifd8. */
const TYPE_BYTES: Readonly<Record<number, number>> = {
  ...{ 1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8 },
}
const RATIONAL = 5
const DOUBLE = 12

const MOST_DIRECTORIES = 1000
const MOST_ENTRIES = 4096
/** Numbers of one entry that are read: texts may be long, tables of tiles are not read at all. */
const MOST_NUMBERS = 1 << 20
const MOST_SIDE = 2 ** 30

/** Values of tags: planes, extra samples, photometric interpretation. */
const SEPARATE = 2
const OPACITY: readonly number[] = [1, 2]
const BLACK_IS_ZERO = 1
const JPEG_2000: readonly number[] = [33003, 33005, 34712]

/** A directory's entries: numbers, or a text. */
type Directory = ReadonlyMap<number, readonly number[]>

interface Bytes {
  readonly at: (offset: number, length: number) => Buffer
}

const damaged = (what: string): Error => new Error(`its directories are damaged: ${what}`)

const bytesOf = (fd: number): Bytes => {
  const { size } = fstatSync(fd)
  return {
    at: (offset, length) => {
      if (!(Number.isSafeInteger(offset) && offset >= 0 && offset + length <= size))
        throw damaged(`bytes ${offset} to ${offset + length} are beyond its end at ${size}`)
      const buffer = Buffer.alloc(length)
      readSync(fd, buffer, 0, length, offset)
      return buffer
    },
  }
}

/** The form of a file: byte order, and 32-bit or 64-bit offsets. */
interface Form {
  readonly isLittle: boolean
  readonly isBig: boolean
}

const numberAt = ({ isLittle }: Form, b: Buffer, at: number, bytes: number): number => {
  if (bytes === 1) return b[at]!
  if (bytes === 2) return isLittle ? b.readUInt16LE(at) : b.readUInt16BE(at)
  if (bytes === 4) return isLittle ? b.readUInt32LE(at) : b.readUInt32BE(at)
  return Number(isLittle ? b.readBigUInt64LE(at) : b.readBigUInt64BE(at))
}

const WANTED: ReadonlySet<number> = new Set([...Object.values(TAG), ...Object.values(GEO_TAGS)])

const headOf = (bytes: Bytes): { readonly form: Form; readonly first: number } => {
  const head = bytes.at(0, 16)
  const order = head.toString('latin1', 0, 2)
  const form = { isLittle: order === 'II', isBig: false }
  const version = numberAt(form, head, 2, 2)
  if ((order !== 'II' && order !== 'MM') || (version !== 42 && version !== 43)) throw new Error('it is not a TIFF file')
  const isBig = version === 43
  return { form: { ...form, isBig }, first: isBig ? numberAt(form, head, 8, 8) : numberAt(form, head, 4, 4) }
}

/** One directory, and the offset of the next; 0 ends the chain. */
const directoryAt = (bytes: Bytes, form: Form, offset: number): { readonly entries: Directory; readonly next: number } => {
  const [countBytes, entryBytes, offsetBytes] = form.isBig ? [8, 20, 8] : [2, 12, 4]
  const count = numberAt(form, bytes.at(offset, countBytes), 0, countBytes)
  if (count > MOST_ENTRIES) throw damaged(`${count} entries at ${offset}`)
  const table = bytes.at(offset + countBytes, count * entryBytes + offsetBytes)
  const entries = new Map<number, readonly number[]>()
  for (let i = 0; i < count; i++) {
    const at = i * entryBytes
    const [tag, type] = [numberAt(form, table, at, 2), numberAt(form, table, at + 2, 2)]
    if (!WANTED.has(tag)) continue
    const each = TYPE_BYTES[type]
    const n = numberAt(form, table, at + 4, offsetBytes)
    if (each === undefined || n > MOST_NUMBERS) throw damaged(`tag ${tag} has ${n} numbers of type ${type}`)
    const length = n * each
    const valueAt = at + 4 + offsetBytes
    const value =
      length <= offsetBytes
        ? table.subarray(valueAt, valueAt + length)
        : bytes.at(numberAt(form, table, valueAt, offsetBytes), length)
    const of = (k: number): number =>
      type === RATIONAL
        ? numberAt(form, value, 8 * k, 4) / Math.max(1, numberAt(form, value, 8 * k + 4, 4))
        : type === DOUBLE
          ? value[form.isLittle ? 'readDoubleLE' : 'readDoubleBE'](each * k)
          : numberAt(form, value, each * k, each)
    entries.set(
      tag,
      Array.from({ length: n }, (_, k) => of(k)),
    )
  }
  return { entries, next: numberAt(form, table, count * entryBytes, offsetBytes) }
}

const textOf = (d: Directory, tag: number, encoding: BufferEncoding = 'latin1'): string =>
  Buffer.from(d.get(tag) ?? [])
    .toString(encoding)
    .replace(/\0+$/, '')
const first = (d: Directory, tag: number, otherwise: number): number => d.get(tag)?.[0] ?? otherwise

/** Microns per pixel: Aperio's MPP, OME's PhysicalSizeX, or a resolution in pixels per centimetre. */
const micronsOf = (d: Directory): number | undefined => {
  const text = textOf(d, TAG.description)
  const aperio = /\bMPP\s*=\s*([\d.]+)/.exec(text)?.[1]
  const ome = /\bPhysicalSizeX="([\d.eE+-]+)"(?![^>]*PhysicalSizeXUnit="(?!µm|&#181;m|um))/.exec(text)?.[1]
  const stated = Number(aperio ?? ome)
  if (stated > 0) return stated
  const perCentimetre = first(d, TAG.unit, 2) === 3 ? first(d, TAG.xResolution, 0) : 0
  return perCentimetre > 0 ? 10_000 / perCentimetre : undefined
}

/** A file without a coordinate system, or with numbers that are not finite, has no place. */
const georeferenceOf = (d: Directory): Georeference | undefined => {
  const [pixelScale, tiepoints, matrix] = [d.get(GEO_TAGS.pixelScale), d.get(GEO_TAGS.tiepoints), d.get(GEO_TAGS.matrix)]
  const [keys, doubles] = [d.get(GEO_TAGS.keys), d.get(GEO_TAGS.doubles)]
  const isPlaced = (pixelScale?.length === 3 && tiepoints !== undefined) || matrix?.length === 16
  if (!keys || !isPlaced || ![pixelScale, tiepoints, matrix, doubles].every((list) => list?.every(Number.isFinite) ?? true))
    return undefined
  const text = textOf(d, GEO_TAGS.text)
  return {
    keys,
    ...(pixelScale ? { pixelScale } : {}),
    ...(tiepoints ? { tiepoints } : {}),
    ...(matrix ? { matrix } : {}),
    ...(doubles ? { doubles } : {}),
    ...(text === '' ? {} : { text }),
  }
}

const levelOf = (d: Directory, place: Place): Level => {
  const [width, height] = [first(d, TAG.width, 0), first(d, TAG.height, 0)]
  if (!(width >= 1 && height >= 1 && width <= MOST_SIDE && height <= MOST_SIDE))
    throw damaged(`a level of ${width} x ${height} pixels`)
  if (JPEG_2000.includes(first(d, TAG.compression, 1)))
    throw new Error(
      'its tiles are JPEG 2000, which cannot be read here: convert it once, e.g. vips tiffsave slide.svs slide.tif --tile --pyramid --compression jpeg --bigtiff',
    )
  const samples = first(d, TAG.samples, 1)
  if (samples > 1 && first(d, TAG.planes, 1) === SEPARATE)
    throw new Error('its channels are stored separately: convert it once, e.g. gdal_translate -co INTERLEAVE=PIXEL -co TILED=YES')
  const tile = { width: first(d, TAG.tileWidth, 0), height: first(d, TAG.tileLength, 0) }
  const hasOpacity = OPACITY.includes(d.get(TAG.extraSamples)?.at(-1) ?? 0)
  return {
    ...place,
    width,
    height,
    channels: samples - (hasOpacity ? 1 : 0),
    hasOpacity,
    isColour: first(d, TAG.photometric, 1) > BLACK_IS_ZERO,
    bits: first(d, TAG.bits, 1),
    isTiled: d.has(TAG.tileWidth),
    ...(tile.width > 0 && tile.height > 0 ? { tile } : {}),
  }
}

/** All directories in the order of pages, each with those below it. */
const directoriesOf = (bytes: Bytes): readonly { readonly entries: Directory; readonly below: readonly Directory[] }[] => {
  const { form, first: start } = headOf(bytes)
  const seen = new Set<number>()
  const read = (offset: number): { readonly entries: Directory; readonly next: number } => {
    if (seen.has(offset) || seen.size >= MOST_DIRECTORIES) throw damaged(`a cycle at ${offset}`)
    seen.add(offset)
    return directoryAt(bytes, form, offset)
  }
  const pages: { readonly entries: Directory; readonly below: readonly Directory[] }[] = []
  for (let at = start; at !== 0; ) {
    const { entries, next } = read(at)
    pages.push({ entries, below: (entries.get(TAG.subIfds) ?? []).map((offset) => read(offset).entries) })
    at = next
  }
  if (pages.length === 0) throw damaged('it has no page')
  return pages
}

/** Largest relative difference of the ratio of sides between levels: sides are rounded. */
const sameRatio = (a: Level, b: Level): boolean =>
  Math.abs(a.width / b.width - a.height / b.height) * Math.min(b.width, b.height) < 2 * (a.width / b.width) + 2

/**
 * The levels of the first image: its own directories below it, or smaller pages of the same proportions that are stored alike. Labels,
 * macro images and thumbnails of scanners are stored in strips or have other proportions.
 */
const pyramidOf = (bytes: Bytes): Pyramid => {
  const pages = directoriesOf(bytes)
  const [{ entries, below }] = pages as [(typeof pages)[number]]
  const finest = levelOf(entries, { page: 0 })
  const others = [
    ...below.map((d, subifd) => levelOf(d, { page: 0, subifd })),
    ...(below.length > 0 ? [] : pages.slice(1).map((p, i) => levelOf(p.entries, { page: i + 1 }))),
  ]
  const levels = [finest, ...others.filter((l) => l.isTiled === finest.isTiled && l.width < finest.width && sameRatio(finest, l))]
  const microns = micronsOf(entries)
  const noData = Number.parseFloat(textOf(entries, TAG.noData))
  const georeference = georeferenceOf(entries)
  return {
    levels: [...levels]
      .sort((a, b) => b.width - a.width)
      .map((l) => (microns === undefined ? l : { ...l, microns: (microns * finest.width) / l.width })),
    ...(Number.isFinite(noData) ? { noData } : {}),
    ...(georeference ? { georeference } : {}),
    description: textOf(entries, TAG.description, 'utf8'),
  }
}

/** The pyramid of a file, or the reason why it has none. */
export const tiffPyramid = (file: string): Either<string, Pyramid> =>
  E.tryCatch(
    () => {
      const fd = openSync(file, 'r')
      try {
        return pyramidOf(bytesOf(fd))
      } finally {
        closeSync(fd)
      }
    },
    (e) => (e as Error).message,
  )
