// Deep Zoom pyramids: each level is one of the source, or half of the finer one, pixel by pixel; regions stay inside their level and small.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Region } from '../../../src/data/data'
import type { SpillwayException } from '../../../src/errors/errors'
import type { LevelSize } from '../../../src/files/pyramid'
import { DEEP_TILE, deepLevels, deepTiles, deepZoom, type Source } from '../../../src/view/deepzoom'

const root = mkdtempSync(join(tmpdir(), 'spillway-deepzoom-'))
test.after(() => rmSync(root, { recursive: true }))

type Level = LevelSize & { readonly pixels: Uint8Array }
const drawn = (width: number, height: number, seed: number): Level => ({
  ...{ width, height },
  pixels: Uint8Array.from({ length: width * height }, (_, i) => (Math.imul(i + seed, 0x9e3779b9) >>> 24) % 7),
})
const at = ({ width, height, pixels }: Level, y: number, x: number): number =>
  pixels[Math.min(y, height - 1) * width + Math.min(x, width - 1)]!

/** A source of these levels; its tiles are files of the pixels themselves. */
const sourceOf = (levels: readonly Level[], regions: Region[] = []): Source<Uint8Array> => ({
  ...{ width: levels[0]!.width, height: levels[0]!.height, channels: 1, array: Uint8Array, halving: 'majority', format: 'png' },
  levels,
  read: async (i, region) => {
    regions.push(region)
    const { width, height } = levels[i]!
    assert.ok(region.top + region.height <= height && region.left + region.width <= width, 'inside the level')
    return Uint8Array.from({ length: region.height * region.width }, (_, k) =>
      at(levels[i]!, region.top + Math.floor(k / region.width), region.left + (k % region.width)),
    )
  },
  encode: async (pixels) => pixels,
})

/** A level from its tiles. */
const read = (folder: string, level: number, { width, height }: LevelSize): Level => {
  const pixels = new Uint8Array(width * height)
  for (let row = 0; row * DEEP_TILE < height; row++)
    for (let column = 0; column * DEEP_TILE < width; column++) {
      const w = Math.min(DEEP_TILE, width - column * DEEP_TILE)
      const tile = readFileSync(join(folder, String(level), `${column}_${row}.png`))
      for (let i = 0; i < tile.length; i++)
        pixels[(row * DEEP_TILE + Math.floor(i / w)) * width + column * DEEP_TILE + (i % w)] = tile[i]!
    }
  return { width, height, pixels }
}

/** The most frequent of four, the first of equals. */
const halved = (finer: Level, { width, height }: LevelSize): Level => ({
  ...{ width, height },
  pixels: Uint8Array.from({ length: width * height }, (_, i) => {
    const [y, x] = [2 * Math.floor(i / width), 2 * (i % width)]
    const four = [at(finer, y, x), at(finer, y, x + 1), at(finer, y + 1, x), at(finer, y + 1, x + 1)]
    const count = (v: number): number => four.filter((f) => f === v).length
    return four.reduce((best, v) => (count(v) > count(best) ? v : best))
  }),
})

test('each level is read from the source, or half of the finer one', async () => {
  // 1301 halves to 651, 326, 163; the file rounds down, and has no level of half the size.
  const finest = drawn(1301, 523, 1)
  const quarter = drawn(325, 130, 2)
  const folder = join(root, 'levels')
  const regions: Region[] = []
  const seen: number[] = []
  let files = 0
  await deepZoom({ ...sourceOf([finest, quarter], regions), seen: (p) => void seen.push(p.length) }, folder, {
    wrote: () => void files++,
  })
  const sizes = deepLevels(finest)
  assert.equal(sizes.map((s) => [s.width, s.height]).slice(-4), [
    [163, 66],
    [326, 131],
    [651, 262],
    [1301, 523],
  ])
  const all = sizes.map((size, level) => read(folder, level, size))
  const top = all.length - 1
  assert.equal(all[top]!.pixels, finest.pixels)
  assert.equal(all[top - 1], halved(finest, sizes[top - 1]!))
  const own = {
    ...sizes[top - 2]!,
    pixels: Uint8Array.from(all[top - 2]!.pixels, (_, i) => at(quarter, Math.floor(i / 326), i % 326)),
  }
  assert.equal(all[top - 2], own)
  for (let level = 0; level < top - 2; level++) assert.equal(all[level], halved(all[level + 1]!, sizes[level]!), `level ${level}`)
  assert.is(
    seen.reduce((a, b) => a + b, 0),
    1301 * 523,
  )
  assert.is(files, deepTiles(finest))
  assert.is(files, readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith('.png')).length)
  // 1301 pixels are two blocks; each block is read once.
  assert.is(regions.length, 3)
  assert.ok(regions.every((r) => r.width * r.height <= 1024 ** 2))
})

test('a border of one pixel that the file rounds away repeats the last one', async () => {
  const finest = drawn(513, 20, 1)
  const half = drawn(256, 10, 2)
  await deepZoom(sourceOf([finest, half]), join(root, 'border'))
  const level = read(join(root, 'border'), 9, { width: 257, height: 10 })
  for (let y = 0; y < 10; y++) assert.is(at(level, y, 256), at(half, y, 255))
})

test('an aborted or failing pyramid rejects, after all pending tiles', async () => {
  const controller = new AbortController()
  const finest = drawn(2000, 2000, 1)
  let wrote = 0
  const aborted = deepZoom(sourceOf([finest]), join(root, 'aborted'), {
    signal: controller.signal,
    wrote: () => ++wrote === 5 && controller.abort(),
  })
  assert.is(await aborted.catch((e: SpillwayException) => e.error.tag), 'Cancelled')
  assert.ok(wrote < deepTiles(finest))
  const failing = { ...sourceOf([finest]), encode: () => Promise.reject(new Error('no ink')) }
  assert.is(await deepZoom(failing, join(root, 'failing')).catch((e: Error) => e.message), 'no ink')
})

test.run()
