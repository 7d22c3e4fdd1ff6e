// timeout 400
// Weights of classes and smoothed labels: one run, whatever the plan and the device; and what an evaluation makes of them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy, crossEntropyWith, type Loss, type Model, sgd } from '../../dsl'
import { addonFile } from '../../src/device/native'
import type { TrainResult } from '../../src/train/result'
import type { MachineName, StrategyName } from '../../staging/core/names'
import { npy } from '../faults/labelfiles'
import { fewOrAll, fullTest } from '../full'
import { smallTrunk, trunk } from './models'
import { trainingHere } from './processes'
import { DEVICE, sameBits, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-class-weights-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

const labelAt = (i: number): number => (i % 7 === 0 ? 255 : (i * 13 + Math.floor(i / 9)) % 4)
const folderOf = (size: number): string => {
  const folder = mkdtempSync(join(root, `${size}-`))
  const image = Float32Array.from({ length: 6 * size ** 2 }, (_, i) => ((i * 31) % 17) / 17 - 0.5)
  const labels = Uint8Array.from({ length: 2 * size ** 2 }, (_, i) => labelAt(i))
  writeFileSync(join(folder, 'input.npy'), npy('<f4', [2, 3, size, size], new Uint8Array(image.buffer)))
  writeFileSync(join(folder, 'target.npy'), npy('|u1', [2, size, size], labels))
  return folder
}
const [large, small] = [folderOf(64), folderOf(16)]

const WEIGHTS = [0.5, 1, 0, 4]
const LOSSES: Readonly<Record<string, Loss>> = {
  weighed: crossEntropyWith({ ignoreIndex: 255, weights: WEIGHTS }),
  smoothed: crossEntropyWith({ ignoreIndex: 255, labelSmoothing: 0.2 }),
  both: crossEntropyWith({ ignoreIndex: 255, weights: WEIGHTS, labelSmoothing: 0.2 }),
}
const optimizer = sgd({ lr: 0.01 })

const run = (
  loss: Loss,
  strategy: StrategyName = 'in-core',
  machine: MachineName = DEVICE,
  net: Model = trunk,
): Promise<TrainResult> => {
  const o = { loss, optimizer, machine }
  const budget = strategy === 'in-core' ? undefined : smallestBudget(net, strategy, o)
  const plan = staged(net, { ...o, strategy, budget })
  return trained(net, plan, { data: net === (trunk as Model) ? large : small, steps: 2 })
}
const near = (got: number, expected: number, within: number): void =>
  assert.ok(Math.abs(got - expected) <= within * Math.abs(expected), `${got} is not near ${expected}`)

for (const [name, loss] of fewOrAll([['both', LOSSES.both!]] as const, Object.entries(LOSSES)))
  test(`${name}: tiled as whole, and as ref in double`, async () => {
    const [whole, tiled] = [await run(loss), await run(loss, 'tiled')]
    whole.losses.forEach((l, i) => near(tiled.losses[i]!, l, 1e-5))
    const on = (machine: MachineName) => run(loss, 'in-core', machine, smallTrunk)
    const [single, double, imitated] = [await on(DEVICE), await on('ref'), await on('cuda')]
    double.losses.forEach((l, i) => {
      near(single.losses[i]!, l, 1e-5)
      near(imitated.losses[i]!, l, 1e-5)
    })
  })

fullTest('plans that swap and recompute have the bits of in-core', async () => void (await sameBits({ loss: LOSSES.both! })))

test('equal weights of all classes have no effect, like an empty record of options', async () => {
  const without = await run(crossEntropyWith({ ignoreIndex: 255 }))
  const same = await run(crossEntropyWith({ ignoreIndex: 255, weights: [3, 3, 3, 3], labelSmoothing: 0 }))
  same.losses.forEach((l, i) => near(l, without.losses[i]!, 1e-6))
  const graphOf = (loss: Loss) => staged(trunk, { loss, optimizer }).plan.graph
  const [plain, empty] = [graphOf(crossEntropy), graphOf(crossEntropyWith({}))]
  assert.equal(empty, plain)
})

test('on the command line: --class-weights and --label-smoothing', async () => {
  const said = async (...args: string[]): Promise<readonly [number | null, string]> => {
    const end = await trainingHere('--steps', '1', ...args)
    return [end.code, end.code === 0 ? '' : JSON.parse(end.out).error.message]
  }
  const of = ['--loss', 'cross-entropy'] as const
  assert.equal(await said(...of, '--class-weights', '1,2,0.5,1', '--label-smoothing', '0.1'), [0, ''])
  const mse = '--class-weights needs --loss cross-entropy or dice'
  assert.equal(await said('--loss', 'mse', '--class-weights', '1,2'), [2, mse])
  const [code, words] = await said(...of, '--class-weights', '1,2')
  assert.equal([code, /it has 2 class weights; allowed: \d+, one per class/.test(words)], [2, true], words)
  const [over, more] = await said(...of, '--label-smoothing', '2')
  assert.equal([over, /labelSmoothing is 2; allowed: 0 to 1/.test(more)], [2, true], more)
})

test.run()
