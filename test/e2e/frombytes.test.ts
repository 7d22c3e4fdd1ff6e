// timeout 600
// Models that are fed bytes: the weights of the same model fed the same numbers as floats, under any plan; a byte for each number in the
// data, on the way and on the device; whatever source the bytes come from, and what is refused of them.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, fromBytes, globalAvgPool, maxPool, model, relu, seq } from '../../dsl'
import { bytesOf } from '../../staging/core/bytes'
import { type Data, files, folder, source } from '../../src/data/data'
import { errorText } from '../../src/errors/errors'
import { writeTensors } from '../../src/files/safetensors'
import { evaluate } from '../../src/predict/evaluator'
import { predict } from '../../src/predict/predictor'
import { stage } from '../../src/stage/stage'
import type { StageOptions } from '../../src/stage/stageoptions'
import type { TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { train, trainTask } from '../../src/train/trainer'
import { npy } from '../faults/labelfiles'
import { png } from '../src/data/png'
import { fullTest } from '../full'
import { DEVICE, smallestBudget } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-bytes-'))
test.after(() => rmSync(root, { recursive: true }))

const MEAN = [0.485, 0.456, 0.406]
const STD = [0.229, 0.224, 0.225]
const [B, C, H, W] = [2, 3, 64, 64] as const
const SIZE = C * H * W
const SAMPLES = 6

const body = seq(
  ...([conv2d('stem', 32, 3), batchNorm('bn1'), relu(), maxPool(2)] as const),
  ...([conv2d('next', 32, 3), batchNorm('bn2'), relu(), conv2d('head', 4, 1), globalAvgPool()] as const),
)
const bytes = model([B, C, H, W], seq(fromBytes({ mean: MEAN, std: STD }), body))
const floats = model([B, C, H, W], body)

const raw = (i: number): Uint8Array => Uint8Array.from({ length: SIZE }, (_, k) => (k * 7 + i * 31 + ((k * i) % 13)) % 256)
const f = Math.fround
/** The operator's roundings. */
const scaled = (i: number): Float32Array =>
  raw(i).reduce((out, x, k) => {
    const c = Math.floor(k / (H * W))
    out[k] = f(f(f(x / 255) - f(MEAN[c]!)) / f(STD[c]!))
    return out
  }, new Float32Array(SIZE))
const turned = (x: Uint8Array): Uint8Array => Uint8Array.from(x, (_, k) => x[(k % C) * H * W + Math.floor(k / C)]!)

const ofBytes = source({ length: SAMPLES, read: (i) => ({ input: raw(i), target: i % 4 }) })
const ofFloats = source({ length: SAMPLES, read: (i) => ({ input: scaled(i), target: i % 4 }) })

type Net = typeof bytes | typeof floats
const staged = (net: Net, o: StageOptions = {}) => stage(net, { machine: DEVICE, algorithms: 'fixed', loss: crossEntropy, ...o })
const run = (net: Net, data: string | Data, o: StageOptions = {}, t: Partial<TrainOptions> = {}): Promise<TrainResult> =>
  train(net, staged(net, o), { steps: 4, seed: 3, data, ...t })
const bits = ({ losses, weightsSha256 }: TrainResult): unknown => [losses, weightsSha256]

const said = async (net: Net, data: string | Data): Promise<string> => {
  const result = await trainTask(net, staged(net), { steps: 1, data })()
  return isLeft(result) ? errorText(result.left) : 'nothing'
}

const tensors = (
  name: string,
  type: 'U8' | 'F32',
  shape: readonly number[],
  of: (i: number) => Uint8Array | Float32Array,
): string => {
  const path = join(root, name)
  const all = Array.from({ length: SAMPLES }, (_, i) => Buffer.from(of(i).buffer))
  writeTensors(path, [
    { name: 'input', type, shape: [SAMPLES, ...shape], read: () => right(Buffer.concat(all)) },
    { name: 'target', type: 'U8', shape: [SAMPLES], read: () => right(Uint8Array.from({ length: SAMPLES }, (_, i) => i % 4)) },
  ])
  return path
}

// ---------------------------------------------------------------- the same weights

test('bytes train to the weights of the numbers that they are', async () => {
  if (DEVICE !== 'cpu') return
  const [a, b] = [await run(bytes, ofBytes), await run(floats, ofFloats)]
  assert.equal(bits(a), bits(b))
  assert.is(a.arenaPeakBytes, a.peakBytes)
  // Three batches: a byte for each number, and a label of four.
  assert.is(a.feedBytes, 3 * B * (SIZE + 4))
  assert.is(b.feedBytes, 3 * B * (4 * SIZE + 4))
})

test('recomputing, swapping and both have the same bits', async () => {
  const inCore = await run(bytes, ofBytes, { strategy: 'in-core' })
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy', 'auto'] as const) {
    const budget = smallestBudget(bytes, strategy, { loss: crossEntropy })
    const r = await run(bytes, ofBytes, { strategy, budget })
    assert.equal([strategy, bits(r)], [strategy, bits(inCore)])
    assert.is(r.arenaPeakBytes, r.peakBytes)
  }
})

/** One image, larger than the memory: its tiles have halos. */
const image = model(
  [1, C, 256, 256],
  seq(
    fromBytes({ mean: MEAN, std: STD }),
    conv2d('stem', 32, 3),
    batchNorm('bn1'),
    relu(),
    conv2d('next', 32, 3),
    relu(),
    conv2d('last', 3, 1),
  ),
)

fullTest('tiles of an image agree within the rounding of sums', async () => {
  const of = { machine: DEVICE, algorithms: 'fixed' } as const
  const inCore = await train(image, stage(image, { ...of, strategy: 'in-core' }), { steps: 3, seed: 1 })
  const plan = stage(image, { ...of, strategy: 'tiled', budget: smallestBudget(image, 'tiled') })
  assert.ok(plan.plan.segments.some((s) => s.grid.H * s.grid.W > 1))
  const tiled = await train(image, plan, { steps: 3, seed: 1 })
  assert.is(tiled.arenaPeakBytes, tiled.peakBytes)
  assert.ok(tiled.peakBytes < inCore.peakBytes)
  tiled.losses.forEach((x, i) =>
    assert.ok(Math.abs(x - inCore.losses[i]!) < 1e-4 * inCore.losses[i]!, `${x} ${inCore.losses[i]}`),
  )
})

test('cpu follows the reference device in double precision', async () => {
  const [cpu, ref] = [await run(bytes, ofBytes), await run(bytes, ofBytes, { machine: 'ref' })]
  cpu.losses.forEach((x, i) => assert.ok(Math.abs(x - ref.losses[i]!) < 1e-4 * ref.losses[i]!, `${x} ${ref.losses[i]}`))
})

test('numbers are made again for the backward pass, not kept', () => {
  const large = { batch: 1, height: 512, width: 512 } as const
  const peakOf = (net: Net): number => {
    const at = model([large.batch, C, large.height, large.width], net.net)
    return bytesOf(stage(at, { machine: 'null', algorithms: 'fixed', strategy: 'in-core', loss: crossEntropy }).plan.peakPages)
  }
  const { graph } = staged(bytes).plan
  const made = graph.ops.filter((op) => op.kind === 'from_bytes')
  assert.equal(
    made.map((op) => op.phase),
    ['forward', 'backward'],
  )
  assert.equal(
    graph.values.filter((v) => v.role === 'input').map((v) => v.dtype),
    ['u8'],
  )
  assert.ok(peakOf(bytes) < peakOf(floats), `${peakOf(bytes)} of ${peakOf(floats)}`)
})

// ---------------------------------------------------------------- where bytes come from

test('files, arrays with channels last and images have the bits of a source in memory', async () => {
  const expected = bits(await run(bytes, ofBytes))
  assert.equal(bits(await run(bytes, tensors('first.safetensors', 'U8', [C, H, W], raw))), expected)
  const last = tensors('last.safetensors', 'U8', [H, W, C], (i) => turned(raw(i)))
  assert.equal(bits(await run(bytes, files(last, { layout: 'NHWC' }))), expected)
  const own = source({ length: SAMPLES, layout: 'NHWC', read: (i) => ({ input: turned(raw(i)), target: i % 4 }) })
  assert.equal(bits(await run(bytes, own)), expected)
  const arrays = join(root, 'arrays')
  mkdirSync(arrays)
  const all = (of: (i: number) => Uint8Array): Buffer => Buffer.concat(Array.from({ length: SAMPLES }, (_, i) => of(i)))
  writeFileSync(join(arrays, 'input.npy'), npy('|u1', [SAMPLES, C, H, W], all(raw)))
  writeFileSync(
    join(arrays, 'target.npy'),
    npy('|u1', [SAMPLES], Buffer.from(Uint8Array.from({ length: SAMPLES }, (_, i) => i % 4))),
  )
  assert.equal(bits(await run(bytes, arrays)), expected)
  const list = Array.from({ length: SAMPLES }, (_, i) => ({ image: `${i}.png`, label: i % 4 }))
  for (let i = 0; i < SAMPLES; i++)
    writeFileSync(join(root, `${i}.png`), png({ width: W, height: H, bits: 8, colour: 'rgb', pixels: turned(raw(i)) }))
  writeFileSync(join(root, 'list.json'), JSON.stringify(list))
  assert.equal(bits(await run(bytes, join(root, 'list.json'))), expected)
  assert.equal(bits(await run(bytes, folder(join(root, 'list.json'), { fit: 'crop' }))), expected)
})

test('trained weights predict and evaluate bytes as they do the numbers that these are', async () => {
  const save = join(root, 'weights.safetensors')
  await run(bytes, ofBytes, {}, { save })
  const list = join(root, 'list.json')
  const both = [
    [bytes, tensors('eval-bytes.safetensors', 'U8', [C, H, W], raw)],
    [floats, tensors('eval-floats.safetensors', 'F32', [C, H, W], scaled)],
  ] as const
  const outputs = []
  for (const [net, data] of both) {
    const plan = stage(net, { machine: DEVICE, algorithms: 'fixed', mode: 'predict' })
    const { outputs: given } = await predict(net, plan, { weights: save, data })
    const judging = stage(net, { machine: DEVICE, algorithms: 'fixed', mode: 'evaluate', loss: crossEntropy })
    const { loss, metrics } = await evaluate(net, judging, { weights: save, data })
    outputs.push([given.map(({ values }) => [...values]), loss, metrics])
  }
  assert.equal(outputs[0], outputs[1])
  const plan = stage(bytes, { machine: DEVICE, algorithms: 'fixed', mode: 'predict' })
  const pictures = await predict(bytes, plan, { weights: save, data: list })
  assert.equal(
    pictures.outputs.map(({ values }) => [...values]),
    outputs[0]![0],
  )
})

// ---------------------------------------------------------------- what is refused

test('other numbers than bytes are refused, and a second mean', async () => {
  const wide = tensors('wide.safetensors', 'F32', [C, H, W], scaled)
  assert.match(
    await said(bytes, wide),
    /'input' of wide.safetensors has type f32; the model begins with fromBytes and takes bytes \(u8\)/,
  )
  assert.match(
    await said(bytes, ofFloats),
    /sample 0 \(counted from 0\) is refused: input: the model begins with fromBytes and takes bytes: pass a Uint8Array/,
  )
  const narrow = tensors('narrow.safetensors', 'U8', [C, H, W], raw)
  const second = /the data have a mean, but the model begins with fromBytes, which normalizes 'input' itself: set it only there/
  assert.match(await said(bytes, files(narrow, { mean: [0.5] })), second)
  assert.match(await said(bytes, folder(join(root, 'list.json'), { mean: [0.5] })), second)
  assert.match(await said(bytes, source({ length: 1, mean: [0.5], read: () => ({ input: raw(0), target: 0 }) })), second)
  assert.match(
    await said(bytes, folder(join(root, 'list.json'), { depth: 16 })),
    /depth: 16 gives 16-bit numbers, but the model begins with fromBytes, which takes bytes/,
  )
  // A model without the layer takes bytes as numbers, as ever.
  assert.is(await said(floats, narrow), 'nothing')
})

test.run()
