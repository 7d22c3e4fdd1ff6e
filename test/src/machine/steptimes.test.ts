// Call times from steps: equal calls share them, plans use them, and the slowdown of a copy beside a call is subtracted.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { asInSteps, forgetOldest, learn, MOST_STEP_TIMES, type StepTimes } from '../../../src/machine/steptimes'
import { simulate } from '../../../staging/sim/simulate'
import { chainPlan, LINK } from '../../report/plans'

const plan = chainPlan({ layers: 3, size: 16 })
const secondsOf = (p: typeof plan): readonly number[] => p.calls.map((c) => c.seconds)

test('a plan takes the seconds that its own calls took, equal calls their mean', () => {
  const known: StepTimes = new Map()
  assert.ok(
    learn(
      known,
      plan,
      Float64Array.from(plan.calls, (_, i) => 1 + i),
      LINK,
    ),
  )
  const told = secondsOf(asInSteps(known, plan))
  const sum = (xs: readonly number[]): number => xs.reduce((n, x) => n + x, 0)
  assert.ok(Math.abs(sum(told) - (plan.calls.length * (plan.calls.length + 1)) / 2) < 1e-9)
  const convolutions = plan.calls.flatMap((c, i) => (c.kind === 'conv2d' ? [i] : []))
  assert.is(convolutions.length, 3)
  const mean = sum(convolutions.map((i) => 1 + i)) / 3
  for (const i of convolutions) assert.ok(Math.abs(told[i]! - mean) < 1e-9)
})

test('nothing but the seconds changes, and those of unknown calls stay', () => {
  const known: StepTimes = new Map()
  learn(known, plan, new Float64Array(plan.calls.length).fill(7), LINK)
  const same = { ...asInSteps(known, plan), calls: plan.calls }
  assert.equal(same, plan)
  const wider = chainPlan({ layers: 2, size: 32 })
  const convolutions = (p: typeof plan): readonly number[] => p.calls.filter((c) => c.kind === 'conv2d').map((c) => c.seconds)
  assert.equal(convolutions(asInSteps(known, wider)), convolutions(wider))
})

test('plans use the mean of the last five runs', () => {
  const known: StepTimes = new Map()
  const planned = (seconds: number): number => {
    learn(known, plan, new Float64Array(plan.calls.length).fill(seconds), LINK)
    return asInSteps(known, plan).calls[0]!.seconds
  }
  assert.equal([2, 1, 3].map(planned), [2, 1.5, 2])
  assert.equal([2, 2, 7, 1].map(planned), [2, 2, 3, 3], 'the first two are forgotten')
})

test('after a few runs, a time that changes by a few percent is not stored again', () => {
  const known: StepTimes = new Map()
  const told = (seconds: number): boolean => learn(known, plan, new Float64Array(plan.calls.length).fill(seconds), LINK)
  assert.equal([1, 1, 1, 1, 1].map(told), new Array(5).fill(true))
  assert.equal([1.1, 1.2, 1.02].map(told), [false, true, false])
})

test('the cost of copies beside a call is subtracted: a step as simulated yields the simulated seconds', () => {
  const moving = chainPlan({ layers: 3, size: 64, swap: true })
  const slowing = { ...LINK, beside: { copies: 1.5, calls: 1.25 } }
  const took = new Float64Array(moving.calls.length)
  for (const { call, start, end } of simulate(moving, slowing).spans) if (call !== undefined) took[call] = end - start
  assert.ok(
    took.some((s, i) => s > 1.2 * moving.calls[i]!.seconds),
    'some calls run beside copies',
  )
  const known: StepTimes = new Map()
  assert.ok(learn(known, moving, took, slowing))
  for (const [i, c] of asInSteps(known, moving).calls.entries())
    assert.ok(Math.abs(c.seconds / moving.calls[i]!.seconds - 1) < 1e-9)
})

test('the times of another plan are not used', () => {
  const known: StepTimes = new Map()
  assert.not(learn(known, plan, new Float64Array(plan.calls.length + 1).fill(1), LINK))
  assert.is(known.size, 0)
})

test('the oldest times are dropped first', () => {
  const known: StepTimes = new Map(Array.from({ length: MOST_STEP_TIMES + 2 }, (_, i) => [`call ${i}`, [1]]))
  forgetOldest(known)
  assert.equal([known.size, known.has('call 1'), known.has('call 2')], [MOST_STEP_TIMES, false, true])
})

test.run()
