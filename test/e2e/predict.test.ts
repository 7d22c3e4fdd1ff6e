// timeout 400
// Predictions: in every budget the bits of the whole image, on every device the reference's numbers; files as asked for, and words where
// something does not fit.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  batchNorm,
  conv2d,
  convTranspose2d,
  dropout,
  folder,
  type Form,
  globalAvgPool,
  groupNorm,
  identity,
  instanceNorm,
  linear,
  maxPool,
  mib,
  type Model,
  model,
  modelAt,
  predict,
  type Predicted,
  type PredictOptions,
  relu,
  residual,
  type Shape,
  seq,
  source,
  stage,
  type Staged,
  type StageOptions,
  SpillwayException,
  train,
  tryStage,
} from '../../src'
import { pngLabels } from '../../src/data/png'
import { addonFile } from '../../src/device/native'
import { exitCode } from '../../src/errors/errors'
import { npyHead, openNpy } from '../../src/files/npy'
import { openTensors, readTensor, writeTensors } from '../../src/files/safetensors'
import { zooEntry } from '../../src/zoo'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { labels, uniform } from '../fixtures/formula'
import { fewOrAll, fullTest } from '../full'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-predict-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
process.env['SPILLWAY_CUDA'] = join(dirname(addonFile()!), 'spillway_imitation.so')
const at = (...names: readonly string[]): string => join(root, ...names)

const segmenter = seq(
  conv2d('c1', 12, 3, { bias: false }),
  batchNorm('b1'),
  relu(),
  maxPool('p1', 2),
  dropout(0.3),
  residual(seq(conv2d('c2', 12, 3), batchNorm('b2'), relu(), conv2d('c3', 12, 3)), identity),
  convTranspose2d('up', 12, 2, { stride: 2 }),
  relu(),
  conv2d('head', 5, 1),
)
const classifier = seq(conv2d('c', 8, 3, { stride: 2 }), batchNorm('b'), relu(), globalAvgPool('pool'), linear('fc', 7))

const images = (name: string, shape: readonly number[]): string => {
  const path = at(`${name}.npy`)
  writeFileSync(path, Buffer.concat([npyHead('f4', shape), Buffer.from(uniform(name, shape, 1).buffer)]))
  return path
}

/** Weights of a few steps of training: the norms' statistics have moved. */
const weightsOf = async (name: string, net: Model): Promise<string> => {
  const path = at(`${name}.safetensors`)
  await train(net, stage(net, { machine: DEVICE, algorithms: 'fixed' }), { steps: 2, save: path })
  return path
}

const sized = (net: Parameters<typeof modelAt>[1], shape: Shape): Model => {
  const made = modelAt(shape, net, 'predict')
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return made.right
}

const predictedAs = (
  m: Model,
  as: Form,
  o: Omit<PredictOptions, 'weights'> & { weights: string },
  staging: StageOptions = {},
): Promise<Predicted> => predict(m, stage(m, { mode: 'predict', as, machine: DEVICE, algorithms: 'fixed', ...staging }), o)

/** The refusals, and their exit codes. */
const refusal = async (run: () => Promise<unknown>): Promise<readonly [words: string, code: number]> => {
  try {
    await run()
  } catch (e) {
    assert.ok(e instanceof SpillwayException, String(e))
    return [e.message, exitCode(e.error)]
  }
  throw new Error('nothing was refused')
}

const trainable = model([2, 3, 32, 32], segmenter)
let weights = ''
let large = ''
test.before(async () => {
  weights = await weightsOf('segmenter', trainable)
  large = images('large', [2, 3, 510, 392])
})

const LARGE: Shape = [1, 3, 510, 392]

const bytes = (a: ArrayBufferView): Buffer => Buffer.from(a.buffer, a.byteOffset, a.byteLength)
/** Without the words of a difference, which would be thousands. */
const sameBits = (a: ArrayBufferView, b: ArrayBufferView): void => assert.ok(bytes(a).equals(bytes(b)), 'the bits differ')

for (const as of fewOrAll(['classes'] as const, ['values', 'probabilities', 'classes'] as const))
  test(`${as} have the same bits in every budget, and the plan's peak`, async () => {
    const net = sized(segmenter, LARGE)
    const refused = tryStage(net, { mode: 'predict', as, machine: DEVICE, algorithms: 'fixed', budget: PAGE_BYTES })
    assert.ok(isLeft(refused) && refused.left.tag === 'BudgetInfeasible')
    const least = refused.left.smallestBytes
    const whole = await predictedAs(net, as, { weights, data: large })
    assert.is(whole.outputs.length, 2)
    const grids = new Set<string>()
    for (const budget of [least, Math.ceil((least + whole.peakBytes) / 2)]) {
      const staging = { mode: 'predict', as, machine: DEVICE, algorithms: 'fixed', budget } as const
      const plan = stage(net, staging)
      grids.add(plan.plan.segments.map((s) => `${s.grid.H}x${s.grid.W}`).join())
      const tiled = await predict(net, plan, { weights, data: large })
      assert.is(tiled.arenaPeakBytes, tiled.peakBytes)
      assert.ok(tiled.peakBytes <= budget && tiled.peakBytes < whole.peakBytes)
      tiled.outputs.forEach((o, i) => sameBits(o.values, whole.outputs[i]!.values))
    }
    assert.ok(grids.size > 1, 'budgets have grids of their own')
  })

const farthest = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let [most, largest] = [0, 0]
  for (let i = 0; i < a.length; i++) {
    most = Math.max(most, Math.abs(a[i]! - b[i]!))
    largest = Math.max(largest, Math.abs(b[i]!))
  }
  return most / largest
}

fullTest('an imitated GPU hands out the same numbers, in tiles too', async () => {
  const net = sized(segmenter, LARGE)
  const whole = await predictedAs(net, 'values', { weights, data: large }, { machine: 'ref' })
  for (const budget of [mib(512), mib(30)]) {
    const r = await predictedAs(net, 'values', { weights, data: large }, { machine: 'cuda', budget })
    assert.is(r.arenaPeakBytes, r.peakBytes)
    r.outputs.forEach((o, i) => assert.ok(farthest(o.values, whole.outputs[i]!.values) < 1e-5))
  }
})

const NETWORKS = ['vgg16-features', 'efficientnet-b0', 'convnext-tiny', 'unet', 'deeplabv3plus-resnet50']
const FEW_NETWORKS = ['resnet18', 'mobilenetv2']
for (const name of fewOrAll(FEW_NETWORKS, [...FEW_NETWORKS, ...NETWORKS]))
  test(`${name} in tiles predicts the result of the reference`, async () => {
    const size = name.startsWith('deeplab') ? 65 : 64
    const build = (batch: number, mode: 'train' | 'predict'): Model => {
      const built = zooEntry(name)!.build([batch, 3, size, size], mode)
      if (isLeft(built)) throw new Error(JSON.stringify(built.left))
      return built.right as Model
    }
    const own = await weightsOf(name, build(2, 'train'))
    const data = images(`${name}-image`, [1, 3, size, size])
    const net = build(1, 'predict')
    const truth = (await predictedAs(net, 'values', { weights: own, data }, { machine: 'ref' })).outputs[0]!
    const [first, tiled] = [
      await predictedAs(net, 'values', { weights: own, data }),
      await predictedAs(net, 'values', { weights: own, data }, { strategy: 'tiled' }),
    ]
    assert.ok(farthest(first.outputs[0]!.values, truth.values) < 2e-5)
    // Sums over the image are rounded in another order.
    if (name.startsWith('deeplab')) assert.ok(farthest(tiled.outputs[0]!.values, first.outputs[0]!.values) < 1e-6)
    else sameBits(tiled.outputs[0]!.values, first.outputs[0]!.values)
  })

test('batches and their rest, files of every kind', async () => {
  const data = images('five', [5, 3, 24, 20])
  const one = await predictedAs(sized(segmenter, [1, 3, 24, 20]), 'values', { weights, data })
  const net = sized(segmenter, [2, 3, 24, 20])
  const told: (readonly [number, number])[] = []
  const two = await predictedAs(net, 'values', { weights, data, onProgress: (done, all) => told.push([done, all]) })
  assert.equal(told, [
    [2, 5],
    [4, 5],
    [5, 5],
  ])
  assert.equal(
    two.outputs.map((o) => [o.name, o.shape]),
    [0, 1, 2, 3, 4].map((i) => [`five-${i}`, [5, 24, 20]]),
  )
  two.outputs.forEach((o, i) => sameBits(o.values, one.outputs[i]!.values))
  const all = new Float32Array(two.outputs.flatMap((o) => [...o.values]))

  const inOne = await predictedAs(net, 'values', { weights, data, out: at('deep', 'five.npy') })
  assert.equal(inOne.files, [at('deep', 'five.npy')])
  const header = openNpy(inOne.files[0]!)
  assert.ok(!isLeft(header))
  assert.equal(header.right.shape, [5, 5, 24, 20])
  sameBits(readFileSync(inOne.files[0]!).subarray(header.right.offset), all)

  await predictedAs(net, 'values', { weights, data, out: at('five.safetensors') })
  const tensors = openTensors('data', at('five.safetensors'))
  assert.ok(!isLeft(tensors))
  const stored = tensors.right.tensors.get('output')!
  const read = readTensor(tensors.right, stored)
  assert.ok(!isLeft(read))
  assert.equal([stored.shape, stored.type], [[5, 5, 24, 20], 'F32'])
  sameBits(read.right, all)

  type Listed = readonly { readonly name: string; readonly shape: readonly number[]; readonly values: readonly number[] }[]
  await predictedAs(net, 'values', { weights, data, out: at('five.json') })
  await predictedAs(net, 'values', { weights, data, out: at('five.jsonl') })
  const listed = JSON.parse(readFileSync(at('five.json'), 'utf8')) as Listed
  const lines = readFileSync(at('five.jsonl'), 'utf8').trimEnd().split('\n')
  assert.equal(
    lines.map((line) => JSON.parse(line) as Listed[0]),
    listed,
  )
  assert.equal(
    listed.map((o) => [o.name, o.shape]),
    two.outputs.map((o) => [o.name, o.shape]),
  )
  sameBits(new Float32Array(listed.flatMap((o) => o.values)), all)

  const masks = await predictedAs(net, 'classes', { weights, data, out: at('masks') })
  assert.equal(
    readdirSync(at('masks')),
    [0, 1, 2, 3, 4].map((i) => `five-${i}.npy`),
  )
  assert.equal(
    masks.files,
    readdirSync(at('masks')).map((n) => at('masks', n)),
  )
  const mask = openNpy(at('masks', 'five-3.npy'))
  assert.ok(!isLeft(mask))
  assert.equal([mask.right.shape, mask.right.type], [[24, 20], 'i4'])
  const classes = new Int32Array(new Uint8Array(readFileSync(at('masks', 'five-3.npy')).subarray(mask.right.offset)).buffer)
  const values = two.outputs[3]!.values
  const largest = (p: number): number =>
    [0, 1, 2, 3, 4].reduce((best, c) => (values[c * 480 + p]! > values[best * 480 + p]! ? c : best), 0)
  assert.equal(
    [...classes],
    Array.from({ length: 480 }, (_, p) => largest(p)),
  )
})

test('probabilities add up to one; of one channel they are a sigmoid', async () => {
  const own = await weightsOf('classifier', model([2, 3, 16, 16], classifier))
  const data = images('small', [3, 3, 16, 16])
  const r = await predictedAs(sized(classifier, [3, 3, 16, 16]), 'probabilities', { weights: own, data })
  for (const o of r.outputs) assert.ok(Math.abs([...o.values].reduce((a, b) => a + b, 0) - 1) < 1e-6)
  const one = model([2, 3, 16, 16], seq(conv2d('only', 1, 3)))
  const its = await weightsOf('one', one)
  const [raw, squashed, whether] = [
    await predictedAs(sized(one.net, [3, 3, 16, 16]), 'values', { weights: its, data }),
    await predictedAs(sized(one.net, [3, 3, 16, 16]), 'probabilities', { weights: its, data }),
    await predictedAs(sized(one.net, [3, 3, 16, 16]), 'classes', { weights: its, data }),
  ]
  raw.outputs.forEach((o, i) =>
    o.values.forEach((x, k) => {
      assert.ok(Math.abs(squashed.outputs[i]!.values[k]! - 1 / (1 + Math.exp(-x))) < 1e-6)
      assert.is(whether.outputs[i]!.values[k], x > 0 ? 1 : 0)
    }),
  )
})

const picture = async (name: string, height: number, width: number): Promise<Uint8Array> => {
  const pixels = Uint8Array.from(labels(name, height * width * 3, 256))
  const sharp = require('sharp') as typeof import('sharp')
  mkdirSync(dirname(at(name)), { recursive: true })
  await sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toFile(at(name))
  return pixels
}
/** Channels first, as the model sees them. */
const asNpy = (name: string, pixels: Uint8Array, height: number, width: number): string => {
  const path = at(`${name}.npy`)
  const planes = Float32Array.from({ length: pixels.length }, (_, i) => {
    const [c, p] = [Math.floor(i / (height * width)), i % (height * width)]
    return (pixels[p * 3 + c]! / 255 - 0.5) / 0.25
  })
  writeFileSync(path, Buffer.concat([npyHead('f4', [3, height, width]), Buffer.from(planes.buffer)]))
  return path
}

/** The colours of PASCAL VOC's first classes. */
const VOC = [
  [0, 0, 0],
  [128, 0, 0],
  [0, 128, 0],
  [128, 128, 0],
  [0, 0, 128],
]

test('image files, each at its own size, as arrays of their pixels; masks as pictures', async () => {
  const sizes = [
    ['a', 24, 20],
    ['b', 30, 26],
    ['c', 24, 20],
    ['d', 24, 20],
  ] as const
  const net = sized(segmenter, [2, 3, 24, 20])
  const data = folder(at('photos'), { mean: [0.5], std: [0.25] })
  const truth: ArrayLike<number>[] = []
  const classes: ArrayLike<number>[] = []
  for (const [name, h, w] of sizes) {
    const npy = asNpy(`own-${name}`, await picture(`photos/${name}.png`, h, w), h, w)
    const one = sized(segmenter, [1, 3, h, w])
    truth.push((await predictedAs(one, 'values', { weights, data: npy })).outputs[0]!.values)
    classes.push((await predictedAs(one, 'classes', { weights, data: npy })).outputs[0]!.values)
  }
  const told: number[] = []
  const r = await predictedAs(net, 'values', { weights, data, onProgress: (done) => told.push(done) })
  assert.equal(
    r.outputs.map((o) => [o.name, o.shape]),
    sizes.map(([name, h, w]) => [name, [5, h, w]]),
  )
  assert.equal(told, [2, 3, 4])
  r.outputs.forEach((o, i) => assert.ok(farthest(o.values, truth[i]!) < 1e-5))
  const small = await predictedAs(net, 'values', { weights, data, workers: 0 }, { strategy: 'tiled' })
  small.outputs.forEach((o, i) => sameBits(o.values, r.outputs[i]!.values))

  const masks = await predictedAs(net, 'classes', { weights, data, out: at('pictures'), format: 'png' })
  assert.equal(
    masks.files,
    sizes.map(([name]) => at('pictures', `${name}.png`)),
  )
  assert.equal(readdirSync(at('pictures')), ['a.png', 'b.png', 'c.png', 'd.png'])
  for (const [i, [name, height, width]] of sizes.entries()) {
    const read = pngLabels(readFileSync(at('pictures', `${name}.png`)), 10_000)
    assert.ok(!isLeft(read))
    assert.equal([read.right.height, read.right.width, [...read.right.pixels]], [height, width, Array.from(classes[i]!)])
    const seen = await (require('sharp') as typeof import('sharp'))(at('pictures', `${name}.png`))
      .raw()
      .toBuffer()
    assert.equal(
      [...seen],
      Array.from(classes[i]!).flatMap((c) => VOC[c]!),
    )
  }

  const fitted = await predictedAs(net, 'values', { weights, data: folder(at('photos'), { fit: 'stretch' }), out: at('fitted') })
  assert.equal([fitted.images, fitted.files.length], [4, 4])
  for (const file of fitted.files) {
    const head = openNpy(file)
    assert.ok(!isLeft(head))
    assert.equal(head.right.shape, [5, 24, 20])
  }
  const single = await predictedAs(net, 'values', { weights, data: at('photos', 'c.png') })
  assert.equal(
    single.outputs.map((o) => [o.name, o.shape]),
    [['c', [5, 24, 20]]],
  )

  const classed = sized(segmenter, [2, 3, 24, 20])
  const say = async (as: Form, o: Partial<PredictOptions>): Promise<string> =>
    (await refusal(() => predictedAs(classed, as, { weights, data, ...o })))[0]
  assert.match(await say('values', { out: at('x'), format: 'png' }), /'png' needs classes/)
  assert.match(await say('classes', { out: at('x.npy'), format: 'png' }), /needs a folder/)
  assert.match(await say('classes', { format: 'png' }), /needs a folder/)
  assert.match(await say('classes', { out: at('x'), format: 'gif' as 'png' }), /format 'gif' is not known; allowed: npy, png/)
  assert.match(await say('classes', { out: at('x.npy') }), /can hold outputs of one size only, but the images have 2/)
  assert.match(await say('classes', { data: source([]) }), /a stream of samples is not supported/)
  writeFileSync(at('photos', 'broken.png'), 'no picture')
  assert.match(await say('classes', {}), /broken\.png is refused/)
  rmSync(at('photos', 'broken.png'))
  await picture('double/a.png', 8, 8)
  await (require('sharp') as typeof import('sharp'))(at('double', 'a.png')).toFile(at('double', 'a.webp'))
  assert.match(await say('classes', { data: at('double') }), /two of its images are named 'a'/)
})

test("a net of many norms gives what PyTorch's eval() gives", async () => {
  const made = JSON.parse(readFileSync(join(__dirname, '../fixtures/predictions.json'), 'utf8')) as {
    readonly shape: readonly [number, number, number, number]
    readonly values: readonly number[]
  }
  const unit = <N extends string>(n: N) =>
    residual(seq(conv2d(`${n}.c`, 12, 3, { bias: false }), batchNorm(`${n}.b`), relu()), identity)
  const net = seq(
    seq(conv2d('c1', 8, 3, { bias: false }), batchNorm('b1'), relu()),
    seq(conv2d('c2', 12, 3, { stride: 2 }), groupNorm('g2', 3), relu()),
    seq(unit('r3'), instanceNorm('i4'), unit('r5'), dropout(0.5), conv2d('out', 4, 1)),
  )
  const m = sized(net, made.shape)
  const plan = stage(m, { mode: 'predict', machine: DEVICE, algorithms: 'fixed' })
  const isScale = /(b1|\.b|g2)\.weight$|running_var$/
  const tensors = plan.plan.graph.values.filter((v) => v.role === 'param' || v.role === 'state')
  const own = at('norms.safetensors')
  const written = writeTensors(
    own,
    tensors.map(({ name, shape }) => ({
      name,
      type: 'F32' as const,
      shape,
      read: () => right(new Uint8Array(uniform(name, shape, 0.3, isScale.test(name) ? 1 : 0).buffer)),
    })),
  )
  assert.ok(!isLeft(written))
  const image = at('norms.npy')
  writeFileSync(image, Buffer.concat([npyHead('f4', made.shape), Buffer.from(uniform('image', made.shape, 1).buffer)]))
  for (const staging of [{}, { strategy: 'tiled' as const }]) {
    const r = await predictedAs(m, 'values', { weights: own, data: image }, staging)
    const all = r.outputs.flatMap((o) => [...o.values])
    assert.ok(farthest(all, made.values) < 1e-5, `${farthest(all, made.values)}`)
  }
})

test('a table has a row per image, by the names of its classes', async () => {
  const data = images('six', [3, 3, 16, 16])
  const own = await weightsOf('tabled', model([2, 3, 16, 16], classifier))
  const net = sized(classifier, [2, 3, 16, 16])
  const rowsOf = (file: string): readonly (readonly string[])[] =>
    readFileSync(at(file), 'utf8')
      .trimEnd()
      .split('\n')
      .map((row) => row.split(','))
  const { outputs } = await predictedAs(net, 'values', { weights: own, data })
  await predictedAs(net, 'values', { weights: own, data, out: at('six.csv') })
  assert.equal(rowsOf('six.csv')[0], ['name', '0', '1', '2', '3', '4', '5', '6'])
  rowsOf('six.csv')
    .slice(1)
    .forEach(([name, ...numbers], i) => {
      assert.is(name, outputs[i]!.name)
      sameBits(new Float32Array(numbers.map(Number)), outputs[i]!.values)
    })
  await predictedAs(net, 'classes', { weights: own, data, out: at('classes.csv') })
  const largest = ({ values }: { readonly values: ArrayLike<number> }) =>
    Array.from(values).indexOf(Math.max(...Array.from(values)))
  assert.equal(rowsOf('classes.csv'), [['name', 'class'], ...outputs.map((o) => [o.name, String(largest(o))])])
  const plan = stage(sized(segmenter, [1, 3, 24, 20]), { mode: 'predict', machine: DEVICE })
  assert.match(
    (
      await refusal(() =>
        predict(sized(segmenter, [1, 3, 24, 20]), plan, { weights, data: images('odd', [2, 3, 24, 20]), out: at('odd.csv') }),
      )
    )[0],
    /one row per image, but each output is \[5,24,20\]: use a \.npy, \.safetensors or \.json file, or a folder/,
  )
})

test('data that do not fit are refused with the reason, and no partial file is left', async () => {
  const data = images('odd', [2, 3, 24, 20])
  const net = sized(segmenter, [1, 3, 24, 20])
  const plan = stage(net, { mode: 'predict', machine: DEVICE })
  const training: Staged = stage(trainable, { machine: DEVICE })
  assert.equal(await refusal(() => predict(trainable, training, { weights, data })), [
    "this plan has mode 'train', but the call needs mode 'predict': stage with mode: 'predict'",
    2,
  ])
  const [words, code] = await refusal(() => train(net, plan as Staged, { steps: 1 }))
  assert.ok(/has mode 'predict', but the call needs mode 'train'/.test(words) && code === 2, words)
  assert.match(
    (await refusal(() => predict(sized(segmenter, [1, 3, 32, 20]), plan, { weights, data })))[0],
    /but this model differs: stage it again/,
  )
  assert.match((await refusal(() => predict(net, plan, { weights: at('none'), data })))[0], /no such file/)
  assert.match(
    (await refusal(() => predict(net, plan, { weights: at('classifier.safetensors'), data })))[0],
    /does not match the model/,
  )
  assert.match(
    (await refusal(() => predict(net, plan, { weights, data: images('grey', [2, 1, 24, 20]) })))[0],
    /\[2,1,24,20\], but input of the model is \[N,3,24,20\]/,
  )
  assert.match((await refusal(() => predict(net, plan, { weights, data, out: at('odd.npy', 'x.npy') })))[0], /odd\.npy/)
  assert.match(
    (await refusal(async () => stage(net, { mode: 'predict', strategy: 'swap:greedy', machine: DEVICE })))[0],
    /in-core, tiled, auto/,
  )
  assert.match((await refusal(async () => stage(net, { as: 'classes', machine: DEVICE })))[0], /mode: 'predict'/)
  const controller = new AbortController()
  const reason = new Error('enough')
  const stopped = predict(net, plan, {
    weights,
    data,
    out: at('stopped.npy'),
    signal: controller.signal,
    onProgress: () => controller.abort(reason),
  })
  await stopped.then(
    () => assert.unreachable('it was ended'),
    (e) => assert.is(e, reason),
  )
  assert.equal(
    readdirSync(root).filter((n) => n.includes('stopped')),
    [],
  )
})

test.run()
