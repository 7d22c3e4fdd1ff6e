// own process
// timeout 900
// each of models
// Training with activations in bf16: the strategies end with the same bits, tiles within rounding, losses are near those of fp32 on two networks of
// the zoo, activations take half the memory, and devices without bf16 are refused in words. If the processor has no bf16, the reference device
// replaces it, and the output says so.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bytesOf } from '../../staging/core/bytes'
import { valueBytes, isPersistent } from '../../staging/graph/graph'
import { stageNamed, type StagingOptions } from '../../src/cli/stage'
import { errorText, exitCode, type SpillwayError } from '../../src/errors/errors'
import { machineNamed } from '../../src/machine/machine'
import { savePlan, tryLoadPlan } from '../../src/stage/planfile'
import type { TrainResult } from '../../src/train/result'
import { describePlan, type Staged } from '../../src/stage/staged'
import { trainTask } from '../../src/train/trainer'
import { predict } from '../../src/predict/predictor'
import { model } from '../../dsl'
import { npy } from '../faults/labelfiles'
import { fewOrAll, fullTest } from '../full'
import { net, trunk } from './models'
import { BF16, DEVICE, smallestBudget, staged, trained } from './runs'

const done = <A>(e: Either<SpillwayError, A>): A => {
  if (isLeft(e)) throw new Error(errorText(e.left))
  return e.right
}
const folder = mkdtempSync(join(tmpdir(), 'spillway-bf16-'))
test.after(() => rmSync(folder, { recursive: true }))

const bf16 = BF16
const { machine } = bf16

if (machine !== DEVICE) console.log(`no bf16 on ${DEVICE}: tested on ref`)

const apart = (a: readonly number[], b: readonly number[]): number =>
  Math.max(...a.map((x, i) => Math.abs(x - b[i]!) / Math.abs(b[i]!)))

test('in-core, recomputing and swapping plans have the same bits', async () => {
  const inCore = await trained(trunk, staged(trunk, { ...bf16, strategy: 'in-core' }))
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy', 'swap:fractional'] as const) {
    const budget = smallestBudget(trunk, strategy, bf16)
    const r = await trained(trunk, staged(trunk, { ...bf16, strategy, budget }))
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.ok(r.arenaPeakBytes <= budget && budget < inCore.peakBytes, `${strategy}: ${r.arenaPeakBytes} of ${budget}`)
  }
})

/** One image, larger than the memory: its tiles have halos. */
const image = model([1, 3, 128, 128], net)

test('tiles of an image agree within the rounding of sums', async () => {
  const inCore = await trained(image, staged(image, { ...bf16, strategy: 'in-core' }))
  const plan = staged(image, { ...bf16, strategy: 'tiled', budget: smallestBudget(image, 'tiled', bf16) })
  assert.ok(plan.plan.segments.some((s) => s.grid.H * s.grid.W > 1))
  const tiled = await trained(image, plan)
  assert.ok(apart(tiled.losses, inCore.losses) < 1e-3, `${tiled.losses} and ${inCore.losses}`)
})

const named = (name: string, o: StagingOptions): Staged =>
  done(stageNamed(name, { machine, strategy: 'in-core', algorithms: 'fixed', lr: 0.001, ...o })).staged
const run = async (plan: Staged, steps: number, seed = 1): Promise<TrainResult> =>
  done(await trainTask(undefined, plan, { steps, seed })())

// Half an ulp of bf16 is u = 2^-9 of a value. The effect of some forty roundings in a row on a loss grows like their root, and is averaged by the
// loss: the first loss is within 4u (six seeds of each: at most 0.9u). Later the two runs diverge, by as much of the first loss as they have learnt
// from rounded gradients: within 16u (at most 8u).
const HALF_ULP = 2 ** -9

const RESNET32 = ['resnet32-cifar', 32, 8, 0.01] as const
const RESNET18 = ['resnet18', 64, 4, 0.001] as const
for (const [name, image, batch, lr] of fewOrAll<typeof RESNET32 | typeof RESNET18>([RESNET32], [RESNET18, RESNET32]))
  test(`${name}: losses of six steps are near those of fp32`, async () => {
    const [floats, bf16] = (['fp32', 'bf16'] as const).map((precision) =>
      named(name, { image: [image, image], batch, lr, precision }),
    )
    for (const seed of fewOrAll([1], [1, 2, 3])) {
      const [expected, got] = [await run(floats!, 6, seed), await run(bf16!, 6, seed)]
      const [first] = expected.losses as [number]
      const off = got.losses.map((x, i) => Math.abs(x - expected.losses[i]!) / first)
      const told = `seed ${seed}: ${got.losses} and ${expected.losses}`
      assert.ok(expected.losses[5]! < first / 2, `it learns nothing: ${told}`)
      assert.ok(off[0]! <= 4 * HALF_ULP && Math.max(...off) <= 16 * HALF_ULP, told)
      assert.is.not(got.weightsSha256, expected.weightsSha256)
    }
  })

test('activations take half the memory', () => {
  if (machine !== 'cpu') return
  const sizes = (precision: 'fp32' | 'bf16') => {
    const { plan } = named('vgg16-features', { machine: 'null', image: [256, 256], precision })
    const bytes = (of: typeof isPersistent): number => plan.graph.values.filter(of).reduce((n, v) => n + valueBytes(v), 0)
    const persistent = bytes(isPersistent)
    return {
      activations: bytes((v) => v.role === 'activation' && v.dtype !== 'i32'),
      persistent,
      rest: bytesOf(plan.peakPages) - persistent,
    }
  }
  const [floats, bf16] = [sizes('fp32'), sizes('bf16')]
  assert.equal([bf16.activations, bf16.persistent], [floats.activations / 2, floats.persistent])
  // Weight gradients stay in the float type, and oneDNN's direct ones take more scratch for bf16.
  assert.ok(bf16.rest < 0.8 * floats.rest, `${bf16.rest} of ${floats.rest}`)
})

fullTest('a plan from a file trains to the same bits', async () => {
  const plan = named('resnet18', { image: [64, 64], batch: 2, precision: 'bf16' })
  const file = join(folder, 'plan.json')
  savePlan(file, plan.plan)
  const again = describePlan(done(tryLoadPlan(file)), done(machineNamed(machine, { algorithms: 'fixed' })))
  assert.is((await run(again, 2)).weightsSha256, (await run(plan, 2)).weightsSha256)
})

// ---------------------------------------------------------------- refusals

const refusal = (e: Either<SpillwayError, unknown>): string => {
  assert.ok(isLeft(e))
  assert.is(exitCode((e as { readonly left: SpillwayError }).left), 2)
  return errorText((e as { readonly left: SpillwayError }).left)
}

test('machines without bf16 list their precisions', () => {
  assert.match(
    refusal(machineNamed('v100-pcie-16g', { precision: 'bf16' })),
    /precision 'bf16' is not allowed on machine 'v100-pcie-16g'.*allowed: fp32/,
  )
  assert.match(refusal(machineNamed('ref', { precision: 'tf32' })), /tf32 is only for the cuda device; allowed: fp32/)
})

test('a processor without bf16 refuses it and names the missing instructions', () => {
  if (DEVICE !== 'cpu') return
  const cli = join(__dirname, '..', '..', 'src', 'cli.ts')
  const r = spawnSync(
    process.execPath,
    ['-r', require.resolve('../../scripts/testing/typescript'), cli, 'plan', 'resnet18', '--image', '64', '--precision', 'bf16'],
    { encoding: 'utf8', env: { ...process.env, ONEDNN_MAX_CPU_ISA: 'AVX512_CORE' } },
  )
  assert.is(r.status, 2, r.stderr)
  assert.match(
    r.stderr,
    /precision 'bf16' is not allowed on machine 'cpu': this processor has no bf16 arithmetic \(avx512_bf16\); allowed: fp32/,
  )
})

test('predictions are handed out in floats', async () => {
  const weights = join(folder, 'w.safetensors')
  await trained(trunk, staged(trunk, { ...bf16 }), { steps: 1, save: weights })
  const data = join(folder, 'images.npy')
  const pixels = Float32Array.from({ length: 2 * 3 * 64 * 64 }, (_, k) => Math.sin(k))
  writeFileSync(data, npy('<f4', [2, 3, 64, 64], new Uint8Array(pixels.buffer)))
  const outputs = async (o: StagingOptions) =>
    (await predict(trunk, staged(trunk, { ...o, mode: 'predict' } as object), { weights, data })).outputs.map((p) => p.values)
  const [narrow, wide] = [await outputs(bf16), await outputs({ machine })]
  for (const [i, image] of narrow.entries()) {
    // Floats of the reference device are doubles.
    assert.ok(image instanceof (machine === 'ref' ? Float64Array : Float32Array))
    assert.is(image.length, 4 * 64 * 64)
    const most = Math.max(...wide[i]!.map(Math.abs))
    assert.ok(image.every((x, k) => Math.abs(x - wide[i]![k]!) < 0.05 * most))
  }
})

test.run()
