// timeout 300
// A step of two objectives on a device: kept, recomputed, swapped or tiled, it trains the same weights; it checkpoints,
// resumes and reads its inputs from files.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { asTrainable, type TrainingStep } from '../../dsl'
import exported from '../../examples/own-step'
import { writeTensors } from '../../src/files/safetensors'
import type { Staged } from '../../src/stage/staged'
import { tryStage } from '../../src/stage/stage'
import type { TrainOptions } from '../../src/train/options'
import { trainTask } from '../../src/train/trainer'
import { openTensors, readTensor } from '../../src/files/safetensors'
import { uniform } from '../fixtures/formula'
import type { MachineName, StrategyName } from '../../staging/core/names'

const done = <A>(result: Either<unknown, A>): A => {
  if (isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right
}
const at = (height: number, width: number, batch?: number): TrainingStep =>
  done(asTrainable(exported, { height, width, ...(batch === undefined ? {} : { batch }) })) as TrainingStep

const staged = (s: TrainingStep, machine: MachineName, strategy: StrategyName): Staged => {
  const stageIn = (budget: number) => tryStage(s, { machine, strategy, algorithms: 'fixed', budget })
  const refused = stageIn(0)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a budget of nothing works')
  return done(stageIn(refused.left.smallestBytes))
}

const inFolder = async (run: (folder: string) => Promise<void>): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'step-'))
  try {
    await run(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const trained = async (s: TrainingStep, plan: Staged, o: Partial<TrainOptions> = {}) =>
  done(await trainTask(s, plan, { steps: 3, seed: 5, threads: 1, ...o })())

const large = at(211, 160)
const strategies = ['checkpoint:sqrt', 'checkpoint:optimal', 'swap:greedy'] as const

test('recomputed and swapped in the smallest budgets, it trains to the bits of in-core', async () => {
  const inCore = staged(large, 'cpu', 'in-core')
  const { weightsSha256, losses } = await trained(large, inCore)
  assert.is(new Set(losses).size, 3)
  for (const strategy of strategies) {
    const plan = staged(large, 'cpu', strategy)
    assert.ok(plan.plan.peakPages < inCore.plan.peakPages, `${strategy} saves nothing`)
    const ran = await trained(large, plan)
    assert.equal(ran.losses, losses, strategy)
    assert.is(ran.weightsSha256, weightsSha256, strategy)
    if (strategy === 'swap:greedy') assert.ok(ran.bytesOut > 0)
    else assert.ok(ran.recomputeSeconds > 0)
  }
})

const tensorsOf = (file: string): ReadonlyMap<string, Float64Array> => {
  const opened = done(openTensors('weights', file))
  return new Map([...opened.tensors].map(([name, t]) => [name, new Float64Array(done(readTensor(opened, t)).slice().buffer)]))
}

test('in tiles it trains the same weights within rounding', () =>
  inFolder(async (folder) => {
    const save = (name: string) => join(folder, `${name}.safetensors`)
    const small = at(99, 80, 1)
    const whole = await trained(small, staged(small, 'ref', 'in-core'), { save: save('whole') })
    const tiles = staged(small, 'ref', 'tiled')
    assert.ok(
      tiles.plan.segments.some((s) => s.grid.H * s.grid.W > 1),
      'no tiles',
    )
    const ran = await trained(small, tiles, { save: save('tiles') })
    ran.losses.forEach((l, i) => assert.ok(Math.abs(l - whole.losses[i]!) <= 1e-9 * l))
    const other = tensorsOf(save('tiles'))
    for (const [name, w] of tensorsOf(save('whole'))) {
      const apart = Math.hypot(...w.map((x, i) => x - other.get(name)![i]!))
      // Adam divides by the gradient's size: where that is zero in truth, rounding decides.
      assert.ok(apart <= 1e-3 * Math.hypot(...w) + 1e-5, `${name}: ${apart}`)
    }
  }))

test('it reads its inputs by name, checkpoints, and resumes to the same bits', () =>
  inFolder(async (folder) => {
    const s = at(24, 20)
    const data = join(folder, 'data.safetensors')
    const bytes = (name: string, shape: readonly number[]) => new Uint8Array(uniform(name, shape, 1).buffer)
    writeTensors(
      data,
      [['label', [2, 4, 24, 20]] as const, ['photo', [2, 3, 24, 20]] as const].map(([name, shape]) => ({
        name,
        type: 'F32' as const,
        shape,
        read: () => right(bytes(name, shape)),
      })),
    )
    const plan = staged(s, 'cpu', 'in-core')
    const whole = await trained(s, plan, { data, steps: 4 })
    const checkpointDir = join(folder, 'run')
    await trained(s, plan, { data, steps: 2, checkpointDir })
    const resumed = await trained(s, plan, { data, steps: 4, checkpointDir, resume: true })
    assert.is(resumed.resumedFrom, 2)
    assert.is(resumed.weightsSha256, whole.weightsSha256)
    assert.equal(resumed.losses, whole.losses)
  }))

test.run()
