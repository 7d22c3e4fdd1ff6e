// COCO annotations: masks beside those of pycocotools (test/fixtures/make_coco.py), rules for crowds and overlaps, classes by name, refusals by place.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { paintedLabels, runsIn, type Shape } from '../../../src/data/annotations'
import type { Wanted } from '../../../src/data/coco'
import { labelsOf } from '../../../src/data/decode'
import { imagesContent, openImages } from '../../../src/data/images'
import { errorText } from '../../../src/errors/errors'
import { png } from './png'

const expected = JSON.parse(readFileSync(join(__dirname, '../../fixtures/coco.json'), 'utf8')) as {
  readonly height: number
  readonly width: number
  readonly parts: Readonly<
    Record<string, { readonly polygons: readonly (readonly number[])[]; readonly mask: readonly number[] }>
  >
  readonly runs: Readonly<
    Record<string, { readonly counts: readonly number[]; readonly text: string; readonly mask: readonly number[] }>
  >
}
const { height, width } = expected
const painted = (...shapes: readonly Shape[]): readonly number[] => [
  ...paintedLabels({ name: 'a', width, height, shapes }).pixels,
]

test('run lengths, as numbers and as text, are the masks of pycocotools', () => {
  for (const [name, { counts, text, mask }] of Object.entries(expected.runs)) {
    assert.equal(painted({ label: 1, isCrowd: false, runs: counts }), mask, name)
    const runs = runsIn(text)
    assert.ok(isRight(runs), name)
    assert.equal(runs.right, counts, name)
  }
  for (const text of ['\u0020', 'p'.repeat(3)]) assert.ok(isLeft(runsIn(text)), text)
})

/** The distance of a pixel's centre to a polygon's nearest edge. */
const distance = (polygon: readonly number[], x: number, y: number): number => {
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < polygon.length; i += 2) {
    const [x0, y0, x1, y1] = [0, 1, 2, 3].map((k) => polygon[(i + k) % polygon.length]!) as [number, number, number, number]
    const t = Math.min(1, Math.max(0, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2)))
    least = Math.min(least, Math.hypot(x - x0 - t * (x1 - x0), y - y0 - t * (y1 - y0)))
  }
  return least
}

test('polygons are the masks of pycocotools, but for pixels that an edge crosses near the centre', () => {
  for (const [name, { polygons, mask }] of Object.entries(expected.parts)) {
    const own = painted({ label: 1, isCrowd: false, polygons })
    const area = mask.reduce((a, b) => a + b, 0)
    const other = own.flatMap((m, i) => (m === mask[i] ? [] : [i]))
    assert.ok(area > 100 && other.length <= 0.05 * area, `${name}: ${other.length} of ${area}`)
    for (const i of other) {
      const at = Math.min(...polygons.map((p) => distance(p, (i % width) + 0.5, Math.floor(i / width) + 0.5)))
      assert.ok(at < 0.75, `${name}, pixel ${i}: ${at}`)
    }
  }
})

const square = (label: number, from: number, to: number, isCrowd = false): Shape => ({
  ...{ label, isCrowd },
  polygons: [[from, from, to, from, to, to, from, to]],
})
test('small shapes are on top of large ones, and all are on top of crowds, in any order', () => {
  const shapes = [square(1, 0, 20), square(2, 5, 10), square(3, 7, 8, true), square(4, 15, 25)]
  const first = painted(...shapes)
  assert.equal(painted(...[...shapes].reverse()), first)
  const at = (k: number): number => first[k * width + k]!
  assert.equal([1, 6, 7, 16, 30].map(at), [1, 2, 2, 4, 0])
})

const root = mkdtempSync(join(tmpdir(), 'spillway-coco-'))
test.after(() => rmSync(root, { recursive: true }))
mkdirSync(join(root, 'images'))
for (const name of ['a', 'b', 'c'])
  writeFileSync(
    join(root, 'images', `${name}.png`),
    png({ width: 8, height: 6, bits: 8, colour: 'grey', pixels: new Uint8Array(48) }),
  )
const images = [1, 2, 3].map((id) => ({ id, file_name: `${'abc'[id - 1]}.png`, width: 8, height: 6 }))
const categories = [
  { id: 7, name: 'dog' },
  { id: 2, name: 'cat' },
]
const triangle = [[0, 0, 8, 0, 0, 6]]
const annotations = [
  { id: 1, image_id: 1, category_id: 7, segmentation: triangle },
  { id: 2, image_id: 2, category_id: 2, segmentation: { size: [6, 8], counts: [0, 6, 42] }, iscrowd: 1 },
]
const whole = { images, annotations, categories }
const opened = (json: unknown, wanted: Wanted, known?: readonly string[]) => {
  writeFileSync(join(root, 'list.json'), JSON.stringify(json))
  return openImages(join(root, 'list.json'), known, { images: join(root, 'images'), wanted })
}
const right = <A>(e: ReturnType<typeof opened>): A => {
  assert.ok(isRight(e), isLeft(e) ? errorText(e.left) : '')
  return e.right as A
}
interface List {
  readonly samples: readonly { readonly label?: number; readonly labels?: readonly number[]; readonly mask?: never }[]
  readonly classes?: readonly string[]
  readonly leftOut: readonly string[]
}

test('categories are classes in the order of their ids, of an image, of several or of pixels', async () => {
  const one = right<List>(opened(whole, 'class'))
  assert.equal(
    [one.classes, one.samples.map((s) => s.label), one.leftOut],
    [['cat', 'dog'], [1, 0], ['image without an annotation']],
  )
  const several = right<List>(
    opened({ ...whole, annotations: [...annotations, { ...annotations[0], id: 3, category_id: 2 }] }, 'classes'),
  )
  assert.equal(
    several.samples.map((s) => s.labels),
    [[1, 0], [0], []],
  )
  const masks = right<List>(opened(whole, 'masks'))
  assert.equal(masks.classes, ['background', 'cat', 'dog'])
  const pixels = await Promise.all(
    masks.samples.map(async (s) => [...(await labelsOf(s.mask!, { depth: 8, mostPixels: 48 })).pixels]),
  )
  assert.equal(
    pixels[1],
    Array.from({ length: 48 }, (_, i) => (i % 8 === 0 ? 1 : 0)),
  )
  assert.equal([...new Set(pixels[0])].sort(), [0, 2])
  assert.equal(pixels[2], Array<number>(48).fill(0))
  await labelsOf(masks.samples[0]!.mask!, { depth: 8, mostPixels: 47 }).then(
    () => assert.unreachable(),
    (e: Error) => assert.match(e.message, /the annotations of .*a\.png.* declare 8 x 6 pixels; the limit is 47/),
  )
})

test('labels follow the class names of weights; the identity of the data has the shapes', () => {
  const known = ['background', 'dog', 'bird', 'cat']
  assert.equal(
    right<List>(opened(whole, 'masks', known)).samples.map((s) =>
      (s.mask as never as { shapes: Shape[] }).shapes.map((x) => x.label),
    ),
    [[1], [3], []],
  )
  const lacking = opened(whole, 'class', ['cat', 'bird'])
  assert.match(isLeft(lacking) ? errorText(lacking.left) : 'nothing', /unknown class dog; allowed: cat, bird/)
  const contentOf = (json: unknown): string => {
    const content = imagesContent(right(opened(json, 'masks')))
    return isRight(content) ? content.right : ''
  }
  assert.is(contentOf(whole), contentOf(whole))
  assert.not.equal(contentOf(whole), contentOf({ ...whole, annotations: annotations.slice(1) }))
})

test('each fault is refused by its place', () => {
  const [first, second] = annotations
  const withFirst = (o: object): unknown => ({ ...whole, annotations: [{ ...first, ...o }, second] })
  const refusals: readonly (readonly [unknown, RegExp])[] = [
    [{ images, annotations }, /categories: it is missing; COCO needs images, annotations and categories/],
    [{ ...whole, images: {} }, /images: it is not a list/],
    [{ ...whole, images: [1] }, /images\[0\]: it is not an object/],
    [{ ...whole, images: [{ id: 1, width: 8, height: 6 }] }, /images\[0\] \(id 1\): file_name is missing; allowed: a text/],
    [{ ...whole, images: [...images, images[0]] }, /images\[3\] \(id 1\): its id is also that of images\[0\] \(id 1\)/],
    [{ ...whole, images: [{ ...images[0], width: 0 }] }, /images\[0\] \(id 1\): width is 0; allowed: pixels from 1 on/],
    [
      { ...whole, images: images.map((i) => ({ ...i, file_name: 'z.png' })) },
      /images\[0\] \(id 1\): .*z\.png cannot be read; check --images/,
    ],
    [{ ...whole, categories: [{ id: 2 }] }, /categories\[0\] \(id 2\): name is missing/],
    [{ ...whole, categories: [...categories, { id: 9, name: 'cat' }] }, /categories: two are named 'cat'/],
    [withFirst({ id: 'x' }), /annotations\[0\]: id is "x"; allowed: a whole number/],
    [withFirst({ image_id: 99 }), /annotations\[0\] \(id 1\): image_id 99 is no id of images/],
    [withFirst({ category_id: 5 }), /annotations\[0\] \(id 1\): category_id 5 is no id of categories/],
    [
      withFirst({ segmentation: undefined }),
      /annotations\[0\] \(id 1\): segmentation is missing; a model with a label per pixel needs/,
    ],
    [withFirst({ segmentation: [] }), /annotations\[0\] \(id 1\): segmentation is empty/],
    [withFirst({ segmentation: [[0, 0, 1, 1]] }), /polygon 0: it is not a list of x and y of at least 3 points/],
    [withFirst({ segmentation: [[0, 0, 1, 1, 2, 2, 3]] }), /polygon 0: it is not a list of x and y/],
    [withFirst({ segmentation: [[0, 0, 9.5, 0, 0, 6]] }), /polygon 0: point 1 has x 9\.5, outside of the image of 8 x 6 pixels/],
    [withFirst({ segmentation: [[0, 0, 8, 0, 0, -2]] }), /polygon 0: point 2 has y -2, outside/],
    [
      withFirst({ segmentation: { size: [8, 6], counts: [48] } }),
      /its run lengths have the size \[8,6\], but the image has \[6,8\]/,
    ],
    [withFirst({ segmentation: { size: [6, 8], counts: [40] } }), /its run lengths have 40 pixels, but the image has 48/],
    [withFirst({ segmentation: { size: [6, 8], counts: [50, -2] } }), /its counts are not a list of whole numbers from 0 on/],
    [
      withFirst({ segmentation: { size: [6, 8], counts: 'ppp' } }),
      /annotations\[0\] \(id 1\): its counts end or have an illegal character/,
    ],
  ]
  for (const [json, words] of refusals) {
    const r = opened(json, 'masks')
    assert.match(isLeft(r) ? errorText(r.left) : 'nothing', words)
  }
  const both = opened({ ...whole, annotations: [...annotations, { ...second, id: 3, image_id: 1 }] }, 'class')
  assert.match(
    isLeft(both) ? errorText(both.left) : 'nothing',
    /images\[0\] \(id 1\): it has the categories cat, dog, but the model takes one class per image; for several, use --loss bce-with-logits/,
  )
  const many = { ...whole, categories: Array.from({ length: 256 }, (_, id) => ({ id, name: `c${id}` })) }
  const tooMany = opened(many, 'masks')
  assert.match(isLeft(tooMany) ? errorText(tooMany.left) : 'nothing', /it has 256 categories; masks have at most 255/)
})

test.run()
