// One memory: 'auto' on a device of this host swaps only where it may, and the plan states the RAM of the whole process in advance.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText, exitCode } from '../../../src/errors/errors'
import { machineNamed } from '../../../src/machine/machine'
import { planJson } from '../../../src/report/facts'
import { reportHtml } from '../../../src/report/html'
import { summary } from '../../../src/report/summary'
import { mib } from '../../../src/stage/sizes'
import { swappingLike } from '../../../src/stage/process'
import type { Staged } from '../../../src/stage/staged'
import { stageGraph, tryStage } from '../../../src/stage/stage'
import type { StageOptions } from '../../../src/stage/stageoptions'
import { bytesOf, PAGE_BYTES } from '../../../staging/core/bytes'
import { verify } from '../../../staging/verify/verify'
import { trunk } from '../../e2e/models'
import { DEVICE, halfway, smallestBudget, staged, trained } from '../../e2e/runs'
import { FULL } from '../../full'

const spill = mkdtempSync(join(tmpdir(), 'spillway-process-'))
test.after(() => rmSync(spill, { recursive: true }))

const budget = halfway(trunk, 'auto')
/** More than the step ever swaps. */
const hostMemory = mib(256)
const MOST_APART = mib(400)

const refused = (o: StageOptions) => {
  const answer = tryStage(trunk, { machine: DEVICE, algorithms: 'fixed', ...o })
  if (!isLeft(answer)) throw new Error('there is a plan')
  return { code: exitCode(answer.left), words: errorText(answer.left), error: answer.left }
}

/** The parts of a statement, from the plan. */
const adds = ({ plan, staging }: Staged): void => {
  const p = staging.process!
  assert.is(p.deviceBytes, bytesOf(plan.peakPages))
  assert.ok(p.deviceBytes <= plan.budgetBytes)
  const fed = plan.graph.values.filter((v) => v.role === 'input' || v.role === 'target')
  // The current batch and two more, in floats.
  assert.is(p.feedBytes, 3 * fed.reduce((n, v) => n + 4 * v.shape.reduce((a, b) => a * b, 1), 0))
  assert.is(p.peakBytes, p.deviceBytes + p.swappedBytes + p.feedBytes + p.codeBytes)
}

test('auto swaps nothing into the memory of the device itself, to the bits of in-core', async () => {
  const inCore = staged(trunk, { strategy: 'in-core' })
  const plan = staged(trunk, { budget })
  assert.is(plan.plan.strategy, 'auto')
  assert.is(plan.plan.tierBytes, 0)
  assert.ok(!isLeft(verify(plan.plan)))
  adds(plan)
  assert.is(plan.staging.process!.swappedBytes, 0)
  const [mine, theirs] = [await trained(trunk, plan), await trained(trunk, inCore)]
  assert.ok(Math.abs(mine.losses[2]! / theirs.losses[2]! - 1) < 1e-4, `${mine.losses} and ${theirs.losses}`)
  assert.is(mine.arenaPeakBytes, plan.staging.process!.deviceBytes)
})

test('the devices of this host have one memory, unless some of it is offered', () => {
  const isSame = (name: string, o: StageOptions = {}): boolean | undefined => {
    const machine = machineNamed(name, { algorithms: 'fixed', ...o })
    if (isLeft(machine)) throw new Error(errorText(machine.left))
    return machine.right.link.sameMemory
  }
  for (const name of [DEVICE, 'ref', 'null']) {
    assert.is(isSame(name), true, name)
    assert.is(isSame(name, { hostMemory }), undefined, name)
    assert.is(isSame(name, { spill }), undefined, name)
  }
  assert.is(isSame('v100-pcie-16g'), undefined)
})

test('with --host-memory it has two memories, and swapped pages are a part of the process', () => {
  const small = smallestBudget(trunk, 'auto', { hostMemory })
  assert.ok(small < smallestBudget(trunk, 'auto'))
  const plan = staged(trunk, { budget: small, hostMemory })
  assert.ok(plan.plan.tierBytes > 0 && plan.plan.tierBytes <= hostMemory)
  adds(plan)
  assert.is(plan.staging.process!.swappedBytes, plan.plan.tierBytes)
})

test('with a disk, it swaps to the disk alone', () => {
  const plan = staged(trunk, { budget: smallestBudget(trunk, 'auto', { hostMemory }), spill })
  assert.ok(plan.plan.tierBytes > 0)
  adds(plan)
  assert.is(plan.staging.process!.swappedBytes, 0)
  assert.is(planJson(plan.plan, plan.timeline, plan.staging).diskBytes, plan.plan.tierBytes)
})

test('other strategies keep two memories, and simulated machines too', () => {
  const greedy = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy') })
  assert.ok(greedy.plan.tierBytes > 0)
  adds(greedy)
  assert.is(greedy.staging.process!.swappedBytes, greedy.plan.tierBytes)
  const gpu = staged(trunk, { machine: 'v100-pcie-16g', budget: 10 * PAGE_BYTES, effort: 0.5 })
  assert.ok(gpu.plan.tierBytes > 0)
  assert.is(gpu.staging.process, undefined)
})

test('another plan of a run may swap to host memory if the first one does', () => {
  const greedy = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy') })
  const alone = staged(trunk, { budget })
  assert.is(swappingLike(alone.plan, alone.machine), alone.machine)
  const machine = swappingLike(greedy.plan, greedy.machine)
  const small = smallestBudget(trunk, 'auto', { hostMemory })
  const planOn = (on: typeof machine) => stageGraph(greedy.plan.graph, on, { budget: small, algorithms: 'fixed' })
  const plan = planOn(machine)
  assert.ok(!isLeft(plan) && plan.right.plan.tierBytes > 0)
  assert.ok(isLeft(planOn(greedy.machine)))
})

test('a budget that is too small without a lower tier is refused with the cures', () => {
  const smallest = smallestBudget(trunk, 'auto')
  const { code, words, error } = refused({ budget: smallest - PAGE_BYTES })
  assert.is(code, 3)
  assert.match(words, new RegExp(`the smallest budget that works is [\\d.]+ MiB \\(${smallest} bytes\\)`))
  assert.match(
    words,
    /; raise --budget, or swap: add --spill DIR for a disk, or --host-memory SIZE for more RAM beside the budget$/,
  )
  assert.ok(error.tag === 'BudgetInfeasible' && error.withoutTier)
  assert.ok(!isLeft(tryStage(trunk, { machine: DEVICE, algorithms: 'fixed', budget: smallest })))
  assert.not.match(refused({ budget: PAGE_BYTES, hostMemory }).words, /--spill/)
})

test('predictions swap nothing either', () => {
  const plan = staged(trunk, { mode: 'predict', budget: smallestBudget(trunk, 'auto', { mode: 'predict' }) })
  assert.is(plan.plan.tierBytes, 0)
})

test('the statement is in the summary, in the page and in the numbers', () => {
  const { plan, timeline, staging } = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy') })
  assert.match(
    summary(plan, timeline, staging),
    /\n {2}process {4}about [\d.]+ MiB of RAM: [\d.]+ MiB on the device, [\d.]+ MiB of swapped pages, [\d.]+ [KM]iB of batches, 160 MiB of code\n/,
  )
  assert.match(
    reportHtml(plan, timeline, staging),
    /<em>process<\/em><strong>[\d.]+ MiB<\/strong><span>RAM: [\d.]+ MiB on the device, /,
  )
  assert.equal(planJson(plan, timeline, staging).process, staging.process)
})

test('a plan prints its summary, and has its peak', () => {
  const greedy = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy') })
  const { plan, timeline, staging, peakBytes } = greedy
  assert.is(inspect(greedy), summary(plan, timeline, staging))
  assert.is(peakBytes, planJson(plan, timeline, staging).peakBytes)
})

test('a plan writes its page, and replaces only a page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-page-'))
  try {
    const plan = staged(trunk, { strategy: 'in-core' })
    const page = join(folder, 'plan.html')
    plan.report(page)
    plan.report(page)
    assert.match(readFileSync(page, 'utf8'), /<em>peak memory<\/em>/)
    const weights = join(folder, 'notes.txt')
    writeFileSync(weights, 'weights')
    assert.throws(() => plan.report(weights), /report .*notes\.txt: report writes/)
    assert.is(readFileSync(weights, 'utf8'), 'weights')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

// In full mode only: it depends on the memory of the test process.
if (FULL)
  test('a run uses the stated memory of its plan, within 400 MiB', async () => {
    const plan = staged(trunk, { budget })
    const { processPeakBytes } = await trained(trunk, plan)
    assert.ok(Math.abs(processPeakBytes - plan.staging.process!.peakBytes) < MOST_APART, `${processPeakBytes}`)
  })

test.run()
