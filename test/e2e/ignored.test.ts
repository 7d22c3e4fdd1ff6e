// timeout 400
// Labels that are ignored: they count neither in the sum nor in the mean, whatever the plan and the device, also where tiles meet.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy, crossEntropyWith, type Loss, type Model, sgd } from '../../dsl'
import { addonFile } from '../../src/device/native'
import type { TrainResult } from '../../src/train/result'
import { npy } from '../faults/labelfiles'
import { fewOrAll, fullTest } from '../full'
import { smallTrunk, trunk } from './models'
import { trainingHere } from './processes'
import { DEVICE, halfway, smallestBudget, staged, trained } from './runs'
import type { MachineName, StrategyName } from '../../staging/core/names'

const root = mkdtempSync(join(tmpdir(), 'spillway-ignored-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

const folderOf = (size: number, name: string, label: (i: number) => number): string => {
  const folder = mkdtempSync(join(root, `${name}-`))
  const image = Float32Array.from({ length: 6 * size ** 2 }, (_, i) => ((i * 31) % 17) / 17 - 0.5)
  writeFileSync(join(folder, 'input.npy'), npy('<f4', [2, 3, size, size], new Uint8Array(image.buffer)))
  const labels = Uint8Array.from({ length: 2 * size ** 2 }, (_, i) => label(i))
  writeFileSync(join(folder, 'target.npy'), npy('|u1', [2, size, size], labels))
  return folder
}
const labelAt = (i: number): number => (i * 13 + Math.floor(i / 9)) % 4

/** Images for a trunk: the same with all labels, with those that count, with the others, and how many pixels those are. */
const picturesOf = (model: typeof trunk | typeof smallTrunk) => {
  const [, , size] = model.input
  const pixels = 2 * size ** 2
  /** Rows in the middle, where any tiles meet, the border of the image, and pixels here and there. */
  const isOut = (i: number): boolean => {
    const [row, column] = [Math.floor(i / size) % size, i % size]
    return Math.abs(row - size / 2) < size / 20 || row % (size - 1) === 0 || column === 0 || (i * 7919) % 5 === 0
  }
  return {
    all: folderOf(size, 'all', labelAt),
    inside: folderOf(size, 'inside', (i) => (isOut(i) ? 255 : labelAt(i))),
    outside: folderOf(size, 'outside', (i) => (isOut(i) ? labelAt(i) : 255)),
    pixels,
    out: Array.from({ length: pixels }, (_, i) => isOut(i)).filter(Boolean).length,
  }
}
const { all, inside } = picturesOf(trunk)
const nothing = folderOf(64, 'nothing', () => 255)

const without = crossEntropyWith({ ignoreIndex: 255 })
const optimizer = sgd({ lr: 0.01 })

/** `within`: less than the largest useful budget of the strategy. */
const run = (
  data: string,
  loss: Loss,
  strategy: StrategyName = 'in-core',
  machine: MachineName = DEVICE,
  net: Model = trunk,
): Promise<TrainResult> => {
  const o = { loss, optimizer, machine }
  const budget = strategy === 'tiled' ? smallestBudget(net, 'tiled', o) : undefined
  const plan = staged(net, {
    ...o,
    strategy,
    budget: strategy === 'in-core' ? undefined : (budget ?? halfway(net, strategy, o)),
  })
  if (strategy === 'tiled') assert.ok(plan.plan.segments.some(({ grid }) => grid.B * grid.H * grid.W > 1))
  return trained(net, plan, { data, steps: 2 })
}
const near = (got: number, expected: number, within: number): void =>
  assert.ok(Math.abs(got - expected) <= within * Math.abs(expected), `${got} is not near ${expected}`)

const HERE = [DEVICE, trunk] as const
const OTHERS = [
  ['ref', smallTrunk],
  ['cuda', smallTrunk],
] as const
for (const [machine, net] of fewOrAll<typeof HERE | (typeof OTHERS)[number]>([HERE], [HERE, ...OTHERS]))
  test(`${machine}: losses of ignored and other pixels sum to the whole loss`, async () => {
    const { pixels, out, ...of } = picturesOf(net)
    const on = (data: string, loss: Loss, strategy: StrategyName = 'in-core') => run(data, loss, strategy, machine, net)
    const [whole, some, others] = [await on(of.all, crossEntropy), await on(of.inside, without), await on(of.outside, without)]
    near((some.losses[0]! * (pixels - out) + others.losses[0]! * out) / pixels, whole.losses[0]!, 1e-5)
    const none = await on(of.all, without)
    near(none.losses[1]!, whole.losses[1]!, 1e-5)
    const tiled = await on(of.inside, without, 'tiled')
    some.losses.forEach((l, i) => near(tiled.losses[i]!, l, 1e-5))
  })

fullTest('plans that swap and recompute have the bits of in-core', async () => {
  const inCore = await run(inside, without)
  for (const strategy of ['swap:greedy', 'checkpoint:sqrt'] as const) {
    const r = await run(inside, without, strategy)
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
  }
})

test('where all is ignored the loss is 0, and weights stay as they are', async () => {
  const one = await trained(trunk, staged(trunk, { loss: without, optimizer, strategy: 'in-core' }), { data: nothing, steps: 1 })
  const still = await trained(trunk, staged(trunk, { loss: crossEntropy, optimizer: sgd({ lr: 0 }), strategy: 'in-core' }), {
    data: all,
    steps: 1,
  })
  assert.equal([one.losses, one.weightsSha256], [[0], still.weightsSha256])
})

test('on the command line: --ignore-index', async () => {
  const data = join(root, 'command')
  const said = async (...args: string[]): Promise<readonly [number | null, string]> => {
    const end = await trainingHere('--steps', '1', ...args)
    return [end.code, end.code === 0 ? '' : JSON.parse(end.out).error.message]
  }
  assert.equal(await said('--loss', 'cross-entropy', '--ignore-index', '-100'), [0, ''])
  const mse = '--ignore-index needs --loss cross-entropy or dice'
  assert.equal(await said('--loss', 'mse', '--ignore-index', '255'), [2, mse])
  assert.equal(await said('--loss', 'cross-entropy', '--ignore-index', 'x', '--data', data), [
    2,
    "--ignore-index: 'x' is not a whole number",
  ])
  const [code, words] = await said('--loss', 'cross-entropy', '--ignore-index', '2147483648')
  assert.is(code, 2)
  assert.match(words, /ignoreIndex is 2147483648; allowed: -2147483648 to 2147483647/)
})

test.run()
