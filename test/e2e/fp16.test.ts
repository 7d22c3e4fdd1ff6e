// own process
// timeout 900
// Training with activations in fp16: all plans end with the same bits; losses are near those of fp32; a step whose gradients overflow changes
// nothing but the loss scale, which halves, and doubles after 2000 updates in a row; a resumed run keeps the scale and the bits.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adamw, batchNorm, conv2d, l1, model, relu, seq, sgd } from '../../dsl'
import { openTensors, readTensor } from '../../src/files/safetensors'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import { machineNamed } from '../../src/machine/machine'
import { stageNamed, type StagingOptions } from '../../src/cli/stage'
import type { StageOptions } from '../../src/stage/stageoptions'
import type { TrainResult } from '../../src/train/result'
import { trainTask } from '../../src/train/trainer'
import { net, smallTrunk } from './models'
import { sameBits, smallestBudget, staged, trained } from './runs'
import { gateTest } from '../full'

const FP16 = { precision: 'fp16' } as const
const FIRST = 65536

const folder = mkdtempSync(join(tmpdir(), 'spillway-fp16-'))
test.after(() => rmSync(folder, { recursive: true }))

const done = <A>(e: Either<SpillwayError, A>): A => {
  if (isLeft(e)) throw new Error(errorText(e.left))
  return e.right
}

for (const [name, o] of [
  ['sgd', { optimizer: sgd({ lr: 1e-3, momentum: 0.9 }) }],
  [
    'adamw, accumulated, clipped, averaged',
    { optimizer: adamw({ lr: 1e-3 }), accumulate: 2, clipNorm: 1, clipValue: 0.5, average: 0.9 },
  ],
] as const)
  test(`in-core, recomputing and swapping plans have the same bits: ${name}`, async () => {
    const r = await sameBits({ ...FP16, ...(o as StageOptions) })
    assert.equal(r.lossScale, { scale: FIRST, skipped: 0 })
  })

test('the reference device recomputes to the same bits', async () => {
  const o = { ...FP16, machine: 'ref' } as const
  const inCore = await trained(smallTrunk, staged(smallTrunk, { ...o, strategy: 'in-core' }))
  const again = await trained(smallTrunk, staged(smallTrunk, { ...o, strategy: 'checkpoint:sqrt' }))
  assert.equal([again.weightsSha256, again.losses], [inCore.weightsSha256, inCore.losses])
})

const image = model([1, 3, 64, 64], net)

test('tiles of an image agree within the rounding of their sums', async () => {
  const inCore = await trained(image, staged(image, { ...FP16, strategy: 'in-core' }))
  const plan = staged(image, { ...FP16, strategy: 'tiled', budget: smallestBudget(image, 'tiled', FP16) })
  assert.ok(plan.plan.segments.some((s) => s.grid.H * s.grid.W > 1))
  const tiled = await trained(image, plan)
  for (const [i, loss] of tiled.losses.entries()) assert.ok(Math.abs(loss / inCore.losses[i]! - 1) < 1e-3, `${tiled.losses}`)
  assert.equal(tiled.lossScale, inCore.lossScale)
})

// Half an ulp of f16 is 2^-11 of a value: an eighth of bf16's in the rule of bf16.test.ts is 2^-12, but the small numbers of f16 are coarser.
const HALF_ULP = 2 ** -11

gateTest('losses of a ResNet in six steps are near those of fp32', async () => {
  const run = async (precision: StagingOptions['precision']): Promise<TrainResult> => {
    const o = {
      machine: 'cpu',
      strategy: 'in-core',
      algorithms: 'fixed',
      image: [32, 32],
      batch: 8,
      lr: 0.01,
      precision,
    } as const
    return done(await trainTask(undefined, done(stageNamed('resnet32-cifar', o)).staged, { steps: 6, seed: 1 })())
  }
  const [floats, halves] = [await run('fp32'), await run('fp16')]
  const [first] = floats.losses as [number]
  const off = halves.losses.map((x, i) => Math.abs(x - floats.losses[i]!) / first)
  assert.ok(floats.losses[5]! < first / 2, `it learns nothing: ${floats.losses}`)
  assert.ok(off[0]! <= 4 * HALF_ULP && Math.max(...off) <= 16 * HALF_ULP, `${halves.losses} and ${floats.losses}`)
  assert.is.not(halves.weightsSha256, floats.weightsSha256)
})

// ---------------------------------------------------------------- overflow

/** The gradient of its loss is 1 or -1: times 65536 it overflows, times 32768 it does not. */
const steep = model([1, 3, 4, 4], seq(conv2d('a', 8, 3), batchNorm('n'), relu(), conv2d('b', 1, 4, { pad: 0 })))
const STEEP = { optimizer: adamw({ lr: 1e-3 }), loss: l1, ...FP16 } as const

/** All values of the last checkpoint, by name. */
const kept = async (steps: number, name: string, o: StageOptions = {}): Promise<ReadonlyMap<string, readonly number[]>> => {
  const checkpointDir = join(folder, name)
  await trained(steep, staged(steep, { ...STEEP, ...o }), { steps, checkpointDir })
  return numbersIn(join(checkpointDir, `step-${String(steps).padStart(9, '0')}.safetensors`))
}
const numbersIn = (path: string): ReadonlyMap<string, readonly number[]> => {
  const file = done(openTensors('checkpoint', path))
  return new Map(
    [...file.tensors].flatMap(([name, t]) => {
      if (t.type !== 'F32') return []
      const bytes = done(readTensor(file, t)).slice()
      return [[name, [...new Float32Array(bytes.buffer)]] as const]
    }),
  )
}

const isWeight = (name: string): boolean => name.endsWith('.weight') || name.endsWith('.bias')

test('a step that overflows changes nothing but the scale', async () => {
  const one = await kept(1, 'one')
  assert.equal([one.get('loss_scale'), one.get('loss_scale.counts')], [[FIRST / 2], [0, 0, 1]])
  const others = await kept(1, 'others', { optimizer: adamw({ lr: 1, weightDecay: 0.5 }) })
  for (const [name, numbers] of one) {
    if (isWeight(name)) assert.equal(others.get(name), numbers, name)
    if (/exp_avg|running_mean/.test(name))
      assert.ok(
        numbers.every((x) => x === 0),
        name,
      )
  }
})

test('the step after it is the first update: adamw corrects for one step', async () => {
  const lr = 1e-3
  const [one, two] = [await kept(1, 'one again'), await kept(2, 'two')]
  assert.equal([two.get('loss_scale'), two.get('loss_scale.counts')], [[FIRST / 2], [1, 1, 1]])
  // The first step of Adam is the sign of the gradient times the rate; AdamW shrinks the weight before.
  for (const [i, w] of two.get('b.weight')!.entries()) {
    const step = (one.get('b.weight')![i]! * (1 - lr * 0.01) - w) / lr
    assert.ok(Math.abs(step) < 1e-3 || Math.abs(Math.abs(step) - 1) < 1e-2, `${step}`)
  }
  assert.ok(two.get('n.running_mean')!.some((x) => x !== 0))
})

test('every overflow is counted: an accumulated update is left out whole', async () => {
  const r = await trained(steep, staged(steep, { ...STEEP, accumulate: 4 }), { steps: 20 })
  assert.equal(r.lossScale, { scale: FIRST / 2, skipped: 1 })
})

test('the scale doubles after 2000 updates in a row, and an overflow then halves it', async () => {
  const calm = model([1, 3, 4, 4], seq(conv2d('a', 2, 3), relu(), conv2d('b', 1, 1)))
  const plan = staged(calm, { optimizer: sgd({ lr: 1e-5 }), ...FP16 })
  const checkpointDir = join(folder, 'doubled')
  const before = await trained(calm, plan, { steps: 1999, checkpointDir })
  const after = await trained(calm, plan, { steps: 2000, checkpointDir, resume: true })
  assert.is(after.lossScale!.skipped, before.lossScale!.skipped)
  assert.is(before.lossScale!.skipped, 0)
  assert.equal([before.lossScale!.scale, after.lossScale!.scale], [FIRST, 2 * FIRST])
})

test('a resumed run has the scale and the bits of one that was never interrupted', async () => {
  const o = { ...STEEP, accumulate: 2 } as const
  const whole = await trained(steep, staged(steep, o), { steps: 21 })
  const checkpointDir = join(folder, 'resumed')
  await trained(steep, staged(steep, o), { steps: 9, checkpointDir })
  const resumed = await trained(steep, staged(steep, o), { steps: 21, checkpointDir, resume: true })
  assert.is(resumed.resumedFrom, 9)
  assert.equal([resumed.weightsSha256, resumed.losses, resumed.lossScale], [whole.weightsSha256, whole.losses, whole.lossScale])
})

// ---------------------------------------------------------------- machines

test('a T4 plans in fp16 with its tensor cores, in less memory and time than in fp32', () => {
  const o = { machine: 't4-16g', image: [224, 224], batch: 32, strategy: 'in-core' } as const
  const [floats, halves] = (['fp32', 'fp16'] as const).map(
    (precision) => done(stageNamed('resnet50', { ...o, precision })).staged,
  )
  assert.ok(halves!.plan.peakPages < 0.7 * floats!.plan.peakPages)
  assert.ok(halves!.timeline.makespanSeconds < 0.5 * floats!.timeline.makespanSeconds)
})

test('machines without fp16 list their precisions', () => {
  const refused = machineNamed('v100-pcie-16g', FP16)
  assert.ok(isLeft(refused))
  assert.match(
    errorText((refused as { readonly left: SpillwayError }).left),
    /precision 'fp16' is not allowed on machine 'v100-pcie-16g'.*allowed: fp32/,
  )
})

test.run()
