// timeout 400
// Weights of classes and smoothed labels: one run, whatever the plan and the device; and what an evaluation makes of them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy, crossEntropyWith, type Loss, sgd } from '../../dsl'
import { addonFile } from '../../src/device/native'
import type { TrainResult } from '../../src/train/result'
import type { MachineName, StrategyName } from '../../staging/core/names'
import { npy } from '../faults/labelfiles'
import { trunk } from './models'
import { ended, training } from './processes'
import { DEVICE, halfway, sameBits, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-class-weights-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

const SIZE = 64
const PIXELS = 2 * SIZE ** 2
const labelAt = (i: number): number => (i % 7 === 0 ? 255 : (i * 13 + Math.floor(i / 9)) % 4)
const image = Float32Array.from({ length: 3 * PIXELS }, (_, i) => ((i * 31) % 17) / 17 - 0.5)
const labels = Uint8Array.from({ length: PIXELS }, (_, i) => labelAt(i))
writeFileSync(join(root, 'input.npy'), npy('<f4', [2, 3, SIZE, SIZE], new Uint8Array(image.buffer)))
writeFileSync(join(root, 'target.npy'), npy('|u1', [2, SIZE, SIZE], labels))

const WEIGHTS = [0.5, 1, 0, 4]
const LOSSES: Readonly<Record<string, Loss>> = {
  weighed: crossEntropyWith({ ignoreIndex: 255, weights: WEIGHTS }),
  smoothed: crossEntropyWith({ ignoreIndex: 255, labelSmoothing: 0.2 }),
  both: crossEntropyWith({ ignoreIndex: 255, weights: WEIGHTS, labelSmoothing: 0.2 }),
}
const optimizer = sgd({ lr: 0.01 })

const run = (loss: Loss, strategy: StrategyName = 'in-core', machine: MachineName = DEVICE): Promise<TrainResult> => {
  const o = { loss, optimizer, machine }
  const budget = strategy === 'tiled' ? smallestBudget(trunk, 'tiled', o) : undefined
  const plan = staged(trunk, {
    ...o,
    strategy,
    budget: strategy === 'in-core' ? undefined : (budget ?? halfway(trunk, strategy, o)),
  })
  return trained(trunk, plan, { data: root, steps: 2 })
}
const near = (got: number, expected: number, within: number): void =>
  assert.ok(Math.abs(got - expected) <= within * Math.abs(expected), `${got} is not near ${expected}`)

for (const [name, loss] of Object.entries(LOSSES))
  test(`${name}: tiled as whole, and as ref in double`, async () => {
    const whole = await run(loss)
    const [double, imitated, tiled] = [
      await run(loss, 'in-core', 'ref'),
      await run(loss, 'in-core', 'cuda'),
      await run(loss, 'tiled'),
    ]
    whole.losses.forEach((l, i) => {
      near(l, double.losses[i]!, 1e-5)
      near(imitated.losses[i]!, double.losses[i]!, 1e-5)
      near(tiled.losses[i]!, l, 1e-5)
    })
  })

test('plans that swap and recompute give the bits of in-core', async () => void (await sameBits({ loss: LOSSES.both! })))

test('weights that are all the same are none, and so is an empty record of options', async () => {
  const without = await run(crossEntropyWith({ ignoreIndex: 255 }))
  const same = await run(crossEntropyWith({ ignoreIndex: 255, weights: [3, 3, 3, 3], labelSmoothing: 0 }))
  same.losses.forEach((l, i) => near(l, without.losses[i]!, 1e-6))
  const graphOf = (loss: Loss) => staged(trunk, { loss, optimizer }).plan.graph
  const [plain, empty] = [graphOf(crossEntropy), graphOf(crossEntropyWith({}))]
  assert.equal(empty, plain)
})

test('on the command line: --class-weights and --label-smoothing', async () => {
  const said = async (...args: string[]): Promise<readonly [number | null, string]> => {
    const end = await ended(training('--steps', '1', ...args))
    return [end.code, end.code === 0 ? '' : JSON.parse(end.out).error.message]
  }
  const of = ['--loss', 'cross-entropy'] as const
  assert.equal(await said(...of, '--class-weights', '1,2,0.5,1', '--label-smoothing', '0.1'), [0, ''])
  const mse = '--class-weights belongs to --loss cross-entropy, dice'
  assert.equal(await said('--loss', 'mse', '--class-weights', '1,2'), [2, mse])
  const [code, words] = await said(...of, '--class-weights', '1,2')
  assert.equal([code, /2 weights are given; legal are \d+, one for each class/.test(words)], [2, true], words)
  const [over, more] = await said(...of, '--label-smoothing', '2')
  assert.equal([over, /labelSmoothing is 2; legal is 0 to 1/.test(more)], [2, true], more)
})

test.run()
