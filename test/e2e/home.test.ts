// timeout 300
// Large parameters and state at home in the lower tier: a step in less memory than they take has the bits of in-core, whatever the
// optimizer keeps, whatever the tier; runs go on from checkpoints and plan files, and measure with what is at home.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adam, conv2d, flatten, linear, maxPool, model, mse, relu, seq, sgd } from '../../dsl'
import { source } from '../../src/data/data'
import { validation } from '../../src/predict/validation'
import { loadPlan, savePlan } from '../../src/stage/planfile'
import { train } from '../../src/train/trainer'
import { describePlan, type Staged } from '../../src/stage/staged'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import { isPersistent, valueBytes } from '../../staging/graph/graph'
import { tilesOf } from '../../staging/plan/plan'
import { isForNext } from '../../staging/plan/ahead'
import { verify } from '../../staging/verify/verify'
import { uniform } from '../fixtures/formula'
import { fewOrAll, gateTest } from '../full'
import { withHomes, withHomesAhead } from './loadedahead'
import { BF16, DEVICE, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-home-'))
test.after(() => rmSync(root, { recursive: true }))

/** Four of these weights have 2.25 MiB. */
const wide = model(
  [2, 3, 8, 8],
  seq(
    conv2d('stem', 256, 3),
    relu(),
    conv2d('c1', 256, 3),
    relu(),
    conv2d('c2', 256, 3),
    relu(),
    conv2d('c3', 256, 3),
    relu(),
    conv2d('c4', 256, 3),
    relu(),
    conv2d('head', 4, 1),
  ),
)

/** By hand, so that no image is tiled: tiles sum up in another order. */
const byHand = (net: typeof wide | typeof dense, o: StageOptions, budget: number) =>
  tryStage(net, { machine: DEVICE, algorithms: 'fixed', budget, checkpoints: ['c2'], ...o })

/** In the smallest budget that is named. */
const squeezed = (o: StageOptions, net: typeof wide | typeof dense = wide): Staged => {
  const refused = byHand(net, o, PAGE_BYTES)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  const plan = byHand(net, o, refused.left.smallestBytes)
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  return plan.right
}

const persistentBytes = ({ plan }: Staged): number =>
  plan.graph.values.filter(isPersistent).reduce((n, v) => n + valueBytes(v), 0)

const CASES: Readonly<Record<string, StageOptions>> = {
  momentum: { optimizer: sgd({ lr: 0.01, momentum: 0.9 }) },
  'two states of each': { optimizer: adam({ lr: 1e-3 }) },
  'an average, an update of two steps, some frozen': {
    optimizer: adam({ lr: 1e-3 }),
    average: 0.75,
    accumulate: 2,
    freeze: ['stem.*', 'c2.*'],
  },
  bf16: BF16,
}

const MIXED = 'an average, an update of two steps, some frozen'
for (const name of fewOrAll([MIXED], Object.keys(CASES)))
  test(`${name}: the bits of in-core in less memory than parameters and state take`, async () => {
    const o = CASES[name]!
    const alone = staged(wide, { strategy: 'in-core', ...o })
    const small = squeezed(o)
    assert.ok(!isLeft(verify(small.plan)))
    assert.ok(small.plan.storages.some((s) => s.home !== undefined))
    assert.ok(bytesOf(small.plan.peakPages) < persistentBytes(small), `${small.plan.peakPages} pages`)
    const expected = await trained(wide, alone, { steps: 4 })
    const r = await trained(wide, small, { steps: 4 })
    assert.equal([r.weightsSha256, r.losses], [expected.weightsSha256, expected.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes)
    // Into a spill file; from a checkpoint; by a plan file.
    const checkpointDir = join(root, name)
    const spilled = await trained(wide, small, { steps: 2, checkpointDir, spill: root })
    assert.equal(spilled.losses, expected.losses.slice(0, 2))
    const file = join(root, `${name}.json`)
    savePlan(file, small.plan)
    const read = describePlan(loadPlan(file), small.machine)
    const rest = await trained(wide, read, { steps: 4, checkpointDir, resume: true, spill: root })
    assert.equal([rest.resumedFrom, rest.weightsSha256], [2, expected.weightsSha256])
  })

/** Six weights of 144 KiB. */
const narrow = model(
  [2, 3, 8, 8],
  seq(
    conv2d('stem', 64, 3),
    relu(),
    conv2d('c1', 64, 3),
    relu(),
    conv2d('c2', 64, 3),
    relu(),
    conv2d('c3', 64, 3),
    relu(),
    conv2d('c4', 64, 3),
    relu(),
    conv2d('c5', 64, 3),
    relu(),
    conv2d('c6', 64, 3),
    relu(),
    conv2d('head', 4, 1),
  ),
)

for (const name of fewOrAll([MIXED], Object.keys(CASES)))
  test(`${name}: small weights that share pages of the lower tier have the bits of in-core`, async () => {
    const { freeze: _, ...o } = CASES[name]!
    const alone = staged(narrow, { strategy: 'in-core', ...o })
    const small = withHomes(alone)
    assert.ok(!isLeft(verify(small.plan)))
    assert.ok(small.plan.storages.some((s) => s.home !== undefined && s.cells.length > 5))
    const expected = await trained(narrow, alone, { steps: 3 })
    for (const tier of [{}, { spill: root }]) {
      const r = await trained(narrow, small, { steps: 3, ...tier })
      assert.equal([r.weightsSha256, r.losses], [expected.weightsSha256, expected.losses])
      assert.is(r.arenaPeakBytes, r.peakBytes)
    }
  })

for (const name of fewOrAll([MIXED], Object.keys(CASES)))
  test(`${name}: weights that a step loads for the next one have the bits of in-core`, async () => {
    const { freeze: _, ...o } = CASES[name]!
    const alone = staged(wide, { strategy: 'in-core', ...o })
    const crossing = withHomesAhead(alone)
    const { plan } = crossing
    assert.ok(!isLeft(verify(plan)))
    const isHome = (storage: number): boolean => plan.storages[storage]!.home !== undefined
    const loads = plan.residencies.filter((r) => isHome(r.storage) && isForNext(r, plan.calls.length))
    const begins = plan.residencies.filter((r) => isHome(r.storage) && !r.swapIn)
    assert.is(loads.length, begins.length)
    assert.ok(loads.length > 0)
    const expected = await trained(wide, alone, { steps: 7 })
    for (const tier of [{}, { spill: root }]) {
      const checkpointDir = join(root, `${name} ${Object.keys(tier)}`)
      const first = await trained(wide, crossing, { steps: 3, checkpointDir, checkpointEvery: 2, ...tier })
      assert.equal(first.losses, expected.losses.slice(0, 3))
      assert.is(first.arenaPeakBytes, first.peakBytes)
      const r = await trained(wide, crossing, { steps: 7, checkpointDir, resume: true, ...tier })
      assert.equal([r.resumedFrom, r.weightsSha256], [3, expected.weightsSha256])
    }
  })

/** A dense weight of 33 MiB with rows that no part of 16 MiB ends at, and a convolution's of 36 MiB. */
const dense = model(
  [2, 64, 8, 8],
  seq(
    conv2d('c1', 1024, 1),
    relu(),
    maxPool(4),
    conv2d('c2', 1024, 3),
    relu(),
    conv2d('narrow', 2084, 1),
    flatten(),
    linear('fc1', 1037),
    relu(),
    linear('fc2', 4),
  ),
)

for (const name of fewOrAll([MIXED], ['momentum', 'two states of each', MIXED]))
  gateTest(`${name}: large weights are updated by rows, to the bits of in-core`, async () => {
    const o: StageOptions = { ...CASES[name], checkpoints: ['narrow'], freeze: ['c1.*'] }
    const { checkpoints: _, ...whole } = o
    const small = squeezed(o, dense)
    assert.ok(!isLeft(verify(small.plan)))
    const loops = small.plan.segments.filter((s) => tilesOf(s.grid) > 1)
    assert.equal(
      loops.map((s) => [s.name, s.phase, s.grid.B]),
      [
        ['fc1', 'update', 3],
        ['c2', 'update', 3],
      ],
    )
    const expected = await trained(dense, staged(dense, { strategy: 'in-core', ...whole }), { steps: 2 })
    const r = await trained(dense, small, { steps: 2, spill: root })
    assert.equal([r.weightsSha256, r.losses], [expected.weightsSha256, expected.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes)
  })

test('evaluations between epochs read weights at home', async () => {
  const data = source({
    length: 4,
    read: (i) => ({ input: uniform(`x${i}`, [3, 8, 8], 1), target: uniform(`t${i}`, [4, 8, 8], 1) }),
  })
  const o: StageOptions = { loss: mse, optimizer: adam({ lr: 1e-3 }) }
  const measured = async (plan: Staged) => (await train(wide, plan, { epochs: 2, data, evaluate: validation({ data }) })).measured
  const [small, alone] = [await measured(squeezed(o)), await measured(staged(wide, { strategy: 'in-core', ...o }))]
  assert.is(alone.length, 2)
  assert.equal(
    small.map((m) => m.metrics),
    alone.map((m) => m.metrics),
  )
})

test.run()
