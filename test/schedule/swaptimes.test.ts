// The times of pages: the no-wait schedule by hand, and invariants of every schedule.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bytesOf } from '../../staging/core/bytes'
import type { Link } from '../../staging/graph/machine'
import type { UnpagedResidency } from '../../staging/plan/plan'
import { scheduleSwaps } from '../../staging/schedule/swaptimes'
import { leastPages, tightestCall, type PlannedStays } from '../../staging/schedule/stays'
import { simulate } from '../../staging/sim/simulate'
import { callsOf, PAGE_A_SECOND, planWith, plannedStays } from './steps'

const ones = (n: number) => callsOf(new Array<number>(n).fill(1))
const scheduled = (planned: readonly PlannedStays[], calls: ReturnType<typeof callsOf>, budget: number) => {
  const s = scheduleSwaps(planned, calls, budget, PAGE_A_SECOND)
  if (!s) throw new Error(`no schedule in ${budget} pages`)
  return s
}

// Calls 0 and 1 make x; y is held in calls 2 and 3, z in 3 and 4; call 6 reads x again. Two pages each.
const example = [
  plannedStays(
    0,
    2,
    [
      [0, 1],
      [6, 6],
    ],
    [true],
  ),
  plannedStays(1, 2, [[2, 3]]),
  plannedStays(2, 2, [[3, 4]]),
]

test('the worked example: the swap out is waited for where the memory is needed, the swap in starts as late as does not stall', () => {
  const { residencies, tierBytes } = scheduled(example, ones(7), 4)
  assert.equal(residencies, [
    { storage: 0, from: 0, to: 2, acquire: 0, release: 3, swapOut: { start: 2 }, tierOffset: 0 },
    { storage: 0, from: 0, to: 2, acquire: 4, release: 7, swapIn: { ready: 6, from: 'tier' }, tierOffset: 0 },
    { storage: 1, from: 0, to: 2, acquire: 2, release: 4 },
    { storage: 2, from: 0, to: 2, acquire: 3, release: 5 },
  ])
  assert.is(tierBytes, bytesOf(2))
  // Calls 0, 1, 2 end at 3; the copy that began at 2 ends at 4: one second of stall. x is back at 7, in time for call 6.
  const t = simulate(planWith(residencies, ones(7)), PAGE_A_SECOND)
  assert.equal(t.stallSeconds, { memory: 1, data: 0 })
  assert.is(t.makespanSeconds, 8)
})

test('with room enough nothing waits: the swap out ends in its own time', () => {
  const { residencies } = scheduled(example, ones(7), 6)
  assert.equal(residencies[0], { storage: 0, from: 0, to: 2, acquire: 0, release: 4, swapOut: { start: 2 }, tierOffset: 0 })
  assert.equal(simulate(planWith(residencies, ones(7)), PAGE_A_SECOND).stallSeconds, { memory: 0, data: 0 })
})

test('a long call hides a copy, a short one does not', () => {
  const slow = callsOf([1, 1, 2, 1, 1, 1, 1])
  const t = simulate(planWith(scheduled(example, slow, 4).residencies, slow), PAGE_A_SECOND)
  assert.equal(t.stallSeconds, { memory: 0, data: 0 })
  assert.is(t.makespanSeconds, 8)
})

test('a swap in that the memory delays is a stall for its value', () => {
  // z is held until call 5: x can only begin to come back at point 6, where it is needed.
  const planned = [example[0]!, example[1]!, plannedStays(2, 2, [[3, 5]])]
  const { residencies } = scheduled(planned, ones(7), 3 + 1)
  assert.is(residencies[1]!.acquire, 4, 'four pages have room for x and z')
  const tight = scheduled(
    [
      plannedStays(
        0,
        3,
        [
          [0, 1],
          [6, 6],
        ],
        [true],
      ),
      plannedStays(2, 2, [[3, 5]]),
    ],
    ones(7),
    4,
  )
  assert.is(tight.residencies[1]!.acquire, 6)
  assert.equal(simulate(planWith(tight.residencies, ones(7)), PAGE_A_SECOND).stallSeconds, { memory: 2, data: 3 })
})

test('one link: swaps out follow one another, in the order in which their stays end', () => {
  const planned = [
    plannedStays(
      0,
      2,
      [
        [0, 0],
        [9, 9],
      ],
      [true],
    ),
    plannedStays(
      1,
      2,
      [
        [0, 1],
        [8, 8],
      ],
      [true],
    ),
  ]
  const { residencies } = scheduled(planned, ones(10), 100)
  // The first runs from 1 to 3, the second from 3 to 5; backwards, 9 is loaded from 7 and 8 from 5 to 7.
  assert.equal(
    residencies.map((d) => [d.storage, d.acquire, d.release, d.swapOut?.start, d.swapIn?.ready]),
    [
      [0, 0, 3, 1, undefined],
      [0, 7, 10, undefined, 9],
      [1, 0, 5, 2, undefined],
      [1, 5, 9, undefined, 8],
    ],
  )
})

test('a saved value that was not written since is not saved again', () => {
  const t = plannedStays(
    0,
    1,
    [
      [0, 0],
      [4, 4],
      [8, 8],
    ],
    [true, true],
  )
  const { residencies } = scheduled([t], ones(9), 9)
  assert.equal(
    residencies.map((d) => [d.swapOut?.start, d.swapIn?.from]),
    [
      [1, undefined],
      [undefined, 'tier'],
      [undefined, 'tier'],
    ],
  )
  const rewritten = { ...t, stays: t.stays.map((s) => ({ ...s, lastWrite: s.last })) }
  assert.equal(
    scheduled([rewritten], ones(9), 9).residencies.map((d) => d.swapOut?.start),
    [1, 5, undefined],
  )
})

test('fed data is loaded from its source each time and never saved', () => {
  const { residencies, tierBytes } = scheduled(
    [
      plannedStays(
        0,
        2,
        [
          [1, 1],
          [5, 5],
        ],
        [true],
        { kind: 'fed' },
      ),
    ],
    ones(6),
    4,
  )
  assert.equal(residencies, [
    { storage: 0, from: 0, to: 2, acquire: 0, release: 2, swapIn: { ready: 1, from: 'source' } },
    { storage: 0, from: 0, to: 2, acquire: 3, release: 6, swapIn: { ready: 5, from: 'source' } },
  ])
  assert.is(tierBytes, 0)
})

test('loads that begin with the step arrive in the order of their uses', () => {
  const bands = [0, 1, 2, 3].map((k) => ({ ...plannedStays(0, 1, [[k, k]], [], { kind: 'fed' }), from: k, to: k + 1 }))
  const { residencies } = scheduled(bands, ones(4), 10)
  const t = simulate(planWith(residencies, ones(4), { 0: 'fed' }), PAGE_A_SECOND)
  assert.equal(t.stallSeconds, { memory: 0, data: 1 }, 'only the first band is waited for')
})

test('adjacent parts that move together are one copy', () => {
  const side = [0, 2, 4].map((from) => ({
    ...plannedStays(
      0,
      2,
      [
        [0, 0],
        [9, 9],
      ],
      [true],
    ),
    from,
    to: from + 2,
  }))
  const { residencies } = scheduled(side, ones(10), 6)
  const first = residencies.filter((d) => d.acquire === 0)
  assert.is(
    first.reduce((n, d) => n + d.to - d.from, 0),
    6,
  )
  assert.ok(
    first.every((d, i) => i === 0 || d.tierOffset === first[i - 1]!.tierOffset! + bytesOf(first[i - 1]!.to - first[i - 1]!.from)),
  )
  const still = side.map((t) => ({ ...t, swapped: [false] }))
  assert.equal(scheduled(still, ones(10), 6).residencies, [{ storage: 0, from: 0, to: 6, acquire: 0, release: 10 }])
})

test('a swap out starts when the last write is over, though the pages are still read', () => {
  const read = {
    ...plannedStays(
      0,
      2,
      [
        [0, 4],
        [9, 9],
      ],
      [true],
    ),
    stays: [
      { segment: 0, first: 0, last: 4, lastWrite: 1 },
      { segment: 1, first: 9, last: 9, lastWrite: -1 },
    ],
  }
  const { residencies } = scheduled([read], ones(10), 2)
  assert.equal(residencies[0], { storage: 0, from: 0, to: 2, acquire: 0, release: 5, swapOut: { start: 2 }, tierOffset: 0 })
})

test('a planner can set the points: the wait of a swap out, and the start of a swap in with its pages', () => {
  const timed = { ...example[0]!, timing: [{ swappedOutBy: 3, swapInAt: 3 }] }
  const { residencies } = scheduled([timed, example[1]!], ones(7), 6)
  assert.equal([residencies[0]!.release, residencies[1]!.acquire, residencies[1]!.swapIn], [3, 3, { ready: 6, from: 'tier' }])
  assert.is(
    scheduled([example[0]!, example[1]!], ones(7), 6).residencies[0]!.release,
    4,
    'left to itself it is waited for in its own time',
  )
  // Early pages count.
  const planned = [timed, example[1]!, example[2]!]
  assert.equal([leastPages(example, 7), leastPages(planned, 7)], [4, 6])
  assert.is(scheduleSwaps(planned, ones(7), 5, PAGE_A_SECOND), null)
})

test('where both directions share the link, swaps in start earlier, around the swaps out', () => {
  // x leaves during calls 1 to 4, y is due back at call 6: two calls' time, of which the shared link has only call 5 and call 0.
  const planned = [
    plannedStays(
      0,
      4,
      [
        [0, 0],
        [19, 19],
      ],
      [true],
    ),
    plannedStays(1, 2, [[6, 6]], [], { kind: 'fed' }),
  ]
  const acquired = (fullDuplex: boolean): number =>
    scheduleSwaps(planned, ones(20), 100, { ...PAGE_A_SECOND, fullDuplex })!.residencies.find((d) => d.storage === 1)!.acquire
  assert.equal([acquired(true), acquired(false)], [4, 0])
})

test('where copying and computing slow each other down, copies start as much earlier as they take longer', () => {
  const planned = [
    plannedStays(
      0,
      2,
      [
        [0, 1],
        [10, 10],
      ],
      [true],
    ),
  ]
  const comesAt = (beside: Link['beside']): number => {
    const link = { ...PAGE_A_SECOND, ...(beside ? { beside } : {}) }
    const { residencies } = scheduleSwaps(planned, ones(11), 4, link)!
    assert.is(simulate(planWith(residencies, ones(11)), link).stallSeconds.data, 0)
    return residencies[1]!.acquire
  }
  assert.is(comesAt(undefined), 8)
  assert.is(comesAt({ copies: 2, calls: 1 }), 6)
  assert.is(comesAt({ copies: 3, calls: 1.5 }), 6, 'four seconds of computing take six')
})

test('the tightest call', () => {
  assert.equal(tightestCall(example, 7), { call: 3, pages: 4 })
  assert.is(leastPages(example, 7), 4)
  assert.is(leastPages([], 7), 0)
})

// ---------------------------------------------------------------- every schedule

interface StaysCase {
  readonly planned: readonly PlannedStays[]
  readonly seconds: readonly number[]
}

/** Stays from a sorted list of calls: pairs of them are first and last. */
const stays = (calls: number): fc.Arbitrary<readonly (readonly [number, number])[]> =>
  fc.uniqueArray(fc.nat({ max: calls - 1 }), { minLength: 1, maxLength: 8 }).map((points) => {
    const sorted = [...points].sort((a, b) => a - b)
    const out: [number, number][] = []
    for (let i = 0; i < sorted.length; i += 2) out.push([sorted[i]!, sorted[i + 1] ?? sorted[i]!])
    return out
  })

const onesStays = (calls: number) =>
  fc.record({
    pages: fc.integer({ min: 1, max: 5 }),
    stays: stays(calls),
    swapped: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
    writes: fc.array(fc.constantFrom('no', 'early', 'late'), { minLength: 4, maxLength: 4 }),
    kind: fc.constantFrom('value', 'value', 'value', 'fed', 'small', 'persistent'),
    split: fc.boolean(),
  })

const cases: fc.Arbitrary<StaysCase> = fc.integer({ min: 3, max: 24 }).chain((calls) =>
  fc.record({
    seconds: fc.array(fc.constantFrom(0, 0.5, 1, 3), { minLength: calls, maxLength: calls }),
    planned: fc.array(onesStays(calls), { minLength: 1, maxLength: 7 }).map((list) =>
      list.flatMap((t, storage): PlannedStays[] => {
        const kind = t.kind as PlannedStays['kind']
        if (kind === 'persistent') return [plannedStays(storage, t.pages, [[0, calls]], [], { kind })]
        const made = plannedStays(
          storage,
          t.pages,
          t.stays,
          t.stays.slice(1).map((_, i) => (kind === 'value' || kind === 'fed') && t.swapped[i]!),
          {
            kind,
            stays: t.stays.map(([first, last], i) => ({
              segment: i,
              first,
              last,
              lastWrite: kind === 'fed' || (i > 0 && t.writes[i]! === 'no') ? -1 : t.writes[i]! === 'early' ? first : last,
            })),
          },
        )
        // A second part of the same storage, used alike.
        return t.split ? [made, { ...made, from: t.pages, to: 2 * t.pages }] : [made]
      }),
    ),
  }),
)

/** The same with times that a planner might ask for. */
const timed = ({ planned }: StaysCase, wishes: readonly number[]): readonly PlannedStays[] =>
  planned.map((t) => ({
    ...t,
    timing: t.swapped.map((leaves, i) => {
      const [end, next] = [t.stays[i]!.last + 1, t.stays[i + 1]!.first]
      const at = (wish: number): number => end + Math.floor(wish * (next - end + 1))
      return leaves && i % 2 === 0
        ? { swappedOutBy: at(wishes[i % wishes.length]!), swapInAt: at(wishes[(i + t.storage) % wishes.length]!) }
        : undefined
    }),
  }))

const holds = (ds: readonly UnpagedResidency[], p: number): number =>
  ds.filter((d) => d.acquire <= p && p < d.release).reduce((n, d) => n + d.to - d.from, 0)
/** The residencies that hold a page of a storage, in time order. */
const over = (ds: readonly UnpagedResidency[], storage: number, page: number): readonly UnpagedResidency[] =>
  ds.filter((d) => d.storage === storage && d.from <= page && page < d.to).sort((a, b) => a.acquire - b.acquire)

/** The stays of a part between two of its swaps, as one. */
const residenciesOf = (
  t: PlannedStays,
): readonly { readonly first: number; readonly last: number; readonly lastWrite: number }[] => {
  const out: { first: number; last: number; lastWrite: number }[] = []
  t.stays.forEach((s, i) => {
    const open = i > 0 && !t.swapped[i - 1] ? out[out.length - 1] : undefined
    if (open) {
      open.last = s.last
      open.lastWrite = Math.max(open.lastWrite, s.lastWrite)
    } else out.push({ first: s.first, last: s.last, lastWrite: s.lastWrite })
  })
  return out
}

const checkStays = (t: PlannedStays, ds: readonly UnpagedResidency[], end: number): void => {
  const rs = residenciesOf(t)
  for (let page = t.from; page < t.to; page++) {
    const mine = over(ds, t.storage, page)
    assert.is(mine.length, rs.length)
    for (const [i, r] of rs.entries()) {
      const d = mine[i]!
      assert.ok(d.acquire <= r.first && Math.min(r.last, end - 1) < d.release, 'on the device throughout its stays')
      assert.ok(i === 0 || mine[i - 1]!.release <= d.acquire, 'a page is not there twice')
      const last = i === rs.length - 1
      if (t.kind === 'fed') assert.is(d.swapIn?.from, 'source')
      else assert.is(d.swapIn?.from, i > 0 ? 'tier' : undefined)
      if (d.swapIn) assert.is(d.swapIn.ready, r.first)
      assert.is(
        d.swapOut !== undefined,
        !last && t.kind === 'value' && r.lastWrite >= 0,
        'saved when it leaves with bytes that the tier has not',
      )
      if (d.swapOut)
        assert.is(d.swapOut.start, r.lastWrite + 1, 'its copy sees the last write, and need not wait for the last read')
      if (t.kind === 'persistent') assert.equal([d.acquire, d.release], [0, end])
    }
  }
}

/** From the first swap out to the last swap in of each tier range, no other storage's bytes lie there. */
const checkTier = (ds: readonly UnpagedResidency[], tierBytes: number): void => {
  const slots = new Map<number, { lo: number; hi: number; first: number; last: number }>()
  for (const d of ds) {
    if (d.tierOffset === undefined) continue
    const [lo, hi] = [d.tierOffset, d.tierOffset + bytesOf(d.to - d.from)]
    assert.ok(lo >= 0 && hi <= tierBytes && lo % 4096 === 0)
    const s = slots.get(d.storage) ?? { lo, hi, first: Infinity, last: -1 }
    slots.set(d.storage, {
      lo: Math.min(s.lo, lo),
      hi: Math.max(s.hi, hi),
      first: Math.min(s.first, d.swapOut?.start ?? Infinity),
      last: Math.max(s.last, d.release * (d.swapOut ? 1 : 0), d.swapIn?.ready ?? -1),
    })
  }
  const list = [...slots.values()]
  for (const [i, a] of list.entries())
    for (const b of list.slice(0, i))
      assert.ok(
        a.hi <= b.lo || b.hi <= a.lo || a.last < b.first || b.last < a.first,
        'two storages share bytes of the tier at one time',
      )
}

// Memory of a page, of two that are away, and a disk of half the rate.
const IN_TWO: Link = {
  ...PAGE_A_SECOND,
  bytes: bytesOf(1),
  beyond: { ...PAGE_A_SECOND, outBytesPerSecond: bytesOf(1) / 2, inBytesPerSecond: bytesOf(1) / 2 },
}

test('host memory holds values that are away for a shorter time, the disk the others, each at its rate', () => {
  const planned = [
    plannedStays(
      0,
      1,
      [
        [0, 0],
        [9, 9],
      ],
      [true],
    ), // prettier-ignore
    plannedStays(
      1,
      1,
      [
        [1, 1],
        [8, 8],
      ],
      [true],
    ), // prettier-ignore
    plannedStays(2, 2, [[3, 6]]),
  ]
  const calls = ones(10)
  const { residencies, tierBytes, hostBytes } = scheduleSwaps(planned, calls, 2, IN_TWO)!
  assert.equal([tierBytes, hostBytes], [bytesOf(2), bytesOf(1)])
  const lies = (storage: number): readonly (number | undefined)[] =>
    residencies.filter((r) => r.storage === storage).map((r) => r.tierOffset)
  assert.equal(
    [lies(0), lies(1)],
    [
      [bytesOf(1), bytesOf(1)],
      [0, 0],
    ],
  )
  const spans = (apart: boolean) =>
    simulate(
      { ...planWith(residencies, calls), tierBytes, hostBytes: hostBytes! },
      { ...IN_TWO, beyond: { ...IN_TWO.beyond!, apart } },
    ).spans.filter((s) => s.stream === 'out')
  // In line the second begins when the first has ended; apart, when its call has.
  assert.equal(
    spans(false).map((s) => [s.start, s.end]),
    [
      [1, 3],
      [3, 4],
    ], // prettier-ignore
  )
  assert.equal(
    spans(true).map((s) => [s.start, s.end]),
    [
      [1, 3],
      [2, 3],
    ], // prettier-ignore
  )
})

test('each schedule over memory and disk: neither exceeds its size, and no part is in both', () => {
  fc.assert(
    fc.property(cases, fc.nat({ max: 12 }), fc.nat({ max: 8 }), ({ planned, seconds }, extra, pages) => {
      const calls = callsOf(seconds)
      const budget = leastPages(planned, calls.length) + extra
      const moves = scheduleSwaps(planned, calls, budget, { ...IN_TWO, bytes: bytesOf(pages) })
      if (!moves) throw new Error(`no schedule in ${budget} pages`)
      const { residencies, tierBytes, hostBytes } = moves
      assert.ok(hostBytes! <= Math.max(0, bytesOf(pages)), `${hostBytes}`)
      for (let p = 0; p < calls.length; p++) assert.ok(holds(residencies, p) <= budget)
      for (const t of planned) checkStays(t, residencies, calls.length)
      checkTier(residencies, tierBytes)
      for (const { tierOffset, from, to } of residencies)
        if (tierOffset !== undefined) assert.ok(tierOffset >= hostBytes! || tierOffset + bytesOf(to - from) <= hostBytes!)
    }),
    { numRuns: 300, seed: 34 },
  )
})

test('every schedule: budget kept at every call, stays covered, saves after writes, loads after saves, tier slots apart', () => {
  fc.assert(
    fc.property(
      cases,
      fc.nat({ max: 12 }),
      fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 0, maxLength: 3 }),
      (made, extra, wishes) => {
        const planned = wishes.length > 0 ? timed(made, wishes) : made.planned
        const calls = callsOf(made.seconds)
        const least = leastPages(planned, calls.length)
        const budget = least + extra
        const moves = scheduleSwaps(planned, calls, budget, { ...PAGE_A_SECOND, fullDuplex: extra % 2 === 0 })
        if (!moves) throw new Error(`no schedule in ${budget} pages`)
        const { residencies, tierBytes } = moves
        for (let p = 0; p < calls.length; p++)
          assert.ok(holds(residencies, p) <= budget, `${holds(residencies, p)} of ${budget} pages at call ${p}`)
        for (const t of planned) checkStays(t, residencies, calls.length)
        checkTier(residencies, tierBytes)
        assert.ok(residencies.every((d) => d.release <= calls.length))
      },
    ),
    { numRuns: 400, seed: 33 },
  )
})

test('a schedule exists exactly from leastPages on, which is its peak without prefetching', () => {
  fc.assert(
    fc.property(cases, ({ planned, seconds }) => {
      const calls = callsOf(seconds)
      const least = leastPages(planned, calls.length)
      const held = seconds.map((_, p) =>
        planned.reduce((n, t) => n + residenciesOf(t).filter((r) => r.first <= p && p <= r.last).length * (t.to - t.from), 0),
      )
      assert.is(least, Math.max(...held))
      assert.equal(tightestCall(planned, calls.length), { call: held.indexOf(least), pages: least })
      for (const budget of [0, least - 2, least - 1])
        if (budget >= 0 && budget < least) assert.is(scheduleSwaps(planned, calls, budget, PAGE_A_SECOND), null)
      for (const budget of [least, least + 1, least + 7]) assert.ok(scheduleSwaps(planned, calls, budget, PAGE_A_SECOND))
    }),
    { numRuns: 200, seed: 34 },
  )
})

test.run()
