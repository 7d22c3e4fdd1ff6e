// full
// Losses and max pools of masked networks: pixels outside of the mask count nowhere. An image on a canvas has the loss, the weights and the
// evaluation of the image alone; pixels in blocks have those of the same pixels side by side. Every way to save memory trains to the same weights.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  batchNorm,
  bceWithLogits,
  conv2d,
  crossEntropy,
  crossEntropyWith,
  dice,
  focal,
  globalMaxPool,
  huber,
  type Loss,
  l1,
  linear,
  lossOf,
  masked,
  maxPool,
  type Model,
  modelAt,
  mse,
  type Net,
  seq,
  sgd,
  softCrossEntropy,
  sumOf,
  upsample,
} from '../../dsl'
import { evaluate, files, metric } from '../../src'
import { npy } from '../faults/labelfiles'
import { BF16, halfway, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-masked-losses-'))
test.after(() => rmSync(root, { recursive: true }))

const modelOf = (height: number, width: number, ...layers: readonly Net[]): Model => {
  const made = modelAt([2, 3, height, width], seq(...layers))
  if (made._tag === 'Left') throw new Error(JSON.stringify(made.left))
  return made.right
}

const SIDE = 8
/** Values of both signs before the pool; coarse pixels of 2 × 2. */
const body = (channels: number): readonly Net[] => [
  conv2d('a', 6, 3),
  batchNorm('n'),
  maxPool(3, { stride: 2, pad: 1 }),
  conv2d('head', channels, 3),
  upsample({ scale: 2 }),
]
const netOf = (height: number, width: number, channels: number): Model => modelOf(height, width, masked(SIDE, ...body(channels)))

type Inside = (image: number, y: number, x: number) => boolean
type Targets = 'labels' | 'numbers' | 'shares'

const floats = (values: Float32Array): Uint8Array => new Uint8Array(values.buffer)
/** Two images with data where `isInside`; pixel and target follow from `placeOf`. */
const dataOf = (
  [height, width]: readonly [number, number],
  isInside: Inside,
  targets: Targets,
  channels: number,
  placeOf: (image: number, y: number, x: number) => number = (image, y, x) => 1000 * image + 31 * y + x,
) => {
  const folder = mkdtempSync(join(root, 'data-'))
  const at = (c: number) => (i: number) => {
    const [x, y] = [i % width, Math.floor(i / width) % height]
    const [channel, image] = [Math.floor(i / (height * width)) % c, Math.floor(i / (height * width * c))]
    return { channel, place: placeOf(image, y, x), inside: isInside(image, y, x) }
  }
  const pixels = Float32Array.from({ length: 2 * 3 * height * width }, (_, i) => {
    const { channel, place, inside } = at(3)(i)
    return inside ? Math.sin(1 + place * (channel + 1.7)) : 0
  })
  writeFileSync(join(folder, 'input.npy'), npy('<f4', [2, 3, height, width], floats(pixels)))
  if (targets === 'labels') {
    const labels = Int32Array.from({ length: 2 * height * width }, (_, i) => {
      const { place, inside } = at(1)(i)
      return inside ? (place * 7) % Math.max(2, channels) : 0
    })
    writeFileSync(join(folder, 'target.npy'), npy('<i4', [2, height, width], new Uint8Array(labels.buffer)))
  } else {
    const numbers = Float32Array.from({ length: 2 * channels * height * width }, (_, i) => {
      const { channel, place, inside } = at(channels)(i)
      if (!inside) return 0.5
      const share = 0.5 + 0.5 * Math.sin(place)
      return targets === 'shares' ? (channel === 0 ? share : (1 - share) / (channels - 1)) : share
    })
    writeFileSync(join(folder, 'target.npy'), npy('<f4', [2, channels, height, width], floats(numbers)))
  }
  return files(folder)
}

const LOSSES: Readonly<Record<string, readonly [loss: Loss, targets: Targets, channels: number]>> = {
  'cross-entropy': [crossEntropy, 'labels', 3],
  'cross-entropy, a label ignored': [crossEntropyWith({ ignoreIndex: 1 }), 'labels', 3],
  'cross-entropy, weights': [crossEntropyWith({ weights: [1, 2, 3], labelSmoothing: 0.1 }), 'labels', 3],
  dice: [dice(), 'labels', 3],
  'dice and cross-entropy': [sumOf(crossEntropy, [0.5, dice()]), 'labels', 3],
  'dice and bce of one channel': [sumOf(bceWithLogits, dice()), 'labels', 1],
  'soft cross-entropy': [softCrossEntropy({ labelSmoothing: 0.2 }), 'shares', 3],
  mse: [mse, 'numbers', 2],
  l1: [l1, 'numbers', 2],
  huber: [huber({ delta: 0.3 }), 'numbers', 2],
  bce: [bceWithLogits, 'numbers', 1],
  focal: [focal(), 'numbers', 1],
  own: [lossOf((y, t) => y.minus(t).square().plus(0.25).sqrt().mean()), 'numbers', 2],
}

const near = (got: readonly number[], wanted: readonly number[], within: number, what: string): void =>
  wanted.forEach((loss, i) =>
    assert.ok(Math.abs(loss - got[i]!) <= within * Math.max(0.1, Math.abs(loss)), `${what}: ${got} and ${wanted}`),
  )

test('an image on a canvas has the losses and the evaluation of the image alone', async () => {
  for (const [name, [loss, targets, channels]] of Object.entries(LOSSES)) {
    const run = async (height: number, width: number) => {
      const net = netOf(height, width, channels)
      const data = dataOf(
        [height, width],
        (image, y, x) => y < 16 && x < 24 && !(image === 1 && y < 8 && x < 8),
        targets,
        channels,
      )
      const save = join(root, 'canvas.safetensors')
      const { losses } = await trained(net, staged(net, { loss, optimizer: sgd({ lr: 0.1 }), strategy: 'in-core' }), {
        steps: 3,
        data,
        save,
      })
      const plan = staged(net, { mode: 'evaluate', loss, strategy: 'in-core' })
      const evaluated = await evaluate(net, plan, { weights: save, data })
      return [...losses, evaluated.loss]
    }
    const alone = await run(16, 24)
    assert.ok(alone.every(Number.isFinite) && alone[0] !== alone[1], `${name}: ${alone}`)
    near(await run(40, 32), alone, 2e-5, name)
  }
})

test('scores count the pixels inside: an image on a canvas has those of the image alone', async () => {
  const count = metric({
    name: 'count',
    start: () => 0,
    add: (sum, { target, channels, output }) => sum + (output instanceof Int32Array ? target.length : output.length / channels),
    value: (sum) => sum,
    merge: (a, b) => a + b,
  })
  const cases = [
    ['values', crossEntropy, 'labels', 3, ['accuracy', 'meanIou', 'dice', 'top2', count]],
    ['classes', crossEntropy, 'labels', 3, ['accuracy', 'f1']],
    ['values', mse, 'numbers', 2, ['mae', 'mse', 'psnr', 'ssim', count]],
    ['classes', bceWithLogits, 'numbers', 1, ['accuracy', 'recall']],
  ] as const
  const inside = 2 * 24 * 32 - 64
  for (const [as, loss, targets, channels, metrics] of cases) {
    const run = async (height: number, width: number) => {
      const net = netOf(height, width, channels)
      const data = dataOf(
        [height, width],
        (image, y, x) => y < 24 && x < 32 && !(image === 1 && y < 8 && x < 8),
        targets,
        channels,
      )
      const save = join(root, 'scores.safetensors')
      await trained(net, staged(net, { loss, strategy: 'in-core' }), { steps: 2, data, save })
      const found: { readonly loss: number; readonly metrics: Readonly<Record<string, number>> }[] = []
      for (const strategy of ['in-core', 'tiled'] as const) {
        const plan = staged(net, { mode: 'evaluate', loss, strategy, as })
        found.push(await evaluate(net, plan, { weights: save, data, metrics }))
      }
      assert.equal(found[0]!.metrics, found[1]!.metrics)
      for (const precision of [BF16, { machine: 'ref', precision: 'fp16' }] as const) {
        const half = staged(net, { mode: 'evaluate', loss, strategy: 'in-core', as: 'values', ...precision })
        const counted = await evaluate(net, half, { weights: save, data, metrics: [count] })
        assert.is(counted.metrics['count'], inside, precision.precision)
      }
      return found[0]!
    }
    const [alone, canvas] = [await run(24, 32), await run(40, 48)]
    assert.equal(Object.keys(canvas.metrics).sort(), metrics.map((m) => (typeof m === 'string' ? m : m.name)).sort())
    for (const [name, score] of Object.entries(alone.metrics))
      assert.ok(
        Math.abs(canvas.metrics[name]! - score) <= 2e-5 * Math.max(0.1, Math.abs(score)),
        `${name}: ${score} and ${canvas.metrics[name]}`,
      )
    if ('count' in alone.metrics) assert.is(alone.metrics['count'], inside)
  }
})

test('pixels in blocks have the loss of the same pixels side by side', async () => {
  // Without a mask, 16 columns of 8 rows; with one, the columns are blocks of 8 × 8 in a checkerboard of 24 × 24.
  const squares = [0, 2, 4, 6, 8]
  const layers = (channels: number): readonly Net[] => [
    conv2d('a', 6, 1),
    maxPool(2),
    conv2d('head', channels, 1),
    upsample({ scale: 2 }),
  ]
  const square = (y: number, x: number): number => 3 * Math.floor(y / SIDE) + Math.floor(x / SIDE)
  for (const [name, [loss, targets, channels]] of Object.entries(LOSSES)) {
    const within = (y: number, x: number): number => (y % SIDE) * SIDE + (x % SIDE)
    const strip = dataOf(
      [SIDE, SIDE * 5],
      () => true,
      targets,
      channels,
      (image, y, x) => 1000 * image + 100 * squares[Math.floor(x / SIDE)]! + within(y, x),
    )
    const board = dataOf(
      [3 * SIDE, 3 * SIDE],
      (_, y, x) => squares.includes(square(y, x)),
      targets,
      channels,
      (image, y, x) => 1000 * image + 100 * square(y, x) + within(y, x),
    )
    const lossesOf = async (net: Model, data: typeof strip): Promise<readonly number[]> =>
      (await trained(net, staged(net, { loss, optimizer: sgd({ lr: 0.1 }), strategy: 'in-core' }), { steps: 3, data })).losses
    const alone = await lossesOf(modelOf(SIDE, SIDE * 5, ...layers(channels)), strip)
    near(await lossesOf(modelOf(3 * SIDE, 3 * SIDE, masked(SIDE, ...layers(channels))), board), alone, 2e-5, name)
  }
})

test('recompute and swap plans have the bits of in-core, tiles and devices agree within rounding', async () => {
  const [height, width] = [480, 512]
  const isInside: Inside = (image, y, x) => x >= 32 + 16 * image && x < 400 && y >= 40 && y < 320
  for (const name of ['cross-entropy', 'dice and bce of one channel'] as const) {
    const [loss, targets, channels] = LOSSES[name]!
    const net = netOf(height, width, channels)
    const data = dataOf([height, width], isInside, targets, channels)
    const run = (o: Parameters<typeof staged>[1]) => trained(net, staged(net, { loss, ...o }), { steps: 2, data })
    const inCore = await run({ strategy: 'in-core' })
    for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
      const r = await run({ strategy, budget: halfway(net, strategy, { loss }) })
      assert.equal([name, strategy, r.weightsSha256], [name, strategy, inCore.weightsSha256])
    }
    const tiled = await run({ strategy: 'tiled', budget: smallestBudget(net, 'tiled', { loss }) })
    assert.ok(tiled.peakBytes < inCore.peakBytes)
    near(tiled.losses, inCore.losses, 1e-5, `${name}, tiled`)
    near((await run({ machine: 'ref', strategy: 'in-core' })).losses, inCore.losses, 1e-4, `${name}, ref`)
    near((await run({ ...BF16, strategy: 'in-core' })).losses, inCore.losses, 3e-2, `${name}, bf16`)
  }
})

test('the maximum of an image counts pixels inside, also of negative values; an image without data has 0', async () => {
  const lossesOf = async (height: number, width: number, isInside: Inside): Promise<readonly number[]> => {
    const net = modelOf(height, width, masked(SIDE, conv2d('a', 4, 3), globalMaxPool(), linear('head', 2)))
    const folder = mkdtempSync(join(root, 'max-'))
    const pixels = Float32Array.from({ length: 2 * 3 * height * width }, (_, i) => {
      const [x, y, image] = [i % width, Math.floor(i / width) % height, Math.floor(i / (3 * height * width))]
      return isInside(image, y, x) ? -1 - Math.abs(Math.sin(31 * y + x)) : 0
    })
    writeFileSync(join(folder, 'input.npy'), npy('<f4', [2, 3, height, width], floats(pixels)))
    writeFileSync(join(folder, 'target.npy'), npy('<f4', [2, 2, 1, 1], floats(Float32Array.from([1, 2, 3, 4]))))
    const { losses } = await trained(net, staged(net, { loss: mse, strategy: 'in-core' }), { steps: 2, data: files(folder) })
    return losses
  }
  const alone = await lossesOf(16, 16, (_, y, x) => y < 16 && x < 16)
  near(await lossesOf(40, 24, (_, y, x) => y < 16 && x < 16), alone, 1e-5, 'maximum')
  assert.ok((await lossesOf(16, 16, () => false)).every(Number.isFinite))
})

test.run()
