// Physical pages for residencies: never two owners, as many as are held at the worst moment, few runs.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { assignPages, peakOf, withPagesAhead } from '../../staging/plan/pages'
import type { UnpagedResidency, Residency } from '../../staging/plan/plan'

const residency = (storage: number, pages: number, acquire: number, release: number, from = 0): UnpagedResidency => ({
  storage,
  from,
  to: from + pages,
  acquire,
  release,
})
const runsOf = (rs: readonly Residency[], storage: number) => rs.find((r) => r.storage === storage)!.runs

test('the worked example: a takes pages 0-1, b 2-3, a is released, c takes 0-1', () => {
  const { residencies, peakPages } = assignPages([residency(0, 2, 0, 3), residency(1, 2, 1, 9), residency(2, 2, 3, 9)], 9)
  assert.is(peakPages, 4)
  assert.equal(runsOf(residencies, 0), [{ page: 0, count: 2 }])
  assert.equal(runsOf(residencies, 1), [{ page: 2, count: 2 }])
  assert.equal(runsOf(residencies, 2), [{ page: 0, count: 2 }])
})

test('pages that are released at a point serve an acquire at the same point', () => {
  assert.is(peakOf([residency(0, 5, 0, 4), residency(1, 5, 4, 6)], 6), 5)
  assert.is(peakOf([residency(0, 5, 0, 5), residency(1, 5, 4, 6)], 6), 10)
  assert.is(assignPages([residency(0, 5, 0, 4), residency(1, 5, 4, 6)], 6).peakPages, 5)
})

test('the smallest run of pages that is large enough is used; otherwise the largest, completed from others', () => {
  // Pool of 9, taken in this order: a 0-2, b 3, c 4-5, d 6, e 7-8. Then a and c go.
  const held = [residency(0, 3, 0, 5), residency(1, 1, 1, 9), residency(2, 2, 2, 5), residency(3, 1, 3, 9), residency(4, 2, 4, 9)]
  const fits = assignPages([...held, residency(5, 2, 5, 9)], 9).residencies
  assert.equal(runsOf(fits, 5), [{ page: 4, count: 2 }])
  const split = assignPages([...held, residency(5, 4, 5, 9)], 9).residencies
  assert.equal(runsOf(split, 5), [
    { page: 0, count: 3 },
    { page: 4, count: 1 },
  ])
})

test('of residencies that begin together, the longest is placed first, so that released pages leave no holes', () => {
  const { residencies } = assignPages(
    [residency(0, 2, 0, 3), residency(1, 1, 0, 9), residency(2, 2, 0, 5), residency(3, 4, 5, 9)],
    9,
  )
  assert.equal(
    [1, 2, 0].map((s) => runsOf(residencies, s)[0]!.page),
    [0, 1, 3],
  )
  assert.equal(runsOf(residencies, 3), [{ page: 1, count: 4 }])
})

test('freed neighbours become one run again', () => {
  const { residencies } = assignPages(
    [residency(0, 1, 0, 2), residency(1, 1, 0, 4), residency(2, 1, 0, 3), residency(3, 3, 4, 6)],
    6,
  )
  assert.equal(runsOf(residencies, 3), [{ page: 0, count: 3 }])
})

test('residencies are returned in order of acquire, otherwise unchanged', () => {
  const unpaged = [
    residency(1, 2, 5, 7),
    { ...residency(0, 1, 0, 3), swapOut: { start: 2 }, tierOffset: 4096 },
    { ...residency(0, 1, 4, 6), swapIn: { ready: 5, from: 'tier' as const } },
  ]
  const { residencies } = assignPages(unpaged, 8)
  assert.equal(
    residencies.map((r) => r.acquire),
    [0, 4, 5],
  )
  assert.equal(
    residencies.map(({ runs: _, ...r }) => r),
    [unpaged[1], unpaged[2], unpaged[0]],
  )
})

const END = 40
const unpagedResidencies: fc.Arbitrary<readonly UnpagedResidency[]> = fc
  .array(
    fc.record({
      pages: fc.integer({ min: 1, max: 9 }),
      acquire: fc.nat({ max: END - 1 }),
      length: fc.integer({ min: 1, max: 15 }),
    }),
    { minLength: 1, maxLength: 60 },
  )
  .map((list) => list.map((d, i) => residency(i, d.pages, d.acquire, Math.min(END, d.acquire + d.length))))

test('no page has two owners, runs hold their values, and the pool equals the peak', () => {
  let [runs, count] = [0, 0]
  fc.assert(
    fc.property(unpagedResidencies, (ds) => {
      const { residencies, peakPages } = assignPages(ds, END)
      const held = Array.from({ length: END }, (_, p) =>
        ds.filter((d) => d.acquire <= p && p < d.release).reduce((n, d) => n + d.to - d.from, 0),
      )
      assert.is(peakPages, Math.max(...held), 'the maximum over all calls')
      const owner = new Map<string, number>()
      residencies.forEach((r, i) => {
        assert.is(
          r.runs.reduce((n, x) => n + x.count, 0),
          r.to - r.from,
        )
        for (const run of r.runs)
          for (let page = run.page; page < run.page + run.count; page++) {
            assert.ok(page >= 0 && page < peakPages, `page ${page} of a pool of ${peakPages}`)
            for (let p = r.acquire; p < r.release; p++) {
              const key = `${page}@${p}`
              assert.is(owner.get(key), undefined, `page ${page} has two owners at ${p}`)
              owner.set(key, i)
            }
          }
        runs += r.runs.length
      })
      count += residencies.length
    }),
    { numRuns: 200, seed: 21 },
  )
  assert.ok(runs <= 1.6 * count, `${(runs / count).toFixed(2)} runs for each residency of 1 to 9 pages`)
})

test('large pools of many residencies take no quadratic time', () => {
  const many = Array.from({ length: 20_000 }, (_, i) => residency(i, 1 + (i % 5), i, i + 50))
  const started = process.cpuUsage().user
  assert.is(assignPages(many, 20_100).residencies.length, 20_000)
  assert.ok((process.cpuUsage().user - started) / 1e6 < 2, `${(process.cpuUsage().user - started) / 1e6} s`)
})

/** The pages of a storage that begins the step, loaded again for the next step of this end. */
const loadedAt = (r: UnpagedResidency, acquire: number, end: number): UnpagedResidency => ({
  ...r,
  acquire,
  release: end,
  swapIn: { ready: end, from: 'source' },
})

test('data for the next step are loaded into its first pages, later if another value is there', () => {
  const first = residency(0, 1, 0, 1)
  const loaded = loadedAt(first, 5, 10)
  const short = withPagesAhead([first, residency(1, 1, 0, 2), residency(2, 1, 1, 5), loaded], 10)!
  assert.is(short.at(-1)!.acquire, 5)
  // At point 1 only the page of the first residency is free.
  const long = withPagesAhead([first, residency(1, 1, 0, 2), residency(2, 1, 1, 8), loaded], 10)!
  assert.is(long.at(-1)!.acquire, 8)
  const { residencies, peakPages } = assignPages(long, 10)
  const [a, b] = residencies.filter((r) => r.storage === 0)
  assert.equal(a!.runs, b!.runs)
  assert.is(peakPages, 2)
  assert.is(withPagesAhead([first, residency(1, 1, 0, 2), residency(2, 1, 1, 10), loaded], 10), null)
})

test('no page has two owners beside data for the next step', () => {
  const end = 20
  const lives = fc.tuple(fc.nat(end - 2), fc.integer({ min: 1, max: end }), fc.integer({ min: 1, max: 4 }))
  const pairs = fc.tuple(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 8, max: end - 1 }), fc.integer({ min: 1, max: 4 }))
  let assigned = 0
  fc.assert(
    fc.property(fc.array(lives, { maxLength: 15 }), fc.array(pairs, { minLength: 1, maxLength: 4 }), (others, ahead) => {
      const crossing = ahead.flatMap(([release, acquire, pages], i) => {
        const first = residency(i, pages, 0, release)
        return [first, loadedAt(first, acquire, end)]
      })
      const rest = others.map(([from, held, pages], i) => residency(10 + i, pages, from, Math.min(end, from + held)))
      const delayed = withPagesAhead([...crossing, ...rest], end)
      if (!delayed) return
      assigned++
      const { residencies, peakPages } = assignPages(delayed, end)
      assert.is(peakPages, peakOf(delayed, end))
      const owner = new Map<string, number>()
      for (const r of residencies)
        for (const { page, count } of r.runs)
          for (let p = page; p < page + count; p++) {
            assert.ok(p < peakPages)
            for (let point = r.acquire; point < r.release; point++) {
              assert.not(owner.has(`${p} ${point}`))
              owner.set(`${p} ${point}`, r.storage)
            }
          }
      for (const i of ahead.keys()) {
        const [a, b] = residencies.filter((r) => r.storage === i)
        assert.equal(a!.runs, b!.runs)
        assert.ok(b!.acquire >= ahead[i]![1])
      }
    }),
    { numRuns: 500, seed: 2 },
  )
  assert.ok(assigned > 100, `${assigned}`)
})

test.run()
