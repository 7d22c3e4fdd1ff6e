// Maps of classified tiles. In: the tiles of slides with the probabilities of their classes. Out: for each slide and class a coarse map, also as PNG.
// Invariant: a map covers the whole slide. Places without a tile have no number; where tiles overlap, the later one is shown. Worked example: tiles
// of 512 pixels become squares of 8 pixels, so a slide of 1300 x 900 pixels has a map of 21 x 15.
import { extname } from 'node:path'
import * as E from 'fp-ts/Either'
import type { SlideTile } from '../data/data'
import { orThrow } from '../errors/exceptions'
import type { LevelSize } from '../files/pyramid'
import { writeWhole } from '../files/whole'
import { heatPng } from './heat'
import { type Ranked, shareOf } from './ranked'

/** Pixels of a map along a tile. */
const TILE_PIXELS = 8
/** Longest side of a map: many small tiles have fewer pixels each. */
const MOST_SIDE = 2048

export interface TileShare {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
  readonly share: number
}

export interface TileMap extends LevelSize {
  readonly pixels: Float32Array
  /** Pixels of the slide along a pixel of the map. */
  readonly scale: number
}

/** `tiles`: at least one. */
export const tileMap = (slide: LevelSize, tiles: readonly TileShare[]): TileMap => {
  const scale = Math.max(1, tiles[0]!.width / TILE_PIXELS, Math.max(slide.width, slide.height) / MOST_SIDE)
  const [width, height] = [Math.ceil(slide.width / scale), Math.ceil(slide.height / scale)]
  const pixels = new Float32Array(width * height).fill(Number.NaN)
  for (const { x, y, width: w, height: h, share } of tiles) {
    const [left, right] = [Math.round(x / scale), Math.min(width, Math.round((x + w) / scale))]
    const bottom = Math.min(height, Math.round((y + h) / scale))
    for (let row = Math.round(y / scale); row < bottom; row++) pixels.fill(share, row * width + left, row * width + right)
  }
  return { width, height, pixels, scale }
}

/** The classes that have a map: all but the first, which is the background or the opposite of the other one. */
export const mappedClasses = (classes: readonly string[]): readonly string[] => classes.slice(1)

/** A name of a class in the name of a file. */
const inName = (name: string): string => name.replace(/[^\p{L}\p{N}._-]+/gu, '_')

/** Writes the maps beside a table: `results-SLIDE-CLASS.png`, or `results-SLIDE.png` if there is one for each slide. Returns their paths. */
export const writtenTileMaps = (
  out: string,
  ranked: readonly Ranked[],
  tileOf: (i: number) => SlideTile,
  classes: readonly string[],
): readonly string[] => {
  const tiles = ranked.map((of, i) => ({ of, tile: tileOf(i) }))
  const slides = new Map<string, typeof tiles>()
  for (const one of tiles) {
    const all = slides.get(one.tile.name)
    if (all) all.push(one)
    else slides.set(one.tile.name, [one])
  }
  const mapped = mappedClasses(classes)
  return [...slides].flatMap(([name, all]) =>
    mapped.map((label) => {
      const [height, width] = all[0]!.tile.slide
      const map = tileMap(
        { width, height },
        all.map(({ of, tile }) => ({ ...tile, share: shareOf(of, label) })),
      )
      const path = `${out.slice(0, -extname(out).length)}-${name}${mapped.length > 1 ? `-${inName(label)}` : ''}.png`
      orThrow(writeWhole(path, [E.right(heatPng(map.width, map.height, map.pixels))], 'replace'))
      return path
    }),
  )
}
