// timeout 300
// Weights that say what their model learnt from: classes and numbers go from a folder of images through training into evaluations and
// predictions, by scripts and by the command line; other data are told, and a head that is taken for other classes is.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy } from '../../dsl'
import { folder } from '../../src/data/data'
import { descriptionOf } from '../../src/train/loading'
import { evaluate } from '../../src/predict/evaluator'
import { predict } from '../../src/predict/predictor'
import { stage } from '../../src/stage/stage'
import { train } from '../../src/train/trainer'
import { png } from '../src/data/png'
import images from './images-model'
import { spillwayHere, unchecked } from './processes'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-described-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')

const [, , HEIGHT, WIDTH] = images.input
/** Bright images and dark ones. */
const write = (name: string, classes: readonly string[]): string => {
  for (let i = 0; i < 8; i++) {
    const at = join(root, name, classes[i % 2]!)
    mkdirSync(at, { recursive: true })
    const pixels = Uint8Array.from({ length: WIDTH * HEIGHT * 3 }, (_, k) => (i % 2 ? 200 : 20) + ((k * 31 + i * 57) % 40))
    writeFileSync(join(at, `${i}.png`), png({ width: WIDTH, height: HEIGHT, bits: 8, colour: 'rgb', pixels }))
  }
  return join(root, name)
}
const cats = write('cats', ['cat', 'dog'])
const others = write('others', ['bird', 'fish'])
const weights = join(root, 'w.safetensors')
const numbers = { mean: [0.4], std: [0.25] } as const
const UNKNOWN = /others is refused: unknown classes bird, fish; allowed: cat, dog; these data have bird, fish$/
const refusalOf = (p: Promise<unknown>): Promise<string> =>
  p.then(
    () => 'nothing was thrown',
    (e: Error) => e.message,
  )
const training = () => stage(images, { loss: crossEntropy, machine: DEVICE, algorithms: 'fixed', name: 'pictures' })

test('a run stores the description of its data in its weights', async () => {
  await train(images, training(), { steps: 3, data: folder(cats, numbers), save: weights })
  const { version: _, product: __, ...described } = descriptionOf(weights) as never as Record<string, unknown>
  assert.equal(described, {
    model: 'pictures',
    input: [...images.input.slice(1)],
    from: 'images',
    classes: ['cat', 'dog'],
    mean: [0.4],
    std: [0.25],
    fit: 'cover',
    colours: 'RGB',
  })
})

test('an evaluation uses the description, names the classes, and reports differences', async () => {
  const plan = stage(images, { mode: 'evaluate', loss: crossEntropy, machine: DEVICE, algorithms: 'fixed', name: 'pictures' })
  const notes: string[] = []
  const told = await evaluate(images, plan, { weights, data: cats, onNote: (text) => notes.push(text) })
  assert.equal(told.classes, ['cat', 'dog'])
  assert.equal(notes, ['the data use mean [0.4] and std [0.25], as in training'])
  const given = await evaluate(images, plan, { weights, data: folder(cats, numbers), onNote: (text) => notes.push(text) })
  assert.equal([given.loss, notes.length], [told.loss, 1])
  const bare = await evaluate(images, plan, { weights, data: folder(cats, { mean: [0] }), onNote: (text) => notes.push(text) })
  assert.is.not(bare.loss, told.loss)
  assert.match(notes[1]!, /trained on data with mean \[0\.4\] and std \[0\.25\], but these have mean \[0\]/)
  assert.match(await refusalOf(evaluate(images, plan, { weights, data: folder(others, numbers) })), UNKNOWN)
})

test('a prediction names the class of each image', async () => {
  const plan = stage(images, { mode: 'predict', as: 'classes', machine: DEVICE, algorithms: 'fixed', name: 'pictures' })
  const { labels, classes, outputs } = await predict(images, plan, { weights, data: cats })
  assert.equal(classes, ['cat', 'dog'])
  assert.equal(
    labels,
    outputs.map(({ values }) => ['cat', 'dog'][values[0]!]),
  )
  assert.is(labels!.length, 8)
})

test('a head that is taken is refused for other classes; one that is left out is not', async () => {
  const run = { steps: 1, data: folder(others, numbers), shuffle: true, weights }
  assert.match(await refusalOf(train(images, training(), run)), UNKNOWN)
  await train(images, training(), { ...run, weightsSkip: 'head.*' })
})

test('the command line prints names', async () => {
  const model = unchecked(join(__dirname, 'images-model.ts'))
  const saved = join(root, 'cli.safetensors')
  const call = (...args: readonly string[]) => spillwayHere(...args, '--device', DEVICE, '--algorithms', 'fixed')
  const trained = await call('train', model, '--loss', 'cross-entropy', '--data', cats, '--steps', '2', '--save', saved)
  assert.is(trained.code, 0, trained.err)
  const result = join(root, 'result.json')
  const evaluated = await call('evaluate', model, '--loss', 'cross-entropy', '--data', cats, '--weights', saved, '--out', result)
  assert.match(evaluated.out, /^ {2}cat .*\n {2}dog /m)
  assert.equal(JSON.parse(readFileSync(result, 'utf8')).classes, ['cat', 'dog'])
  const predicted = await call(
    'predict',
    model,
    '--data',
    cats,
    '--weights',
    saved,
    '--as',
    'classes',
    '--out',
    join(root, 'out'),
  )
  assert.match(predicted.out, /^ {2}classes {4}\d (cat|dog).* \(--json has each\)$/m)
})

test.run()
