// Slides and predictions as sources of Deep Zoom tiles. In: files of slides and of predictions. Out: sources whose tiles are pictures: photos as JPEG,
// classes and probabilities as PNG with a palette. Invariant: pixels are read by regions. Class 0 and cells without a number are transparent.
import type { Region } from '../data/data'
import { sharp } from '../data/decode'
import type { Labels } from '../data/png'
import { floatsOf, regionOf, type Slide } from '../data/slides/slide'
import { PALETTE, pngOfIndices } from '../files/pictures'
import type { Numbers } from '../files/pyramid'
import { heatPng } from '../predict/heat'
import type { TileMap } from '../predict/tilemaps'
import type { Source } from './deepzoom'

const QUALITY = 85

/** The levels of a slide from the chosen one on, finest first. */
const levelsFrom = ({ pyramid, at }: Slide) => pyramid.levels.slice(at)
const atLevel = (slide: Slide, i: number): Slide => {
  const at = slide.at + i
  return { ...slide, at, level: slide.pyramid.levels[at]! }
}

/** A level for the largest number of a slide has at most this number of pixels. */
const MOST_PIXELS = 1 << 24

/** The number that is shown white: of 16-bit slides the largest one, because sensors use fewer bits. */
const whiteOf = async (slide: Slide): Promise<number> => {
  const coarsest = levelsFrom(slide).length - 1
  const { width, height } = levelsFrom(slide)[coarsest]!
  if (slide.level.bits === 8) return 255
  if (width * height > MOST_PIXELS) return 65535
  const pixels = await regionOf(atLevel(slide, coarsest), { top: 0, left: 0, width, height })
  return (pixels as Uint16Array).reduce((most, x) => Math.max(most, x), 1)
}

/** The photo: its first three channels as colours, or the first one as grey. */
export const slideSource = async (slide: Slide): Promise<Source<Uint8Array>> => {
  const { width, height, channels: all } = slide.level
  const channels = all >= 3 ? 3 : 1
  const white = await whiteOf(slide)
  const read = async (i: number, region: Region): Promise<Uint8Array> => {
    const pixels = await regionOf(atLevel(slide, i), region)
    if (pixels instanceof Uint8Array && channels === all) return pixels
    const out = new Uint8Array(region.width * region.height * channels)
    for (let from = 0, to = 0; to < out.length; from += all)
      for (let c = 0; c < channels; c++) out[to++] = Math.min(255, Math.round((pixels[from + c]! / white) * 255))
    return out
  }
  return {
    ...{ width, height, channels, read, array: Uint8Array, halving: 'mean', format: 'jpg', levels: levelsFrom(slide) },
    encode: async (pixels, size) => {
      const image = sharp()(pixels, { raw: { width: size.width, height: size.height, channels } })
      return (await image.jpeg({ quality: QUALITY }).toBuffer({ resolveWithObject: true })).data
    },
  }
}

const MOST_CLASSES = 256

/** One class per pixel; `none`: that of pixels without data, which are not tinted. */
type Classes = Pick<Source<Uint8Array>, 'width' | 'height' | 'levels' | 'read'> & { readonly none?: number | undefined }

/** The classes of a file that is read by regions. */
export const classesOf = (slide: Slide): Classes => {
  const { width, height } = slide.level
  const read = async (i: number, region: Region) => (await regionOf(atLevel(slide, i), region)) as Uint8Array
  return { width, height, levels: levelsFrom(slide), read, none: slide.pyramid.noData }
}

/** The classes of a mask that is in memory. */
export const labelsOf = ({ width, height, pixels }: Labels): Classes => ({
  ...{ width, height, levels: [{ width, height }] },
  read: async (_, region) => regionIn(pixels, width, region),
})

/** Classes in their colours. `counts` receives the number of pixels of each class. */
export const classSource = ({
  none,
  ...classes
}: Classes): { readonly source: Source<Uint8Array>; readonly counts: Float64Array } => {
  const counts = new Float64Array(MOST_CLASSES)
  const source: Source<Uint8Array> = {
    ...{ ...classes, channels: 1, array: Uint8Array, halving: 'majority', format: 'png' },
    encode: async (pixels, size) =>
      pngOfIndices(
        size.width,
        size.height,
        pixels.map((label) => (label === none ? 0 : label)),
        PALETTE,
      ),
    seen: (pixels) => {
      for (const label of pixels) if (label !== none) counts[label]!++
    },
  }
  return { source, counts }
}

type Heat = Pick<Source<Float32Array>, 'channels' | 'array' | 'halving' | 'format' | 'encode'>
const HEAT: Heat = {
  ...{ channels: 1, array: Float32Array, halving: 'mean', format: 'png' },
  encode: async (pixels, { width, height }) => heatPng(width, height, pixels),
}

/** A region of numbers that lie row by row. */
const regionIn = <A extends Numbers>(pixels: A, width: number, region: Region): A => {
  const out = new (pixels.constructor as new (length: number) => A)(region.height * region.width)
  for (let y = 0; y < region.height; y++) {
    const from = (region.top + y) * width + region.left
    out.set(pixels.subarray(from, from + region.width), y * region.width)
  }
  return out
}

/** A map that is in memory. */
export const mapSource = ({ width, height, pixels }: TileMap): Source<Float32Array> => ({
  ...{ ...HEAT, halving: 'majority', width, height, levels: [{ width, height }] },
  read: async (_, region) => regionIn(pixels, width, region),
})

/** The probabilities of one channel. */
export const heatSource = (slide: Slide, channel: number): Source<Float32Array> => {
  const { width, height } = slide.level
  const read = (i: number, region: Region): Promise<Float32Array> => floatsOf(atLevel(slide, i), channel, region)
  return { ...HEAT, width, height, levels: levelsFrom(slide), read }
}

/** A colour of CSS. */
export const colourOf = (rgb: ArrayLike<number>): string => `rgb(${Array.from(rgb).join(' ')})`
export const classColour = (label: number): string => colourOf(PALETTE.subarray(3 * label, 3 * label + 3))
