// One slide: a level of a pyramid, read by regions. In: a file, the wanted level. Out: its size, and the numbers of any rectangle, channels
// last. Invariant: the file is decoded in the tiles that the rectangle touches, and in no others; an error names file, level and rectangle.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { SpillwayException } from '../../errors/errors'
import type { Region } from '../data'
import { type Level, type Pyramid, tiffPyramid } from './tiff'
import { type Pipeline, sharp } from '../decode'
import { isZarr, zarrPyramid, zarrRegion } from './zarr'

export const SLIDE = /\.(svs|tiff?|btf|tf8|tf2|zarr)$/i

/** The wanted level: by its number, finest first, or by its scale. */
export interface LevelChoice {
  readonly level?: number | undefined
  readonly microns?: number | undefined
}

export interface Slide {
  readonly file: string
  readonly pyramid: Pyramid
  readonly at: number
  readonly level: Level
}

/** The scale of a level may differ from the wanted one by this share: scanners differ by one or two percent. */
const NEAR = 0.1

const levelText = ({ width, height, microns }: Level, i: number): string =>
  `${i}: ${width} x ${height}${microns === undefined ? '' : `, ${Number(microns.toPrecision(3))} microns per pixel`}`
const levelsText = ({ levels }: Pyramid): string => `its levels are ${levels.map(levelText).join('; ')}`

const chosenLevel = (pyramid: Pyramid, { level = 0, microns }: LevelChoice): Either<string, number> => {
  if (microns === undefined)
    return level < pyramid.levels.length ? E.right(level) : E.left(`it has no level ${level}: ${levelsText(pyramid)}`)
  const far = pyramid.levels.map((l) => (l.microns === undefined ? Infinity : Math.abs(Math.log(l.microns / microns))))
  const nearest = far.indexOf(Math.min(...far))
  if (far[nearest] === Infinity)
    return E.left(`it does not state its microns per pixel: choose a level (level); ${levelsText(pyramid)}`)
  if (nearest < 0 || far[nearest]! > Math.log(1 + NEAR))
    return E.left(`no level has ${microns} microns per pixel: ${levelsText(pyramid)}`)
  return E.right(nearest)
}

const refused = (file: string, reason: string): SpillwayException =>
  new SpillwayException({ tag: 'FileRefused', kind: 'data', file, reason })

/** Opens a slide; throws, in words, if it cannot be read. `bits`: the legal bits of its numbers. */
export const openSlide = (file: string, choice: LevelChoice, bits: readonly number[] = [8, 16]): Slide => {
  const pyramid = isZarr(file) ? zarrPyramid(file) : tiffPyramid(file)
  if (E.isLeft(pyramid)) throw refused(file, pyramid.left)
  const at = chosenLevel(pyramid.right, choice)
  if (E.isLeft(at)) throw refused(file, at.left)
  const level = pyramid.right.levels[at.right]!
  if (!bits.includes(level.bits)) throw refused(file, `its numbers have ${level.bits} bits; allowed: ${bits.join(' and ')}`)
  return { file, pyramid: pyramid.right, at: at.right, level }
}

const regionText = ({ top, left, height, width }: Region): string => `${height} x ${width} pixels at row ${top}, column ${left}`

/** The colour space of stored numbers, by their bits: it changes no number. */
const COLOUR = { 8: 'srgb', 16: 'rgb16' } as const
const GREY = { 8: 'b-w', 16: 'grey16' } as const

const opened = ({ file, level: { page, subifd } }: Slide): Pipeline =>
  sharp()(file, {
    ...{ page, ...(subifd === undefined ? {} : { subifd }) },
    ...{ limitInputPixels: false, ignoreIcc: true, failOn: 'warning', sequentialRead: false },
  })

/** Several bands without colours: sharp gives the first one as red, green and blue. */
const withoutRepeats = <A extends Uint8Array | Uint16Array>(given: A, bands: number): A => {
  const out = given.slice(0, (given.length / (bands + 2)) * bands) as A
  for (let from = 0, to = 0; from < given.length; from += bands + 2) {
    out[to++] = given[from]!
    for (let band = 1; band < bands; band++) out[to++] = given[from + 2 + band]!
  }
  return out
}

/** The tiles of a level that a rectangle touches, row by row, cut at the border. */
const tilesIn = ({ width, height, tile }: Level, r: Region): readonly Region[] => {
  if (!tile) return []
  const starts = (from: number, length: number, side: number): readonly number[] => {
    const first = Math.floor(from / side)
    return Array.from({ length: Math.ceil((from + length) / side) - first }, (_, i) => (first + i) * side)
  }
  return starts(r.top, r.height, tile.height).flatMap((top) =>
    starts(r.left, r.width, tile.width).map((left) => ({
      top,
      left,
      height: Math.min(tile.height, height - top),
      width: Math.min(tile.width, width - left),
    })),
  )
}

/** The first tile of a rectangle that cannot be decoded; the rectangle if none is found. */
const damagedIn = async (slide: Slide, region: Region, read: Reader): Promise<string> => {
  for (const tile of tilesIn(slide.level, region))
    try {
      await read(slide, tile)
    } catch {
      const { width, height } = slide.level.tile!
      return `tile ${tile.top / height}, ${tile.left / width} (row, column, counted from 0; ${regionText(tile)})`
    }
  return regionText(region)
}

type Reader<A = unknown> = (slide: Slide, region: Region) => Promise<A>

const readBy = async <A>(read: Reader<A>, slide: Slide, region: Region): Promise<A> => {
  try {
    return await read(slide, region)
  } catch (e) {
    if (e instanceof SpillwayException) throw e
    const reason = (e as Error).message.split('\n')[0]
    throw refused(slide.file, `level ${slide.at}, ${await damagedIn(slide, region, read)}: it cannot be decoded: ${reason}`)
  }
}

/** The numbers of a rectangle, as the file has them: bytes, or 16-bit numbers, without opacity. */
export const regionOf = (slide: Slide, region: Region): Promise<Uint8Array | Uint16Array> => readBy(decoded, slide, region)

/** A channel of a rectangle of a file of 32-bit numbers. Sharp gives channel 0 three times, as red, green and blue. */
export const floatsOf = (slide: Slide, channel: number, region: Region): Promise<Float32Array> =>
  readBy(
    async (from, { top, left, height, width }) => {
      const { array, channels } = from.level
      if (array) {
        const all = await zarrRegion(array, channels, { top, left, height, width })
        return Float32Array.from({ length: height * width }, (_, i) => all[i * channels + channel]!)
      }
      const part = opened(from).extract({ top, left, height, width })
      const { data, info } = await part.raw({ depth: 'float' }).toBuffer({ resolveWithObject: true })
      const given = new Float32Array(data.buffer, data.byteOffset, data.length / 4)
      const at = channel === 0 ? 0 : channel + 2
      const out = new Float32Array(width * height)
      for (let i = 0; i < out.length; i++) out[i] = given[i * info.channels + at]!
      return out
    },
    slide,
    region,
  )

const decoded = async (slide: Slide, region: Region): Promise<Uint8Array | Uint16Array> => {
  const { level } = slide
  const { top, left, height, width } = region
  const { channels } = level
  // Slides of floats are read by `floatsOf` alone.
  if (level.array) return (await zarrRegion(level.array, channels, region)) as Uint8Array | Uint16Array
  const areBands = !level.isColour && channels > 1
  const depth = level.bits === 16 ? 16 : 8
  const all = opened(slide).extract({ top, left, height, width })
  const part = level.hasOpacity ? all.removeAlpha() : all
  const space = (level.isColour || areBands ? COLOUR : GREY)[depth]
  const { data, info } = await part
    .toColourspace(space)
    .raw({ depth: depth === 16 ? 'ushort' : 'uchar' })
    .toBuffer({ resolveWithObject: true })
  const given = channels + (areBands ? 2 : 0)
  if (info.width !== width || info.height !== height || info.channels !== given)
    throw new Error(`its pixels are ${info.height} x ${info.width} x ${info.channels}, not ${height} x ${width} x ${given}`)
  const numbers = depth === 16 ? new Uint16Array(data.buffer, data.byteOffset, data.length / 2) : data
  return areBands ? withoutRepeats(numbers, channels) : numbers
}

/** Decodes all tiles of a slide's level, a row of tiles at a time. */
export const decodeAll = async (slide: Slide): Promise<void> => {
  const { width, height, tile } = slide.level
  const rows = tile?.height ?? height
  for (let top = 0; top < height; top += rows)
    await regionOf(slide, { top, left: 0, height: Math.min(rows, height - top), width })
}
