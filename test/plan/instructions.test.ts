// The order of a step's instructions: the events of one point, and one wait for every copy.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Instr, instructions, isPermanent } from '../../staging/plan/instructions'
import type { UnpagedResidency, Plan } from '../../staging/plan/plan'
import { callsOf, planWith } from '../schedule/steps'

const text = (i: Instr): string =>
  i.tag === 'mark' ? `mark ${i.segment}.${i.tile}` : 'call' in i ? `${i.tag} ${i.call}` : `${i.tag} ${i.residency}`
const list = (drafts: readonly UnpagedResidency[], calls: number, scopes = {}): string[] =>
  instructions(planWith(drafts, callsOf(new Array<number>(calls).fill(1)), scopes)).map(text)

test('an exchange beside computing starts in its turn, and is waited for before all else of its point', () => {
  const calls = callsOf([0, 1, 1, 1]).map((c, i) => (i === 0 ? { ...c, beside: { until: 2, seconds: 3 } } : c))
  const plan = planWith([{ storage: 0, from: 0, to: 1, acquire: 0, release: 2 }], calls)
  assert.equal(instructions(plan).map(text), [
    'acquire 0',
    'mark 0.0',
    'exchange 0',
    'call 1',
    'waitExchange 0',
    'release 0',
    'call 2',
    'call 3',
  ])
})

test('order at one point: start and wait of swaps out, release and acquire, start and wait of swaps in, call', () => {
  const drafts: UnpagedResidency[] = [
    { storage: 0, from: 0, to: 1, acquire: 0, release: 1, swapOut: { start: 1 }, tierOffset: 0 },
    { storage: 1, from: 0, to: 1, acquire: 0, release: 1 },
    { storage: 2, from: 0, to: 1, acquire: 1, release: 2, swapIn: { ready: 1, from: 'source' } },
    { storage: 3, from: 0, to: 1, acquire: 1, release: 2 },
  ]
  assert.equal(list(drafts, 2, { 2: 'fed' }), [
    'acquire 0',
    'acquire 1',
    'mark 0.0',
    'call 0',
    'swapOut 0',
    'waitSwapOut 0',
    'release 0',
    'release 1',
    'acquire 2',
    'swapIn 2',
    'acquire 3',
    'waitSwapIn 2',
    'call 1',
    'release 2',
    'release 3',
  ])
})

test('a swap out starts at its point and is waited for at its release; a swap in is waited for at its point', () => {
  const drafts: UnpagedResidency[] = [
    { storage: 0, from: 0, to: 1, acquire: 0, release: 3, swapOut: { start: 1 }, tierOffset: 0 },
    { storage: 0, from: 0, to: 1, acquire: 4, release: 7, swapIn: { ready: 6, from: 'tier' }, tierOffset: 0 },
  ]
  assert.equal(list(drafts, 7), [
    'acquire 0',
    'mark 0.0',
    'call 0',
    'swapOut 0',
    'call 1',
    'call 2',
    'waitSwapOut 0',
    'release 0',
    'call 3',
    'acquire 1',
    'swapIn 1',
    'call 4',
    'call 5',
    'waitSwapIn 1',
    'call 6',
    'release 1',
  ])
})

test('permanent values are neither acquired nor released', () => {
  const drafts: UnpagedResidency[] = [
    { storage: 0, from: 0, to: 4, acquire: 0, release: 2 },
    { storage: 1, from: 0, to: 1, acquire: 0, release: 2 },
  ]
  const plan = planWith(drafts, callsOf([1, 1]), { 0: 'persistent' })
  assert.equal(instructions(plan).map(text), ['acquire 1', 'mark 0.0', 'call 0', 'call 1', 'release 1'])
  assert.equal(
    plan.residencies.map((r) => isPermanent(plan)(r)),
    [true, false],
  )
})

test('a mark where the segment or the tile changes', () => {
  const at = (segment: number, tile: number) => ({ ...callsOf([1])[0]!, segment, tile })
  const plan: Plan = { ...planWith([], []), calls: [at(0, 0), at(0, 0), at(0, 1), at(1, 1), at(1, 0)] }
  assert.equal(instructions(plan).map(text), [
    'mark 0.0',
    'call 0',
    'call 1',
    'mark 0.1',
    'call 2',
    'mark 1.1',
    'call 3',
    'mark 1.0',
    'call 4',
  ])
})

test('of copies at one point, the one with the first wait starts first', () => {
  const swapOut = (storage: number, release: number): UnpagedResidency => ({
    storage,
    from: 0,
    to: 1,
    acquire: 0,
    release,
    swapOut: { start: 1 },
    tierOffset: 0,
  })
  const swapIn = (storage: number, ready: number): UnpagedResidency => ({
    storage,
    from: 0,
    to: 1,
    acquire: 2,
    release: 9,
    swapIn: { ready, from: 'source' },
  })
  const plan = planWith(
    [swapOut(0, 4), swapOut(1, 2), swapOut(2, 3), swapIn(3, 6), swapIn(4, 4), swapIn(5, 5)],
    callsOf(new Array<number>(9).fill(1)),
    { 3: 'fed', 4: 'fed', 5: 'fed' },
  )
  const order = (tag: Instr['tag']): number[] =>
    instructions(plan).flatMap((i) => (i.tag === tag ? [plan.residencies[(i as { residency: number }).residency]!.storage] : []))
  assert.equal(order('swapOut'), [1, 2, 0])
  assert.equal(order('waitSwapOut'), [1, 2, 0])
  assert.equal(order('swapIn'), [4, 5, 3])
  assert.equal(order('waitSwapIn'), [4, 5, 3])
})

test.run()
