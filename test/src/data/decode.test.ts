// Images are upright: for each of the eight rotation tags, the size and any rectangle are those of the turned picture.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import sharp from 'sharp'
import { pixelsOf, sizeOf } from '../../../src/data/decode'

const [WIDTH, HEIGHT] = [8, 4] as const
const raw = { raw: { width: WIDTH, height: HEIGHT, channels: 3 } } as const
const stored = Uint8Array.from({ length: 3 * WIDTH * HEIGHT }, (_, i) => (2 * i) % 256)
const limits = { depth: 8, mostPixels: 1000 } as const

/** Place in the stored picture of row y, column x of the upright one (EXIF 2.3, tag Orientation). */
const PLACES: readonly ((x: number, y: number) => readonly [x: number, y: number])[] = [
  (x, y) => [x, y],
  (x, y) => [WIDTH - 1 - x, y],
  (x, y) => [WIDTH - 1 - x, HEIGHT - 1 - y],
  (x, y) => [x, HEIGHT - 1 - y],
  (x, y) => [y, x],
  (x, y) => [y, HEIGHT - 1 - x],
  (x, y) => [WIDTH - 1 - y, HEIGHT - 1 - x],
  (x, y) => [WIDTH - 1 - y, x],
]

for (const [i, placeOf] of PLACES.entries())
  test(`rotation tag ${i + 1}`, async () => {
    const bytes = await sharp(stored, raw)
      .withMetadata({ orientation: i + 1 })
      .png()
      .toBuffer()
    const file = { name: 'turned.png', bytes }
    const size = i < 4 ? { width: WIDTH, height: HEIGHT } : { width: HEIGHT, height: WIDTH }
    assert.equal(await sizeOf(file, limits), size)
    const window = { left: 1, top: 1, width: 2, height: 3 }
    const found = await pixelsOf(file, window, window, 3, limits)
    const expected = Array.from({ length: 6 }, (_, k) => placeOf(1 + (k % 2), 1 + Math.floor(k / 2)))
    assert.equal(
      [...found],
      expected.flatMap(([x, y]) => [...stored.subarray(3 * (y * WIDTH + x), 3 * (y * WIDTH + x) + 3)]),
    )
  })

test.run()
