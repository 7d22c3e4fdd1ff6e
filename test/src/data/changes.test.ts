// Changes of images beside PIL, scipy and colorsys (test/fixtures/make_augment.py); masks that follow; the random choices; refusals.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Augment, augmentProblem, jittered } from '../../../src/data/augment'
import { blurred, changedLabels, changedNumbers, changedPixels, changesFor, gaussianBlur } from '../../../src/data/changes'
import { turnHues } from '../../../src/data/greys'
import * as operations from '../../../src/data/randaugment'
import { randomOf } from '../../../src/data/random'
import { type Affine, affineWarp, elasticWarp, warpedLabels, warpedPixels } from '../../../src/data/warp'

type Values = readonly number[]
interface Moved {
  readonly image: Values
  readonly labels: Values
}
const expected = JSON.parse(readFileSync(join(__dirname, '../../fixtures/augment.json'), 'utf8')) as {
  readonly rgb: Values
  readonly labels: Values
  readonly colours: Readonly<Record<string, Values>>
  readonly positions: Readonly<Record<string, Moved>>
  readonly hue: Readonly<Record<string, Values>>
  readonly blur: Readonly<Record<string, Values>>
  readonly elastic: Moved & { readonly shift: number; readonly cells: number; readonly random: Values }
}
const SIZE = { height: 12, width: 17 }
const FILL = [120, 60, 200]
const rgb = Uint8Array.from(expected.rgb)
const labels = Uint8Array.from(expected.labels)
const farthest = (a: ArrayLike<number>, b: Values): number =>
  b.reduce((most, x, i) => Math.max(most, Math.abs(x - a[i]!)), a.length === b.length ? 0 : Number.POSITIVE_INFINITY)

const COLOURS: Readonly<Record<string, (n: number) => Uint8Array>> = {
  autocontrast: () => operations.autocontrast(rgb, 3),
  equalize: () => operations.equalize(rgb, 3),
  posterize: (n) => operations.posterize(rgb, n),
  solarize: (n) => operations.solarize(rgb, n),
  brightness: (n) => operations.brightness(rgb, n),
  colour: (n) => operations.colour(rgb, 3, n),
  contrast: (n) => operations.contrast(rgb, 3, n),
  sharpness: (n) => operations.sharpness(rgb, SIZE, 3, n),
}
for (const [name, values] of Object.entries(expected.colours))
  test(`${name} is that of PIL`, () => {
    const [kind, number] = name.split(' ')
    const found = COLOURS[kind!]!(Number(number))
    // Both round; sums in float and in double differ in the last place.
    assert.ok(farthest(found, values) <= 1, `${farthest(found, values)}`)
    const same = values.filter((x, i) => x === found[i]).length
    assert.ok(same >= 0.99 * values.length, `${same} of ${values.length}`)
  })

const POSITIONS: Readonly<Record<string, (...n: readonly number[]) => Affine>> = {
  shearX: (n) => operations.shearX(n!),
  shearY: (n) => operations.shearY(n!),
  shift: (x, y) => operations.shift(x!, y!),
  rotation: (n) => operations.rotation(SIZE, n!),
}
for (const [name, { image, labels: marks }] of Object.entries(expected.positions))
  test(`${name} is that of PIL, for the image and its labels`, () => {
    const [kind, ...numbers] = name.split(' ')
    const warp = affineWarp(SIZE, POSITIONS[kind!]!(...numbers.map(Number)))
    // PIL cuts off the fraction.
    assert.ok(farthest(warpedPixels(rgb, SIZE, 3, warp, FILL), image) <= 1)
    assert.equal([...warpedLabels(labels, SIZE, warp, 9)], marks)
  })

test('an elastic deformation is that of scipy, for the image and its labels', () => {
  const { shift, cells, random, image, labels: marks } = expected.elastic
  let at = 0
  const warp = elasticWarp(SIZE, shift, cells, () => random[at++]!)
  assert.is(at, random.length)
  assert.ok(farthest(warpedPixels(Float32Array.from(rgb), SIZE, 3, warp, FILL), image) < 1e-3)
  assert.equal([...warpedLabels(labels, SIZE, warp, 9)], marks)
  const moved = [...warp.xs].map((x, i) => Math.abs(x - 0.5 - (i % SIZE.width)))
  assert.ok(Math.max(...moved) <= shift * SIZE.height && Math.max(...moved) > 0.2)
})

test('hues are those of colorsys, and blurred pixels those of scipy', () => {
  for (const [turn, values] of Object.entries(expected.hue)) {
    const turned = Float32Array.from(rgb)
    turnHues(turned, Number(turn))
    assert.ok(farthest(turned, values) < 1e-3, turn)
  }
  for (const [sigma, values] of Object.entries(expected.blur)) {
    assert.ok(farthest(gaussianBlur(Float32Array.from(rgb), SIZE, 3, Number(sigma)), values) < 1e-3, sigma)
    assert.ok(farthest(gaussianBlur(rgb, SIZE, 3, Number(sigma)), values) <= 0.501, sigma)
  }
  // A blur wider than the image.
  assert.equal([...gaussianBlur(Uint8Array.of(7, 7), { width: 2, height: 1 }, 1, 5)], [7, 7])
})

test('the hue of jitter is drawn after the other factors, and only if it is set', () => {
  const of = (augment: Augment): readonly number[] => [...jittered(rgb, 3, augment, randomOf(1, 2))]
  assert.equal(of({ jitter: { brightness: 0.3, hue: 0 } }), of({ jitter: { brightness: 0.3 } }))
  assert.not.equal(of({ jitter: { hue: 0.3 } }), [...rgb])
  const grey = Uint8Array.of(10, 20, 30)
  assert.equal([...jittered(grey, 1, { jitter: { hue: 0.5 } }, randomOf(1, 2))], [10, 20, 30])
})

test('seed, epoch and sample determine all changes; no kind depends on another', () => {
  const changed = (augment: Augment, ...of: readonly [number, number, number]): readonly number[] => {
    const pixels = changedPixels(rgb, SIZE, 3, changesFor(augment, SIZE, 3, ...of), FILL)
    return [...blurred(pixels, SIZE, 3, augment, ...of)]
  }
  for (const augment of [{ elastic: true }, { randAugment: { count: 3 } }, { blur: [0.5, 3] }] as const) {
    assert.equal(changed(augment, 1, 2, 3), changed(augment, 1, 2, 3))
    const all = [changed(augment, 1, 2, 3), changed(augment, 1, 2, 4), changed(augment, 1, 3, 3), changed(augment, 2, 2, 3)]
    assert.is(new Set(all.map(String)).size, 4, JSON.stringify(augment))
  }
  const warpOf = (augment: Augment) => changesFor(augment, SIZE, 3, 1, 2, 3)[0]
  assert.equal(warpOf({ elastic: true, randAugment: true }), warpOf({ elastic: true }))
  const drawn = (count: number, index: number) =>
    changesFor({ randAugment: { count } }, SIZE, 3, 1, 2, index).map((c) => (c.kind === 'positions' ? [...c.warp.xs] : c.kind))
  for (let index = 0; index < 10; index++) assert.equal(drawn(5, index).slice(0, drawn(2, index).length), drawn(2, index))
})

test('all operations are drawn equally often, to both sides', () => {
  const COUNT = 14_000
  let [positions, colours] = [0, 0]
  for (let i = 0; i < COUNT; i++)
    for (const { kind } of changesFor({ randAugment: { count: 1 } }, { width: 2, height: 2 }, 3, 1, 0, i))
      kind === 'positions' ? positions++ : colours++
  // 5 of 14 move pixels, 8 change colours, one changes nothing.
  assert.ok(Math.abs(positions / COUNT - 5 / 14) < 0.015, String(positions))
  assert.ok(Math.abs(colours / COUNT - 8 / 14) < 0.015, String(colours))
  const turns = Array.from(
    { length: 400 },
    (_, i) => changesFor({ randAugment: { count: 1, strength: 30 } }, SIZE, 3, 9, 0, i)[0],
  )
  const shifts = turns.flatMap((t) => (t?.kind === 'positions' ? [Math.round((t.warp.xs[0]! - 0.5) * 100)] : []))
  assert.ok(shifts.some((s) => s > 0) && shifts.some((s) => s < 0))
})

test('labels follow the changes of positions, numbers are interpolated, and neither changes with colours', () => {
  const size = { width: 24, height: 20 }
  // Bands of equal labels, and an image of the same values.
  const marks = Uint8Array.from({ length: 480 }, (_, i) => 20 * Math.floor((i % 24) / 6))
  for (let index = 0; index < 20; index++) {
    const changes = changesFor({ elastic: true, randAugment: { count: 3, strength: 20 } }, size, 1, 4, 0, index)
    const moves = changes.filter(({ kind }) => kind === 'positions')
    const moved = changedLabels(marks, size, changes, 200)
    assert.equal([...moved], [...changedLabels(marks, size, moves, 200)])
    const pixels = changedPixels(marks, size, 1, moves, [200])
    const near = [...pixels].filter((p, i) => Math.abs(p - moved[i]!) <= 20).length
    assert.ok(near > 0.9 * pixels.length, `${index}: ${near}`)
    assert.equal([...changedNumbers(marks, size, 1, changes)], [...changedPixels(marks, size, 1, moves, [0])])
  }
})

test('values out of range are refused with those that are allowed', () => {
  const refusals: readonly (readonly [unknown, RegExp])[] = [
    [{ jitter: { hue: 0.6 } }, /jitter\.hue is not allowed; allowed: .* hue, from 0 to 0\.5/],
    [{ blur: [2, 1] }, /augment\.blur is \[2,1\]; allowed: true, or two numbers of pixels/],
    [{ blur: 3 }, /augment\.blur is 3; allowed: true, or two numbers/],
    [{ elastic: { shift: 0.7 } }, /augment\.elastic\.shift is 0\.7; allowed: numbers from 0 to 0\.5/],
    [{ elastic: { cells: 1.5 } }, /augment\.elastic\.cells is 1\.5; allowed: whole numbers from 1 to 64/],
    [{ elastic: 0.1 }, /augment\.elastic is 0\.1; allowed: true or an object/],
    [{ randAugment: { strength: 31 } }, /augment\.randAugment\.strength is 31; allowed: numbers from 0 to 30/],
    [{ randAugment: { magnitude: 3 } }, /unknown option augment\.randAugment\.magnitude; allowed: count, strength/],
  ]
  for (const [augment, words] of refusals) assert.match(augmentProblem(augment as Augment) ?? 'nothing', words)
  for (const augment of [{ blur: [1, 1] }, { blur: true }, { elastic: true }, { randAugment: { count: 1 } }] as const)
    assert.is(augmentProblem(augment), undefined)
})

test.run()
