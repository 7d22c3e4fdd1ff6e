// Image files as pixels. In: a path, a rectangle of the image and its new size. Out: its bytes, channels last; for masks their labels. Invariant: the
// declared number of pixels is checked before any is decoded; colours are those in the file (no profile); an image is upright, by its rotation tag; a
// damaged file is refused with its name.
import { readFileSync, statSync } from 'node:fs'
import { extname } from 'node:path'
import { isLeft, left, right } from 'fp-ts/Either'
import { SpillwayException, usage } from '../errors/errors'
import { readRange, withFile } from '../files/whole'
import { type Annotations, paintedLabels } from './annotations'
import { type Labels, pngLabels } from './png'

/** The used part of the package sharp. */
export interface Pipeline {
  extract(r: { left: number; top: number; width: number; height: number }): Pipeline
  resize(width: number, height: number, o: object): Pipeline
  removeAlpha(): Pipeline
  toColourspace(space: string): Pipeline
  raw(o?: { depth: 'uchar' | 'ushort' | 'float' }): Pipeline
  jpeg(o: { quality: number }): Pipeline
  toBuffer(o: { resolveWithObject: true }): Promise<{ data: Buffer; info: { width: number; height: number; channels: number } }>
  /** Without an angle: upright, by the rotation tag. */
  rotate(): Pipeline
  metadata(): Promise<{ width: number; height: number; depth?: string; channels?: number; orientation?: number }>
}
interface Sharp {
  (file: string | Uint8Array, o: object): Pipeline
  cache(on: boolean): void
  concurrency(threads: number): void
}

let loaded: Sharp | undefined
export const sharp = (): Sharp => {
  if (loaded) return loaded
  try {
    loaded = require('sharp') as Sharp
  } catch {
    throw new SpillwayException(usage('reading image files needs the package sharp: npm install sharp'))
  }
  loaded.cache(false)
  loaded.concurrency(1)
  return loaded
}

/** Throws, in words, where images cannot be decoded. */
export const canDecode = (): void => void sharp()

export const IMAGE = /\.(png|jpe?g|jpe|jfif|webp|tiff?|gif|avif)$/i

export interface Size {
  readonly height: number
  readonly width: number
}
/** A rectangle of an image, in whole pixels. */
export interface Rectangle extends Size {
  readonly left: number
  readonly top: number
}
export interface Limits {
  /** Bits of a number: where files have more, that is refused. */
  readonly depth: 8 | 16
  readonly mostPixels: number
}

/** An image file on the disk, or its bytes with a name for messages. */
export type ImageFile = string | { readonly name: string; readonly bytes: Uint8Array }
export const nameOfFile = (file: ImageFile): string => (typeof file === 'string' ? file : file.name)

const refused = (file: ImageFile, reason: string): SpillwayException =>
  new SpillwayException({ tag: 'FileRefused', kind: 'data', file: nameOfFile(file), reason })

const opened = (file: ImageFile, { mostPixels }: Limits): Pipeline =>
  sharp()(typeof file === 'string' ? file : file.bytes, {
    limitInputPixels: mostPixels,
    ignoreIcc: true,
    failOn: 'warning',
    sequentialRead: true,
  })

/** The library's error for a file. */
const undecoded = (file: ImageFile, e: unknown): SpillwayException =>
  e instanceof SpillwayException ? e : refused(file, `it cannot be decoded: ${(e as Error).message.split('\n')[0]}`)

/** Rotation tags from here on exchange height and width (EXIF 2.3, tag Orientation). */
const SIDEWAYS = 5

/** The declared size of a file, upright. */
export const sizeOf = async (file: ImageFile, limits: Limits): Promise<Size> => {
  try {
    const stored = await opened(file, { ...limits, mostPixels: Number.MAX_SAFE_INTEGER }).metadata()
    const { orientation = 1, depth } = stored
    const [width, height] = orientation < SIDEWAYS ? [stored.width, stored.height] : [stored.height, stored.width]
    if (!(width * height <= limits.mostPixels))
      throw refused(file, `it has ${width} x ${height} pixels; the limit is ${limits.mostPixels} (mostPixels)`)
    if (limits.depth === 8 && depth !== undefined && depth !== 'uchar')
      throw refused(file, `its numbers are ${depth}, with more than 8 bits: set depth: 16 (--depth 16)`)
    return { width, height }
  } catch (e) {
    throw undecoded(file, e)
  }
}

/** Channels last: bytes, or of depth 16 shares of 65535. */
export type Pixels = Uint8Array | Float32Array

const COLOURS = { 8: ['b-w', 'srgb'], 16: ['grey16', 'rgb16'] } as const

/** A rectangle of an image at a size, of one or three channels. */
export const pixelsOf = async (file: ImageFile, from: Rectangle, to: Size, channels: 1 | 3, limits: Limits): Promise<Pixels> => {
  const { left, top, width, height } = from
  const isWide = limits.depth === 16
  try {
    const part = opened(file, limits).rotate().extract({ left, top, width, height }).removeAlpha()
    const sized =
      to.width === width && to.height === height
        ? part
        : part.resize(to.width, to.height, { fit: 'fill', kernel: 'cubic', fastShrinkOnLoad: false })
    const { data, info } = await sized
      .toColourspace(COLOURS[limits.depth][channels === 1 ? 0 : 1])
      .raw({ depth: isWide ? 'ushort' : 'uchar' })
      .toBuffer({ resolveWithObject: true })
    const numbers = isWide
      ? Float32Array.from(new Uint16Array(data.buffer, data.byteOffset, data.length / 2), (x) => x / 65535)
      : data
    if (numbers.length !== to.width * to.height * channels)
      throw refused(file, `it has ${info.channels} channels, not ${channels}`)
    return numbers
  } catch (e) {
    throw undecoded(file, e)
  }
}

/** A mask: a file, or annotations of its image. */
export type MaskFile = string | Annotations
export const nameOfMask = (mask: MaskFile): string => (typeof mask === 'string' ? mask : mask.name)

/** A PNG's size is in its first chunk, after the signature. */
const PNG_HEAD = { bytes: 24, width: 16, height: 20 } as const

/** The declared size of a mask. The size of a PNG is that of its stored pixels, as for `labelsOf`. */
export const maskSizeOf = async (file: string, limits: Limits): Promise<Size> => {
  if (extname(file).toLowerCase() !== '.png') return sizeOf(file, { ...limits, depth: 8 })
  const read = withFile('data', file, (fd) => {
    const head = readRange(fd, 0, PNG_HEAD.bytes)
    return head ? right(Buffer.from(head)) : left('it ends before its size')
  })
  if (isLeft(read)) throw new SpillwayException(read.left)
  return { width: read.right.readUInt32BE(PNG_HEAD.width), height: read.right.readUInt32BE(PNG_HEAD.height) }
}

/** A whole mask: palette indices or grey values, as they stand in the file; or painted annotations. */
export const labelsOf = async (file: MaskFile, limits: Limits): Promise<Labels> => {
  if (typeof file !== 'string') {
    const { width, height, name } = file
    if (width * height > limits.mostPixels)
      throw refused(name, `they declare ${width} x ${height} pixels; the limit is ${limits.mostPixels} (mostPixels)`)
    return paintedLabels(file)
  }
  if (extname(file).toLowerCase() === '.png') {
    // One byte a pixel, packed; half of it again for incompressible parts, and for texts.
    const bytes = statSync(file).size
    const most = 1.5 * limits.mostPixels + 2 ** 20
    if (bytes > most)
      throw refused(file, `it has ${bytes} bytes, too many for a mask of ${limits.mostPixels} pixels (mostPixels)`)
    const labels = pngLabels(readFileSync(file), limits.mostPixels)
    if (isLeft(labels)) throw refused(file, labels.left)
    return labels.right
  }
  const { width, height } = await sizeOf(file, { ...limits, depth: 8 })
  try {
    const { data, info } = await opened(file, limits).rotate().raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true })
    if (info.channels !== 1)
      throw refused(file, 'its pixels are colours; a mask needs one label per pixel, in grey or as a PNG palette')
    return { width, height, pixels: data }
  } catch (e) {
    throw undecoded(file, e)
  }
}
