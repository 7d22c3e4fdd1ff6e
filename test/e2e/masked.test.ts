// full
// Masked networks: every way to save memory trains them to the same weights, tiles within rounding; pixels outside count nowhere, so a padded image
// has the loss of the image; convolutions of 0 are skipped. The formulas themselves are those of PyTorch (pytorch-training.test.ts).
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  batchNorm,
  conv2d,
  crossEntropy,
  fromBytes,
  gatedAttentionPool,
  generalizedMeanPool,
  globalAvgPool,
  groupNorm,
  identity,
  linear,
  masked,
  maxPool,
  type Model,
  modelAt,
  type Net,
  relu,
  residual,
  seq,
  sigmoid,
  scaled,
} from '../../dsl'
import { errorText, files, predict, tryExportOnnx } from '../../src'
import { npy } from '../faults/labelfiles'
import type { TrainResult } from '../../src/train/result'
import { BF16, DEVICE, halfway, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-masked-'))
test.after(() => rmSync(root, { recursive: true }))

const SIDE = 16
const body = [
  fromBytes({ mean: 0.5, std: 0.25 }),
  conv2d('stem', 16, 3, { stride: 2, bias: false }),
  batchNorm('n0'),
  relu(),
  maxPool(3, { stride: 2, pad: 1 }),
  residual(
    seq(conv2d('a', 16, 3), batchNorm('n1'), relu(), scaled(globalAvgPool(), conv2d('se', 16, 1), sigmoid()), conv2d('b', 16, 3)),
    identity,
  ),
  batchNorm('n2'),
  relu(),
] as const
const netOf = (height: number, width: number, pool: 'attention' | 'means' = 'attention'): Model => {
  const reduction = pool === 'attention' ? gatedAttentionPool('pool', 6) : generalizedMeanPool(2)
  const made = modelAt([2, 3, height, width], masked(SIDE, ...body, reduction, linear('head', 3)))
  if (made._tag === 'Left') throw new Error(JSON.stringify(made.left))
  return made.right
}

/** Two images of a height and a width, with data where `isInside`; a pixel's colour follows from its place. */
const dataOf = (height: number, width: number, isInside: (image: number, y: number, x: number) => boolean) => {
  const folder = mkdtempSync(join(root, 'data-'))
  mkdirSync(folder, { recursive: true })
  const pixels = Uint8Array.from({ length: 2 * height * width * 3 }, (_, i) => {
    const [pixel, c] = [Math.floor(i / 3), i % 3]
    const [y, x, image] = [Math.floor(pixel / width) % height, pixel % width, Math.floor(pixel / (height * width))]
    return isInside(image, y, x) ? 1 + ((x * 7 + y * 13 + image * 5 + c * 31 + x * y) % 250) : 0
  })
  writeFileSync(join(folder, 'input.npy'), npy('|u1', [2, height, width, 3], pixels))
  writeFileSync(join(folder, 'target.npy'), npy('<i4', [2], new Uint8Array(Int32Array.from([1, 2]).buffer)))
  return files(folder, { layout: 'NHWC' })
}
/** Whole blocks: a band of each image, and a block apart. */
const blocks = (image: number, y: number, x: number): boolean =>
  (x >= 32 + 16 * image && x < 112 && y >= 48 && y < 112) || (y < 16 && x >= 224 && x < 240)

const [HEIGHT, WIDTH] = [480, 512]
const options: Parameters<typeof staged>[1] = { loss: crossEntropy }

test('recompute and swap plans have the bits of in-core, tiles agree within rounding', async () => {
  const net = netOf(HEIGHT, WIDTH)
  const data = dataOf(HEIGHT, WIDTH, blocks)
  const run = (o: Parameters<typeof staged>[1]) => trained(net, staged(net, { ...options, ...o }), { steps: 2, data })
  const inCore = await run({ strategy: 'in-core' })
  assert.ok(inCore.losses.every(Number.isFinite))
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
    const r = await run({ strategy, budget: halfway(net, strategy, options) })
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
  }
  const tiled = await run({ strategy: 'tiled', budget: smallestBudget(net, 'tiled', options) })
  assert.ok(tiled.peakBytes < inCore.peakBytes)
  for (const [r, within] of [
    [tiled, 1e-5],
    [await run({ machine: 'ref', strategy: 'in-core' }), 1e-4],
    [await run({ ...BF16, strategy: 'in-core' }), 3e-2],
  ] as const)
    r.losses.forEach((loss, i) => assert.ok(Math.abs(loss - inCore.losses[i]!) <= within * inCore.losses[i]!, `${r.losses}`))
})

/** Runs with the switch for the empty parts of images. */
const withZeros = async <T>(zeros: 'skip' | 'compute', run: () => Promise<T>): Promise<T> => {
  process.env['SPILLWAY_ZEROS'] = zeros
  try {
    return await run()
  } finally {
    delete process.env['SPILLWAY_ZEROS']
  }
}

const MASKS: readonly (readonly [string, (image: number, y: number, x: number) => boolean])[] = [
  ['blobs', blocks],
  ['all of it', () => true],
  ['nothing', () => false],
  ['one block', (_, y, x) => Math.floor(y / SIDE) === 3 && Math.floor(x / SIDE) === 2],
  ['a checkerboard', (_, y, x) => (Math.floor(y / SIDE) + Math.floor(x / SIDE)) % 2 === 0],
]

if (DEVICE === 'cpu')
  for (const [name, isInside] of MASKS)
    test(`the empty parts of an image are skipped with equal results: ${name}`, async () => {
      const net = netOf(96, 160)
      const data = dataOf(96, 160, isInside)
      const plans: readonly Parameters<typeof staged>[1][] = [
        { strategy: 'in-core' },
        { strategy: 'swap:greedy', budget: halfway(net, 'swap:greedy', options) },
        { strategy: 'checkpoint:sqrt', budget: halfway(net, 'checkpoint:sqrt', options) },
        { strategy: 'tiled', budget: smallestBudget(net, 'tiled', options) },
      ]
      const skipping: string[] = []
      for (const o of plans) {
        const run = (): Promise<TrainResult> => trained(net, staged(net, { ...options, ...o }), { steps: 2, data })
        const [skipped, computed] = [await withZeros('skip', run), await withZeros('compute', run)]
        const again = await withZeros('skip', run)
        assert.is(again.weightsSha256, skipped.weightsSha256, 'the same bits each time')
        if (o?.strategy !== 'tiled') skipping.push(skipped.weightsSha256)
        assert.is(computed.skippedShare, undefined)
        const share = skipped.skippedShare ?? 0
        assert.ok(name === 'all of it' ? share < 0.1 : share > 0.1 && share < 1, `${o?.strategy}: ${share}`)
        assert.is(skipped.peakBytes, computed.peakBytes)
        skipped.losses.forEach((loss, i) =>
          assert.ok(Math.abs(loss - computed.losses[i]!) <= 1e-5 * computed.losses[i]!, `${skipped.losses} ${computed.losses}`),
        )
      }
      assert.is(new Set(skipping).size, 1, 'swaps and recomputing give the bits of in-core')
    })

test('padding counts nowhere: images of any size have the losses of the image alone', async () => {
  for (const pool of ['attention', 'means'] as const) {
    const lossesOf = async (height: number, width: number): Promise<readonly number[]> => {
      const net = netOf(height, width, pool)
      const data = dataOf(height, width, (image, y, x) => y < 64 && x < 96 && blocks(image, y + 48, x + 32))
      const { losses } = await trained(net, staged(net, { ...options, strategy: 'in-core' }), { steps: 2, data })
      return losses
    }
    const alone = await lossesOf(64, 96)
    for (const [height, width] of [
      [64, 160],
      [160, 96],
      [208, 112],
    ] as const)
      (await lossesOf(height, width)).forEach((loss, i) =>
        assert.ok(Math.abs(loss - alone[i]!) <= 2e-5 * alone[i]!, `${pool}, ${height} x ${width}: ${loss} and ${alone[i]}`),
      )
  }
})

test('a prediction of an image on a canvas is that of the image', async () => {
  const weights = join(root, 'weights.safetensors')
  const small = netOf(64, 96)
  const inside = (image: number, y: number, x: number): boolean => y < 64 && x < 96 && blocks(image, y + 48, x + 32)
  await trained(small, staged(small, { ...options, strategy: 'in-core' }), {
    steps: 1,
    data: dataOf(64, 96, inside),
    save: weights,
  })
  const outputs = await Promise.all(
    [small, netOf(160, 112)].map(async (net) => {
      const plan = staged(net, { mode: 'predict', as: 'values', strategy: 'in-core' })
      const { outputs } = await predict(net, plan, { weights, data: dataOf(net.input[2], net.input[3], inside) })
      return outputs.flatMap(({ values }) => [...(values as Float32Array)])
    }),
  )
  assert.is(outputs[0]!.length, 6)
  const exported = tryExportOnnx(small, { weights, out: join(root, 'net.onnx') })
  assert.ok(exported._tag === 'Right', exported._tag === 'Left' ? errorText(exported.left) : '')
  outputs[0]!.forEach((v, i) => assert.ok(Math.abs(v - outputs[1]![i]!) <= 1e-5 * Math.max(1, Math.abs(v)), `${outputs}`))
})

test('an image without data trains, too', async () => {
  const net = netOf(64, 64)
  const data = dataOf(64, 64, () => false)
  const { losses } = await trained(net, staged(net, { ...options, strategy: 'in-core' }), { steps: 2, data })
  assert.ok(losses.every(Number.isFinite), `${losses}`)
})

test('layers for which all pixels count, and masks in masks, are refused', () => {
  const reason = (...layers: readonly Net[]): string => {
    const made = modelAt([1, 4, 64, 64], masked(16, ...layers))
    return made._tag === 'Left' && made.left.tag === 'ShapeInvalid' ? `${made.left.layer}: ${made.left.reason}` : made._tag
  }
  assert.match(reason(groupNorm('g', 2)), /^g: all pixels of an image count for it/)
  assert.match(reason(relu(), masked(8, relu())), /^masked: it is in a net that is masked already/)
  assert.is(reason(relu(), batchNorm('b')), 'Right')
})

test.run()
