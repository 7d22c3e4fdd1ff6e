// A Deep Zoom pyramid as image files: FOLDER/LEVEL/COLUMN_ROW.jpg, level 0 of one pixel. In: a source that is read by regions, at one level or
// several. Out: all tiles. Invariant: at most four tiles and one block of pixels per level are held. Tiles are visited from the coarsest to the
// finest, depth first. A level of the source is read; any other is computed from the finer one. Worked example: a source of 600 x 400 pixels has
// the levels 1, 2, 3, 5, 10, 19, 38, 75, 150, 300 and 600 pixels wide. Its level of 300 x 200 is read, too, if the source has it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Region } from '../data/data'
import { SpillwayException } from '../errors/errors'
import { type Halving, halveOf, halveRows, type LevelSize, type Numbers } from '../files/pyramid'

export const DEEP_TILE = 256
/** Side of the regions that are read at a time: tiles of a file that straddle ours are then decoded less often. */
const BLOCK = 1024
/** Tiles that are encoded and written at a time. */
const MOST_PENDING = 16

export interface Source<A extends Numbers = Numbers> extends LevelSize {
  readonly channels: number
  readonly array: new (length: number) => A
  readonly halving: Halving
  /** Levels that can be read, finest first; the first has the size of the source. */
  readonly levels: readonly LevelSize[]
  readonly read: (level: number, region: Region) => Promise<A>
  readonly format: 'jpg' | 'png'
  readonly encode: (pixels: A, size: LevelSize) => Promise<Uint8Array>
  /** Receives each tile of the finest level. */
  readonly seen?: (pixels: A) => void
}

/** Sizes of all levels, coarsest first. */
export const deepLevels = ({ width, height }: LevelSize): readonly LevelSize[] => {
  const top = Math.ceil(Math.log2(Math.max(width, height)))
  return Array.from({ length: top + 1 }, (_, level) => {
    const by = 2 ** (top - level)
    return { width: Math.ceil(width / by), height: Math.ceil(height / by) }
  })
}

const tilesAlong = (side: number): number => Math.ceil(side / DEEP_TILE)
/** Number of tiles of all levels. */
export const deepTiles = (size: LevelSize): number =>
  deepLevels(size).reduce((n, { width, height }) => n + tilesAlong(width) * tilesAlong(height), 0)

/** Files round the sides of their levels up or down. */
const isNear = (a: LevelSize, b: LevelSize): boolean => Math.abs(a.width - b.width) <= 1 && Math.abs(a.height - b.height) <= 1

/** Reads tiles of a level of the source, a block at a time. Pixels beyond its border repeat the last ones. */
const tileReader = <A extends Numbers>({ channels, array, levels, read }: Source<A>, level: number) => {
  const { width, height } = levels[level]!
  let block: { readonly region: Region; readonly pixels: A } | undefined
  const blockAt = async (top: number, left: number): Promise<{ readonly region: Region; readonly pixels: A }> => {
    const at = { top: Math.floor(top / BLOCK) * BLOCK, left: Math.floor(left / BLOCK) * BLOCK }
    if (block?.region.top === at.top && block.region.left === at.left) return block
    const region = { ...at, height: Math.min(BLOCK, height - at.top), width: Math.min(BLOCK, width - at.left) }
    block = { region, pixels: await read(level, region) }
    return block
  }
  return async (tile: Region): Promise<A> => {
    const { region, pixels } = await blockAt(Math.min(tile.top, height - 1), Math.min(tile.left, width - 1))
    const out = new array(tile.height * tile.width * channels)
    for (let y = 0; y < tile.height; y++) {
      const row = (Math.min(tile.top + y, height - 1) - region.top) * region.width
      for (let x = 0; x < tile.width; x++) {
        const from = (row + Math.min(tile.left + x, width - 1) - region.left) * channels
        const to = (y * tile.width + x) * channels
        for (let c = 0; c < channels; c++) out[to + c] = pixels[from + c]!
      }
    }
    return out
  }
}

/** Half of each side, rounded up. */
const halved = <A extends Numbers>({ channels, array, halving }: Source<A>, pixels: A, { width, height }: LevelSize): A => {
  const of = halveOf(halving, array === (Uint8Array as unknown))
  const line = width * channels
  const half = Math.ceil(width / 2) * channels
  const out = new array(half * Math.ceil(height / 2))
  for (let y = 0; y < height; y += 2) {
    const lower = Math.min(y + 1, height - 1)
    halveRows(
      pixels.subarray(y * line, (y + 1) * line) as A,
      pixels.subarray(lower * line, (lower + 1) * line) as A,
      channels,
      of,
      out.subarray((y / 2) * half, (y / 2 + 1) * half) as A,
    )
  }
  return out
}

export interface DeepZooming {
  readonly signal?: AbortSignal | undefined
  /** Called after each tile with the bytes of its file. */
  readonly wrote?: (bytes: number) => void
}

export const deepZoom = async <A extends Numbers>(
  source: Source<A>,
  folder: string,
  { signal, wrote }: DeepZooming = {},
): Promise<void> => {
  const { channels, array, format, encode, seen } = source
  const levels = deepLevels(source)
  const top = levels.length - 1
  const readers = levels.map((size) => {
    const own = source.levels.findIndex((l) => isNear(l, size))
    return own < 0 ? undefined : tileReader(source, own)
  })
  const pending = new Set<Promise<void>>()
  const write = async (at: string, pixels: A, size: LevelSize): Promise<void> => {
    const bytes = await encode(pixels, size)
    writeFileSync(at, bytes)
    wrote?.(bytes.length)
  }
  const regionAt = (level: number, column: number, row: number): Region => {
    const [left, start] = [column * DEEP_TILE, row * DEEP_TILE]
    const { width, height } = levels[level]!
    return { left, top: start, width: Math.min(DEEP_TILE, width - left), height: Math.min(DEEP_TILE, height - start) }
  }
  /** Makes the finer tiles below a tile; returns it, computed from them. */
  const below = async (level: number, column: number, row: number): Promise<A> => {
    const finer = levels[level + 1]!
    const [left, start] = [2 * column * DEEP_TILE, 2 * row * DEEP_TILE]
    const whole = { width: Math.min(2 * DEEP_TILE, finer.width - left), height: Math.min(2 * DEEP_TILE, finer.height - start) }
    const pixels = new array(whole.width * whole.height * channels)
    for (let dy = 0; dy * DEEP_TILE < whole.height; dy++)
      for (let dx = 0; dx * DEEP_TILE < whole.width; dx++) {
        const tile = await tileAt(level + 1, 2 * column + dx, 2 * row + dy)
        const { width, height } = regionAt(level + 1, 2 * column + dx, 2 * row + dy)
        for (let y = 0; y < height; y++)
          pixels.set(
            tile.subarray(y * width * channels, (y + 1) * width * channels),
            ((dy * DEEP_TILE + y) * whole.width + dx * DEEP_TILE) * channels,
          )
      }
    return halved(source, pixels, whole)
  }
  const tileAt = async (level: number, column: number, row: number): Promise<A> => {
    if (signal?.aborted) throw new SpillwayException({ tag: 'Cancelled', stepsDone: 0 })
    const region = regionAt(level, column, row)
    const own = await readers[level]?.(region)
    const computed = level < top ? await below(level, column, row) : undefined
    const pixels = own ?? computed!
    if (level === top) seen?.(pixels)
    const one = write(join(folder, String(level), `${column}_${row}.${format}`), pixels, region)
    pending.add(one)
    // A failure is thrown by the wait below, not here.
    one.then(
      () => pending.delete(one),
      () => {},
    )
    if (pending.size >= MOST_PENDING) await Promise.race(pending)
    return pixels
  }
  levels.forEach((_, level) => mkdirSync(join(folder, String(level)), { recursive: true }))
  try {
    await tileAt(0, 0, 0)
  } finally {
    await Promise.allSettled(pending)
  }
  await Promise.all(pending)
}

/** The description of a pyramid for programs that read Deep Zoom. */
export const deepText = ({ width, height }: LevelSize, format: Source['format']): string =>
  `<?xml version="1.0" encoding="UTF-8"?>
<Image xmlns="http://schemas.microsoft.com/deepzoom/2008" Format="${format}" Overlap="0" TileSize="${DEEP_TILE}">
  <Size Width="${width}" Height="${height}"/>
</Image>
`
