// What steps tell of their calls: equal calls share it, plans take it over, and plans that move pages tell less than others.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { asInSteps, forgetOldest, learn, MOST_STEP_TIMES } from '../../src/machine/steptimes'
import type { Measurements } from '../../src/machine/timing'
import { chainPlan } from '../report/plans'

const plan = chainPlan({ layers: 3, size: 16 })
const secondsOf = (p: typeof plan): readonly number[] => p.calls.map((c) => c.seconds)

test('a plan takes the seconds that its own calls took, equal calls their mean', () => {
  const known: Measurements = new Map()
  assert.ok(learn(known, plan, Float64Array.from(plan.calls, (_, i) => 1 + i)))
  const told = secondsOf(asInSteps(known, plan))
  const sum = (xs: readonly number[]): number => xs.reduce((n, x) => n + x, 0)
  assert.ok(Math.abs(sum(told) - (plan.calls.length * (plan.calls.length + 1)) / 2) < 1e-9)
  const convolutions = plan.calls.flatMap((c, i) => (c.kind === 'conv2d' ? [i] : []))
  assert.is(convolutions.length, 3)
  const mean = sum(convolutions.map((i) => 1 + i)) / 3
  for (const i of convolutions) assert.ok(Math.abs(told[i]! - mean) < 1e-9)
})

test('nothing but the seconds changes, and those of unknown calls stay', () => {
  const known: Measurements = new Map()
  learn(known, plan, new Float64Array(plan.calls.length).fill(7))
  const same = { ...asInSteps(known, plan), calls: plan.calls }
  assert.equal(same, plan)
  const wider = chainPlan({ layers: 2, size: 32 })
  const convolutions = (p: typeof plan): readonly number[] => p.calls.filter((c) => c.kind === 'conv2d').map((c) => c.seconds)
  assert.equal(convolutions(asInSteps(known, wider)), convolutions(wider))
})

test('what is told again within a few hundredths is nothing new', () => {
  const known: Measurements = new Map()
  const told = (seconds: number): boolean => learn(known, plan, new Float64Array(plan.calls.length).fill(seconds))
  assert.equal([told(1), told(1.01), told(0.9)], [true, false, true])
})

test('a quicker time counts at once, a slower one for a twentieth', () => {
  const known: Measurements = new Map()
  for (const seconds of [2, 1, 3]) learn(known, plan, new Float64Array(plan.calls.length).fill(seconds))
  assert.equal([...new Set(known.values())], [1.1])
})

test('plans that move pages tell what takes less than was planned, other plans than the one that ran nothing', () => {
  const known: Measurements = new Map()
  const moving = { ...plan, tierBytes: 1 }
  const planned = Float64Array.from(plan.calls, (c) => c.seconds)
  assert.not(learn(known, moving, planned.map((s) => s * 1.5)))
  assert.not(learn(known, plan, new Float64Array(plan.calls.length + 1).fill(1)))
  assert.is(known.size, 0)
  assert.ok(learn(known, moving, planned.map((s) => s / 2)))
  assert.not(learn(known, moving, planned))
  for (const [i, c] of asInSteps(known, plan).calls.entries()) assert.ok(Math.abs(c.seconds / planned[i]! - 0.5) < 1e-9)
})

test('what was told longest ago is forgotten first', () => {
  const known: Measurements = new Map(Array.from({ length: MOST_STEP_TIMES + 2 }, (_, i) => [`call ${i}`, 1]))
  forgetOldest(known)
  assert.equal([known.size, known.has('call 1'), known.has('call 2')], [MOST_STEP_TIMES, false, true])
})

test.run()
