// The simulator against timelines worked out by hand: stalls for memory and for data, one or two links, memory over time.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import type { UnpagedResidency } from '../../staging/plan/plan'
import { simulate } from '../../staging/sim/simulate'
import type { Span } from '../../staging/sim/timeline'
import { callsOf, PAGE_A_SECOND, planWith } from '../schedule/steps'

const rows = (spans: readonly Span[]): string[] =>
  spans.map((s) => `${s.stream} ${s.call ?? `s${s.residency}`} ${s.start}-${s.end}`)

test('calls follow one another', () => {
  const t = simulate(planWith([], callsOf([1, 2.5, 0])), PAGE_A_SECOND)
  assert.equal(t, {
    makespanSeconds: 3.5,
    computeSeconds: 3.5,
    stallSeconds: { memory: 0, data: 0 },
    memory: [{ time: 0, pages: 0 }],
    spans: [
      { stream: 'compute', start: 0, end: 1, call: 0, label: 'fill' },
      { stream: 'compute', start: 1, end: 3.5, call: 1, label: 'fill' },
      { stream: 'compute', start: 3.5, end: 3.5, call: 2, label: 'fill' },
    ],
  })
})

test('the worked example: a second of work, three to swap out, a second of work, wait: two seconds of stall', () => {
  const t = simulate(
    planWith([{ storage: 0, from: 0, to: 3, acquire: 0, release: 2, swapOut: { start: 1 } }], callsOf([1, 1])),
    PAGE_A_SECOND,
  )
  assert.is(t.makespanSeconds, 4)
  assert.is(t.computeSeconds, 2)
  assert.equal(t.stallSeconds, { memory: 2, data: 0 })
  assert.equal(rows(t.spans), ['compute 0 0-1', 'out s0 1-4', 'compute 1 1-2'])
  assert.equal(t.memory, [
    { time: 0, pages: 3 },
    { time: 4, pages: 0 },
  ])
})

/** Saved after call 0, back for call 3. */
const away = (pages: number, back: number): UnpagedResidency[] => [
  { storage: 0, from: 0, to: pages, acquire: 0, release: 2, swapOut: { start: 1 }, tierOffset: 0 },
  { storage: 0, from: 0, to: pages, acquire: back, release: 4, swapIn: { ready: 3, from: 'tier' }, tierOffset: 0 },
]

test('an early exchange precedes exchanges beside compute, and one in order follows them', () => {
  const calls = callsOf([0, 0, 1, 1, 1]).map((c, i) => {
    if (i === 0) return { ...c, kind: 'all_sums', attrs: { ranks: 2, beside: 1 }, beside: { until: 5, seconds: 5 } }
    if (i === 1) return { ...c, kind: 'all_moments', attrs: { ranks: 2, count: 1 }, beside: { until: 4, seconds: 3 } }
    return i === 3 ? { ...c, kind: 'all_sum', attrs: { ranks: 2 } } : c
  })
  const t = simulate(planWith([], calls), PAGE_A_SECOND)
  // Call 3 waits for the early one, from 1 to 3; the other lane's 5 s end later by the time of both.
  assert.equal(rows(t.spans), ['ranks 0 0-9', 'ranks 1 0-3', 'compute 2 0-1', 'compute 3 3-4', 'compute 4 4-5'])
  assert.equal(t.stallSeconds, { memory: 0, data: 0, ranks: 6 })
  assert.is(t.makespanSeconds, 9)
})

test('a value that arrives late is a stall for data', () => {
  const t = simulate(planWith(away(2, 2), callsOf([1, 2, 1, 1])), PAGE_A_SECOND)
  // Out from 1 to 3, hidden by call 1; in from 3 to 5, call 2 ends at 4, call 3 begins at 5.
  assert.equal(t.stallSeconds, { memory: 0, data: 1 })
  assert.equal(rows(t.spans), ['compute 0 0-1', 'out s0 1-3', 'compute 1 1-3', 'in s1 3-5', 'compute 2 3-4', 'compute 3 5-6'])
  assert.is(t.makespanSeconds, 6)
})

test('copies pay the latency each, and the rate of their direction', () => {
  const link = { ...PAGE_A_SECOND, outBytesPerSecond: PAGE_BYTES / 2, inBytesPerSecond: bytesOf(4), latencySeconds: 0.25 }
  const t = simulate(planWith(away(2, 3), callsOf([1, 1, 1, 1])), link)
  // Out from 1 for 0.25 + 4; waited for at point 2. In at point 3 for 0.25 + 0.5.
  assert.equal(
    rows(t.spans).filter((r) => !r.startsWith('compute')),
    ['out s0 1-5.25', 'in s1 6.25-7'],
  )
  assert.equal(t.stallSeconds, { memory: 3.25, data: 0.75 })
})

const both: UnpagedResidency[] = [
  { storage: 0, from: 0, to: 3, acquire: 0, release: 3, swapOut: { start: 1 }, tierOffset: 0 },
  { storage: 1, from: 0, to: 2, acquire: 1, release: 3, swapIn: { ready: 2, from: 'source' } },
]

test('two directions run at once where the link can, one after the other where it cannot', () => {
  const calls = callsOf([1, 1, 1])
  const duplex = simulate(planWith(both, calls, { 1: 'fed' }), PAGE_A_SECOND)
  assert.equal(rows(duplex.spans), ['compute 0 0-1', 'out s0 1-4', 'in s1 1-3', 'compute 1 1-2', 'compute 2 3-4'])
  assert.equal(duplex.stallSeconds, { memory: 0, data: 1 })
  const half = simulate(planWith(both, calls, { 1: 'fed' }), { ...PAGE_A_SECOND, fullDuplex: false })
  assert.equal(rows(half.spans), ['compute 0 0-1', 'out s0 1-4', 'in s1 4-6', 'compute 1 1-2', 'compute 2 6-7'])
  assert.equal(half.stallSeconds, { memory: 0, data: 4 })
})

test('where copies and calls slow each other down, both take longer while they overlap', () => {
  const beside = { copies: 2, calls: 1.5 }
  // Out of 1 s is issued at 1. Beside call 1 (4 s alone) it takes 2 s, to 3; the call has then done 2/1.5 s of its 4 and ends at 3 + 4 - 4/3.
  const out: UnpagedResidency[] = [{ storage: 0, from: 0, to: 1, acquire: 0, release: 3, swapOut: { start: 1 }, tierOffset: 0 }]
  const t = simulate(planWith(out, callsOf([1, 4, 1])), { ...PAGE_A_SECOND, beside })
  assert.equal(
    t.spans.filter((s) => s.stream === 'out').map((s) => [s.start, s.end]),
    [[1, 3]],
  )
  assert.ok(Math.abs(t.makespanSeconds - (3 + 4 - 4 / 3 + 1)) < 1e-12, `${t.makespanSeconds}`)
  assert.is(t.computeSeconds, 6)
  // A copy that outlasts the calls: of its 3 s, call 1 (1.5 s beside it) sees 0.75 s; the rest is a stall at full speed.
  const long = simulate(
    planWith([{ storage: 0, from: 0, to: 3, acquire: 0, release: 2, swapOut: { start: 1 } }], callsOf([1, 1])),
    {
      ...PAGE_A_SECOND,
      beside,
    },
  )
  assert.is(long.makespanSeconds, 1 + 1.5 + 2.25)
  assert.equal(long.stallSeconds, { memory: 2.25, data: 0 })
  const alone = simulate(planWith(out, callsOf([1, 4, 1])), { ...PAGE_A_SECOND, beside: { copies: 1, calls: 1 } })
  assert.equal(alone, simulate(planWith(out, callsOf([1, 4, 1])), PAGE_A_SECOND))
})

test('of copies that start at one point the one that is waited for first runs first', () => {
  const residencies: UnpagedResidency[] = [
    { storage: 0, from: 0, to: 2, acquire: 0, release: 4, swapOut: { start: 1 }, tierOffset: 0 },
    { storage: 1, from: 0, to: 1, acquire: 0, release: 2, swapOut: { start: 1 }, tierOffset: bytesOf(2) },
    { storage: 2, from: 0, to: 1, acquire: 1, release: 4, swapIn: { ready: 3, from: 'source' } },
    { storage: 3, from: 0, to: 1, acquire: 1, release: 3, swapIn: { ready: 2, from: 'source' } },
  ]
  const t = simulate(planWith(residencies, callsOf([1, 1, 1, 1]), { 2: 'fed', 3: 'fed' }), PAGE_A_SECOND)
  assert.equal(
    t.spans.filter((s) => s.stream !== 'compute').map((s) => `${s.label} ${s.start}-${s.end}`),
    ['s1 1-2', 's0 2-4', 's3 1-2', 's2 2-3'],
  )
  assert.equal(t.stallSeconds, { memory: 0, data: 0 })
})

test('memory over time: parameters always, other values while they live, and at most the peak', () => {
  const residencies: UnpagedResidency[] = [
    { storage: 0, from: 0, to: 4, acquire: 0, release: 3 },
    { storage: 1, from: 0, to: 2, acquire: 0, release: 1 },
    { storage: 2, from: 0, to: 3, acquire: 1, release: 2 },
  ]
  const plan = planWith(residencies, callsOf([1, 2, 1]), { 0: 'persistent' })
  const t = simulate(plan, PAGE_A_SECOND)
  assert.equal(t.memory, [
    { time: 0, pages: 6 },
    { time: 1, pages: 7 },
    { time: 3, pages: 4 },
  ])
  assert.is(Math.max(...t.memory.map((m) => m.pages)), plan.peakPages)
})

test.run()
