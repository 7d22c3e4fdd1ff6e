// timeout 400
// Losses of one's own: those that the table has too come to the same, steps included; tiled, swapped and in bf16; and known again.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { huber, l1, type Loss, lossOf, type Model, mse, sgd, sumOf } from '../../dsl'
import { addonFile } from '../../src/device/native'
import { evaluate } from '../../src/predict/evaluator'
import type { TrainResult } from '../../src/train/result'
import type { MachineName, StrategyName } from '../../staging/core/names'
import { npy } from '../faults/labelfiles'
import { fewOrAll } from '../full'
import { smallTrunk, trunk } from './models'
import { DEVICE, sameBits, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-own-loss-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

const charbonnier = lossOf((y, t) => y.minus(t).square().plus(1e-3).sqrt().mean())
const everything = lossOf((y, t) => {
  const e = y.sigmoid().minus(t.tanh()).abs().plus(1)
  return e.log().times(2).over(e).plus(y.softmax().times(t)).minus(y.times(0.01).exp().over(4)).plus(y.relu()).mean()
})

const run = (
  loss: Loss,
  strategy: StrategyName = 'in-core',
  machine: MachineName = DEVICE,
  net: Model = trunk,
): Promise<TrainResult> => {
  const o = { loss, optimizer: sgd({ lr: 0.01 }), machine }
  const budget = strategy === 'in-core' ? undefined : smallestBudget(net, strategy, o)
  return trained(net, staged(net, { ...o, strategy, budget }), { steps: 3 })
}
const near = (got: readonly number[], expected: readonly number[], within: number): void =>
  got.forEach((x, i) =>
    assert.ok(Math.abs(x - expected[i]!) <= within * Math.abs(expected[i]!), `${got} is not near ${expected}`),
  )

const SAME: readonly (readonly [string, Loss, Loss])[] = [
  ['mse', mse, lossOf((y, t) => y.minus(t).square().mean())],
  ['l1', l1, lossOf((y, t) => t.minus(y).abs().mean())],
  [
    'sums',
    sumOf(mse, [0.5, l1]),
    sumOf(
      lossOf((y, t) => y.minus(t).times(y.minus(t)).mean()),
      [0.5, lossOf((y, t) => y.minus(t).abs().mean())],
    ),
  ],
]
for (const [name, known, own] of fewOrAll(SAME.slice(2), SAME))
  test(`${name}: as the loss of the table, step by step`, async () =>
    near((await run(own)).losses, (await run(known)).losses, 1e-5))

for (const [name, loss] of fewOrAll([['everything', everything]] as const, Object.entries({ charbonnier, everything })))
  test(`${name}: tiled as whole, as ref in double, and on the GPU's kernels`, async () => {
    const whole = await run(loss)
    assert.ok(whole.losses.every(Number.isFinite))
    const tiled = await run(loss, 'tiled')
    assert.ok(tiled.peakBytes < whole.peakBytes / 2 && tiled.arenaPeakBytes === tiled.peakBytes)
    near(tiled.losses, whole.losses, 1e-5)
    const small = await run(loss, 'in-core', DEVICE, smallTrunk)
    for (const machine of ['ref', 'cuda'] as const)
      near((await run(loss, 'in-core', machine, smallTrunk)).losses, small.losses, 1e-5)
    await sameBits({ loss })
  })

test('an evaluation knows its plan again', async () => {
  const data = mkdtempSync(join(root, 'data-'))
  const image = Float32Array.from({ length: 2 * 3 * 64 * 64 }, (_, i) => ((i * 31) % 17) / 17 - 0.5)
  writeFileSync(join(data, 'input.npy'), npy('<f4', [2, 3, 64, 64], new Uint8Array(image.buffer)))
  const target = Float32Array.from({ length: 2 * 4 * 64 * 64 }, (_, i) => ((i * 7) % 13) / 13)
  writeFileSync(join(data, 'target.npy'), npy('<f4', [2, 4, 64, 64], new Uint8Array(target.buffer)))
  const weights = join(root, 'w.safetensors')
  await trained(trunk, staged(trunk, { loss: charbonnier }), { data, steps: 1, save: weights })
  for (const loss of [charbonnier, sumOf(huber(), [0.1, everything])] as const) {
    const r = await evaluate(trunk, staged(trunk, { mode: 'evaluate', loss }), { weights, data })
    assert.ok(Number.isFinite(r.loss) && Number.isFinite(r.metrics.mae))
  }
})

test('a value that is no loss is refused with the reason', () => {
  assert.throws(() => lossOf((y) => y as never), 'lossOf: its function must return a mean: (output, target) => ... .mean()')
  assert.throws(() => lossOf((y) => y.plus('t' as never).mean()), /lossOf: plus takes a number, or a value computed from/)
  assert.throws(() => staged(trunk, { loss: lossOf((_, t) => t.mean()) }), /depends on no trained parameter/)
  const odd: Loss = { kind: 'own', calls: [{ op: 'abs', attrs: {}, reads: [1] }], of: 0 }
  assert.throws(
    () => staged(trunk, { loss: odd }),
    /its calls read a value that no earlier call computes; allowed: a result of lossOf/,
  )
})

test.run()
