// The prediction of one slide as a tiled BigTIFF or as OME-Zarr, with a small picture of it. In: planes of a band of rows, channel by channel. Out: rows
// of pixels for the file; a PNG of at most 2048 pixels a side. Invariant: one band and one row of tiles per level are held. Worked example: bands of [2 channels, 8 rows]
// arrive as two planes; their pixels are interleaved and passed on with the second one.
import type { Form } from '../../dsl'
import { type BigTiff, type PixelsOf, type PixelType, TIFF_TILE } from '../files/bigtiff'
import { pngOfClasses, pngOfPixels } from '../files/pictures'
import { levelsOf, type Rows, type Tile } from '../files/pyramid'
import type { Georeference } from '../files/georeference'
import { heatPixels } from './heat'

export interface SlideFileOf {
  readonly shape: readonly [c: number, h: number, w: number]
  readonly isClasses: boolean
  readonly form: Form | undefined
  readonly microns: number | undefined
  readonly georeference?: Georeference | undefined
  readonly classes: readonly string[] | undefined
  /** Pixels without data: they have the file's value for none. */
  readonly isEmpty?: ((y: number, x: number) => boolean) | undefined
}

export interface SlideFile {
  readonly put: (channel: number, plane: ArrayLike<number>) => void
  readonly end: () => void
  /** The picture, after `end`: classes in their colours, or the probability of the last class as heat. */
  readonly overview: () => Uint8Array | undefined
}

const OVERVIEW_SIDE = 2048

/** The class of pixels without data; other outputs have no number there. */
const NO_CLASS = 255

/** Writes an image: `bigTiffInto` or `zarrInto` into their place. */
export type Into = <T extends PixelType>(of: BigTiff<T>) => Rows<PixelsOf<T>>

export const slideFile = (into: Into, o: SlideFileOf): SlideFile => {
  const [channels, height, width] = o.shape
  const type: PixelType = o.isClasses ? 'u8' : 'f32'
  const array = o.isClasses ? Uint8Array : Float32Array
  const noData = o.isEmpty ? (o.isClasses ? NO_CLASS : Number.NaN) : undefined
  const isShown = o.isClasses || o.form === 'probabilities'
  const levels = levelsOf({ width, height, coarsest: TIFF_TILE })
  const at = levels.findIndex((l) => Math.max(l.width, l.height) <= OVERVIEW_SIDE)
  const small = levels[at]!
  const picture = isShown ? new array(small.width * small.height * channels) : undefined

  const seen = (tile: Tile<Uint8Array | Float32Array>): void => {
    if (tile.level !== at || !picture) return
    for (let y = 0; y < tile.height; y++)
      picture.set(
        tile.pixels.subarray(y * tile.width * channels, (y + 1) * tile.width * channels),
        ((tile.row * TIFF_TILE + y) * small.width + tile.column * TIFF_TILE) * channels,
      )
  }
  const names = o.classes && o.classes.length > 0 ? `; classes: ${o.classes.join(', ')}` : ''
  const rows = into({
    ...{ width, height, channels, type, seen, microns: o.microns, georeference: o.georeference, noData },
    halving: o.isClasses ? 'majority' : 'mean',
    description: `Spillway: ${o.form ?? (o.isClasses ? 'classes' : 'values')}${names}`,
  } as BigTiff<typeof type>)

  /** Rows of complete bands. */
  let above = 0
  const clear = (pixels: Uint8Array | Float32Array): void => {
    const { isEmpty } = o
    if (!isEmpty) return
    for (let at = 0; at < pixels.length / channels; at++)
      if (isEmpty(above + Math.floor(at / width), at % width)) pixels.fill(noData!, at * channels, (at + 1) * channels)
  }
  let band: Uint8Array | Float32Array = new array(0)
  return {
    put: (channel, plane) => {
      if (channel === 0) band = new array(plane.length * channels)
      for (let i = 0, to = channel; i < plane.length; i++, to += channels) band[to] = plane[i]!
      if (channel < channels - 1) return
      clear(band)
      above += plane.length / width
      rows.put(band as Uint8Array & Float32Array)
    },
    end: rows.end,
    overview: () =>
      picture &&
      (o.isClasses
        ? pngOfClasses(small.width, small.height, picture as Uint8Array)
        : pngOfPixels(small.width, small.height, heatPixels(picture, channels))),
  }
}
