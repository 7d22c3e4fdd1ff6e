// OME-Zarr images as slides, as zarr-python writes them (test/fixtures/make_zarr.py): levels, rectangles across chunks, damaged metadata and chunks.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isSlide } from '../../../src/data/slides/foundslides'
import { slides } from '../../../src/data/slides/slides'
import { openSlide, regionOf } from '../../../src/data/slides/slide'

const fixtures = join(__dirname, '../../fixtures/zarr')
const root = mkdtempSync(join(tmpdir(), 'spillway-zarr-'))
test.after(() => rmSync(root, { recursive: true }))

const [older, newer] = [join(fixtures, 'older.zarr'), join(fixtures, 'newer.ome.zarr')]

/** A pixel of the fixtures. */
const pixel = (y: number, x: number, c: number, step: number): number => (7 * y * step + 13 * x * step + 50 * c) % 256

for (const [file, factor] of [
  [older, 1],
  [newer, 257],
] as const)
  test(`${file.slice(fixtures.length + 1)}: rectangles of each level, channels last`, async () => {
    for (const [level, step] of [
      [0, 1],
      [1, 2],
    ] as const) {
      const slide = openSlide(file, { level })
      assert.equal(
        [slide.level.height, slide.level.width, slide.level.channels, slide.level.microns],
        [70 / step, 90 / step, 3, 0.5 * step],
      )
      const region = { top: 20, left: 5, height: 15, width: 35 }
      const got = await regionOf(slide, region)
      const want = Array.from({ length: 15 * 35 * 3 }, (_, i) =>
        pixel(20 + Math.floor(i / 105), 5 + (Math.floor(i / 3) % 35), i % 3, step),
      )
      assert.equal(
        [...got],
        want.map((v) => v * factor),
      )
    }
  })

test('a folder of images is slides, with classes by folder', async () => {
  for (const [name, file] of [
    ['a/one.zarr', older],
    ['b/two.ome.zarr', older],
  ] as const)
    cpSync(file, join(root, 'classes', name), { recursive: true })
  assert.ok(isSlide(join(root, 'classes')))
  assert.ok(isSlide(older))
  const { set } = await slides(join(root, 'classes'), { microns: 1, tiles: 32 })
  if (set.kind !== 'own') throw new Error('slides are read by regions')
  assert.equal([set.classes, set.length], [['a', 'b'], 8])
  const sample = await set.read(7, { top: 0, left: 0, height: 32, width: 32 })
  const input = sample.input as Uint8Array
  assert.equal([input.length, input[0], sample.target], [32 * 32 * 3, pixel(3, 13, 0, 2), 1])
})

const whole = { top: 0, left: 0, height: 70, width: 90 }
const damaged = (name: string, change: (folder: string) => void): string => {
  const folder = join(root, `${name}.zarr`)
  cpSync(older, folder, { recursive: true })
  change(folder)
  return folder
}
const edited = (file: string, edit: (text: string) => string): void => writeFileSync(file, edit(readFileSync(file, 'utf8')))

const REFUSED: readonly (readonly [string, (folder: string) => void, RegExp])[] = [
  ['empty', (f) => rmSync(join(f, '.zattrs')), /it has no multiscales: it is not an OME-Zarr image/],
  ['text', (f) => writeFileSync(join(f, '.zattrs'), 'no'), /\.zattrs is not JSON/],
  [
    'outside',
    (f) => edited(join(f, '.zattrs'), (t) => t.replace('"path": "0"', '"path": "../0"')),
    /the path of level 0 is '\.\.\/0'/,
  ],
  [
    'axes',
    (f) => edited(join(f, '.zattrs'), (t) => t.replace('"name": "z"', '"name": "q"')),
    /its axes are 'tcqyx'; allowed: y and x/,
  ],
  [
    'slices',
    (f) => edited(join(f, '0/.zarray'), (t) => t.replace(/"shape": \[\s*1,\s*3,\s*1/, '"shape": [1, 3, 4')),
    /it has 4 slices; allowed: one image/,
  ],
  [
    'numbers',
    (f) => edited(join(f, '0/.zarray'), (t) => t.replace('|u1', '<f8')),
    /its numbers are <f8; allowed: uint8, uint16 and float32/,
  ],
  [
    'chunk',
    (f) => edited(join(f, '0/.zarray'), (t) => t.replace(/32,\s*32/, '32768, 32768')),
    /a chunk has 1024 MiB; allowed: at most 256/,
  ],
  [
    'sizes',
    (f) => edited(join(f, '0/.zarray'), (t) => t.replace(/"shape": \[\s*1/, '"shape": [-1')),
    /shape is \[-1, 3, 1, 70, 90\]; allowed: whole numbers/,
  ],
  ['level', (f) => rmSync(join(f, '1'), { recursive: true }), /it has neither zarr\.json nor \.zarray/],
]
for (const [name, change, message] of REFUSED)
  test(`refused: ${name}`, () => {
    const folder = damaged(name, change)
    assert.throws(() => openSlide(folder, {}), message)
  })

const CHUNK = '0/0/1/0/1/2'
const DAMAGE: readonly (readonly [string, (chunk: Buffer) => Buffer, RegExp])[] = [
  ['empty', () => Buffer.alloc(0), /a chunk has 0 bytes, less than its header/],
  ['cut', (chunk) => chunk.subarray(0, chunk.length >> 1), /bytes, its header states/],
  ['other', (chunk) => Buffer.alloc(chunk.length, 7), /bytes, its header states/],
]
for (const [name, change, message] of DAMAGE)
  test(`a damaged chunk is named by level and place: ${name}`, async () => {
    const folder = damaged(`chunk-${name}`, (f) => writeFileSync(join(f, CHUNK), change(readFileSync(join(f, CHUNK)))))
    const text = await regionOf(openSlide(folder, {}), whole).then(
      () => 'it was read',
      (e: Error) => e.message,
    )
    assert.match(text, /zarr is refused: level 0, tile 1, 2 \(row, column/)
    assert.match(text, message)
  })

test('a shard that is cut is refused', async () => {
  const folder = join(root, 'cut.zarr')
  cpSync(newer, folder, { recursive: true })
  const shard = join(folder, '0/c/0/1/1')
  writeFileSync(shard, readFileSync(shard).subarray(40))
  const text = await regionOf(openSlide(folder, {}), whole).then(
    () => 'it was read',
    (e: Error) => e.message,
  )
  assert.match(text, /cut\.zarr is refused: level 0, tile 2, 2 /)
})

test('a missing chunk holds the fill value', async () => {
  const missing = damaged('missing', (f) => rmSync(join(f, CHUNK)))
  const got = await regionOf(openSlide(missing, {}), whole)
  assert.equal([got[(40 * 90 + 70) * 3], got[(40 * 90 + 70) * 3 + 1]], [pixel(40, 70, 0, 1), 0])
})

test('randomly damaged metadata are refused with an error, or read', async () => {
  mkdirSync(join(root, 'random'), { recursive: true })
  for (let seed = 0; seed < 150; seed++) {
    const folder = join(root, 'random', `${seed}.zarr`)
    for (const file of ['.zattrs', '.zgroup', '0/.zarray', '1/.zarray']) cpSync(join(older, file), join(folder, file))
    const file = join(folder, seed % 2 ? '0/.zarray' : '.zattrs')
    const bytes = readFileSync(file)
    for (let k = 0; k < 3; k++) bytes[(seed * 7919 + k * 104729) % bytes.length] = (seed * 31 + k * 17) % 256
    writeFileSync(file, bytes)
    try {
      const slide = openSlide(folder, {})
      await regionOf(slide, { top: 0, left: 0, height: Math.min(8, slide.level.height), width: Math.min(8, slide.level.width) })
    } catch (e) {
      assert.match((e as Error).message, /\.zarr.* is refused: /, `seed ${seed}: ${(e as Error).stack}`)
    }
  }
})

test.run()
