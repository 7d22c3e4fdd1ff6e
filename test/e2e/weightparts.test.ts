// timeout 300
// Weights in parts: a step in less memory than its largest weight with its gradient trains as in-core, up to rounding. Runs are the same each time,
// and go on from the checkpoints of plans with whole weights, and the other way round.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adam, conv2d, convTranspose2d, flatten, linear, model, relu, seq, sgd } from '../../dsl'
import { loadPlan, savePlan } from '../../src/stage/planfile'
import { describePlan, type Staged } from '../../src/stage/staged'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { bytesOf, mib, PAGE_BYTES } from '../../staging/core/bytes'
import { verify } from '../../staging/verify/verify'
import { gateTest } from '../full'
import { DEVICE, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-weightparts-'))
test.after(() => rmSync(root, { recursive: true }))

/** Weights of 8 and 4 MiB. */
const dense = model([4, 8, 16, 16], seq(flatten(), linear('fc1', 1024), relu(), linear('fc2', 1024), relu(), linear('head', 4)))
/** Weights of 2.25 MiB, whose gradients have nine times the scratch by the op table. */
const wide = model(
  [2, 3, 8, 8],
  seq(
    conv2d('stem', 256, 3),
    relu(),
    conv2d('c1', 256, 3),
    relu(),
    convTranspose2d('up', 256, 2, { stride: 2 }),
    relu(),
    conv2d('head', 4, 1),
  ),
)
type Net = typeof dense | typeof wide

const FIXED = { algorithms: 'fixed', effort: 0.1 } as const
const OPTIONS: StageOptions = { optimizer: sgd({ lr: 0.01, momentum: 0.9 }) }

const planned = (net: Net, budget: number, o: StageOptions) =>
  tryStage(net, { machine: DEVICE, ...FIXED, strategy: 'auto', spill: root, budget, ...OPTIONS, ...o })

const refusalOf = (net: Net, budget: number, o: StageOptions): number => {
  const refused = planned(net, budget, o)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible')
    throw new Error(JSON.stringify(isLeft(refused) ? refused.left : `a plan fits ${budget} bytes`))
  return refused.left.smallestBytes
}

/** In the smallest budget that is named. */
const squeezed = (net: Net, o: StageOptions = {}): Staged => {
  const plan = planned(net, refusalOf(net, PAGE_BYTES, o), o)
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  return plan.right
}

const close = (got: readonly number[], expected: readonly number[]): void => {
  assert.is(got.length, expected.length)
  got.forEach((x, i) => assert.ok(Math.abs(x - expected[i]!) <= 1e-4 * Math.abs(expected[i]!), `${got} instead of ${expected}`))
}

const inCore = (net: Net, o: StageOptions = {}): Staged => staged(net, { strategy: 'in-core', ...OPTIONS, ...o })

const asInCore = async (net: Net, mostBytes: number, o: StageOptions = {}): Promise<void> => {
  const small = squeezed(net, o)
  const { budgetBytes } = small.plan
  assert.ok(small.plan.graph.inParts, 'weights are in parts')
  assert.ok(budgetBytes < mostBytes, `${budgetBytes / mib(1)} MiB`)
  assert.is(bytesOf(small.plan.peakPages), budgetBytes)
  assert.is(refusalOf(net, budgetBytes - PAGE_BYTES, o), budgetBytes)
  assert.ok(!isLeft(verify(small.plan)))
  const expected = await trained(net, inCore(net, o), { steps: 4 })
  const [first, second] = [
    await trained(net, small, { steps: 4, spill: root }),
    await trained(net, small, { steps: 4, spill: root }),
  ]
  assert.equal([first.losses, first.weightsSha256], [second.losses, second.weightsSha256])
  assert.is(first.arenaPeakBytes, first.peakBytes)
  close(first.losses, expected.losses)
}

test('dense layers train in less than a weight and its gradient', () => asInCore(dense, mib(16)))

gateTest('convolutions and transposed ones train in less than the scratch of one', () => asInCore(wide, mib(16)))

gateTest('on the reference device, too', () => asInCore(dense, mib(32), { machine: 'ref' }))

gateTest('clipped gradients, accumulated steps, an average and a frozen bias', () =>
  asInCore(dense, mib(16), { optimizer: adam({ lr: 1e-3 }), clipNorm: 0.5, accumulate: 2, average: 0.75, freeze: ['fc2.bias'] }),
)

test('initial weights are those of a plan with whole weights', async () => {
  const o = { optimizer: sgd({ lr: 0 }) }
  const [whole, parts] = [
    await trained(dense, inCore(dense, o), { steps: 1 }),
    await trained(dense, squeezed(dense, o), { steps: 1, spill: root }),
  ]
  assert.is(parts.weightsSha256, whole.weightsSha256)
})

test('a run resumes from weights in parts to whole ones, and from whole ones to parts of a plan file', async () => {
  const [whole, parts] = [inCore(dense), squeezed(dense)]
  const file = join(root, 'parts.json')
  savePlan(file, parts.plan)
  const read = describePlan(loadPlan(file), parts.machine)
  assert.ok(!isLeft(verify(read.plan)))
  const expected = await trained(dense, whole, { steps: 4 })
  for (const [first, then] of [
    [parts, whole],
    [whole, read],
  ] as const) {
    const checkpointDir = mkdtempSync(join(root, 'run-'))
    const begun = await trained(dense, first, { steps: 2, checkpointDir, spill: root })
    const ended = await trained(dense, then, { steps: 4, checkpointDir, resume: true, spill: root })
    assert.is(ended.resumedFrom, 2)
    close(begun.losses, expected.losses.slice(0, 2))
    close(ended.losses, expected.losses)
  }
})

test.run()
