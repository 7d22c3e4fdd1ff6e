// timeout 1200
// The cuda device itself, its own sources on a CUDA that is imitated on the host (test/native/host_cuda), through the addon: networks with
// convolutions train in-core, swapped and recomputed to the same bits, in tiles and in bf16 near to what the ref device computes in
// doubles. With SPILLWAY_FULL=1: a network of each family of the zoo. Skipped in words where the headers of CUDA, cuDNN and cuBLAS are not.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { avgPool, batchNorm, conv2d, convTranspose2d, identity, type Model, model, relu, residual, seq } from '../../dsl'
import { stageNamed, type StagingOptions } from '../../src/cli/stage'
import { loadNative } from '../../src/device/native'
import type { StageOptions } from '../../src/stage/stage'
import type { TrainResult } from '../../src/train/result'
import { trainTask } from '../../src/train/trainer'
import { done } from './networks'
import type { StrategyName } from '../../staging/core/names'
import { classifier, trunk } from './models'
import { halfway, smallestBudget, staged, trained } from './runs'

// Before the cache is another one: it has the headers.
const { nativeLibrary } = require('../../scripts/testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}
const ROOT = join(__dirname, '..', '..')
const root = mkdtempSync(join(tmpdir(), 'spillway-host-cuda-'))
test.after(() => rmSync(root, { recursive: true }))

const ON = { machine: 'cuda' } as const
const STEPS = 2

/** Strides, borders, groups, a residual of two norms, and what makes maps larger again. */
const segmenter = model(
  [2, 3, 22, 26],
  seq(
    conv2d('stem', 16, 3, { stride: 2 }),
    batchNorm('norm'),
    relu(),
    residual(seq(conv2d('a', 16, 3, { groups: 4, bias: false }), batchNorm('a_norm'), relu()), identity),
    avgPool('pool', 2),
    convTranspose2d('up', 8, 2, { stride: 2 }),
    relu(),
    conv2d('head', 4, 1),
  ),
)

const near = (losses: readonly number[], expected: readonly number[], within: number): void => {
  assert.is(losses.length, expected.length)
  losses.forEach((l, i) =>
    assert.ok(Math.abs(l - expected[i]!) <= within * Math.abs(expected[i]!), `${losses} against ${expected}`),
  )
}

const inDoubles = async (net: Model): Promise<readonly number[]> =>
  (await trained(net, staged(net, { machine: 'ref', strategy: 'in-core' }), { steps: STEPS })).losses

const sameBitsHowever = async (net: Model, o: StageOptions, strategies: readonly StrategyName[]): Promise<readonly number[]> => {
  const inCore = await trained(net, staged(net, { ...o, strategy: 'in-core' }), { steps: STEPS })
  assert.ok(
    inCore.ownKernels!.of > inCore.ownKernels!.calls && inCore.withoutGraphs === undefined,
    JSON.stringify(inCore.ownKernels),
  )
  for (const strategy of strategies) {
    const plan = staged(net, { ...o, strategy, budget: halfway(net, strategy, o) })
    const r = await trained(net, plan, { steps: STEPS })
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes)
  }
  return inCore.losses
}

/** Families, a network of each, and the side of the image that it is given: a norm of two values alone would make noise of rounding. */
const ZOO = {
  'vgg11-features': 32,
  alexnet: 64,
  'darknet19-features': 64,
  googlenet: 64,
  inception3: 128,
  'resnet20-cifar': 16,
  resnet18: 64,
  densenet121: 64,
  mobilenetv2: 64,
  'efficientnet-b0': 64,
  'convnext-tiny': 32,
  unet: 32,
  'deeplabv3plus-resnet50': 64,
}
/** How far from doubles the second step may be where norms of eight values, one behind the other, make much of the first one's rounding. */
const AFTER_A_STEP: Readonly<Record<string, number>> = { densenet121: 1e-3, inception3: 0.1, 'deeplabv3plus-resnet50': 0.02 }

const trainedNamed = async (name: string, o: StagingOptions): Promise<TrainResult> =>
  done(await trainTask(undefined, done(stageNamed(name, o)).staged, { steps: STEPS, seed: 1 })())

const cases = (): void => {
  test('the device says what it is', () => {
    assert.is(loadNative().deviceFacts('cuda').device, 'host cuda, sm_90')
  })

  test('a classifier: the same bits swapped and recomputed, near to doubles', async () => {
    near(await sameBitsHowever(classifier, ON, ['swap:greedy', 'checkpoint:sqrt']), await inDoubles(classifier), 1e-4)
  })

  test('a trunk with dropout in tiles is near to the whole', async () => {
    const whole = await trained(trunk, staged(trunk, { ...ON, strategy: 'in-core' }), { steps: STEPS })
    const budget = smallestBudget(trunk, 'tiled', ON)
    near((await trained(trunk, staged(trunk, { ...ON, strategy: 'tiled', budget }), { steps: STEPS })).losses, whole.losses, 1e-4)
  })

  test('a segmenter in the ways that were measured, and in bf16', async () => {
    const expected = await inDoubles(segmenter)
    near(await sameBitsHowever(segmenter, { ...ON, algorithms: 'measured' }, []), expected, 1e-4)
    near(await sameBitsHowever(segmenter, { ...ON, precision: 'bf16' }, ['checkpoint:sqrt']), expected, 3e-2)
  })

  if (process.env.SPILLWAY_FULL)
    for (const [name, image] of Object.entries(ZOO))
      test(`${name}: swapped to the bits of in-core, near to doubles`, async () => {
        const o = { batch: 2, image: [image, image], algorithms: 'fixed' } as const
        const inCore = await trainedNamed(name, { ...o, ...ON, strategy: 'in-core' })
        const { peakBytes } = inCore
        const swapped = await trainedNamed(name, { ...o, ...ON, strategy: 'checkpoint:sqrt', budget: peakBytes })
        assert.equal([swapped.weightsSha256, swapped.losses], [inCore.weightsSha256, inCore.losses])
        const { losses } = await trainedNamed(name, { ...o, machine: 'ref', strategy: 'in-core' })
        near(inCore.losses.slice(0, 1), losses.slice(0, 1), 1e-4)
        near(inCore.losses, losses, AFTER_A_STEP[name] ?? 1e-4)
      })
}

const main = async (): Promise<void> => {
  const library = await nativeLibrary(ROOT, 'spillway_host_cuda')
  if (library === null) test('skipped: the headers of CUDA, cuDNN and cuBLAS are not here', () => undefined)
  else {
    process.env.SPILLWAY_CUDA = library
    process.env.XDG_CACHE_HOME = join(root, 'cache')
    cases()
  }
  test.run()
}
main()
