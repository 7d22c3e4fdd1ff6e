// own process
// timeout 1200
// The cuda device itself, its own sources on a CUDA that is imitated on the host (test/native/host_cuda), through the addon: networks with
// convolutions train in-core, swapped and recomputed to the same bits, in tiles and in bf16 near to what the ref device computes in
// doubles. With SPILLWAY_FULL=1: a network of each family of the zoo. Skipped in words where the headers of CUDA, cuDNN and cuBLAS are not.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { avgPool, batchNorm, conv2d, convTranspose2d, identity, type Model, model, mse, relu, residual, seq } from '../../dsl'
import { type FamilyName, familyNames, stagedFamily } from '../../scripts/cuda/families'
import { loadNative } from '../../src/device/native'
import { openTensors, readTensor } from '../../src/files/safetensors'
import type { Staged } from '../../src/stage/staged'
import type { StageOptions } from '../../src/stage/stageoptions'
import type { TrainResult } from '../../src/train/result'
import { trainTask } from '../../src/train/trainer'
import { zooEntry, zooNames } from '../../src/zoo'
import { compileSegments } from '../../staging/compile'
import { laidOut, layoutCount, readers } from '../../staging/graph/laid'
import { behindLaying } from '../../staging/planner/laying'
import { isForNext } from '../../staging/plan/ahead'
import { withHomesAhead } from './loadedahead'
import { done } from './networks'
import type { StrategyName } from '../../staging/core/names'
import { fewOrAll, fullTest } from '../full'
import { classifier, trunk } from './models'
import { halfway, smallestBudget, staged, trained } from './runs'

// Before the cache is another one: it has the headers.
const { nativeLibrary } = require('../../scripts/testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}
const ROOT = join(__dirname, '..', '..')
const root = mkdtempSync(join(tmpdir(), 'spillway-host-cuda-'))
test.after(() => rmSync(root, { recursive: true }))

/** Without rounded factors, to compare with doubles. */
const ON = { machine: 'cuda', precision: 'fp32' } as const
const STEPS = 2

/** Strides, borders, groups, a residual of two norms, and layers that enlarge maps. */
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

/** Weights of 2.25 MiB. */
const wide = model(
  [2, 256, 8, 8],
  seq(conv2d('a', 256, 3), relu(), conv2d('b', 256, 3), relu(), conv2d('c', 256, 3), relu(), conv2d('d', 256, 3)),
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

/** The same plan, but that weights are laid out at its head. */
const layingOnce = (plain: Staged): Staged => {
  const { graph, segments, strategy, algorithms } = plain.plan
  const laid = laidOut(graph, new Set(readers(graph).keys()))
  assert.ok(layoutCount(laid) > 0)
  const { machine } = plain
  const o = { strategy, algorithms, machine, budgetBytes: machine.memoryBytes }
  const plan = compileSegments(laid, behindLaying(laid, segments), o)
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  return { ...plain, plan: plan.right }
}

/** How far all gradients of a first step together are from those in doubles, where norms of few values make more of rounding. */
const GRADIENTS_WITHIN: Partial<Readonly<Record<FamilyName, number>>> = {
  inception3: 5e-3,
  inception4: 5e-3,
  'deeplabv3plus-resnet50': 5e-3,
}
/** The second step's loss says little where gradients are that large: a step then leads anywhere. */
const STEPS_WILDLY: readonly FamilyName[] = ['inception3', 'deeplabv3plus-resnet50']

interface Ran {
  readonly result: TrainResult
  /** After the first step, from its checkpoint: a momentum, or half of a first moment, is then the gradient. */
  readonly gradients: ReadonlyMap<string, Float32Array | Float64Array>
}

const ranWithGradients = async (plan: Staged): Promise<Ran> => {
  const checkpointDir = mkdtempSync(join(root, 'checkpoints-'))
  const result = done(await trainTask(undefined, plan, { steps: STEPS, seed: 1, checkpointDir, checkpointEvery: 1 })())
  const file = done(openTensors('checkpoint', join(checkpointDir, 'step-000000001.safetensors')))
  const wide = plan.machine.device.dtype === 'f64'
  const gradients = plan.plan.graph.values
    .filter((v) => v.role === 'param')
    .map((v) => {
      const entry = file.tensors.get(`${v.name}.momentum`) ?? file.tensors.get(`${v.name}.exp_avg`)!
      const raw = done(readTensor(file, entry)).slice().buffer
      return [v.name, wide ? new Float64Array(raw) : new Float32Array(raw)] as const
    })
  rmSync(checkpointDir, { recursive: true })
  return { result, gradients: new Map(gradients) }
}

/** The length of the difference, over that of all gradients. */
const apart = (got: Ran, expected: Ran): number => {
  let [differs, all] = [0, 0]
  for (const [name, gradient] of expected.gradients)
    gradient.forEach((x, i) => {
      differs += (got.gradients.get(name)![i]! - x) ** 2
      all += x ** 2
    })
  return Math.sqrt(differs / all)
}

const trainedStaged = async (plan: Staged): Promise<TrainResult> =>
  done(await trainTask(undefined, plan, { steps: STEPS, seed: 1 })())

const cases = (): void => {
  test('the device reports its name', () => {
    assert.is(loadNative().deviceFacts('cuda').device, 'host cuda, sm_90')
  })

  test('a classifier: the same bits swapped and recomputed, near to doubles', async () => {
    near(await sameBitsHowever(classifier, ON, ['swap:greedy', 'checkpoint:sqrt']), await inDoubles(classifier), 1e-4)
  })

  fullTest('a trunk with dropout in tiles is near to the whole', async () => {
    const whole = await trained(trunk, staged(trunk, { ...ON, strategy: 'in-core' }), { steps: STEPS })
    const budget = smallestBudget(trunk, 'tiled', ON)
    near((await trained(trunk, staged(trunk, { ...ON, strategy: 'tiled', budget }), { steps: STEPS })).losses, whole.losses, 1e-4)
  })

  test('a segmenter in the ways that were measured, and in bf16', async () => {
    const expected = await inDoubles(segmenter)
    near(await sameBitsHowever(segmenter, { ...ON, algorithms: 'measured' }, []), expected, 1e-4)
    near(await sameBitsHowever(segmenter, { ...ON, precision: 'bf16' }, ['checkpoint:sqrt']), expected, 3e-2)
  })

  for (const precision of fewOrAll(['fp32', 'bf16'] as const, ['fp32', 'tf32', 'bf16'] as const))
    test(`weights laid out once in ${precision}: the bits of laying them out in every call, whole, recomputed and in tiles`, async () => {
      for (const strategy of ['in-core', 'checkpoint:sqrt', 'tiled'] as const) {
        const o = { ...ON, precision, strategy } as const
        const plain = staged(segmenter, strategy === 'in-core' ? o : { ...o, budget: smallestBudget(segmenter, strategy, o) })
        const laid = layingOnce(plain)
        const [inEach, once] = [
          await trained(segmenter, plain, { steps: STEPS }),
          await trained(segmenter, laid, { steps: STEPS }),
        ]
        assert.equal([strategy, once.weightsSha256, once.losses], [strategy, inEach.weightsSha256, inEach.losses])
        assert.is(once.withoutGraphs, undefined)
      }
    })

  test('weights that a step loads for the next one: the bits of in-core', async () => {
    const inCore = staged(wide, { ...ON, strategy: 'in-core', loss: mse })
    const crossing = withHomesAhead(inCore)
    const { storages, residencies, calls } = crossing.plan
    assert.ok(residencies.some((r) => storages[r.storage]!.home !== undefined && isForNext(r, calls.length)))
    const [one, many] = [await trained(wide, inCore, { steps: 4 }), await trained(wide, crossing, { steps: 4 })]
    assert.equal([many.weightsSha256, many.losses], [one.weightsSha256, one.losses])
    assert.is(many.arenaPeakBytes, many.peakBytes)
  })

  test('every family of the zoo has a network here', () => {
    const families = new Set(zooNames.map((name) => zooEntry(name)!.family))
    assert.equal([...new Set(familyNames.map((name) => zooEntry(name)!.family))].sort(), [...families].sort())
  })

  if (process.env.SPILLWAY_FULL)
    for (const name of familyNames)
      test(`${name}: recomputed to the bits of in-core; losses and gradients near to doubles`, async () => {
        const inCore = await ranWithGradients(stagedFamily(name, { ...ON, strategy: 'in-core' }))
        const { peakBytes, weightsSha256, losses } = inCore.result
        const recomputed = await trainedStaged(stagedFamily(name, { ...ON, strategy: 'checkpoint:sqrt', budget: peakBytes }))
        assert.equal([recomputed.weightsSha256, recomputed.losses], [weightsSha256, losses])
        const inDouble = await ranWithGradients(stagedFamily(name, { machine: 'ref', strategy: 'in-core' }))
        const compared = STEPS_WILDLY.includes(name) ? 1 : STEPS
        near(losses.slice(0, compared), inDouble.result.losses.slice(0, compared), 1e-4)
        const distance = apart(inCore, inDouble)
        assert.ok(distance <= (GRADIENTS_WITHIN[name] ?? 1e-4), `gradients differ by ${distance}`)
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
