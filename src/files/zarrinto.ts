// OME-Zarr images (0.5) with a pyramid, written while rows are given. In: the size and type of the pixels, their scale. Out: a folder: a group with the
// metadata, and an array of channels, rows and columns for each level, in chunks of tiles compressed by gzip. Invariant: no more than a row of tiles
// of each level is held; a chunk without a number other than the fill value has no file. (Zarr 3; OME-NGFF 0.5.)
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { ARRAYS, type PixelType, type PyramidFile, type PixelsOf } from './bigtiff'
import { levelsOf, pyramidRows, type Rows, type Tile } from './pyramid'
import { synced, temporaryName } from './whole'

/** Side of a chunk in pixels. */
export const ZARR_TILE = 256
const GZIP_LEVEL = 5
const DATA_TYPES = { u8: 'uint8', f32: 'float32' } as const

/** A folder that has its name once it is complete and on the disk; one of this name is replaced. */
export interface FillingFolder {
  readonly put: (name: string, bytes: Uint8Array | string) => void
  readonly done: () => void
  readonly drop: () => void
}
export const fillFolder = (path: string): FillingFolder => {
  const temporary = temporaryName(path)
  mkdirSync(temporary, { recursive: true })
  /** All files and folders in it. */
  const made = new Set([temporary])
  return {
    put: (name, bytes) => {
      const file = join(temporary, name)
      if (!made.has(dirname(file))) mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, bytes)
      for (let at = file; !made.has(at); at = dirname(at)) made.add(at)
    },
    done: () => {
      made.forEach(synced)
      rmSync(path, { recursive: true, force: true })
      renameSync(temporary, path)
      synced(dirname(path))
    },
    drop: () => rmSync(temporary, { recursive: true, force: true }),
  }
}

/** Writes into a folder that the caller opened; the caller completes or drops it. */
export const zarrInto = <T extends PixelType>({ put }: Pick<FillingFolder, 'put'>, o: PyramidFile<T>): Rows<PixelsOf<T>> => {
  const { channels, type, width, height, microns, halving } = o
  const array = ARRAYS[type] as unknown as new (length: number) => PixelsOf<T>
  const levels = levelsOf({ width, height, coarsest: ZARR_TILE })
  const fill = o.noData ?? 0
  const plane = ZARR_TILE * ZARR_TILE

  const json = (name: string, facts: object): void => put(join(name, 'zarr.json'), `${JSON.stringify(facts, null, 2)}\n`)
  json('', {
    ...{ zarr_format: 3, node_type: 'group' },
    attributes: {
      ome: {
        version: '0.5',
        multiscales: [
          {
            name: o.description ?? '',
            type: halving,
            axes: [
              { name: 'c', type: 'channel' },
              ...['y', 'x'].map((name) => ({ name, type: 'space', ...(microns === undefined ? {} : { unit: 'micrometer' }) })),
            ],
            datasets: levels.map((level, i) => {
              const scale = [1, ((microns ?? 1) * height) / level.height, ((microns ?? 1) * width) / level.width]
              return { path: String(i), coordinateTransformations: [{ type: 'scale', scale }] }
            }),
          },
        ],
      },
    },
  })
  levels.forEach((level, i) =>
    json(String(i), {
      ...{ zarr_format: 3, node_type: 'array', shape: [channels, level.height, level.width], data_type: DATA_TYPES[type] },
      chunk_grid: { name: 'regular', configuration: { chunk_shape: [channels, ZARR_TILE, ZARR_TILE] } },
      chunk_key_encoding: { name: 'default', configuration: { separator: '/' } },
      fill_value: Number.isNaN(fill) ? 'NaN' : fill,
      codecs: [
        { name: 'bytes', configuration: { endian: 'little' } },
        { name: 'gzip', configuration: { level: GZIP_LEVEL } },
      ],
      dimension_names: ['c', 'y', 'x'],
    }),
  )

  const take = (tile: Tile<PixelsOf<T>>): void => {
    o.seen?.(tile)
    const { pixels } = tile
    const chunk = new array(plane * channels).fill(fill) as PixelsOf<T>
    for (let y = 0, at = 0; y < tile.height; y++)
      for (let x = 0; x < tile.width; x++) for (let c = 0; c < channels; c++) chunk[c * plane + y * ZARR_TILE + x] = pixels[at++]!
    if (chunk.every((n) => Object.is(n, fill))) return
    const bytes = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    put(`${tile.level}/c/0/${tile.row}/${tile.column}`, gzipSync(bytes, { level: GZIP_LEVEL }))
  }
  return pyramidRows({ width, height, channels, tile: ZARR_TILE, coarsest: ZARR_TILE, halving, array }, take)
}
