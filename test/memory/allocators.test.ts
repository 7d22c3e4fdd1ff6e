// Run-time allocators: their held, wasted and unusable bytes, on requests by hand, on random ones and on real plans.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf, gib, mib } from '../../staging/core/bytes'
import { type Allocator, BestFit, chunksOf, Gtbm, VirtualAddressing } from '../../staging/memory/allocators/allocators'
import { allocatorNamed, mappingOf, replay } from '../../staging/memory/allocators/replay'
import { eventsOf, type Mobility, type Request, requestsOf } from '../../staging/memory/allocators/requests'
import { Space } from '../../staging/memory/allocators/space'
import { liveBytes } from '../../src/report/facts'
import type { Plan } from '../../staging/plan/plan'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const K = 512
const request = (id: number, kib: number, mobility: Mobility = 'movable', from = id, to = id + 1): Request => ({
  id,
  label: `r${id}`,
  bytes: kib * K,
  from,
  to,
  mobility,
  readers: 1,
})

test('space: best fit from either end; neighbours join again', () => {
  const s = new Space(10)
  const [a, b, c] = [s.bestFit(4)!, s.bestFit(4)!, s.bestFit(2)!]
  s.free(a)
  s.free(c)
  assert.equal(s.bestFit(2), { at: 8, bytes: 2 }, 'the smaller of two blocks')
  assert.equal(s.bestFit(3, 'high'), { at: 1, bytes: 3 })
  s.free({ at: 1, bytes: 3 })
  s.free(b)
  assert.equal(s.blocks, [{ at: 0, bytes: 8 }])
  assert.is(s.firstFit(9, 'low'), undefined)
  assert.is(s.firstFit(9, 'high'), undefined)
  assert.equal([s.firstFit(2, 'low')!.at, s.firstFit(2, 'high')!.at], [0, 6])
})

test('best-fit reuses and splits its blocks; it grows if holes are too small, and more without coalescing', () => {
  for (const [coalesce, held] of [
    [true, 8],
    [false, 16],
  ] as const) {
    const pool = new BestFit({ coalesce })
    const [whole, left, right, again] = [request(0, 8), request(1, 4), request(2, 4), request(3, 8)]
    pool.allocate(whole)
    pool.free(whole)
    pool.allocate(left)
    pool.allocate(right)
    pool.free(left)
    pool.free(right)
    pool.allocate(again)
    assert.is(pool.heldBytes, held * K, `coalesce ${coalesce}`)
  }
})

test('va holds whole chunks, maps every request anew, and takes small ones from a pool beside', () => {
  const va = new VirtualAddressing(10 * K)
  const [a, b, small] = [request(0, 11), request(1, 20), request(2, 1)]
  va.allocate(a)
  assert.equal([va.heldBytes, chunksOf(a, 10 * K)], [20 * K, 2])
  va.free(a)
  va.allocate(b)
  assert.equal([va.heldBytes, chunksOf(b, 10 * K)], [20 * K, 2])
  va.allocate(small)
  assert.equal([va.heldBytes, chunksOf(small, 10 * K)], [21 * K, 0])
})

test('gtbm: movable low, temporary high, reclaimed beside; a pool that is too small names the request', () => {
  const pool = new Gtbm(10 * K)
  pool.allocate(request(0, 4, 'movable'))
  pool.allocate(request(1, 4, 'temporary'))
  assert.equal(pool.gapBytes, 2 * K)
  pool.allocate(request(2, 5, 'reclaimed'))
  assert.is(pool.heldBytes, 15 * K)
  assert.not.ok(pool.allocate(request(3, 3, 'movable')))
})

const lives = fc.array(
  fc.record({
    kib: fc.integer({ min: 1, max: 40 }),
    from: fc.nat(30),
    length: fc.integer({ min: 1, max: 12 }),
    mobility: fc.constantFrom<Mobility>('movable', 'temporary', 'reclaimed'),
  }),
  { minLength: 1, maxLength: 40 },
)

test('no allocator holds less than the requests, and all returned memory is free', () => {
  fc.assert(
    fc.property(lives, (drafts) => {
      const requests = drafts.map((d, id) => request(id, d.kib, d.mobility, d.from, d.from + d.length))
      const all: readonly Allocator[] = [
        new BestFit(),
        new BestFit({ coalesce: false }),
        new VirtualAddressing(8 * K),
        new Gtbm(2000 * K),
      ]
      for (const allocator of all) {
        let asked = 0
        for (const e of eventsOf(requests)) {
          if (e.isAllocation) allocator.allocate(e.request)
          else allocator.free(e.request)
          asked += (e.isAllocation ? 1 : -1) * e.request.bytes
          assert.ok(allocator.heldBytes >= asked)
        }
        assert.is(asked, 0)
        assert.is(
          allocator.freeBlocks.reduce((n, b) => n + b, 0),
          allocator.heldBytes,
        )
      }
    }),
  )
})

const planOf = (
  name: string,
  input: readonly [number, number, number, number],
  strategy = 'in-core',
  budgetBytes = gib(64),
): Plan => {
  const plan = compile(trainingGraph(name, input), { strategy, budgetBytes, machine })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  return plan.right
}

test('real plans: requests cover the live bytes, and no replay needs less', () => {
  const inCore = planOf('resnet18', [16, 3, 128, 128])
  const swapped = planOf('resnet18', [16, 3, 128, 128], 'swap:greedy', bytesOf(Math.round(inCore.peakPages * 0.75)))
  for (const plan of [inCore, swapped]) {
    const most = eventsOf(requestsOf(plan)).reduce(
      (a, e) => ({
        now: a.now + (e.isAllocation ? 1 : -1) * e.request.bytes,
        most: Math.max(a.most, a.now + (e.isAllocation ? e.request.bytes : 0)),
      }),
      { now: 0, most: 0 },
    )
    assert.is(most.now, 0)
    for (const name of ['pages', 'best-fit', 'va:2MiB', 'va:40MiB', 'gtbm']) {
      const r = replay(plan, name)
      assert.is(r.requestedBytes, most.most)
      if (name !== 'pages') assert.ok(r.peakBytes >= r.requestedBytes, name)
      for (const u of [r.worstUnusable, r.meanUnusable]) assert.ok(u >= 0 && u <= 1)
      assert.is(r.mappingSeconds > 0, name === 'va:2MiB' || name === 'va:40MiB')
      // Mapping is on the step's clock: an allocator that maps no chunk takes the time of pages.
      const [bare, mapped] = [undefined, mappingOf(plan, name)].map((m) => simulate(plan, machine.link, m).makespanSeconds)
      assert.ok(mapped! >= bare! && mapped! <= bare! + r.mappingSeconds + 1e-9, name)
      assert.is(mapped! > bare!, r.mappingSeconds > 0, name)
    }
  }
})

test('pages hold at most 1.01 of the live bytes from a GiB on', () => {
  for (const [name, input] of [
    ['resnet50', [16, 3, 224, 224]],
    ['densenet121', [12, 3, 224, 224]],
    ['vgg16', [8, 3, 224, 224]],
  ] as const) {
    const plan = planOf(name, input)
    const peak = bytesOf(plan.peakPages)
    assert.ok(peak >= gib(1), `${name} is too small to tell`)
    assert.ok(peak <= 1.01 * liveBytes(plan), `${name}: ${peak / liveBytes(plan)}`)
  }
})

test('names: four allocators, chunks of a size', () => {
  for (const name of ['pages', 'best-fit', 'gtbm', 'va:40MiB', 'va:2097152']) assert.ok(isRight(allocatorNamed(name)), name)
  for (const name of ['va', 'va:', 'va:forty', 'va:1', 'buddy']) assert.ok(isLeft(allocatorNamed(name)), name)
  const va = allocatorNamed('va:40MiB')
  assert.is(isRight(va) && va.right.chunkBytes, mib(40))
})

test.run()
