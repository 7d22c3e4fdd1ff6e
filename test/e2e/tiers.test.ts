// timeout 300
// Host memory first, then a disk: plans over three tiers train to the bits of in-core, hold what they say in each, and are refused in words
// where memory, disk or writes are too little.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText, exitCode } from '../../src/errors/errors'
import { loadPlan, savePlan } from '../../src/stage/planfile'
import { describePlan, type Staged } from '../../src/stage/staged'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { planJson } from '../../src/report/facts'
import { summary } from '../../src/report/summary'
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import { isSwappedToTier, isOnDisk } from '../../staging/plan/plan'
import { verify } from '../../staging/verify/verify'
import { trunk } from './models'
import { DEVICE, halfway, staged, trained } from './runs'
import { gateTest } from '../full'

const spill = mkdtempSync(join(tmpdir(), 'spillway-tiers-'))
test.after(() => rmSync(spill, { recursive: true }))

const strategy = 'swap:greedy'
const budget = halfway(trunk, strategy)
const alone = staged(trunk, { strategy, budget })
const inTwo = (hostMemory: number, o: StageOptions = {}): Staged => staged(trunk, { strategy, budget, spill, hostMemory, ...o })

const refused = (o: StageOptions) => {
  const answer = tryStage(trunk, { machine: DEVICE, algorithms: 'fixed', strategy, budget, ...o })
  if (!isLeft(answer)) throw new Error('there is a plan')
  return { ...answer.left, words: errorText(answer.left), code: exitCode(answer.left) }
}

test('host memory up to its limit and the disk for the rest: the bits of in-core, also from plan files', async () => {
  const expected = await trained(trunk, staged(trunk, { strategy: 'in-core' }))
  assert.ok(alone.plan.tierBytes >= 2 * PAGE_BYTES && alone.plan.hostBytes === undefined)
  for (const hostMemory of [PAGE_BYTES, alone.plan.tierBytes - PAGE_BYTES]) {
    const plan = inTwo(hostMemory)
    const { hostBytes, tierBytes } = plan.plan
    assert.ok(!isLeft(verify(plan.plan)))
    assert.ok(hostBytes! > 0 && hostBytes! <= hostMemory && tierBytes > hostBytes!, `${hostBytes} of ${hostMemory}, ${tierBytes}`)
    const r = await trained(trunk, plan, { spill })
    assert.equal([r.weightsSha256, r.losses], [expected.weightsSha256, expected.losses])
    assert.ok(r.diskBytes > 0 && r.diskBytes <= tierBytes - hostBytes! + PAGE_BYTES, `${r.diskBytes}`)
    assert.is(r.arenaPeakBytes, r.peakBytes)
    const file = join(spill, 'plan.json')
    savePlan(file, plan.plan)
    const read = describePlan(loadPlan(file), plan.machine)
    assert.is(read.plan.hostBytes, hostBytes)
    assert.is((await trained(trunk, read, { spill })).weightsSha256, expected.weightsSha256)
    rmSync(file)
  }
  assert.equal(readdirSync(spill), [])
})

test('where memory holds all, nothing is on disk, and the plan moves as without one', async () => {
  const plan = inTwo(alone.plan.tierBytes)
  assert.is(plan.plan.hostBytes, plan.plan.tierBytes)
  assert.equal(plan.plan.residencies, alone.plan.residencies)
  const r = await trained(trunk, plan, { spill })
  assert.is(r.diskBytes, 0)
})

test('a plan for host memory alone is split by the limits of the run', async () => {
  const r = await trained(trunk, alone, { spill, hostMemory: PAGE_BYTES })
  const all = await trained(trunk, alone, { spill })
  assert.ok(r.diskBytes > 0 && r.diskBytes < all.diskBytes)
  assert.is(r.weightsSha256, all.weightsSha256)
})

test('a plan with a disk is not run without one', async () => {
  try {
    await trained(trunk, inTwo(PAGE_BYTES))
    assert.unreachable()
  } catch (e) {
    assert.match((e as Error).message, /^the plan swaps [\d.]+ MiB to a disk: add --spill DIR /)
  }
})

test('the note has both shares, and the bytes written per step and week', () => {
  const { plan, timeline, staging } = inTwo(PAGE_BYTES)
  const json = planJson(plan, timeline, staging)
  const far = plan.residencies.filter((r) => isSwappedToTier(r) && isOnDisk(plan, r))
  assert.is(json.hostBytes + json.diskBytes, plan.tierBytes)
  assert.is(json.hostBytes, plan.hostBytes)
  assert.ok(json.bytesToDisk! > 0 && json.bytesToDisk! <= far.reduce((n, r) => n + bytesOf(r.to - r.from), 0))
  assert.ok(json.bytesFromDisk! >= json.bytesToDisk!)
  assert.ok(Math.abs(json.bytesToDiskInAWeek! / ((json.bytesToDisk! * 604800) / json.makespanSeconds) - 1) < 1e-6)
  const words = summary(plan, timeline, staging)
  assert.match(words, / in host memory · [\d.]+ MiB on disk\n/)
  assert.match(words, /\n {2}disk {7}a step writes [\d.]+ MiB, reads [\d.]+ MiB · [\d.]+ \wiB per week\n/)
  const capped = inTwo(PAGE_BYTES, { spillWritesPerStep: 2 ** 40 })
  assert.is(planJson(capped.plan, capped.timeline, capped.staging).spillWritesPerStep, 2 ** 40)
  assert.match(summary(capped.plan, capped.timeline, capped.staging), / \(at most 1 TiB\), reads /)
})

test('too little host memory without a disk, or too few writes: an error with legal values, and exit code 3', () => {
  const memory = refused({ hostMemory: PAGE_BYTES })
  assert.is(memory.code, 3)
  assert.match(
    memory.words,
    /^no plan of strategy 'swap:greedy' in [\d.]+ MiB fits 2\.00 MiB of host memory: the best one needs [\d.]+ MiB \(\d+ bytes\); raise --host-memory, add --spill DIR for a disk/,
  )
  const needs = memory.tag === 'TierInfeasible' ? memory.needsBytes : 0
  assert.ok(staged(trunk, { strategy, budget, hostMemory: needs }).plan.tierBytes <= needs)
  const writes = refused({ spill, spillWritesPerStep: PAGE_BYTES })
  assert.is(writes.code, 3)
  assert.match(writes.words, / fits 2\.00 MiB of disk writes per step: .*; raise --spill-writes-per-step, /)
  const none = refused({ spillWritesPerStep: PAGE_BYTES })
  assert.is(none.code, 2)
  assert.match(none.words, /^a limit on spill writes needs a spill folder: add --spill DIR/)
  assert.match(refused({ hostMemory: -1 }).words, /^hostMemory is -1; allowed: a whole number of bytes/)
})

test('the smallest budget of a refusal is one in which the memory of the lower tier is enough', () => {
  const o = { strategy, hostMemory: PAGE_BYTES } as const
  const { tag, ...named } = refused({ ...o, budget: PAGE_BYTES })
  assert.is(tag, 'BudgetInfeasible')
  const { smallestBytes } = named as { readonly smallestBytes: number }
  assert.ok(staged(trunk, { ...o, budget: smallestBytes }).plan.tierBytes <= PAGE_BYTES)
  assert.is(refused({ ...o, budget: smallestBytes - PAGE_BYTES }).tag, 'TierInfeasible')
})

gateTest('auto needs little of each tier: values that may not move are recomputed', () => {
  const o = { machine: 'v100-pcie-16g', budget: 10 * PAGE_BYTES, effort: 0.5 } as const
  const much = staged(trunk, o)
  const little = staged(trunk, { ...o, hostMemory: 0 })
  assert.ok(!isLeft(verify(little.plan)))
  assert.is(little.plan.tierBytes, 0)
  assert.ok(little.timeline.makespanSeconds >= much.timeline.makespanSeconds)
  const writes = staged(trunk, { ...o, hostMemory: 0, spill, spillWritesPerStep: PAGE_BYTES })
  const { bytesToDisk = 0 } = planJson(writes.plan, writes.timeline, writes.staging)
  assert.ok(much.plan.tierBytes > 0 && bytesToDisk <= PAGE_BYTES, `${bytesToDisk}`)
})

test.run()
