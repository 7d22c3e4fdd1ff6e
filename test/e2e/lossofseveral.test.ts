// timeout 400
// Dice, and sums of losses: one run, whatever the plan and the device; a sum is the sum of what its parts come to; and evaluated.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  bceWithLogits,
  conv2d,
  crossEntropy,
  crossEntropyWith,
  dice,
  focal,
  huber,
  l1,
  type Loss,
  model,
  mse,
  relu,
  seq,
  sgd,
  sumOf,
} from '../../dsl'
import { addonFile } from '../../src/device/native'
import { evaluate } from '../../src/predict/evaluator'
import type { TrainResult } from '../../src/train/result'
import type { MachineName, StrategyName } from '../../staging/core/names'
import { npy } from '../faults/labelfiles'
import { fewOrAll } from '../full'
import { smallTrunk, trunk } from './models'
import { trainingHere } from './processes'
import { DEVICE, sameBits, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-sums-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

const SIZE = 64
const imageOf = (size: number) => Float32Array.from({ length: 6 * size ** 2 }, (_, i) => ((i * 31) % 17) / 17 - 0.5)
const labelsOf = (size: number) =>
  Uint8Array.from({ length: 2 * size ** 2 }, (_, i) => (i % 7 === 0 ? 255 : (i * 13 + Math.floor(i / 9)) % 4))
const folderOf = (size: number): string => {
  const folder = mkdtempSync(join(root, 'data-'))
  writeFileSync(join(folder, 'input.npy'), npy('<f4', [2, 3, size, size], new Uint8Array(imageOf(size).buffer)))
  writeFileSync(join(folder, 'target.npy'), npy('|u1', [2, size, size], labelsOf(size)))
  return folder
}
const [data, small] = [folderOf(SIZE), folderOf(SIZE / 4)]
const [image, labels] = [imageOf(SIZE), labelsOf(SIZE)]

const optimizer = sgd({ lr: 0.01 })
const run = (loss: Loss, strategy: StrategyName = 'in-core', machine: MachineName = DEVICE, steps = 2): Promise<TrainResult> => {
  const o = { loss, optimizer, machine }
  const budget = strategy === 'in-core' ? undefined : smallestBudget(trunk, strategy, o)
  return trained(trunk, staged(trunk, { ...o, strategy, budget }), { data, steps })
}
const near = (got: number, expected: number, within: number): void =>
  assert.ok(Math.abs(got - expected) <= within * Math.abs(expected), `${got} is not near ${expected}`)

const entropy = crossEntropyWith({ ignoreIndex: 255, weights: [1, 2, 3, 4] })
const overlap = dice({ ignoreIndex: 255, smooth: 1, weights: [0, 1, 1, 2] })
const both = sumOf(entropy, [0.5, overlap])

for (const [name, loss] of fewOrAll([], Object.entries({ dice: overlap, both })))
  test(`${name}: tiled as whole, and as ref in double`, async () => {
    const [whole, tiled] = [await run(loss), await run(loss, 'tiled')]
    assert.is(tiled.arenaPeakBytes, tiled.peakBytes)
    assert.ok(tiled.peakBytes < whole.peakBytes / 2)
    whole.losses.forEach((l, i) => near(tiled.losses[i]!, l, 1e-5))
    const on = (machine: MachineName): Promise<TrainResult> =>
      trained(smallTrunk, staged(smallTrunk, { loss, optimizer, machine, strategy: 'in-core' }), { data: small, steps: 2 })
    const [single, double, imitated] = [await on(DEVICE), await on('ref'), await on('cuda')]
    double.losses.forEach((l, i) => {
      near(single.losses[i]!, l, 1e-5)
      near(imitated.losses[i]!, l, 1e-5)
    })
  })

const ofOneChannel = async (ofMarks: Loss, ignored: number): Promise<void> => {
  const net = model([2, 3, SIZE, SIZE], seq(conv2d('a', 8, 3), relu(), conv2d('b', 8, 3), relu(), conv2d('head', 1, 1)))
  const marked = mkdtempSync(join(root, 'marked-'))
  const marks = labels.map((l) => (l === 255 ? ignored : l > 1 ? 1 : 0))
  writeFileSync(join(marked, 'input.npy'), npy('<f4', [2, 3, SIZE, SIZE], new Uint8Array(image.buffer)))
  writeFileSync(join(marked, 'target.npy'), npy('|u1', [2, SIZE, SIZE], marks))
  const save = join(root, 'marked.safetensors')
  const of = (strategy: StrategyName, machine: MachineName = DEVICE): Promise<TrainResult> => {
    const o = { loss: ofMarks, optimizer, machine }
    const budget = strategy === 'in-core' ? undefined : smallestBudget(net, strategy, o)
    return trained(net, staged(net, { ...o, strategy, budget }), { data: marked, steps: 2, save })
  }
  const [double, imitated, tiled] = [await of('in-core', 'ref'), await of('in-core', 'cuda'), await of('tiled')]
  const whole = await of('in-core')
  assert.is(tiled.arenaPeakBytes, tiled.peakBytes)
  whole.losses.forEach((l, i) => {
    near(l, double.losses[i]!, 1e-5)
    near(imitated.losses[i]!, double.losses[i]!, 1e-5)
    near(tiled.losses[i]!, l, 1e-5)
  })
  for (const as of ['values', 'classes'] as const) {
    const plan = staged(net, { mode: 'evaluate', loss: ofMarks, as })
    const { metrics, perClass } = await evaluate(net, plan, { weights: save, data: marked, metrics: ['accuracy', 'dice'] })
    assert.is(perClass!['dice']!.length, 2)
    assert.ok(metrics['accuracy']! > 0 && metrics['accuracy']! < 1)
  }
  marks[5] = 2
  writeFileSync(join(marked, 'target.npy'), npy('|u1', [2, SIZE, SIZE], marks))
  await of('in-core').then(
    () => assert.unreachable(),
    (e: Error) => assert.match(e.message, /2 is not one of 2 classes \(0 to 1\)/),
  )
}

const ALONE = ['dice', dice({ ignoreIndex: 255, smooth: 1 }), 255] as const
const BESIDE = ['dice beside what compares with numbers', sumOf([0.5, bceWithLogits], dice(), focal()), 0] as const
for (const [name, ofMarks, ignored] of fewOrAll<typeof ALONE | typeof BESIDE>([BESIDE], [ALONE, BESIDE]))
  test(`${name} of one channel: tiled as whole, as ref in double, evaluated as two classes`, () => ofOneChannel(ofMarks, ignored))

test('plans that swap and recompute have the bits of in-core', async () => {
  const sum = sumOf(crossEntropy, [0.5, dice()], [0.25, crossEntropyWith({ labelSmoothing: 0.5 })])
  for (const loss of fewOrAll<Loss>([sum], [sum, dice(), sumOf(mse, [2, l1], huber())])) await sameBits({ loss })
})

test('a sum of losses equals the sum of its parts', async () => {
  const first = async (loss: Loss): Promise<number> => (await run(loss, 'in-core', DEVICE, 1)).losses[0]!
  near(await first(both), (await first(entropy)) + 0.5 * (await first(overlap)), 1e-6)
  assert.equal(sumOf(both, [2, both]), {
    kind: 'sum',
    parts: [
      [1, entropy],
      [0.5, overlap],
      [2, entropy],
      [1, overlap],
    ],
  })
  assert.is(staged(trunk, { loss: sumOf(mse) }).plan.graph.ops.filter((o) => o.phase === 'loss').length, 1)
  assert.equal(staged(trunk, { loss: sumOf(mse) }).plan.graph, staged(trunk, { loss: mse }).plan.graph)
})

test('an evaluation measures a sum, and knows its plan again', async () => {
  const save = join(root, 'w.safetensors')
  const { losses } = await trained(trunk, staged(trunk, { loss: both, optimizer: sgd({ lr: 0 }) }), { data, steps: 1, save })
  const plan = staged(trunk, { mode: 'evaluate', loss: both })
  const r = await evaluate(trunk, plan, { weights: save, data })
  assert.ok(Number.isFinite(r.loss) && Object.keys(r.metrics).includes('accuracy'))
  assert.ok(losses.length === 1)
})

test('losses with different targets cannot be summed; the error has the reason', () => {
  assert.throws(
    () => sumOf(crossEntropy, mse),
    "'a sum of losses': 'cross-entropy' compares with class labels, but 'mse' with numbers; allowed: losses with the same kind of target",
  )
  assert.throws(
    () => sumOf(bceWithLogits, dice({ ignoreIndex: 255 })),
    "'a sum of losses': 'dice' has an ignoreIndex, but 'bce-with-logits' uses all labels; allowed: the sum without ignoreIndex",
  )
  assert.throws(
    () => staged(trunk, { loss: dice({ weights: [0, 0, 0, 0] }) }),
    /all class weights are 0; at least one must be above 0/,
  )
  assert.throws(() => staged(trunk, { loss: dice({ weights: [1, 2] }) }), /it has 2 class weights; allowed: 4, one per class/)
  assert.throws(() => sumOf(crossEntropy, [Number.NaN, dice()]), /part 1 is/)
  assert.throws(() => sumOf(crossEntropy, 'dise' as 'dice'), /there is no loss 'dise'; allowed: /)
  assert.throws(() => staged(trunk, { loss: [crossEntropy, 'dice'] as never }), /it is a list; allowed: one loss, or sumOf/)
})

test('on the command line: --loss a+0.5*b', async () => {
  const said = async (...args: string[]): Promise<readonly [number | null, string]> => {
    const end = await trainingHere('--steps', '1', ...args)
    return [end.code, end.code === 0 ? '' : JSON.parse(end.out).error.message]
  }
  assert.equal(await said('--loss', 'cross-entropy+0.5*dice', '--smooth', '1', '--label-smoothing', '0.1'), [0, ''])
  const [code, words] = await said('--loss', 'cross-entropy+dice', '--delta', '1')
  assert.equal([code, words], [2, '--delta needs --loss huber'])
  assert.is((await said('--loss', 'cross-entropy+mse'))[0], 2)
  assert.equal(await said('--loss', 'dice', '--class-weights', '0,1'), [
    2,
    "layer 'loss' (dice): it has 2 class weights; allowed: 4, one per class",
  ])
})

test.run()
