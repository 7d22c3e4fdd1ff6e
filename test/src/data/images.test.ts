// Image files: the found ones, their pixels, the refusals; the same numbers on any number of threads.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText, SpillwayException } from '../../../src/errors/errors'
import { type Augment, rectangleFor, turned } from '../../../src/data/augment'
import { labelsOf, pixelsOf, sizeOf } from '../../../src/data/decode'
import { imagesContent, openImages } from '../../../src/data/images'
import type { ImageWork } from '../../../src/data/imagereader'
import type { FedValue } from '../../../src/data/places'
import { imagesBy } from '../../../src/data/pool'
import { type Colour, png } from './png'

const root = mkdtempSync(join(tmpdir(), 'spillway-images-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => {
  const at = join(root, String(made++))
  mkdirSync(at)
  return at
}
const put = (at: string, bytes: Uint8Array | string): string => {
  mkdirSync(join(at, '..'), { recursive: true })
  writeFileSync(at, bytes)
  return at
}

const LIMITS = { depth: 8, mostPixels: 1e6 } as const
const wordsOf = async (f: () => Promise<unknown>): Promise<string> => {
  try {
    await f()
  } catch (e) {
    assert.ok(e instanceof SpillwayException, String(e))
    return errorText(e.error)
  }
  return 'nothing was thrown'
}
const noise = (n: number, seed: number): Uint8Array =>
  Uint8Array.from({ length: n }, (_, i) => (i * 73 + seed * 29 + ((i * i) >> 3)) & 255)
const image = (width: number, height: number, seed: number, colour: Colour = 'rgb'): Uint8Array =>
  png({ width, height, bits: 8, colour, pixels: noise(width * height * (colour === 'rgb' ? 3 : 1), seed) })

test('pixels of a PNG are those that were written, in colour, in grey and of 16 bits', async () => {
  const at = folder()
  const whole = { left: 0, top: 0, width: 7, height: 5 }
  const rgb = put(join(at, 'rgb.png'), image(7, 5, 1))
  assert.equal([...(await pixelsOf(rgb, whole, whole, 3, LIMITS))], [...noise(105, 1)])
  const grey = put(join(at, 'grey.png'), image(7, 5, 2, 'grey'))
  assert.equal([...(await pixelsOf(grey, whole, whole, 1, LIMITS))], [...noise(35, 2)])
  assert.equal(
    [...(await pixelsOf(grey, whole, whole, 3, LIMITS))],
    [...noise(35, 2)].flatMap((x) => [x, x, x]),
  )
  const part = await pixelsOf(rgb, { left: 2, top: 1, width: 3, height: 2 }, { width: 3, height: 2 }, 3, LIMITS)
  assert.equal(
    [...part],
    [1, 2].flatMap((y) => [...noise(105, 1).slice((y * 7 + 2) * 3, (y * 7 + 5) * 3)]),
  )
  const wide = Uint16Array.from({ length: 35 }, (_, i) => i * 1871)
  const deep = put(join(at, 'deep.png'), png({ width: 7, height: 5, bits: 16, colour: 'grey', pixels: wide }))
  assert.equal(
    [...(await pixelsOf(deep, whole, whole, 1, { ...LIMITS, depth: 16 }))],
    [...Float32Array.from(wide, (x) => x / 65535)],
  )
  assert.match(await wordsOf(() => sizeOf(deep, LIMITS)), /deep\.png is refused: .*more than 8 bits: set depth: 16/)
})

const FIXTURES = join(__dirname, '..', '..', 'fixtures', 'images')

test('files of each kind have the numbers that PIL finds in them', async () => {
  const seen = JSON.parse(readFileSync(join(FIXTURES, 'images.json'), 'utf8')) as Readonly<Record<string, readonly number[]>>
  const whole = { left: 0, top: 0, width: 17, height: 12 }
  for (const [name, numbers] of Object.entries(seen)) {
    const file = join(FIXTURES, name)
    const found = name.startsWith('palette')
      ? (await labelsOf(file, LIMITS)).pixels
      : name.startsWith('wide')
        ? (await pixelsOf(file, whole, whole, 1, { ...LIMITS, depth: 16 })).map((x) => Math.round(x * 65535))
        : await pixelsOf(file, whole, whole, 3, LIMITS)
    assert.equal([...found], [...numbers], name)
  }
})

test('a mask has the numbers of its palette, of any number of bits, whatever its colours', async () => {
  const at = folder()
  for (const bits of [1, 2, 4, 8] as const)
    for (const colour of ['palette', 'grey'] as const) {
      const pixels = noise(11 * 6, bits).map((x) => x % 2 ** bits)
      const file = put(join(at, `${colour}${bits}.png`), png({ width: 11, height: 6, bits, colour, pixels }))
      assert.equal([...(await labelsOf(file, LIMITS)).pixels], [...pixels], `${colour} ${bits}`)
    }
  const rgb = put(join(at, 'rgb.png'), image(4, 4, 1))
  assert.match(await wordsOf(() => labelsOf(rgb, LIMITS)), /rgb\.png is refused: its pixels are colours/)
})

test('a file that declares too many pixels is refused before decoding; damaged files are refused with their fault', async () => {
  const at = folder()
  const bomb = put(
    join(at, 'bomb.png'),
    png({ width: 60000, height: 60000, bits: 8, colour: 'grey', pixels: new Uint8Array(10) }),
  )
  assert.match(
    await wordsOf(() => sizeOf(bomb, LIMITS)),
    /bomb\.png is refused: it has 60000 x 60000 pixels; the limit is 1000000/,
  )
  assert.match(await wordsOf(() => labelsOf(bomb, LIMITS)), /it has 60000 x 60000 pixels/)
  const good = image(20, 20, 3)
  const whole = { left: 0, top: 0, width: 20, height: 20 }
  for (const length of [0, 5, 30, 60, good.length - 40]) {
    const cut = put(join(at, `cut${length}.png`), good.subarray(0, length))
    assert.match(
      await wordsOf(async () => [await sizeOf(cut, LIMITS), await pixelsOf(cut, whole, whole, 3, LIMITS)]),
      /cut\d+\.png is refused/,
    )
    assert.match(await wordsOf(() => labelsOf(cut, LIMITS)), /cut\d+\.png is refused/)
  }
  const more = put(
    join(at, 'more.png'),
    png({ width: 2, height: 2, bits: 8, colour: 'grey', pixels: new Uint8Array(90000), rows: 300 }),
  )
  assert.match(await wordsOf(() => labelsOf(more, LIMITS)), /cannot be decompressed/)
})

test('folders of classes, images with masks, and lists are found; missing files are named', async () => {
  const at = folder()
  for (const [name, n] of [
    ['zebra', 1],
    ['ant', 2],
  ] as const)
    for (let i = 0; i < n; i++) put(join(at, 'classes', name, `${i}.png`), image(2, 2, i))
  put(join(at, 'classes', 'ant', 'notes.txt'), 'no image')
  const found = openImages(join(at, 'classes'))
  assert.ok(!isLeft(found))
  assert.equal(found.right, {
    classes: ['ant', 'zebra'],
    leftOut: ['.txt file'],
    samples: [
      { image: join(at, 'classes/ant/0.png'), label: 0 },
      { image: join(at, 'classes/ant/1.png'), label: 0 },
      { image: join(at, 'classes/zebra/0.png'), label: 1 },
    ],
  })
  put(join(at, 'pairs/images/a.jpg'), 'x')
  put(join(at, 'pairs/masks/a.png'), 'x')
  const pairs = openImages(join(at, 'pairs'))
  assert.ok(!isLeft(pairs))
  assert.equal(pairs.right.samples, [{ image: join(at, 'pairs/images/a.jpg'), mask: join(at, 'pairs/masks/a.png') }])
  put(join(at, 'pairs/images/b.jpg'), 'x')
  const lost = openImages(join(at, 'pairs'))
  assert.ok(isLeft(lost))
  assert.match(errorText(lost.left), /images\/b\.jpg is refused: it has no mask: .*masks has no image named b/)
  const csv = put(join(at, 'list.csv'), 'image,label\n"classes/ant/0.png",ant\nclasses/zebra/0.png, zebra\n')
  const list = openImages(csv)
  assert.ok(!isLeft(list))
  assert.equal(
    list.right.samples.map((s) => 'label' in s && s.label),
    [0, 1],
  )
  const json = put(join(at, 'list.json'), JSON.stringify([{ image: 'classes/ant/0.png', label: 7 }]))
  const numbered = openImages(json)
  assert.ok(!isLeft(numbered))
  assert.equal(numbered.right.samples, [{ image: join(at, 'classes/ant/0.png'), label: 7 }])
  const called = openImages(put(join(at, 'file.csv'), 'file,label\nclasses/ant/0.png,ant\nclasses/zebra/0.png,bee\n'))
  assert.ok(!isLeft(called))
  assert.equal(
    [called.right.samples.map((s) => s.label), called.right.classes],
    [
      [0, 1],
      ['ant', 'bee'],
    ],
  )
  const marked = openImages(put(join(at, 'marked.csv'), 'file,mask\nclasses/ant/0.png,classes/zebra/0.png\n'))
  assert.ok(!isLeft(marked))
  assert.equal(marked.right.samples, [{ image: join(at, 'classes/ant/0.png'), mask: join(at, 'classes/zebra/0.png') }])
  const refusals: readonly [string, string, RegExp][] = [
    ['short.csv', 'image,label\na.png\n', /line 2: the header has 2 fields, but this line has 1$/],
    [
      'header.csv',
      'image;label\na.png;ant\n',
      /its first line is 'image;label'; allowed: a header with image \(or file\), and label or mask/,
    ],
    ['headless.csv', 'a.png,ant\n', /its first line is 'a\.png,ant'; allowed: a header/],
    ['blank.csv', 'image,label\na.png,\n', /line 2 has no label; allowed: a name or a number/],
    [
      'mixed.csv',
      'image,label,mask\na.png,,b.png\na.png,1,\n',
      /line 3 must have mask, the path of a mask, as the other entries/,
    ],
    ['open.csv', 'image,label\n"a.png,ant\n', /line 2: a field begins with a quote and does not end with one/],
    ['behind.csv', 'image,label\n"a"b.png,ant\n', /line 2: a field begins with a quote and does not end with one/],
    ['comma.csv', 'image,label\nclasses/ant/0.png,"1,5"\nclasses/zebra/0.png,2\n', /line 2: label '1,5' is not a whole number/],
    ['none.csv', 'image,label\n', /the list names no images: add one per row/],
    ['bad.json', '{', /it is not JSON/],
    ['row.json', '[1]', /neither a list of objects with image and label or mask, nor COCO/],
    ['lost.csv', 'image,label\n\nclasses/ant/0.png,ant\nlost.png,ant\n', /line 4: .*lost\.png cannot be read/],
    ['half.json', '[{"image":"a.png"}]', /: entry 1 has no label; allowed: a name or a number; or a mask in each entry/],
    ['nameless.json', '[{"label":"ant"}]', /: entry 1 must have image \(or file\), the path of an image/],
    ['listed.json', '[{"image":"a.png","label":[1]}]', /: entry 1 has a label of type object; allowed: a name or a number/],
  ]
  for (const [name, text, words] of refusals) {
    const r = openImages(put(join(at, name), text))
    assert.ok(isLeft(r), name)
    assert.match(errorText(r.left), words)
  }
  const empty = openImages(folder())
  assert.ok(isLeft(empty))
  assert.match(errorText(empty.left), /it is empty; allowed: one folder of images per class/)
})

test('the identity of images does not depend on their folder', () => {
  const contents = [folder(), folder()].map((at) => {
    put(join(at, 'a/1.png'), image(3, 3, 1))
    put(join(at, 'b/2.png'), image(3, 3, 2))
    const list = openImages(at)
    assert.ok(!isLeft(list))
    return imagesContent(list.right)
  })
  assert.equal(contents[0], contents[1])
})

test('rectangles keep their centre, and four quarter turns are the identity', () => {
  const [wide, model] = [
    { width: 400, height: 200 },
    { width: 100, height: 100 },
  ]
  assert.equal(rectangleFor(wide, model, 'cover'), { left: 100, top: 0, width: 200, height: 200 })
  assert.equal(rectangleFor(wide, model, 'stretch'), { left: 0, top: 0, width: 400, height: 200 })
  assert.equal(rectangleFor(wide, model, 'pad'), { left: 0, top: -100, width: 400, height: 400 })
  assert.equal(rectangleFor(wide, model, 'crop'), { left: 150, top: 50, width: 100, height: 100 })
  const square = { width: 3, height: 3 }
  const pixels = noise(27, 1)
  const quarter = { mirrorX: false, mirrorY: false, quarters: 1 } as const
  const [once, twice] = [turned(pixels, square, 3, quarter), turned(turned(pixels, square, 3, quarter), square, 3, quarter)]
  assert.not.equal(once, pixels)
  assert.equal(twice, turned(pixels, square, 3, { ...quarter, quarters: 2 }))
  assert.equal(turned(twice, square, 3, { ...quarter, quarters: 2 }), pixels)
  const mirrored = { mirrorX: true, mirrorY: true, quarters: 0 } as const
  assert.equal(turned(pixels, square, 3, mirrored), turned(pixels, square, 3, { ...quarter, quarters: 2 }))
})

const INPUT: FedValue = { name: 'input', key: 'input', batch: 4, shape: [3, 16, 16], isInput: true }
const TARGET: FedValue = {
  name: 'target',
  key: 'target',
  batch: 4,
  shape: [1, 16, 16],
  isInput: false,
  labels: { classes: 200, ignored: 255 },
}

/** Masks whose labels are the pixels of their grey images. */
const masked = (): ImageWork['samples'] => {
  const at = folder()
  return Array.from({ length: 6 }, (_, i) => {
    const [width, height] = [
      [16, 16],
      [24, 18],
      [10, 30],
    ][i % 3] as [number, number]
    const pixels = noise(width * height, i).map((x) => x % 200)
    const bytes = (colour: Colour): Uint8Array => png({ width, height, bits: 8, colour, pixels })
    return { image: put(join(at, `images/${i}.png`), bytes('grey')), mask: put(join(at, `masks/${i}.png`), bytes('palette')) }
  })
}
const EVERYTHING: Augment = {
  ...{ flip: 'both', turns: true, crop: { area: [0.3, 1] }, elastic: true, randAugment: true },
  ...{ jitter: { brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.1 }, blur: true, cutout: true },
}
const workOf = (more: Partial<ImageWork> = {}): ImageWork => ({
  samples: masked(),
  values: [INPUT, TARGET],
  fit: 'cover',
  augment: EVERYTHING,
  limits: LIMITS,
  seed: 5,
  fill: [0.5, 0.5, 0.5],
  ...more,
})
/** Places of two epochs of all samples, asked for in some order. */
const read = async (work: ImageWork, workers: number, order: readonly number[]): Promise<readonly [Uint8Array, Uint8Array]> => {
  const reader = imagesBy(work, workers)
  const shared = (n: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(n) as unknown as ArrayBuffer)
  const arrays = [shared(12 * 16 * 16 * 3), shared(12 * 16 * 16)] as const
  try {
    await Promise.all(order.map((i) => reader.read({ epoch: Math.floor(i / 6), index: i % 6 }, i, arrays, i)))
    return [arrays[0].slice(), arrays[1].slice()]
  } finally {
    reader.close()
  }
}
const ALL = Array.from({ length: 12 }, (_, i) => i)

test('results do not depend on how many threads there are, nor on their order; epochs and seeds differ', async () => {
  const work = workOf()
  const alone = await read(work, 0, ALL)
  assert.equal(await read(work, 1, ALL), alone)
  assert.equal(await read(work, 3, [...ALL].reverse()), alone)
  const half = alone[0].length / 2
  assert.not.equal(alone[0].slice(0, half), alone[0].slice(half))
  assert.not.equal((await read({ ...work, seed: 6 }, 0, ALL))[0], alone[0])
})

test('mixed samples are the same on any number of threads; masks come with their rectangles', async () => {
  const others = Uint32Array.from([0, 1, 2, 3, 4, 5])
  const mixing = workOf({ augment: { ...EVERYTHING, jitter: false, cutout: false, cutmix: true }, others })
  const alone = await read(mixing, 0, ALL)
  assert.equal(await read(mixing, 3, [...ALL].reverse()), alone)
  assert.not.equal(alone, await read(workOf({ augment: { ...EVERYTHING, jitter: false, cutout: false } }), 0, ALL))
  const samples = masked().filter((_, i) => i % 3 === 0)
  const all = Array.from({ length: 6 }, (_, i) => samples[i % samples.length]!)
  const [pixels, labels] = await read(
    workOf({ samples: all, augment: { flip: 'both', turns: true, cutmix: true }, others }),
    2,
    ALL,
  )
  assert.ok(labels.every((l, i) => l === pixels[3 * i]!))
})

test('masks are cropped, mirrored, turned and padded with their images', async () => {
  for (const fit of ['crop', 'pad'] as const) {
    const samples = masked().filter((_, i) => fit === 'crop' || i % 3 === 0)
    const all = Array.from({ length: 6 }, (_, i) => samples[i % samples.length]!)
    const [pixels, labels] = await read(
      workOf({ fit, samples: all, augment: { flip: 'both', turns: true, crop: fit === 'crop' } }),
      2,
      ALL,
    )
    const grey = labels.map((_, i) => pixels[3 * i]!)
    const outside = [...labels].filter((l) => l === 255).length
    assert.is(outside > 0, fit === 'crop')
    assert.ok(labels.every((l, i) => (l === 255 ? grey[i] === 128 : l === grey[i])))
  }
})

test('the fault of a sample is reported with its file, for any count of threads', async () => {
  const work = workOf()
  const at = folder()
  const small = put(join(at, 'small.png'), png({ width: 4, height: 4, bits: 8, colour: 'grey', pixels: noise(16, 1) }))
  const wild = put(join(at, 'wild.png'), png({ width: 16, height: 16, bits: 8, colour: 'grey', pixels: noise(256, 1).fill(201) }))
  const damaged = put(join(at, 'damaged.png'), image(16, 16, 1).subarray(0, 70))
  const [first, ...rest] = work.samples as readonly { image: string; mask: string }[]
  const cases: readonly [{ image: string; mask: string }, RegExp][] = [
    [{ image: first!.image, mask: small }, /small\.png is refused: 4 x 4 pixels, but its image has 16 x 16/],
    [{ image: first!.image, mask: wild }, /wild\.png is refused: target: row 0, column 0 .*201 is not one of 200 classes/],
    [{ image: damaged, mask: first!.mask }, /damaged\.png is refused/],
    [{ image: join(at, 'gone.png'), mask: first!.mask }, /gone\.png is refused/],
  ]
  for (const [sample, words] of cases)
    for (const workers of [0, 2])
      assert.match(await wordsOf(() => read({ ...work, augment: {}, samples: [sample, ...rest] }, workers, ALL)), words)
})

test.run()
