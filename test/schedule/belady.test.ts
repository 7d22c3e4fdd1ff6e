// Which parts leave: farthest next use first, no more than the budget demands; greedy takes a prefix of the activations.
import { isLeft } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Candidate } from '../../staging/schedule/candidate'
import { swapAll, swapUntil } from '../../staging/schedule/belady'
import { canSwap, leastPages, type PlannedStays } from '../../staging/schedule/stays'
import { swapGreedy } from '../../staging/literature/greedy'
import { machines } from '../../staging/sim/machines'
import { Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'
import { callsOf, plannedStays } from './steps'

const ones = (n: number) => callsOf(new Array<number>(n).fill(1))
const leaving = (planned: readonly PlannedStays[]): boolean[][] => planned.map((t) => [...t.swapped])

test('the worked example: used a b c b a in two pages, a leaves', () => {
  const planned = [
    plannedStays(0, 1, [
      [0, 0],
      [4, 4],
    ]),
    plannedStays(1, 1, [
      [1, 1],
      [3, 3],
    ]),
    plannedStays(2, 1, [[2, 2]]),
  ]
  assert.equal(leaving(swapUntil(planned, ones(5), 2)), [[true], [false], []])
  assert.equal(leaving(swapUntil(planned, ones(5), 1)), [[true], [true], []])
  assert.equal(leaving(swapUntil(planned, ones(5), 3)), [[false], [false], []])
})

test('values that cannot leave stay', () => {
  const planned = [
    plannedStays(
      0,
      1,
      [
        [0, 0],
        [4, 4],
      ],
      [false],
      { kind: 'small' },
    ),
    plannedStays(1, 1, [
      [1, 1],
      [3, 3],
    ]),
    plannedStays(2, 1, [[2, 2]]),
  ]
  assert.equal(planned.map(canSwap), [false, true, true])
  assert.equal(leaving(swapAll(planned)), [[false], [true], []])
  assert.equal(leaving(swapUntil(planned, ones(5), 2)), [[false], [true], []])
})

test('only the gap at the tight call is used', () => {
  const planned = [
    plannedStays(0, 2, [
      [0, 0],
      [3, 3],
      [9, 9],
    ]),
    plannedStays(1, 2, [[6, 6]]),
  ]
  assert.equal(leaving(swapUntil(planned, ones(10), 3)), [[false, true], []])
})

const planned: fc.Arbitrary<readonly PlannedStays[]> = fc
  .array(
    fc.record({
      pages: fc.integer({ min: 1, max: 4 }),
      kind: fc.constantFrom('value', 'value', 'fed', 'small'),
      points: fc.uniqueArray(fc.nat({ max: 19 }), { minLength: 1, maxLength: 5 }),
    }),
    { minLength: 1, maxLength: 9 },
  )
  .map((list) =>
    list.map((t, i) =>
      plannedStays(
        i,
        t.pages,
        [...t.points].sort((a, b) => a - b).map((p) => [p, p] as const),
        undefined,
        { kind: t.kind as PlannedStays['kind'] },
      ),
    ),
  )

test('each budget from the smallest on is met, none below it; a budget that fits all values moves none', () => {
  fc.assert(
    fc.property(planned, (ts) => {
      const calls = ones(20)
      const least = leastPages(swapAll(ts), 20)
      const most = leastPages(ts, 20)
      for (let budget = 0; budget <= most + 1; budget++) {
        const need = leastPages(swapUntil(ts, calls, budget), 20)
        assert.is(need <= budget, budget >= least, `${need} pages for a budget of ${budget}; the least is ${least}`)
      }
      assert.equal(leaving(swapUntil(ts, calls, most)), leaving(ts))
    }),
    { numRuns: 200, seed: 71 },
  )
})

test('marking a gap never increases the need of a call', () => {
  fc.assert(
    fc.property(planned, fc.nat({ max: 8 }), fc.nat({ max: 3 }), (ts, which, gap) => {
      const t = ts[which % ts.length]!
      if (t.swapped.length <= gap) return
      const marked = ts.map((x) => (x === t ? { ...x, swapped: x.swapped.map((l, i) => l || i === gap) } : x))
      assert.ok(leastPages(marked, 20) <= leastPages(ts, 20))
    }),
    { numRuns: 200, seed: 72 },
  )
})

// ---------------------------------------------------------------- greedy

const greedy = (): Candidate => {
  const s = new Sketch([1, 4, 256, 256])
  let x = s.image
  for (const i of [1, 2, 3, 4, 5]) x = s.relu(s.conv(x, `c${i}`, 16), `r${i}`)
  const made = swapGreedy()(trained(s, x), machines['v100-pcie-16g']!)
  if (isLeft(made)) throw new Error('greedy has a candidate for every graph')
  return made.right.next(false).value as Candidate
}

test('greedy swaps out the first k activations whole, with the least k that meets the budget', () => {
  const c = greedy()
  const calls = c.layout.calls.length
  const most = leastPages(c.layout.planned, calls)
  const order = c.layout.planned
    .filter((t) => canSwap(t) && t.stays.length > 1)
    .sort((a, b) => a.stays[0]!.first - b.stays[0]!.first)
  const gone = (ts: readonly PlannedStays[]): number[] => ts.filter((t) => t.swapped.some((l) => l)).map((t) => t.storage)
  const seen = new Set<number>()
  assert.ok(c.least < most)
  for (let budget = c.least; budget <= most; budget++) {
    const fitted = c.fit(budget)
    const k = gone(fitted).length
    seen.add(k)
    assert.ok(leastPages(fitted, calls) <= budget)
    assert.equal(
      [...gone(fitted)].sort(),
      order
        .slice(0, k)
        .map((t) => t.storage)
        .sort(),
      'a prefix in order of production',
    )
    assert.ok(
      fitted.every((t) => t.swapped.every((l) => l) || !t.swapped.some((l) => l)),
      'whole',
    )
    if (k === 0) continue
    const keep = order[k - 1]!.storage
    const fewer = fitted.map((t) => (t.storage === keep ? { ...t, swapped: t.swapped.map(() => false) } : t))
    assert.ok(leastPages(fewer, calls) > budget, `one less than ${k} would do for ${budget} pages`)
  }
  assert.ok(seen.has(0) && seen.size >= 3, `k took ${[...seen]}`)
})

test('large steps take no quadratic time', () => {
  const n = 40_000
  const ts = Array.from({ length: n / 4 }, (_, i) =>
    plannedStays(i, 1, [
      [i, i],
      [n - 1 - i, n - 1 - i],
    ]),
  )
  const started = process.cpuUsage().user
  const fitted = swapUntil(ts, ones(n), 1000)
  assert.is(leastPages(fitted, n), 1000)
  assert.ok((process.cpuUsage().user - started) / 1e6 < 3, `${(process.cpuUsage().user - started) / 1e6} s`)
})

test.run()
