// Tiled BigTIFF files with a pyramid, written while rows are given. In: the size and type of the pixels, their scale. Out: pieces of the file: tiles
// compressed by deflate in the order of their completion, then one directory for each level. Invariant: no more than a row of tiles of each level
// is held. The header names the first directory only when all are written. (TIFF 6.0, sections 4, 8 and 15; the BigTIFF design.)
import { deflateSync } from 'node:zlib'
import { GEO_TAGS, type Georeference } from './georeference'
import { type Halving, levelsOf, pyramidRows, type Rows, type Tile } from './pyramid'
import type { Filling } from './whole'

export const ARRAYS = { u8: Uint8Array, f32: Float32Array } as const
export type PixelType = keyof typeof ARRAYS
export type PixelsOf<T extends PixelType> = InstanceType<(typeof ARRAYS)[T]>

/** An image that is written with a pyramid. */
export interface PyramidFile<T extends PixelType> {
  readonly width: number
  readonly height: number
  readonly channels: number
  readonly type: T
  readonly halving: Halving
  /** Scale of the finest level. */
  readonly microns?: number | undefined
  readonly description?: string | undefined
  /** The value of pixels without data: GDAL's nodata, or the fill value. */
  readonly noData?: number | undefined
  /** Also receives each tile, e.g. for a picture of a level. */
  readonly seen?: ((tile: Tile<PixelsOf<T>>) => void) | undefined
}

export interface BigTiff<T extends PixelType> extends PyramidFile<T> {
  /** The place of the image on the earth. */
  readonly georeference?: Georeference | undefined
}

export const TIFF_TILE = 256

const [SHORT, LONG, RATIONAL, ASCII, DOUBLE, LONG8] = [3, 4, 5, 2, 12, 16] as const
const BYTES = { [SHORT]: 2, [LONG]: 4, [RATIONAL]: 8, [ASCII]: 1, [DOUBLE]: 8, [LONG8]: 8 } as const
interface Entry {
  readonly tag: number
  readonly type: keyof typeof BYTES
  readonly values: readonly number[] | Float64Array
}

const DEFLATE = 8
const BLACK_IS_ZERO = 1
const [UNSIGNED, FLOAT] = [1, 3]
const [NO_UNIT, CENTIMETRE] = [1, 3]
const REDUCED = 1
const NO_DATA = 42113
const noDataText = (value: number | undefined): string => (Number.isNaN(value) ? 'nan' : String(value))
const MICRONS_PER_CENTIMETRE = 10_000
const MOST_LONG = 2 ** 32 - 1

/** Numerator and denominator, each of 32 bits, with about six digits or more. */
const rational = (x: number): readonly [number, number] => {
  const scale = 10 ** Math.max(0, Math.min(6, Math.floor(Math.log10(MOST_LONG / x))))
  return [Math.min(MOST_LONG, Math.round(x * scale)), scale]
}

const valuesIn = ({ type, values }: Entry): Buffer => {
  const out = Buffer.alloc(values.length * (type === RATIONAL ? 4 : BYTES[type]))
  values.forEach((v: number, i: number) => {
    if (type === SHORT) out.writeUInt16LE(v, 2 * i)
    else if (type === ASCII) out[i] = v
    else if (type === DOUBLE) out.writeDoubleLE(v, 8 * i)
    else if (type === LONG8) out.writeBigUInt64LE(BigInt(v), 8 * i)
    else out.writeUInt32LE(v, 4 * i)
  })
  return out
}

const INLINE_BYTES = 8
const ENTRY_BYTES = 20

/** A directory at an offset of the file, with its long values behind it; `isLast`: none follows. */
const directoryOf = (entries: readonly Entry[], offset: number, isLast: boolean): Buffer => {
  const own = 8 + ENTRY_BYTES * entries.length + 8
  const head = Buffer.alloc(own)
  const far: Buffer[] = []
  let free = own
  head.writeBigUInt64LE(BigInt(entries.length), 0)
  entries.forEach((entry, i) => {
    const to = 8 + ENTRY_BYTES * i
    const bytes = valuesIn(entry)
    head.writeUInt16LE(entry.tag, to)
    head.writeUInt16LE(entry.type, to + 2)
    head.writeBigUInt64LE(BigInt(bytes.length / BYTES[entry.type]), to + 4)
    if (bytes.length <= INLINE_BYTES) bytes.copy(head, to + 12)
    else {
      head.writeBigUInt64LE(BigInt(offset + free), to + 12)
      const padded = Buffer.alloc(Math.ceil(bytes.length / 8) * 8)
      bytes.copy(padded)
      far.push(padded)
      free += padded.length
    }
  })
  head.writeBigUInt64LE(isLast ? 0n : BigInt(offset + free), own - 8)
  return Buffer.concat([head, ...far])
}

const HEADER_BYTES = 16
const headerOf = (first: number): Buffer => {
  const out = Buffer.from([0x49, 0x49, 43, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
  out.writeBigUInt64LE(BigInt(first), 8)
  return out
}

/** The tags of a georeference, in their order. */
const geoEntries = (g: Georeference): readonly Entry[] => {
  const entries: readonly Entry[] = [
    { tag: GEO_TAGS.pixelScale, type: DOUBLE, values: g.pixelScale ?? [] },
    { tag: GEO_TAGS.tiepoints, type: DOUBLE, values: g.tiepoints ?? [] },
    { tag: GEO_TAGS.matrix, type: DOUBLE, values: g.matrix ?? [] },
    { tag: GEO_TAGS.keys, type: SHORT, values: g.keys },
    { tag: GEO_TAGS.doubles, type: DOUBLE, values: g.doubles ?? [] },
    { tag: GEO_TAGS.text, type: ASCII, values: g.text === undefined ? [] : [...Buffer.from(`${g.text}\0`, 'latin1')] },
  ]
  return entries.filter((e) => e.values.length > 0)
}

/** Writes into a file that the caller opened; the caller completes or drops it. */
export const bigTiffInto = <T extends PixelType>({ put }: Pick<Filling, 'put'>, o: BigTiff<T>): Rows<PixelsOf<T>> => {
  const { channels, type } = o
  const array = ARRAYS[type] as unknown as new (length: number) => PixelsOf<T>
  const bytes = ARRAYS[type].BYTES_PER_ELEMENT
  const shape = { width: o.width, height: o.height, coarsest: TIFF_TILE }
  const levels = levelsOf(shape).map((size) => {
    const columns = Math.ceil(size.width / TIFF_TILE)
    const tiles = columns * Math.ceil(size.height / TIFF_TILE)
    return { ...size, columns, offsets: new Float64Array(tiles), lengths: new Float64Array(tiles) }
  })
  let end = HEADER_BYTES

  const take = (tile: Tile<PixelsOf<T>>): void => {
    o.seen?.(tile)
    const line = TIFF_TILE * channels
    const whole = new array(TIFF_TILE * line)
    for (let y = 0; y < tile.height; y++)
      whole.set(tile.pixels.subarray(y * tile.width * channels, (y + 1) * tile.width * channels), y * line)
    const packed = deflateSync(new Uint8Array(whole.buffer, whole.byteOffset, whole.byteLength))
    const { columns, offsets, lengths } = levels[tile.level]!
    const at = tile.row * columns + tile.column
    offsets[at] = end
    lengths[at] = packed.length
    put(end, packed)
    end += packed.length
  }

  const entriesOf = (level: (typeof levels)[number], i: number): readonly Entry[] => {
    const microns = o.microns === undefined ? undefined : (o.microns * o.width) / level.width
    const each = (value: number): readonly number[] => Array.from({ length: channels }, () => value)
    const short = (tag: number, values: readonly number[]): Entry => ({ tag, type: SHORT, values })
    const long = (tag: number, value: number): Entry => ({ tag, type: LONG, values: [value] })
    const resolution = microns === undefined ? [1, 1] : rational(MICRONS_PER_CENTIMETRE / microns)
    const text = Buffer.from(`${o.description}\0`, 'utf8')
    const optional = (there: boolean, entry: Entry): readonly Entry[] => (there ? [entry] : [])
    return [
      long(254, i === 0 ? 0 : REDUCED),
      long(256, level.width),
      long(257, level.height),
      short(258, each(8 * bytes)),
      short(259, [DEFLATE]),
      short(262, [BLACK_IS_ZERO]),
      ...optional(i === 0 && o.description !== undefined, { tag: 270, type: ASCII, values: [...text] }),
      short(277, [channels]),
      { tag: 282, type: RATIONAL, values: resolution },
      { tag: 283, type: RATIONAL, values: resolution },
      short(284, [1]),
      short(296, [microns === undefined ? NO_UNIT : CENTIMETRE]),
      long(322, TIFF_TILE),
      long(323, TIFF_TILE),
      { tag: 324, type: LONG8, values: level.offsets },
      { tag: 325, type: LONG8, values: level.lengths },
      ...optional(channels > 1, short(338, each(0).slice(1))),
      short(339, each(type === 'f32' ? FLOAT : UNSIGNED)),
      ...(i === 0 && o.georeference ? geoEntries(o.georeference) : []),
      ...optional(o.noData !== undefined, { tag: NO_DATA, type: ASCII, values: [...Buffer.from(`${noDataText(o.noData)}\0`)] }),
    ]
  }

  const rows = pyramidRows({ ...shape, channels, tile: TIFF_TILE, halving: o.halving, array }, take)
  put(0, headerOf(0))
  return {
    put: rows.put,
    end: () => {
      rows.end()
      end = Math.ceil(end / 8) * 8
      const first = end
      levels.forEach((level, i) => {
        const directory = directoryOf(entriesOf(level, i), end, i === levels.length - 1)
        put(end, directory)
        end += directory.length
      })
      put(0, headerOf(first))
    },
  }
}
