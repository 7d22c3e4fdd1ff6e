// timeout 300
// COCO annotations train, evaluate and resume as the same masks and classes from a script; their class names are in the weights.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bceWithLogits, conv2d, crossEntropy, globalAvgPool, model, relu, seq } from '../../dsl'
import { paintedLabels } from '../../src/data/annotations'
import { folder, type Sample, source } from '../../src/data/data'
import { errorText } from '../../src/errors/errors'
import { evaluate } from '../../src/predict/evaluator'
import { validation } from '../../src/predict/validation'
import { descriptionOf } from '../../src/train/loading'
import { train, trainTask } from '../../src/train/trainer'
import { png } from '../src/data/png'
import { spillwayHere, unchecked } from './processes'
import { DEVICE, staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-coco-'))
test.after(() => rmSync(root, { recursive: true }))
const at = (...names: readonly string[]): string => join(root, ...names)
mkdirSync(at('photos'))

const SIZE = 16
const COUNT = 6
const pixels = (i: number): Uint8Array =>
  Uint8Array.from({ length: 3 * SIZE * SIZE }, (_, k) => (k * 7 + i * 31 + (k >> 4)) % 256)
for (let i = 0; i < COUNT; i++)
  writeFileSync(at('photos', `${i}.png`), png({ width: SIZE, height: SIZE, bits: 8, colour: 'rgb', pixels: pixels(i) }))

/** Sample i has a cat from row i on, and every other one a dog in a corner. */
const catOf = (i: number): readonly number[] => [0, i, 12, i, 12, i + 8, 0, i + 8]
const DOG = [10, 0, 16, 0, 16, 5, 10, 5]
const CATEGORIES = [
  { id: 1, name: 'cat' },
  { id: 4, name: 'dog' },
]
const written = (name: string, categories = CATEGORIES): string => {
  const idOf = (category: string): number => categories.find((c) => c.name === category)!.id
  const images = Array.from({ length: COUNT }, (_, i) => ({ id: 100 + i, file_name: `${i}.png`, width: SIZE, height: SIZE }))
  const annotations = images.flatMap(({ id }, i) => [
    { id: 2 * i, image_id: id, category_id: idOf('cat'), segmentation: [catOf(i)] },
    ...(i % 2 ? [{ id: 2 * i + 1, image_id: id, category_id: idOf('dog'), segmentation: [DOG] }] : []),
  ])
  writeFileSync(at(name), JSON.stringify({ images, annotations, categories }))
  return at(name)
}
const instances = written('instances.json')
const coco = folder(instances, { images: at('photos'), mean: [0] })

const shapeOf = (label: number, polygon: readonly number[]) => ({ label, isCrowd: false, polygons: [polygon] })
const maskOf = (i: number): Uint8Array => {
  const shapes = [shapeOf(1, catOf(i)), ...(i % 2 ? [shapeOf(2, DOG)] : [])]
  return paintedLabels({ name: '', width: SIZE, height: SIZE, shapes }).pixels
}
const sourceOf = (target: (i: number) => Sample['target']) =>
  source({ length: COUNT, layout: 'NHWC', mean: [0], read: (i) => ({ input: pixels(i), target: target(i)! }) })

const SEGMENTS = join(__dirname, 'coco-model.ts')
const segments = model([2, 3, SIZE, SIZE], seq(conv2d('a', 4, 3), relu(), conv2d('b', 3, 1)))
const classes = model([2, 3, SIZE, SIZE], seq(conv2d('a', 4, 3), relu(), conv2d('b', 2, 1), globalAvgPool()))
const GO = { steps: 6, seed: 1, workers: 0 } as const

test('masks of annotations train like the same masks of a script, and their names are stored in the weights', async () => {
  const plan = staged(segments, { loss: crossEntropy })
  const saved = at('w.safetensors')
  const [a, b] = [
    await train(segments, plan, { ...GO, data: coco, save: saved }),
    await train(segments, plan, { ...GO, data: sourceOf(maskOf) }),
  ]
  assert.equal([a.losses, a.weightsSha256], [b.losses, b.weightsSha256])
  assert.equal(descriptionOf(saved)?.classes, ['background', 'cat', 'dog'])
  // Evaluations follow the names, in any order of the categories.
  const evaluation = staged(segments, { mode: 'evaluate', loss: crossEntropy })
  const other = written('other.json', [
    { id: 9, name: 'cat' },
    { id: 2, name: 'dog' },
  ])
  const measured = async (path: string) => {
    const { loss, metrics, classes } = await evaluate(segments, evaluation, {
      ...{ weights: saved, data: folder(path, { images: at('photos') }), workers: 0 },
    })
    return [loss, metrics, classes]
  }
  assert.equal(await measured(other), await measured(instances))
  const resumed = { ...GO, data: coco, checkpointDir: at('state') }
  await train(segments, plan, { ...resumed, steps: 3 })
  assert.is((await train(segments, plan, { ...resumed, resume: true })).weightsSha256, a.weightsSha256)
})

test('several categories are a target of bce-with-logits; one class per image refuses them', async () => {
  const plan = staged(classes, { loss: bceWithLogits })
  const [a, b] = [
    await train(classes, plan, { ...GO, data: coco, evaluate: validation({ data: coco }) }),
    await train(classes, plan, { ...GO, data: sourceOf((i) => [1, i % 2]) }),
  ]
  assert.equal([a.losses, a.weightsSha256], [b.losses, b.weightsSha256])
  assert.ok(a.measured[0]!.metrics['loss']! > 0)
  const refusal = async (o: object, loss: typeof crossEntropy | typeof bceWithLogits = bceWithLogits): Promise<string> => {
    const answer = await trainTask(classes, staged(classes, { loss }), { ...GO, data: coco, ...o })()
    return isLeft(answer) ? errorText(answer.left) : 'it ran'
  }
  assert.match(
    await refusal({}, crossEntropy),
    /images\[1\] \(id 101\): it has the categories cat, dog, but the model takes one class/,
  )
  assert.match(await refusal({ balanceClasses: true }), /these images have several classes, not one class each/)
  assert.match(
    await refusal({ data: folder(instances, { images: at('photos'), augment: { mixup: true } }) }),
    /mixup and cutmix do not mix images of several classes/,
  )
  assert.match(await refusal({ data: folder(instances) }), /0\.png cannot be read; name the folder of the images: --images DIR/)
})

test('the command line takes annotations with --images, for training and for evaluations', async () => {
  const call = (...args: readonly string[]) => spillwayHere(...args, '--device', DEVICE, '--algorithms', 'fixed')
  const saved = at('cli.safetensors')
  const images = ['--images', at('photos')]
  const trained = await call(
    ...['train', unchecked(SEGMENTS), '--loss', 'cross-entropy', '--data', instances, ...images, '--evaluate', instances],
    ...['--augment', 'flip,elastic', '--epochs', '1', '--save', saved],
  )
  assert.is(trained.code, 0, trained.err)
  assert.match(trained.out, /^epoch 1 {2}evaluated {2}loss/m)
  const evaluated = await call('evaluate', unchecked(SEGMENTS), '--weights', saved, '--data', instances, ...images)
  assert.is(evaluated.code, 0, evaluated.err)
  assert.match(evaluated.out, /^ {2}background /m)
  const zoo = await call(
    'train',
    'unet',
    '--image',
    '16',
    '--batch',
    '2',
    '--data',
    instances,
    ...images,
    '--steps',
    '1',
    '--no-save',
  )
  assert.match(zoo.err, /^note: unet gets 3 classes, those of .*instances\.json$/m)
  const folderOnly = await call('train', unchecked(SEGMENTS), '--loss', 'cross-entropy', '--data', at('photos'), ...images)
  assert.is(folderOnly.code, 2)
  assert.match(folderOnly.err, /--images applies to COCO annotations in a \.json file/)
})

test.run()
