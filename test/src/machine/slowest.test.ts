// The planning numbers of several machines: the largest time of each call, the slowest link.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Link } from '../../../staging/graph/machine'
import { comparedBy, type Elsewhere, slowest, slowestLink, type SlowestTimer } from '../../../src/machine/slowest'
import { CPU_SAMPLES, type Timer } from '../../../src/machine/timing'
import { timingRanks } from '../../../src/train/ranks/answers'
import { LINK } from '../../report/plans'

const PLAIN = { strideH: 1, strideW: 1, padTop: 1, padLeft: 1, padBottom: 1, padRight: 1, dilationH: 1, dilationW: 1, groups: 1 }
const conv = (rows: number) => ({
  kind: 'conv2d',
  attrs: PLAIN,
  s: {
    ins: [
      [1, 8, rows, 64],
      [8, 8, 3, 3],
    ],
    outs: [[1, 8, rows, 64]],
  },
})
const relu = (rows: number) => ({ kind: 'relu', attrs: {}, s: { ins: [[1, 8, rows, 64]], outs: [[1, 8, rows, 64]] } })

/** A machine on which each call takes so long, in all its ways. */
const taking = (seconds: (kind: string, way: number) => number): Timer => ({
  seconds: (kind, _attrs, _s, way = 0) => seconds(kind, way),
  howKnown: () => 'measured',
  isNew: () => false,
  spent: () => 0,
  measureMore: () => {},
})
const own = taking((kind) => (kind === 'relu' ? 1 : 2))
const on = (elsewhere?: Elsewhere): SlowestTimer => slowest(own, 'f32', CPU_SAMPLES, elsewhere)
const compared = (timer: SlowestTimer, elsewhere?: Elsewhere) => comparedBy('here', own, timer, LINK, elsewhere)
const told = (of: Timer, link: Link = LINK) =>
  comparedBy('there', of, slowest(of, 'f32', CPU_SAMPLES, undefined), link, undefined).answer
const asked = (timer: SlowestTimer, ...calls: readonly (ReturnType<typeof conv> | ReturnType<typeof relu>)[]) => {
  for (const { kind, attrs, s } of calls) timer.seconds(kind, attrs, s)
  return compared(timer).requested()
}

test('the time of a call is that of the slowest machine, this one included', () => {
  const before = on()
  const calls = asked(before, conv(16), relu(16))
  assert.is(calls.length, 2)
  const slow = taking((kind) => (kind === 'relu' ? 0.5 : 3))
  const elsewhere = compared(before).knowing(calls, [told(slow)(calls), told(own)(calls)])!
  const after = on(elsewhere)
  assert.is(after.seconds('conv2d', PLAIN, conv(16).s), 3)
  assert.is(after.seconds('relu', {}, relu(16).s), 1)
  // Nobody was asked for this one: it is as much slower as others of its kind.
  assert.is(after.seconds('conv2d', PLAIN, conv(24).s), 3)
  assert.equal(
    compared(after, elsewhere)
      .requested()
      .map((c) => c.s.outs[0]![2]),
    [24],
  )
  // And with that it is as was thought.
  const again = compared(after, elsewhere).requested()
  assert.is(compared(after, elsewhere).knowing(again, [told(slow)(again)]), undefined)
})

test('machines whose times differ by a few percent do not change the plan', () => {
  const timer = on()
  const calls = asked(timer, conv(16), relu(16))
  const alike = taking((kind) => (kind === 'relu' ? 1.02 : 1.9))
  assert.is(compared(timer).knowing(calls, [told(alike)(calls)]), undefined)
})

test('a way that a machine has not got is never the fastest', () => {
  const timer = on()
  for (const way of [0, 1]) timer.seconds('conv2d', PLAIN, conv(16).s, way)
  const calls = compared(timer).requested()
  const lacking = taking((_, way) => {
    if (way === 1) throw new Error('there is no such way')
    return 2
  })
  const elsewhere = compared(timer).knowing(calls, [told(lacking)(calls)])!
  assert.equal(
    [0, 1].map((way) => on(elsewhere).seconds('conv2d', PLAIN, conv(16).s, way)),
    [2, Infinity],
  )
})

test('the slowest link counts, a clearly smaller one too', () => {
  const timer = on()
  const calls = asked(timer, relu(16))
  const knowing = (link: Link) => compared(timer).knowing(calls, [told(own, link)(calls)])
  const slow = { ...LINK, outBytesPerSecond: LINK.outBytesPerSecond / 2 }
  const { outBytesPerSecond, inBytesPerSecond } = slowestLink(LINK, knowing(slow))
  assert.equal([outBytesPerSecond, inBytesPerSecond], [slow.outBytesPerSecond, LINK.inBytesPerSecond])
  assert.is(knowing({ ...LINK, outBytesPerSecond: 0.99 * LINK.outBytesPerSecond }), undefined)
  assert.is(slowestLink(LINK, knowing({ ...LINK, bytes: 1000 })).bytes, 1000)
})

test("one rank of each machine times calls, and none of the leader's", () => {
  assert.equal(timingRanks(['a', 'a', 'b', 'b', 'a', 'c']), [2, 5])
  assert.equal(timingRanks(['a', 'a']), [])
})

test.run()
