// Labels by name. Data with some classes of a run are measured by their names, as folders, lists and CSV files, in validation and evaluation.
// Other labels are refused before the first step, with their place.
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Data, folder, type Sample, source } from '../../src/data/data'
import { descriptionOf } from '../../src/train/loading'
import { conv2d, crossEntropy, globalAvgPool, model, seq, sgd } from '../../dsl'
import { evaluate } from '../../src/predict/evaluator'
import { predict } from '../../src/predict/predictor'
import { validation } from '../../src/predict/validation'
import { train } from '../../src/train/trainer'
import { png } from '../src/data/png'
import { staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-classes-'))
test.after(() => rmSync(root, { recursive: true }))

const SIZE = 4
const CLASSES = ['ant', 'bee', 'cow'] as const
/** Red ants, green bees, blue cows. */
const write = (at: string, colour: number, seed: number): string => {
  mkdirSync(join(at, '..'), { recursive: true })
  const pixels = Uint8Array.from({ length: 3 * SIZE ** 2 }, (_, k) => (k % 3 === colour ? 220 : 20) + ((k * 7 + seed * 13) % 30))
  writeFileSync(at, png({ width: SIZE, height: SIZE, bits: 8, colour: 'rgb', pixels }))
  return at
}
const folderOf = (
  name: string,
  classes: readonly string[],
  colours = classes.map((c) => CLASSES.indexOf(c as 'ant')),
): string => {
  classes.forEach((c, k) => [0, 1].forEach((i) => write(join(root, name, c, `${i}.png`), colours[k]!, i)))
  return join(root, name)
}
const put = (name: string, text: string): string => {
  writeFileSync(join(root, name), text)
  return join(root, name)
}
const entries = (classes: readonly string[]): readonly (readonly [string, string])[] =>
  classes.flatMap((c) => [0, 1].map((i) => [join(root, 'all', c, `${i}.png`), c] as const))
const csvOf = (name: string, rows: readonly (readonly [string, string])[]): string =>
  put(`${name}.csv`, `image,label\n${rows.map((r) => r.join(',')).join('\n')}\n`)

const all = folderOf('all', CLASSES)
const weights = join(root, 'w.safetensors')
const net = model([2, 3, SIZE, SIZE], seq(conv2d('head', 3, 1), globalAvgPool()))
const plan = staged(net, { loss: crossEntropy, optimizer: sgd({ lr: 0.5 }) })
const still = staged(net, { loss: crossEntropy, optimizer: sgd({ lr: 1e-9 }) })
const evaluation = staged(net, { mode: 'evaluate', loss: crossEntropy })
const prediction = staged(net, { mode: 'predict' })
const subsets = [1, 2, 3, 4, 5, 6, 7].map((bits) => CLASSES.filter((_, i) => bits & (1 << i)))
const noteFor = (at: string, classes: readonly string[]): readonly string[] => {
  const missing = CLASSES.filter((c) => !classes.includes(c))
  return missing.length === 0 ? [] : [`data ${at}: no sample of class${missing.length === 1 ? '' : 'es'} ${missing.join(', ')}`]
}
/** Notes without those on evaluations of the training data, which these tests do. */
const onLabels = (notes: readonly string[]): readonly string[] => notes.filter((n) => !n.includes('are training data'))
const wordsOf = (p: Promise<unknown>): Promise<string> =>
  p.then(
    () => 'nothing was thrown',
    (e: Error) => e.message,
  )

test('every subset of the classes has the accuracy of its names, in evaluations and in validation', async () => {
  await train(net, plan, { steps: 60, workers: 0, data: all, shuffle: true, save: weights })
  for (const classes of subsets) {
    const name = classes.join('-')
    const places = [
      folderOf(name, classes),
      csvOf(name, entries(classes)),
      put(`${name}.json`, JSON.stringify(entries(classes).map(([image, label]) => ({ image, label })))),
    ]
    for (const [i, data] of places.entries()) {
      const notes: string[] = []
      const onNote = (text: string): void => void notes.push(text)
      const found = await evaluate(net, evaluation, { weights, workers: 0, data, metrics: ['accuracy'], onNote })
      assert.equal([found.metrics, found.classes, found.images], [{ accuracy: 1 }, CLASSES, 2 * classes.length], data)
      assert.equal(notes, noteFor(data, classes))
      if (i > 0 && classes.length !== 2) continue
      const evaluating = validation({ data, metrics: ['accuracy'] })
      const run = await train(net, still, {
        epochs: 1,
        workers: 0,
        data: all,
        shuffle: true,
        weights,
        evaluate: evaluating,
        onNote,
      })
      assert.is(run.measured[0]!.metrics['accuracy'], 1, data)
      assert.equal(onLabels(notes).slice(noteFor(data, classes).length), noteFor(data, classes))
    }
  }
})

test('training from weights follows their class names; a list may give their numbers', async () => {
  const cows = folderOf('cows', ['cow'])
  const saved = join(root, 'cows.safetensors')
  const { losses } = await train(net, still, { steps: 1, workers: 0, data: cows, weights, save: saved })
  assert.ok(losses[0]! < 0.3, String(losses))
  const again = await evaluate(net, evaluation, { weights: saved, workers: 0, data: all, metrics: ['accuracy'] })
  assert.equal(again.metrics, { accuracy: 1 })
  const numbers = csvOf('numbers', [[join(all, 'cow/0.png'), '2']])
  assert.equal((await evaluate(net, evaluation, { weights, workers: 0, data: numbers, metrics: ['accuracy'] })).metrics, {
    accuracy: 1,
  })
})

test('numbers as names: a folder named 10 is label 10 of a list, and class 10 of a folder', async () => {
  const wide = model([2, 3, SIZE, SIZE], seq(conv2d('head', 12, 1), globalAvgPool()))
  const names = ['2', '10', '11']
  const digits = folderOf('digits', names, [0, 1, 2])
  const list = csvOf(
    'digits',
    names.map((n) => [join(digits, n, '0.png'), n] as const),
  )
  const saved = join(root, 'digits.safetensors')
  const [training, measuring] = [
    staged(wide, { loss: crossEntropy, optimizer: sgd({ lr: 0.5 }) }),
    staged(wide, { mode: 'evaluate', loss: crossEntropy }),
  ]
  for (const [data, other] of [
    [list, digits],
    [digits, list],
  ] as const) {
    await train(wide, training, { steps: 60, workers: 0, data, shuffle: true, save: saved })
    const found = await evaluate(wide, measuring, { weights: saved, workers: 0, data: other, metrics: ['accuracy'] })
    assert.equal(found.metrics, { accuracy: 1 }, data)
  }
})

test('labels that fit no class are refused before the first step, with their place and value', async () => {
  const image = join(all, 'ant/0.png')
  const labelled = (name: string, labels: readonly string[]): string =>
    csvOf(
      name,
      labels.map((label) => [image, label] as const),
    )
  const two = folderOf('two', ['ant', 'yak'], [0, 1])
  const odd: readonly (readonly [data: string, says: RegExp, isKnown?: true])[] = [
    [
      labelled('word', ['2', '1', '0', 'n/a']),
      /word\.csv is refused: line 5: label 'n\/a' is a name, but other labels are numbers;/,
    ],
    [labelled('number', ['ant', 'bee', '2']), /line 4: label '2' is a number, but other labels are names;/],
    [labelled('half', ['0', '1.5']), /line 3: label '1\.5' is not a whole number;/],
    [labelled('below', ['0', '-1']), /line 3: label -1 is not one of 3 classes \(0 to 2\)/],
    [labelled('above', ['0', '', '7'].filter(Boolean)), /line 3: label 7 is not one of 3 classes \(0 to 2\)/],
    [labelled('from1', ['1', '2', '3']), /line 4: label 3 is not one of 3 classes \(0 to 2\); do the labels begin at 1\?/],
    [put('blank.csv', `image,label\n\n${image},0\n\n${image},9\n`), /line 5: label 9 is not one of/],
    [
      put(
        'odd.json',
        JSON.stringify([
          { image, label: 0 },
          { image, label: null },
        ]),
      ),
      /entry 2 has a label of type null; allowed: a name or a number/,
    ],
    [
      put(
        'above.json',
        JSON.stringify([
          { image, label: 0 },
          { image, label: 7 },
        ]),
      ),
      /entry 2: label 7 is not one of/,
    ],
    [two, /two is refused: unknown class yak; allowed: ant, bee, cow; these data have ant, yak$/, true],
    [
      labelled('unknown', ['cow', 'yak', 'gnu']),
      /line 3: unknown classes gnu, yak; allowed: ant, bee, cow; these data have/,
      true,
    ],
  ]
  for (const [data, says, isKnown] of odd) {
    if (!isKnown) assert.match(await wordsOf(train(net, plan, { steps: 1, workers: 0, data })), says)
    assert.match(await wordsOf(evaluate(net, evaluation, { weights, workers: 0, data })), says)
    const evaluating = validation({ data })
    assert.match(await wordsOf(train(net, plan, { epochs: 1, workers: 0, data: all, shuffle: true, evaluate: evaluating })), says)
  }
})

test('data that are left out are counted once, or refused', async () => {
  const at = folderOf('mixed', CLASSES)
  write(join(at, 'root.png'), 0, 1)
  write(join(at, 'ant/more/1.png'), 0, 1)
  writeFileSync(join(at, 'bee/a.bmp'), 'x')
  writeFileSync(join(at, 'bee/b.BMP'), 'x')
  symlinkSync(join(root, 'nowhere.png'), join(at, 'cow/lost.png'))
  renameSync(join(at, 'cow/1.png'), join(at, 'cow/1.gif'))
  const gif = 'R0lGODdhAQABAIEAAPoUFAAAAAAAAAAAACwAAAAAAQABAAAIBAABBAQAOw=='
  writeFileSync(join(at, 'cow/1.gif'), Buffer.from(gif, 'base64'))
  const counts = 'left out 1 image beside the class folders, 1 nested folder, 2 .bmp files, 1 unreadable file'
  const notes: string[] = []
  const onNote = (text: string): void => void notes.push(text)
  const found = await evaluate(net, evaluation, { weights, workers: 0, data: at, onNote })
  assert.equal([found.images, notes], [6, [`data ${at}: ${counts}`]])
  const evaluating = validation({ data: at })
  await train(net, still, { epochs: 1, workers: 0, data: at, shuffle: true, weights, evaluate: evaluating, onNote })
  assert.is(onLabels(notes).length, 3)
  const refused = new RegExp(`mixed is refused: ${counts}: remove them, or run without --strict-data`)
  const strict = { workers: 0, strictData: true, weights } as const
  for (const run of [
    evaluate(net, evaluation, { ...strict, data: at }),
    train(net, still, { ...strict, steps: 1, data: at }),
    train(net, still, { ...strict, epochs: 1, data: all, evaluate: evaluating }),
  ])
    assert.match(await wordsOf(run), refused)
  // Images beside folders are all that a prediction takes.
  assert.match(await wordsOf(predict(net, prediction, { ...strict, data: at })), /left out 3 nested folders: remove them/)
  assert.is((await train(net, still, { ...strict, steps: 1, data: all })).steps, 1)
})

test('training data with unnamed labels use the names of other data by number, with a note', async () => {
  const list = csvOf('plain', [
    [join(all, 'ant/0.png'), '0'],
    [join(all, 'cow/0.png'), '2'],
  ])
  const notes: string[] = []
  const onNote = (text: string): void => void notes.push(text)
  await train(net, plan, { epochs: 1, workers: 0, data: list, evaluate: validation({ data: all }), onNote })
  assert.equal(onLabels(notes), [
    `data ${all}: labels of the training data have no names: these data number their classes in the order ant, bee, cow`,
  ])
})

test('a source names its classes: in weights, evaluations and predictions; other labels and names are refused', async () => {
  const pixelsOf = (colour: number, seed: number): Uint8Array =>
    Uint8Array.from({ length: 3 * SIZE ** 2 }, (_, k) => (k % 3 === colour ? 220 : 20) + ((k * 7 + seed * 13) % 30))
  const read = (i: number): Sample => ({ input: pixelsOf(i % 3, i), target: i % 3 })
  const own = (o: object = {}): Data => source({ length: 6, layout: 'NHWC', mean: [0], read, classes: CLASSES, ...o })
  const saved = join(root, 'own.safetensors')
  await train(net, plan, { steps: 60, data: own(), save: saved })
  assert.equal(descriptionOf(saved)?.classes, CLASSES)
  // A folder of two of the classes follows the names.
  const measured = async (data: string | Data) => {
    const { metrics, classes } = await evaluate(net, evaluation, {
      weights: saved,
      workers: 0,
      data,
      metrics: ['accuracy'],
      onNote: () => {},
    })
    return [metrics, classes]
  }
  const two = folder(folderOf('two-of-own', ['bee', 'cow']), { mean: [0] })
  assert.equal(
    [await measured(own()), await measured(two)],
    [
      [{ accuracy: 1 }, CLASSES],
      [{ accuracy: 1 }, CLASSES],
    ],
  )
  const ranking = staged(net, { mode: 'predict', as: 'probabilities' })
  const { ranked = [] } = await predict(net, ranking, { weights: saved, data: own(), onNote: () => {} })
  assert.equal(
    ranked.map((r) => r.class),
    [...CLASSES, ...CLASSES],
  )
  const refusal = (data: Data, o: object = {}): Promise<string> =>
    wordsOf(train(net, plan, { steps: 1, data, onNote: () => {}, ...o }))
  assert.match(
    await refusal(own({ classes: ['ant', 'bee'] }), { steps: 3 }),
    /sample [25] \(counted from 0\).*target: label 2 is not one of the 2 classes of the source \(0 to 1: ant, bee\)/,
  )
  assert.match(await refusal(own({ classes: ['ant', 'bee', 'cow', 'dog'] })), /the source has 4 classes, but the model has 3/)
  assert.match(
    await refusal(own({ classes: ['bee', 'ant', 'cow'] }), { weights: saved }),
    /the source has the classes bee, ant, cow, but the weights have ant, bee, cow: give it their names, in their order/,
  )
  const stream = source(() => [read(0), { ...read(1), target: 2 }], { layout: 'NHWC', classes: ['ant', 'bee'] })
  assert.match(await refusal(stream), /sample 1 \(counted from 0\).*label 2 is not one of the 2 classes/)
  assert.throws(() => own({ classes: ['ant', 'ant'] }), /source: classes is .*allowed: a list of different names/)
})

test.run()
