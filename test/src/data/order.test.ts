// Orders of samples: each once an epoch, a function of seed and epoch alone; parts without a common sample.
import { getOrElse } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { chosen, orderOf, orderOfSteps, type Part } from '../../../src/data/order'
import { randomOf } from '../../../src/data/random'

const all = (n: number, parts: readonly Part[] = []): Uint32Array =>
  getOrElse((e: string): Uint32Array => {
    throw new Error(e)
  })(chosen(n, parts))
const sorted = (list: Iterable<number>): number[] => [...list].sort((a, b) => a - b)

test('an epoch has each sample once, whatever the batch, and no two epochs the same order', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 400 }), fc.nat(1e6), fc.nat(50), (n, seed, epoch) => {
      const order = orderOf(all(n), seed)
      const places = Array.from({ length: n }, (_, i) => order.at(epoch * n + i))
      assert.equal(sorted(places.map((p) => p.index)), sorted(all(n)))
      assert.ok(places.every((p) => p.epoch === epoch))
    }),
    { numRuns: 60 },
  )
  const order = orderOf(all(100), 3)
  const epoch = (e: number): number[] => Array.from({ length: 100 }, (_, i) => order.at(e * 100 + i).index)
  assert.not.equal(epoch(0), epoch(1))
  assert.not.equal(
    epoch(0),
    Array.from({ length: 100 }, (_, i) => i),
  )
})

test('a position has the same sample from any starting position', () => {
  const whole = orderOfSteps(orderOf(all(37), 9), 1, 60, 5)
  for (const first of [2, 8, 31, 60])
    assert.equal(orderOfSteps(orderOf(all(37), 9), first, 61 - first, 5), whole.slice((first - 1) * 5))
  const back = orderOf(all(37), 9)
  back.at(200)
  assert.is(back.at(3).index, whole[3])
  assert.not.equal(orderOfSteps(orderOf(all(37), 10), 1, 60, 5), whole)
})

test('a balanced epoch has each class equally often, up to one; a class repeats no sample before all were drawn', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(4), { minLength: 1, maxLength: 120 }), fc.nat(1e6), fc.nat(50), (labels, seed, epoch) => {
      const n = labels.length
      const order = orderOf(all(n), seed, labels)
      assert.is(order.length, n)
      const drawn = Array.from({ length: n }, (_, i) => order.at(epoch * n + i).index)
      const classes = [...new Set(labels)]
      for (const c of classes) {
        const own = drawn.filter((i) => labels[i] === c)
        const size = labels.filter((l) => l === c).length
        assert.ok([Math.floor(n / classes.length), Math.ceil(n / classes.length)].includes(own.length))
        const times = new Map<number, number>()
        for (const i of own) times.set(i, (times.get(i) ?? 0) + 1)
        assert.ok([...times.values()].every((t) => t <= Math.ceil(own.length / size)))
        assert.is(times.size, Math.min(size, own.length))
      }
    }),
    { numRuns: 60 },
  )
  // Half of the large class in one epoch, other samples in the next; from any position on.
  const labels = Array.from({ length: 40 }, (_, i) => (i < 36 ? 0 : 1))
  const order = orderOf(all(40), 5, labels)
  const epoch = (e: number): string => String(Array.from({ length: 40 }, (_, i) => order.at(e * 40 + i).index))
  assert.is(new Set([0, 1, 2].map(epoch)).size, 3)
  assert.is(orderOf(all(40), 5, labels).at(97).index, order.at(97).index)
  const seen = new Set(Array.from({ length: 400 }, (_, i) => order.at(i).index))
  assert.is(seen.size, 40)
  // Only the chosen samples count.
  const part = orderOf(Uint32Array.of(0, 1, 38), 5, labels)
  assert.equal(sorted(Array.from({ length: 30 }, (_, i) => part.at(i).index)).filter((i) => i === 38).length >= 10, true)
})

test('without a seed, samples are in order', () => {
  assert.equal([...orderOfSteps(orderOf(all(5), undefined), 1, 4, 2)], [0, 1, 2, 3, 4, 0, 1, 2])
  assert.equal([...orderOfSteps(orderOf(all(5, [{ kind: 'list', samples: [4, 1] }]), undefined), 1, 2, 2)], [4, 1, 4, 1])
})

test('each sample is in one part of a split, and in one shard', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 500 }), fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(99), (n, at, seed) => {
      const part = (from: number, to: number): Uint32Array => all(n, [{ kind: 'share', from, to, seed }])
      const [one, two] = [part(0, at), part(at, 1)]
      assert.equal(sorted([...one, ...two]), sorted(all(n)))
      assert.ok(Math.abs(one.length - at * n) <= 0.5 + 1e-9)
    }),
    { numRuns: 60 },
  )
  const shards = [0, 1, 2].map((index) => all(11, [{ kind: 'shard', index, of: 3 }]))
  assert.equal(sorted(shards.flatMap((s) => [...s])), sorted(all(11)))
  assert.equal(
    shards.map((s) => s.length),
    [4, 4, 3],
  )
})

test('each part selects from the samples that earlier parts left', () => {
  const one = all(100, [{ kind: 'share', from: 0, to: 0.5, seed: 1 }])
  const two = all(100, [
    { kind: 'share', from: 0, to: 0.5, seed: 1 },
    { kind: 'list', samples: [2, 0] },
  ])
  assert.equal([...two], [one[2], one[0]])
  assert.equal(chosen(3, [{ kind: 'list', samples: [3] }]), {
    _tag: 'Left',
    left: 'the list contains sample 3, but there are 3 samples (counted from 0)',
  })
})

test('numbers are spread evenly, and no two words share them', () => {
  const counts = new Array<number>(10).fill(0)
  const random = randomOf(1, 2, 3)
  for (let i = 0; i < 20_000; i++) counts[Math.floor(random() * 10)]!++
  assert.ok(
    counts.every((n) => n > 1850 && n < 2150),
    String(counts),
  )
  const firsts = new Set(Array.from({ length: 5000 }, (_, i) => randomOf(7, i)()))
  assert.ok(firsts.size > 4990)
  assert.is.not(randomOf(1, 2)(), randomOf(2, 1)())
  assert.is.not(randomOf(2 ** 32 + 1)(), randomOf(1)())
})

test('ranks that share batches read the samples of one process, each once', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 90 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 4 }),
      (n, of, batch) => {
        const order = orderOf(all(n), 5)
        const whole = orderOfSteps(order, 2, 6, batch * of)
        const shares = Array.from({ length: of }, (_, rank) => orderOfSteps(order, 2, 6, batch, { rank, of }))
        const joined = Array.from({ length: 6 }, (_, s) =>
          shares.flatMap((own) => [...own.slice(s * batch, (s + 1) * batch)]),
        ).flat()
        assert.equal(joined, [...whole])
      },
    ),
    { numRuns: 60 },
  )
})

test.run()
