// Mixed samples: the share of another one, its choice, and the resulting pixels, classes and masks.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { betaOf, type Mix, mixed, mixFor } from '../../../src/data/mix'
import { randomOf } from '../../../src/data/random'

test('shares are Beta distributed: mean one half, variance 1 / (4·(2x + 1))', () => {
  for (const x of [0.1, 0.2, 1, 2.5]) {
    const random = randomOf(9, 1)
    const all = Array.from({ length: 20_000 }, () => betaOf(x, random))
    const mean = all.reduce((s, v) => s + v, 0) / all.length
    const variance = all.reduce((s, v) => s + (v - mean) ** 2, 0) / all.length
    assert.ok(all.every((v) => v >= 0 && v <= 1))
    assert.ok(Math.abs(mean - 0.5) < 0.01, `${x}: ${mean}`)
    assert.ok(Math.abs(variance * 4 * (2 * x + 1) - 1) < 0.04, `${x}: ${variance}`)
  }
})

test('how a sample is mixed follows from seed, epoch and sample; both ways as often', () => {
  const wish = { mixup: true, cutmix: 0.5 } as const
  const mixes = Array.from({ length: 1000 }, (_, i) => mixFor(wish, 3, 1, i, 7)!)
  assert.equal(mixFor(wish, 3, 1, 5, 7), mixes[5])
  assert.not.equal(mixFor(wish, 3, 2, 5, 7), mixes[5])
  assert.not.equal(mixFor(wish, 4, 1, 5, 7), mixes[5])
  const cut = mixes.filter((m) => m.kind === 'cutmix').length
  assert.ok(cut > 430 && cut < 570, String(cut))
  assert.equal([...new Set(mixes.map((m) => m.other))].sort(), [0, 1, 2, 3, 4, 5, 6])
  assert.is(mixFor({ mixup: true }, 3, 1, 5, 7)!.kind, 'mixup')
  assert.is(mixFor({ cutmix: true }, 3, 1, 5, 7)!.kind, 'cutmix')
  assert.is(mixFor({ flip: 'both', mixup: false }, 3, 1, 5, 7), undefined)
})

const size = { width: 10, height: 8 }
const one = { pixels: new Uint8Array(240).fill(100), target: Float32Array.of(1, 0, 0) }
const two = { pixels: new Uint8Array(240).fill(200), target: Float32Array.of(0, 0, 1) }

test('mixup blends pixels and classes by one share', () => {
  const mix: Mix = { kind: 'mixup', other: 1, share: 0.75 }
  const m = mixed(one, two, mix, size, false)
  assert.equal(
    [...m.pixels],
    Array.from({ length: 240 }, () => 125),
  )
  assert.equal([...m.target], [0.75, 0, 0.25])
  const floats = mixed({ pixels: Float32Array.of(1, 2) }, { pixels: Float32Array.of(3, 2) }, mix, { width: 2, height: 1 }, false)
  assert.equal([...floats.pixels], [1.5, 2])
})

test('cutmix takes a rectangle, and classes by its area, also where it reaches beyond the border', () => {
  for (const [share, across, down] of [
    [0.75, 0.5, 0.5],
    [0.5, 0.95, 0],
    [0, 0.5, 0.5],
    [0.9999, 0.2, 0.2],
  ] as const) {
    const m = mixed(one, two, { kind: 'cutmix', other: 1, share, across, down }, size, false)
    const taken = [...m.pixels].filter((p) => p === 200).length / 3
    assert.ok([...m.pixels].every((p, i) => p === m.pixels[i - (i % 3)]))
    assert.ok(Math.abs(m.target[2]! - taken / 80) < 1e-6 && Math.abs(m.target[0]! + m.target[2]! - 1) < 1e-6)
    assert.ok(taken <= 80 * (1 - share) + 1e-9)
  }
  const [labels, others] = [new Uint8Array(80).fill(1), new Uint8Array(80).fill(2)]
  const mix: Mix = { kind: 'cutmix', other: 1, share: 0.5, across: 0.3, down: 0.6 }
  const masks = mixed({ ...one, target: labels }, { ...two, target: others }, mix, size, true)
  assert.ok(masks.target.every((l, i) => (l === 2) === (masks.pixels[3 * i] === 200)))
  assert.ok(masks.target.includes(1) && masks.target.includes(2))
})

test.run()
