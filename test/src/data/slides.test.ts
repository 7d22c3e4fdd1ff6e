// Slides by regions: levels and scales are read from the directories, and regions equal the whole level. Tiles have tissue; labels come from
// folders and masks. Damaged files are refused. Training and prediction equal those of the same pixels in memory.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import sharp from 'sharp'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  conv2d,
  crossEntropy,
  fromBytes,
  globalAvgPool,
  mib,
  model,
  predict,
  relu,
  seq,
  source,
  stage,
  train,
} from '../../../src'
import { openSlide, regionOf } from '../../../src/data/slides/slide'
import { slides } from '../../../src/data/slides/slides'
import type { SlideOptions } from '../../../src/data/slides/slideoptions'
import { tiffPyramid } from '../../../src/data/slides/tiff'
import { otsu } from '../../../src/data/slides/tissue'
import type { Data } from '../../../src/data/data'
import { type DataFlags, dataNamed, withTissue } from '../../../src/cli/data'
import { fewOrAll } from '../../full'

const root = mkdtempSync(join(tmpdir(), 'spillway-slides-'))
test.after(() => rmSync(root, { recursive: true }))

const [WIDTH, HEIGHT] = [1300, 900]
/** White glass, with a coloured rectangle of tissue at rows 200 to 599, columns 300 to 899. */
const isTissue = (y: number, x: number): boolean => y >= 200 && y < 600 && x >= 300 && x < 900
const drawn = Buffer.alloc(WIDTH * HEIGHT * 3, 242)
for (let y = 0; y < HEIGHT; y++)
  for (let x = 0; x < WIDTH; x++)
    if (isTissue(y, x)) drawn.set([150 + ((x * 7 + y) % 60), 60 + (y % 30), 140], (y * WIDTH + x) * 3)
const image = () => sharp(drawn, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
const TILED = { tile: true, tileWidth: 128, tileHeight: 128 } as const

const at = (name: string): string => join(root, name)
const written = async (name: string, o: sharp.TiffOptions): Promise<string> => {
  mkdirSync(join(at(name), '..'), { recursive: true })
  await image()
    .tiff({ ...TILED, pyramid: true, compression: 'deflate', ...o })
    .toFile(at(name))
  return at(name)
}

const pyramid = (file: string) => {
  const read = tiffPyramid(file)
  if (isLeft(read)) throw new Error(read.left)
  return read.right
}
const refusal = async (of: Promise<unknown>): Promise<string> => of.then(() => 'taken').catch((e: Error) => e.message)
const own = ({ set }: Data) => {
  if (set.kind !== 'own') throw new Error(set.kind)
  return set
}

test('levels are read from the directories of TIFF and BigTIFF, with their scale', async () => {
  for (const bigtiff of [false, true]) {
    // 40 000 pixels per centimetre: 0.25 microns.
    const file = await written(`levels-${bigtiff}.tif`, { bigtiff, xres: 4000, yres: 4000, resolutionUnit: 'cm' })
    const { levels } = pyramid(file)
    assert.equal(
      levels.slice(0, 3).map((l) => [l.width, l.height, l.channels, l.bits, l.isTiled]),
      [
        [1300, 900, 3, 8, true],
        [650, 450, 3, 8, true],
        [325, 225, 3, 8, true],
      ],
    )
    assert.equal(
      levels.slice(0, 2).map((l) => l.microns!.toFixed(3)),
      ['0.250', '0.500'],
    )
  }
})

/** One entry of a TIFF directory: long numbers, or a text. */
interface Entry {
  readonly tag: number
  readonly values: readonly number[] | string
}
interface Drawn {
  readonly pixels: Buffer
  readonly entries: readonly Entry[]
}

const DIRECTORY_BYTES = 4096
const SUB_IFDS = 330

/** The bytes of a directory at an offset of the file. */
const directoryOf = (entries: readonly Entry[], offset: number, next: number): Buffer => {
  const out = Buffer.alloc(DIRECTORY_BYTES)
  let free = 2 + 12 * entries.length + 4
  out.writeUInt16LE(entries.length, 0)
  entries.forEach(({ tag, values }, i) => {
    const isText = typeof values === 'string'
    const bytes = isText ? Buffer.from(`${values}\0`, 'latin1') : Buffer.from(Uint32Array.from(values).buffer)
    const to = 2 + 12 * i
    out.writeUInt16LE(tag, to)
    out.writeUInt16LE(isText ? 2 : 4, to + 2)
    out.writeUInt32LE(isText ? bytes.length : values.length, to + 4)
    if (bytes.length <= 4) bytes.copy(out, to + 8)
    else {
      out.writeUInt32LE(offset + free, to + 8)
      bytes.copy(out, free)
      free += bytes.length
    }
  })
  out.writeUInt32LE(next, 2 + 12 * entries.length)
  return out
}

/** A TIFF of images of one uncompressed tile of 16 x 16 pixels each. Those after the first are pages, or lie below it. */
const tiffOf = (name: string, images: readonly Drawn[], areBelow: boolean): string => {
  const pixelsAt = (i: number): number => 8 + images.slice(0, i).reduce((n, { pixels }) => n + pixels.length, 0)
  const directoryAt = (i: number): number => pixelsAt(images.length) + i * DIRECTORY_BYTES
  const head = Buffer.from([0x49, 0x49, 42, 0, 0, 0, 0, 0])
  head.writeUInt32LE(directoryAt(0), 4)
  const directories = images.map(({ pixels, entries }, i) => {
    const below = areBelow && i === 0 ? [{ tag: SUB_IFDS, values: images.slice(1).map((_, k) => directoryAt(k + 1)) }] : []
    const numbers = [
      [322, 16],
      [323, 16],
      [324, pixelsAt(i)],
      [325, pixels.length],
    ] as const
    const all = [...numbers.map(([tag, value]) => ({ tag, values: [value] })), ...entries, ...below]
    const next = !areBelow && i + 1 < images.length ? directoryAt(i + 1) : 0
    return directoryOf(
      [...all].sort((a, b) => a.tag - b.tag),
      directoryAt(i),
      next,
    )
  })
  writeFileSync(at(name), Buffer.concat([head, ...images.map(({ pixels }) => pixels), ...directories]))
  return at(name)
}

const [BLACK_IS_ZERO, RGB] = [1, 2]
const entriesOf = (side: number, bits: number, photometric: number, samples: number): readonly Entry[] => [
  ...[256, 257].map((tag) => ({ tag, values: [side] })),
  { tag: 258, values: Array.from({ length: samples }, () => bits) },
  { tag: 259, values: [1] },
  { tag: 262, values: [photometric] },
  { tag: 277, values: [samples] },
]
const ramp = (n: number): Buffer => Buffer.from(Array.from({ length: n }, (_, i) => (7 * i) % 251))

test('five bands, 16 bits, levels below a page and the scale of SVS are read', async () => {
  const region = { top: 3, left: 2, height: 2, width: 4 }
  const bands = ramp(16 * 16 * 5)
  const more = [
    { tag: 338, values: [0, 0, 0, 0] },
    { tag: 42113, values: '9' },
  ]
  const five = openSlide(
    tiffOf('five.tif', [{ pixels: bands, entries: [...entriesOf(16, 8, BLACK_IS_ZERO, 5), ...more] }], false),
    {},
  )
  assert.equal([five.level.channels, five.pyramid.noData], [5, 9])
  const rows = [3, 4].map((row) => bands.subarray((row * 16 + 2) * 5, (row * 16 + 6) * 5))
  assert.equal([...(await regionOf(five, region))], [...Buffer.concat(rows)])

  const wide = Uint16Array.from({ length: 256 }, (_, i) => 250 * i)
  const file = tiffOf('wide.tif', [{ pixels: Buffer.from(wide.buffer), entries: entriesOf(16, 16, BLACK_IS_ZERO, 1) }], false)
  const expected = [3, 4].flatMap((row) => [2, 3, 4, 5].map((column) => wide[row * 16 + column]!))
  assert.equal([...(await regionOf(openSlide(file, {}), region))], expected)

  for (const areBelow of [true, false]) {
    const description = { tag: 270, values: 'Aperio |AppMag = 20|MPP = 0.4990' }
    const [fine, coarse] = [ramp(768), ramp(768).reverse()]
    const images = [
      { pixels: fine, entries: [...entriesOf(16, 8, RGB, 3), description] },
      { pixels: coarse, entries: entriesOf(8, 8, RGB, 3) },
    ]
    const slide = openSlide(tiffOf(`below-${areBelow}.svs`, images, areBelow), { microns: 1 })
    assert.equal([slide.at, slide.level.width, slide.level.microns!.toFixed(3)], [1, 8, '0.998'])
    const cut = await regionOf(slide, { top: 1, left: 2, height: 1, width: 2 })
    assert.equal([...cut], [...coarse.subarray((16 + 2) * 3, (16 + 4) * 3)])
  }
})

test('a region has the pixels of the whole level', async () => {
  const file = await written('regions.tif', { bigtiff: true })
  for (const level of [0, 1]) {
    const slide = openSlide(file, { level })
    const { width, height } = slide.level
    const whole = await regionOf(slide, { top: 0, left: 0, height, width })
    const region = { top: 101, left: 203, height: 155, width: 90 }
    const part = await regionOf(slide, region)
    for (let y = 0; y < region.height; y++) {
      const from = ((region.top + y) * width + region.left) * 3
      assert.equal(
        part.subarray(y * region.width * 3, (y + 1) * region.width * 3),
        whole.subarray(from, from + region.width * 3),
        `level ${level}, row ${y}`,
      )
    }
    if (level === 0) assert.equal(Buffer.from(whole), drawn)
  }
})

test('a level is chosen by its number or its scale; others are refused with all levels', async () => {
  const file = await written('scale.tif', { xres: 4000, yres: 4000, resolutionUnit: 'cm' })
  assert.is(openSlide(file, { microns: 0.52 }).level.width, 650)
  const none = await refusal(slides(file, { microns: 2.9 }))
  assert.match(
    none,
    /scale\.tif is refused: no level has 2\.9 microns per pixel: its levels are 0: 1300 x 900, 0\.25 microns per pixel; 1: 650/,
  )
  assert.match(await refusal(slides(file, { level: 9 })), /it has no level 9: its levels are 0: 1300 x 900/)
  const mute = await written('mute.tif', {})
  writeFileSync(at('mute.svs'), readFileSync(mute))
  assert.match(await refusal(slides(at('mute.svs'), { microns: 0.5 })), /does not state its microns per pixel: choose a level/)
})

test('labels come from folders, and tiles from the parts with tissue', async () => {
  for (const name of ['classes/benign/a.tif', 'classes/tumour/b.tif', 'classes/tumour/c.tif']) await written(name, {})
  const whole = own(await slides(at('classes')))
  assert.equal([whole.length, whole.classes], [3, ['benign', 'tumour']])
  const sample = await whole.read(2, { top: 0, left: 0, height: 8, width: 8 })
  assert.is(sample['target'], 1)
  const tiles = own(await slides(at('classes'), { tiles: 100, tissue: 0.5 }))
  // 4 x 6 tiles of each slide are tissue.
  assert.is(tiles.length, 3 * 24)
  assert.match(tiles.nameOf!(0), /a\.tif, tile at row 200, column 300$/)
  const all = own(await slides(at('classes/benign/a.tif'), { tiles: [400, 500] }))
  assert.equal(
    Array.from({ length: all.length }, (_, i) => all.nameOf!(i).replace(/.*tile at /, '')),
    [0, 400, 500].flatMap((row) => [0, 500, 800].map((column) => `row ${row}, column ${column}`)),
  )
  const cut = (await all.read(4, { top: 10, left: 20, height: 2, width: 3 }))['input'] as Uint8Array
  assert.equal(cut.subarray(0, 9), drawn.subarray(((400 + 10) * WIDTH + 500 + 20) * 3, ((400 + 10) * WIDTH + 500 + 23) * 3))
})

test('a command selects the tiles of slides(), and reports the skipped share', async () => {
  const said: string[] = []
  const ask = (o: DataFlags & { readonly data?: string }) => withTissue(o, (text) => void said.push(text))()
  const found = await ask({ data: at('classes'), tileSize: 100, tissue: 0.5 })
  assert.ok(isRight(found))
  const named = dataNamed(at('classes'), found.right)
  assert.ok(isRight(named) && typeof named.right !== 'string')
  const [tiles, expected] = [own(named.right), own(await slides(at('classes'), { tiles: 100, tissue: 0.5 }))]
  const names = (set: ReturnType<typeof own>) => Array.from({ length: set.length }, (_, i) => set.nameOf!(i))
  assert.equal([tiles.name, names(tiles)], [expected.name, names(expected)])
  // 3 slides of 9 x 13 tiles, 4 x 6 of each with tissue.
  assert.equal(said, ['tissue: 279 of 351 tiles are left out (79 %)'])
  const wrong = [
    [{ tissue: 0.5 }, /^--tissue selects tiles: add --tile-size/],
    [{ level: 1, microns: 0.5 }, /^--level and --microns exclude each other/],
  ] as const
  for (const [o, words] of wrong) {
    const refused = dataNamed(at('classes'), o)
    assert.ok(isLeft(refused) && refused.left.tag === 'Usage')
    assert.match(refused.left.message, words)
  }
  const refusals = [
    [{ tissue: 0.5 }, /add --data/],
    [{ data: at('classes'), tissue: 0.5 }, /add --tile-size/],
    [{ data: at('classes'), tileSize: 100, tissue: 2 }, /--tissue is 2; allowed: shares up to 1/],
  ] as const
  for (const [o, words] of refusals) {
    const refused = await ask(o)
    assert.ok(isLeft(refused))
    assert.match(JSON.stringify(refused.left), words)
  }
})

test('masks follow their slides, at a coarser level too', async () => {
  await written('pairs/images/a.tif', {})
  mkdirSync(at('pairs/masks'))
  const labels = Buffer.from(
    Array.from({ length: WIDTH * HEIGHT }, (_, i) => (isTissue(Math.floor(i / WIDTH), i % WIDTH) ? 2 : 0)),
  )
  await sharp(labels, { raw: { width: WIDTH, height: HEIGHT, channels: 1 } })
    .toColourspace('b-w')
    .tiff({ ...TILED, compression: 'deflate' })
    .toFile(at('pairs/masks/a.tif'))
  for (const level of [0, 1]) {
    const set = own(await slides(at('pairs'), { level }))
    const scale = 2 ** level
    const region = { top: 190 / scale, left: 290 / scale, height: 20, width: 30 }
    const { target } = await set.read(0, region)
    const expected = Array.from({ length: 600 }, (_, i) =>
      isTissue((region.top + Math.floor(i / 30)) * scale + scale / 2, (region.left + (i % 30)) * scale + scale / 2) ? 2 : 0,
    )
    assert.equal([...(target as Uint8Array)], expected, `level ${level}`)
  }
  // On a canvas, labels beyond the slide are the ignored ones.
  const canvas = own(await slides(at('pairs'), { canvas: [1000, 1400] }))
  const corner = { top: HEIGHT - 10, left: WIDTH - 5, height: 20, width: 12 }
  for (const outside of [undefined, 255, -100]) {
    const { target } = await canvas.read(0, corner, outside === undefined ? {} : { key: 'target', outside })
    const found = Array.from(target as Int32Array)
    const expected = Array.from({ length: 240 }, (_, i) => {
      const [y, x] = [corner.top + Math.floor(i / 12), corner.left + (i % 12)]
      return y >= HEIGHT || x >= WIDTH ? (outside ?? 0) : isTissue(y, x) ? 2 : 0
    })
    assert.equal(found, expected, `${outside}`)
  }
})

test('wrong paths and options are refused with the allowed ones', async () => {
  mkdirSync(at('empty'))
  const cases: readonly (readonly [string, SlideOptions, RegExp])[] = [
    ['nowhere', {}, /nowhere is not there; allowed: a slide, a folder of slides/],
    ['empty', {}, /has no slides \(\.svs, \.tif/],
    ['regions.tif', { level: 1, microns: 0.5 }, /level and microns exclude each other/],
    ['regions.tif', { tissue: 0.5 }, /tissue selects tiles: set tiles/],
    ['regions.tif', { tiles: 2000 }, /has 900 x 1300 pixels at this level, less than a tile of 2000 x 2000/],
    ['regions.tif', { tiles: 0 }, /tiles is 0; allowed: a side in pixels, or \[height, width\]/],
    ['regions.tif', { levl: 1 } as SlideOptions, /`levl` is not an option of slides; did you mean `level`/],
  ]
  for (const [path, o, words] of cases) assert.match(await refusal(slides(at(path), o)), words)
})

test('damaged files are refused with their name, or read; nothing else happens', async () => {
  const good = readFileSync(await written('good.tif', { bigtiff: true }))
  const file = at('damaged.tif')
  let refused = 0
  for (let i = 0; i < fewOrAll([150], [10_000])[0]!; i++) {
    const bytes = Buffer.from(good)
    // Changes of one to four bytes: in the directories, which lie at the end, or anywhere; or a shorter file.
    const random = (n: number): number => Math.floor((Math.abs(Math.sin(i * 12.9898 + n * 78.233) * 43758.5453) % 1) * 2 ** 30)
    for (let k = 0; k <= random(0) % 4; k++)
      bytes[(random(1) % 2 === 0 ? random(2 + k) : bytes.length - 1 - (random(2 + k) % 3000)) % bytes.length] =
        random(9 + k) % 256
    writeFileSync(file, random(3) % 5 === 0 ? bytes.subarray(0, random(4) % bytes.length) : bytes)
    const read = tiffPyramid(file)
    if (isRight(read)) {
      const message = await refusal(slides(file).then((d) => own(d).read(0, { top: 0, left: 0, height: 64, width: 64 })))
      if (message === 'taken') continue
      assert.match(message, /damaged\.tif is refused: /)
    } else assert.ok(read.left.length > 0)
    refused++
  }
  assert.ok(refused > 20, `${refused}`)
})

const body = <const N extends number>(classes: N) => seq(fromBytes(), conv2d('a', 4, 3), relu(), conv2d('b', classes, 1))

test('a network trains on the tiles with tissue, to the bits of the same pixels in memory', async () => {
  const net = model([4, 3, 100, 100], seq(body(2), globalAvgPool()))
  const plan = stage(net, { loss: crossEntropy, algorithms: 'fixed' })
  const o = { steps: 6, seed: 3, threads: 1 } as const
  const trained = await train(net, plan, { ...o, data: await slides(at('classes'), { tiles: 100, tissue: 0.5 }) })
  const places = [200, 300, 400, 500].flatMap((top) => [300, 400, 500, 600, 700, 800].map((left) => ({ top, left })))
  const inMemory = source({
    length: 72,
    layout: 'NHWC',
    classes: ['benign', 'tumour'],
    read: (i) => {
      const { top, left } = places[i % 24]!
      const rows = Array.from({ length: 100 }, (_, y) => drawn.subarray(((top + y) * WIDTH + left) * 3).subarray(0, 300))
      return { input: new Uint8Array(Buffer.concat(rows)), target: i < 24 ? 0 : 1 }
    },
  })
  assert.is(trained.weightsSha256, (await train(net, plan, { ...o, data: inMemory })).weightsSha256)
})

test('blocks without tissue become 0, and a canvas continues a slide with 0', async () => {
  const file = at('regions.tif')
  const [plain, cleared, placed] = [
    own(await slides(file)),
    own(await slides(file, { blocks: 32 })),
    own(await slides(file, { blocks: 32, canvas: [1000, 1400] })),
  ]
  assert.equal(typeof placed.size === 'function' && placed.size(0), [1000, 1400])
  const hasTissue = (y: number, x: number): boolean => {
    const [top, left] = [y - (y % 32), x - (x % 32)]
    return top + 32 > 200 && top < 600 && left + 32 > 300 && left < 900
  }
  for (const r of [
    { top: 0, left: 0, height: 900, width: 1300 },
    { top: 190, left: 285, height: 50, width: 77 },
    { top: 10, left: 20, height: 30, width: 40 },
  ]) {
    const [a, b, c] = await Promise.all(
      [plain, cleared, placed].map(async (d) => Uint8Array.from((await d.read(0, r)).input as Uint8Array)),
    )
    const expected = a!.map((v, i) => {
      const pixel = Math.floor(i / 3)
      return hasTissue(r.top + Math.floor(pixel / r.width), r.left + (pixel % r.width)) ? v : 0
    })
    assert.equal(b, expected)
    assert.equal(c, expected)
  }
  const beyond = await placed.read(0, { top: 850, left: 1250, height: 150, width: 150 })
  assert.ok((beyond.input as Uint8Array).every((v) => v === 0))
  // Without blocks, the pixels of the slide stay.
  const canvas = own(await slides(file, { canvas: [1000, 1400] }))
  const corner = { top: 880, left: 1290, height: 30, width: 20 }
  const [all, part] = [
    (await canvas.read(0, corner)).input as Uint8Array,
    (await plain.read(0, { ...corner, height: 20, width: 10 })).input as Uint8Array,
  ]
  const placedPart = new Uint8Array(all.length)
  for (let y = 0; y < 20; y++) placedPart.set(part.subarray(y * 30, y * 30 + 30), y * 60)
  assert.equal(all, placedPart)
  for (const [o, reason] of [
    [{ canvas: 800 }, /has 900 x 1300 pixels at this level, more than the canvas of 800 x 800/],
    [{ canvas: 2000, tiles: 100 }, /canvas is for whole slides/],
    [{ blocks: 0 }, /blocks is 0; allowed: whole numbers of at least 1/],
  ] as const)
    assert.match(await refusal(slides(file, o)), reason)
})

test('a slide is predicted by bands, at the size of its level', async () => {
  const net = model([1, 3, 100, 100], body(3))
  const weights = at('body.safetensors')
  await train(net, stage(net, { algorithms: 'fixed', loss: crossEntropy }), { steps: 1, seed: 1, save: weights })
  const plan = stage(net, { mode: 'predict', as: 'classes', budget: mib(32), algorithms: 'fixed' })
  const predicted = async (data: Data): Promise<Uint8Array> => {
    const { outputs } = await predict(net, plan, { weights, data })
    assert.match(outputs[0]!.name, /^(regions|sample-0)$/)
    return Uint8Array.from(outputs[0]!.values as ArrayLike<number>)
  }
  const whole = source({ length: 1, size: [450, 650], layout: 'NHWC', read: (_, r) => own(level1).read(0, r) })
  const level1 = await slides(at('regions.tif'), { level: 1 })
  const given = await predicted(level1)
  assert.is(given.length, 450 * 650)
  assert.equal(given, await predicted(whole))
})

test('the threshold divides two groups of values', () => {
  const histogram = new Array<number>(256).fill(0)
  for (let v = 10; v < 30; v++) histogram[v] = 100
  for (let v = 150; v < 200; v++) histogram[v] = 20
  const t = otsu(histogram)
  assert.ok(t >= 29 && t < 150, `${t}`)
})

test.run()
