// timeout 400
// Fifty right runs get no note about a mistake (beginners.test.ts has the mistakes): all losses and optimizers, all kinds of data, unusual but right
// options, short runs, noisy losses and losses at their minimum. They share one process and tiny networks.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  adam,
  adamw,
  batchNorm,
  bceWithLogits,
  conv2d,
  crossEntropy,
  crossEntropyWith,
  detach,
  dice,
  dropout,
  fed,
  focal,
  fromBytes,
  apply,
  globalAvgPool,
  huber,
  l1,
  linear,
  loss,
  lossOf,
  minimize,
  type Model,
  model,
  mse,
  relu,
  rmsprop,
  seq,
  sgd,
  sigmoid,
  softCrossEntropy,
  softmax,
  step,
  sumOf,
  type Trainable,
} from '../../dsl'
import { type Data, files, folder, pick, source } from '../../src/data/data'
import { npyHead } from '../../src/files/npy'
import { validation } from '../../src/predict/validation'
import { stage } from '../../src/stage/stage'
import type { StageOptions } from '../../src/stage/stageoptions'
import type { TrainOptions } from '../../src/train/options'
import { cosine, oneCycle } from '../../src/train/schedules'
import { train } from '../../src/train/trainer'
import { fewOrAll } from '../full'
import { png } from '../src/data/png'
import { spillwayHere } from './processes'
import { DEVICE } from './runs'

const project = join(__dirname, '../..')
const root = mkdtempSync(join(tmpdir(), 'spillway-rightruns-'))
process.chdir(root)
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
test.after(() => {
  process.chdir(project)
  rmSync(root, { recursive: true })
})

// ---------------------------------------------------------------- models and data

const SIZE = 8
const PIXELS = 3 * SIZE ** 2
const body = seq(conv2d('a', 4, 3), relu(), globalAvgPool('pool'))
const classifier = model([2, 3, SIZE, SIZE], seq(body, linear('fc', 3)))
const one = model([1, 3, SIZE, SIZE], seq(body, linear('fc', 3)))
const normed = model(
  [4, 3, SIZE, SIZE],
  seq(conv2d('a', 4, 3, { bias: false }), batchNorm('n'), relu(), globalAvgPool('pool'), linear('fc', 3)),
)
const dropped = model([2, 3, SIZE, SIZE], seq(body, dropout(0.5), linear('fc', 3)))
const yes = model([2, 3, SIZE, SIZE], seq(body, linear('fc', 1)))
const pixels = model([2, 3, SIZE, SIZE], seq(conv2d('a', 4, 3), relu(), conv2d('out', 2, 1)))
const pixel = model([2, 3, SIZE, SIZE], seq(conv2d('a', 4, 3), relu(), conv2d('out', 1, 1)))
const bounded = model([2, 3, SIZE, SIZE], seq(pixel.net, sigmoid()))
const shares = model([2, 3, SIZE, SIZE], seq(pixels.net, softmax()))
const bytes = model([2, 3, SIZE, SIZE], seq(fromBytes({ mean: 0.5, std: 0.25 }), body, linear('fc', 3)))
const normsFirst = model([2, 3, SIZE, SIZE], seq(batchNorm('n'), body, linear('fc', 3)))

const image = (colour: number, seed: number): Float32Array =>
  Float32Array.from(
    { length: PIXELS },
    (_, k) => (Math.floor(k / SIZE ** 2) === colour ? 0.8 : 0.1) + 0.05 * Math.sin(k * (seed + 1)),
  )
/** Red, green and blue images; `label` of sample i. */
const labelled = (length = 12, label = (i: number): number => i % 3): Data =>
  source({ length, read: (i) => ({ input: image(i % 3, i), target: label(i) }) })
const targeted = (values: number, target: (i: number, k: number) => number, length = 8): Data =>
  source({
    length,
    read: (i) => ({ input: image(i % 3, i), target: Float32Array.from({ length: values }, (_, k) => target(i, k)) }),
  })
/** Half of the pixels of an image. */
const masks = (label = (k: number): number => k % 2, length = 8): Data =>
  source({
    length,
    read: (i) => ({ input: image(i % 3, i), target: Int32Array.from({ length: SIZE ** 2 }, (_, k) => label(k)) }),
  })
function* stream() {
  for (let i = 0; i < 12; i++) yield { input: image(i % 3, i), target: i % 3 }
}

const write = (path: string, content: Uint8Array): void => {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), content)
}
const photo = (colour: number, seed: number): Uint8Array =>
  png({
    width: SIZE,
    height: SIZE,
    bits: 8,
    colour: 'rgb',
    pixels: Uint8Array.from({ length: PIXELS }, (_, k) => (k % 3 === colour ? 200 : 20) + ((k * 7 + seed * 13) % 50)),
  })
const CLASSES = ['ant', 'bee', 'cow'] as const
for (const [c, name] of CLASSES.entries()) {
  for (let i = 0; i < 4; i++) write(`train/${name}/${i}.png`, photo(c, i))
  for (let i = 0; i < 2; i++) write(`val/${name}/${i}.png`, photo(c, 10 + i))
}
for (const [c, name] of CLASSES.entries()) for (let i = 0; i < [9, 1, 4][c]!; i++) write(`uneven/${name}/${i}.png`, photo(c, i))
const MODELS = { classifier, bytes, pixels } as const
Object.assign(globalThis, { rightModels: MODELS })
for (const name of Object.keys(MODELS)) write(`${name}.js`, Buffer.from(`exports.default = globalThis.rightModels.${name}\n`))
const arrays = (name: string, type: 'f4' | 'u1', value: (i: number) => number): void => {
  const [input, target] = [
    new { f4: Float32Array, u1: Uint8Array }[type](6 * PIXELS),
    Int32Array.from({ length: 6 }, (_, i) => i % 3),
  ]
  for (let i = 0; i < input.length; i++) input[i] = value(i)
  write(`${name}/input.npy`, Buffer.concat([npyHead(type, [6, 3, SIZE, SIZE]), Buffer.from(input.buffer)]))
  write(`${name}/target.npy`, Buffer.concat([npyHead('i4', [6]), Buffer.from(target.buffer)]))
}
arrays('small', 'f4', (i) => Math.sin(i))
arrays('onehot', 'f4', (i) => i % 2)
arrays('whole', 'u1', (i) => (i * 37) % 256)

// ---------------------------------------------------------------- runs

const MEAN = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
const rate = (lr: number): Pick<StageOptions, 'optimizer'> => ({ optimizer: sgd({ lr, momentum: 0.9 }) })

type Run = readonly [what: string, net: Trainable, how: StageOptions, options: Partial<TrainOptions>]
const CE = { loss: crossEntropy } as const
const data = labelled()

const NOISE = (i: number): number => (i * 7919) % 3
const critic = seq(conv2d('c', 4, 3), relu(), conv2d('judge', 1, 1))
const photos = fed('photo', [2, 3, SIZE, SIZE])
const made = apply(pixel.net, photos)
const optimizer = adam({ lr: 0.01 })
const objectives = step(
  minimize('generator', { over: pixel.net, optimizer, losses: { gan: loss(mse, apply(critic, made), 1) } }),
  minimize('critic', { over: critic, optimizer, losses: { fake: loss(mse, apply(critic, detach(made)), 0) } }),
)

const RUNS: readonly Run[] = [
  ['sgd', classifier, { ...CE, ...rate(0.05) }, { data, epochs: 4 }],
  ['adam', classifier, { ...CE, optimizer: adam({ lr: 0.01 }) }, { data, epochs: 4 }],
  ['adamw', classifier, { ...CE, optimizer: adamw({ lr: 0.01 }) }, { data, epochs: 4 }],
  ['rmsprop', classifier, { ...CE, optimizer: rmsprop({ lr: 0.01 }) }, { data, epochs: 4 }],
  ['a default rate', classifier, CE, { data, epochs: 4 }],
  ['a high but right rate', classifier, { ...CE, ...rate(0.5) }, { data, epochs: 10 }],
  ['a single epoch', classifier, { ...CE, ...rate(0.05) }, { data, epochs: 1 }],
  ['as many steps as an epoch', classifier, { ...CE, ...rate(0.05) }, { data, steps: 6 }],
  ['a batch of all data', classifier, { ...CE, ...rate(0.1) }, { data: pick(data, [0, 1]), epochs: 20 }],
  ['one image per step', one, { ...CE, ...rate(0.02) }, { data, epochs: 6 }],
  ['a warm-up', classifier, { ...CE, ...rate(0.05) }, { data, epochs: 4, warmup: 6 }],
  ['a long warm-up', classifier, { ...CE, ...rate(0.1) }, { data, epochs: 4, warmup: 20 }],
  ['cosine', classifier, { ...CE, ...rate(0.05) }, { data, epochs: 4, schedule: cosine() }],
  ['one cycle', classifier, { ...CE, ...rate(0.2) }, { data, epochs: 6, schedule: oneCycle() }],
  ['clipping', classifier, { ...CE, ...rate(1), clipNorm: 1 }, { data, epochs: 6 }],
  ['accumulation', classifier, { ...CE, ...rate(0.1), accumulate: 3 }, { data, epochs: 6 }],
  ['an average', classifier, { ...CE, ...rate(0.05), average: 0.9 }, { data, epochs: 4 }],
  ['frozen layers', classifier, { ...CE, ...rate(0.1), freeze: 'a.*' }, { data, epochs: 10 }],
  ['batch norm', normed, { ...CE, ...rate(0.05) }, { data, epochs: 6 }],
  ['dropout', dropped, { ...CE, ...rate(0.05) }, { data, epochs: 6 }],
  ['labels that cannot be learned', classifier, { ...CE, ...rate(0.05) }, { data: labelled(12, NOISE), epochs: 10 }],
  ['label smoothing', classifier, { loss: crossEntropyWith({ labelSmoothing: 0.1 }), ...rate(0.05) }, { data, epochs: 4 }],
  [
    'some ignored labels',
    classifier,
    { loss: crossEntropyWith({ ignoreIndex: 9 }), ...rate(0.05) },
    { data: labelled(12, (i) => (i < 6 ? 9 : i % 3)), epochs: 4 },
  ],
  ['class weights', classifier, { loss: crossEntropyWith({ weights: [1, 9, 2] }), ...rate(0.05) }, { data: 'uneven', epochs: 4 }],
  ['uneven classes', classifier, { ...CE, ...rate(0.05) }, { data: 'uneven', epochs: 4 }],
  [
    'soft labels',
    classifier,
    { loss: softCrossEntropy(), ...rate(0.05) },
    { data: targeted(3, (i, k) => (i % 3 === k ? 0.8 : 0.1)), epochs: 4 },
  ],
  ['yes and no', yes, { loss: bceWithLogits, ...rate(0.05) }, { data: targeted(1, (i) => i % 2), epochs: 6 }],
  ['rarely yes', yes, { loss: bceWithLogits, ...rate(0.05) }, { data: targeted(1, (i) => (i === 0 ? 1 : 0), 24), epochs: 6 }],
  ['focal', yes, { loss: focal(), ...rate(0.05) }, { data: targeted(1, (i) => i % 2), epochs: 6 }],
  ['pixels', pixels, { ...CE, ...rate(0.05) }, { data: masks(), epochs: 4 }],
  ['rare pixels', pixels, { ...CE, ...rate(0.05) }, { data: masks((k) => (k === 9 ? 1 : 0)), epochs: 6 }],
  [
    'void pixels',
    pixels,
    { loss: crossEntropyWith({ ignoreIndex: 255 }), ...rate(0.05) },
    { data: masks((k) => (k < 50 ? 255 : k % 2)), epochs: 4 },
  ],
  ['dice', pixels, { loss: dice(), ...rate(0.05) }, { data: masks(), epochs: 4 }],
  ['two losses', pixels, { loss: sumOf(crossEntropy, [0.5, dice()]), ...rate(0.05) }, { data: masks(), epochs: 4 }],
  ['regression', pixel, { loss: mse, ...rate(0.01) }, { data: targeted(SIZE ** 2, (i, k) => Math.sin(i + k)), epochs: 6 }],
  [
    'regression of large numbers',
    pixel,
    { loss: mse, optimizer: adam({ lr: 0.05 }) },
    { data: targeted(SIZE ** 2, (i) => 100 + i), epochs: 10 },
  ],
  [
    'rare large targets',
    model([1, 3, SIZE, SIZE], pixel.net),
    { loss: mse, ...rate(1e-4) },
    { data: targeted(SIZE ** 2, (i) => (i % 16 === 5 ? 20 : 0), 32), epochs: 3 },
  ],
  ['absolute errors', pixel, { loss: l1, ...rate(0.01) }, { data: targeted(SIZE ** 2, (i, k) => Math.sin(i + k)), epochs: 6 }],
  ['huber', pixel, { loss: huber(), ...rate(0.01) }, { data: targeted(SIZE ** 2, (i, k) => Math.sin(i + k)), epochs: 6 }],
  [
    'a sigmoid before a loss of numbers',
    bounded,
    { loss: mse, ...rate(0.1) },
    { data: targeted(SIZE ** 2, (i) => i % 2), epochs: 6 },
  ],
  [
    'a softmax before a loss of numbers',
    shares,
    { loss: mse, ...rate(0.1) },
    { data: targeted(2 * SIZE ** 2, (_, k) => k % 2), epochs: 6 },
  ],
  [
    'an own loss',
    pixel,
    { loss: lossOf((y, t) => y.minus(t).abs().mean()), ...rate(0.01) },
    { data: targeted(SIZE ** 2, (i) => i), epochs: 6 },
  ],
  [
    'a loss that begins at 0',
    pixel,
    { loss: lossOf((y) => y.times(0).mean()), ...rate(0.01) },
    { data: targeted(SIZE ** 2, () => 0), epochs: 6 },
  ],
  ['synthetic data', classifier, { ...CE, ...rate(0.05) }, { steps: 20 }],
  ['a trial of two steps', pixel, { loss: mse }, { steps: 2 }],
  ['a trial of two epochs', pixel, { loss: mse }, { data: targeted(SIZE ** 2, (i, k) => Math.sin(i + k), 4), epochs: 2 }],
  ['a stream', classifier, { ...CE, ...rate(0.05) }, { data: source(stream), steps: 24 }],
  ['images', classifier, { ...CE, ...rate(0.05) }, { data: 'train', epochs: 4, evaluate: validation({ data: 'val' }) }],
  [
    'augmented images',
    classifier,
    { ...CE, ...rate(0.05) },
    { data: folder('train', { ...MEAN, augment: { flip: 'horizontal', crop: true } }), epochs: 4 },
  ],
  [
    'parts of one folder',
    classifier,
    { ...CE, ...rate(0.05) },
    {
      data: pick(folder('train'), [0, 1, 4, 5, 8, 9]),
      evaluate: validation({ data: pick(folder('train'), [2, 6, 10]) }),
      epochs: 4,
    },
  ],
  ['arrays', classifier, { ...CE, ...rate(0.05) }, { data: 'small', epochs: 4 }],
  ['arrays of zeros and ones', classifier, { ...CE, ...rate(0.05) }, { data: 'onehot', epochs: 4 }],
  [
    'bytes that are scaled',
    classifier,
    { ...CE, ...rate(0.05) },
    { data: files('whole', { mean: [0.5], std: [0.25] }), epochs: 4 },
  ],
  ['a model that scales bytes', bytes, { ...CE, ...rate(0.05) }, { data: 'whole', epochs: 4 }],
  ['a model that normalises first', normsFirst, { ...CE, ...rate(0.05) }, { data: 'whole', epochs: 4 }],
  ['two objectives', objectives, {}, { data: source({ length: 8, read: (i) => ({ photo: image(i % 3, i) }) }), epochs: 8 }],
]

const notesOf = async (net: Trainable, how: StageOptions, options: Partial<TrainOptions>): Promise<readonly string[]> => {
  const notes: string[] = []
  const staged = stage(net, { machine: DEVICE, algorithms: 'fixed', ...how } as StageOptions)
  const o = { workers: 0, ...options, onNote: (text: string) => notes.push(text) } as TrainOptions & { readonly steps: number }
  await train(net as Model, staged, o)
  return notes
}

const OFTEN = [
  'a high but right rate',
  'one image per step',
  'class weights',
  'rarely yes',
  'rare large targets',
  'parts of one folder',
  'bytes that are scaled',
]
for (const [what, net, how, options] of fewOrAll(
  RUNS.filter(([name]) => OFTEN.includes(name)),
  RUNS,
))
  test(`${what}: a right run has no note`, async () => {
    assert.equal(await notesOf(net, how, options), [])
  })

test('fine-tuning with the normalisation of the weights has no note', async () => {
  const normalised = folder('train', MEAN)
  const how = { ...CE, ...rate(0.1) }
  await notesOf(classifier, how, { data: normalised, epochs: 10, save: 'w.safetensors' })
  // At the lowest loss, nothing moves.
  const still = { ...CE, ...rate(1e-6) }
  assert.equal(await notesOf(classifier, still, { data: normalised, epochs: 3, weights: 'w.safetensors' }), [])
  const head = await notesOf(classifier, how, { data: normalised, epochs: 4, weights: 'w.safetensors', weightsSkip: 'fc.*' })
  assert.is(head.length, 1)
  assert.match(head[0]!, /loaded 2 of 4 weights/)
})

const COMMANDS = [
  'train classifier.js --loss cross-entropy --data train --evaluate val --epochs 4 --lr 0.05 --no-save',
  'train classifier.js --loss cross-entropy --data train --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --epochs 4 --lr 0.05 --no-save',
  'train bytes.js --loss cross-entropy --data whole --epochs 4 --lr 0.05 --no-save',
  'train classifier.js --loss cross-entropy --data whole --mean 0 --epochs 4 --lr 0.05 --no-save',
  'train classifier.js --loss cross-entropy --steps 20 --lr 0.05 --no-save',
] as const
test('right commands have no note', async () => {
  for (const line of fewOrAll(COMMANDS.slice(0, 2), COMMANDS)) {
    const { code, err } = await spillwayHere(...line.split(' '), '--device', DEVICE, '--algorithms', 'fixed', '--workers', '0')
    assert.is(code, 0, err)
    assert.not.match(err, /^note: /m, line)
  }
})

test.run()
