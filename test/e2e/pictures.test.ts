// timeout 300
// From a folder of pictures to a result: data in the usual layouts, weights with their recipe, evaluations in logs and in the terminal.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { apply, crossEntropy, fed, loss, minimize, sgd, step } from '../../dsl'
import { folder } from '../../src/data/data'
import { openTensors } from '../../src/files/safetensors'
import { evaluate } from '../../src/predict/evaluator'
import { stage } from '../../src/stage/stage'
import { descriptionOf } from '../../src/train/loading'
import { train } from '../../src/train/trainer'
import { png } from '../src/data/png'
import images from './images-model'
import { spillwayHere, unchecked } from './processes'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-pictures-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
const at = (...names: readonly string[]): string => join(root, ...names)

const CLASSES = ['circle', 'square', 'triangle']
/** A picture of one colour per class, with a pattern. */
const picture = (path: string, colour: number, height = 24, width = 20): void => {
  mkdirSync(dirname(path), { recursive: true })
  const pixels = Uint8Array.from({ length: 3 * height * width }, (_, k) => 70 * colour + ((k * 31) % 40))
  writeFileSync(path, png({ width, height, bits: 8, colour: 'rgb', pixels }))
}
for (const part of ['train', 'val'])
  CLASSES.forEach((name, c) => {
    for (let i = 0; i < 3; i++) picture(at('shapes', part, name, `${i}.png`), c)
  })
for (let i = 0; i < 3; i++) picture(at('photos', `${i}.png`), i, 24 + i, 31)

const call = (...args: readonly string[]) => spillwayHere(...args, '--device', DEVICE, '--algorithms', 'fixed')
const NET = ['resnet20-cifar', '--image', '16', '--batch', '3']
const weights = at('three.safetensors')

test('a parent of train/ and val/ is trained and evaluated, with one note', async () => {
  picture(at('shapes', 'test', 'circle', '0.png'), 0)
  // Images without labels, in the parent's eyes a class folder.
  picture(at('shapes', 'test', 'unknown.png'), 1)
  const both = await call('train', ...NET, '--data', at('shapes'), '--epochs', '1', '--save', at('sets.safetensors'))
  assert.is(both.code, 0, both.err)
  const said = `data ${at('shapes')}: trains on train/, and evaluates on val/ after each epoch; left out: test/;`
  assert.is(both.err.split(said).length, 2, both.err)
  assert.match(both.out, /^epoch 1 {2}evaluated {2}loss \S+ {2}accuracy /m)
  const evaluated = await call('evaluate', '--weights', at('sets.safetensors'), '--data', at('shapes'))
  assert.is(evaluated.code, 0, evaluated.err)
  assert.match(evaluated.err, /^note: data .*shapes: evaluates on val\/; left out: train\/, test\/$/m)
  assert.match(evaluated.out, /^evaluated resnet20-cifar on 9 samples$/m)
  const other = await call(
    ...['train', ...NET, '--data', at('shapes'), '--evaluate', at('shapes', 'test'), '--epochs', '1', '--no-save'],
  )
  assert.match(other.err, /^note: data .*shapes: trains on train\/; left out: val\/, test\/$/m)
})

test('folders without samples are refused: their content, the layouts and the fix', async () => {
  for (const set of ['train', 'val']) picture(at('flat sets', set, '0.png'), 0)
  for (const name of ['empty', 'other', 'hollow/a']) mkdirSync(at(name), { recursive: true })
  for (const name of ['a.mat', 'b.mat', 'notes']) writeFileSync(at('other', name), '')
  mkdirSync(at('listed'))
  writeFileSync(at('listed', 'labels.csv'), 'file,label\n')
  const LAYOUTS = [
    'one folder of images per class',
    'images/NAME.png beside masks/NAME.png',
    'NAME.input.npy beside',
    'a .csv or .json',
  ]
  const refusals: readonly (readonly [string, RegExp, RegExp])[] = [
    ['photos', /it holds 3 \.png files, but no labels/, /sort the images into one folder per class, or write a list/],
    [
      'flat sets',
      /its folders are sets, but have no labels: train\/ holds 1 \.png file, val\/ holds 1 \.png file/,
      /in each set/,
    ],
    ['empty', /it is empty/, /check the path/],
    ['other', /it holds 2 \.mat files and 1 unnamed file, but no samples/, /convert the files to PNG/],
    ['hollow', /it holds 1 folder \(a\), but no samples/, /fill the folders with images/],
    ['listed', /it holds 1 \.csv file, but no samples/, /name it: .*listed\/labels\.csv/],
  ]
  for (const [name, held, fix] of refusals) {
    const { code, err } = await call('train', ...NET, '--data', at(name))
    assert.is(code, 2, name)
    for (const part of [held, fix]) assert.match(err, part)
    for (const layout of LAYOUTS) assert.ok(err.includes(layout), err)
  }
})

test('a script trains on the sets of a parent folder', async () => {
  const plan = stage(images, { loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })
  for (const set of ['train', 'valid'])
    for (const [c, name] of ['cat', 'dog'].entries()) for (let i = 0; i < 2; i++) picture(at('pets', set, name, `${i}.png`), c)
  const notes: string[] = []
  const onNote = (text: string): void => void notes.push(text)
  const saved = at('pets.safetensors')
  const result = await train(images, plan, { epochs: 1, data: folder(at('pets')), onNote, save: saved })
  assert.equal(
    result.measured.map(({ metrics }) => Object.keys(metrics)),
    [['loss', 'accuracy']],
  )
  assert.is(notes.filter((text) => text.includes('trains on train/, and evaluates on valid/')).length, 1)
  const evaluation = stage(images, { loss: crossEntropy, mode: 'evaluate', machine: DEVICE, algorithms: 'fixed' })
  const found = await evaluate(images, evaluation, { weights: saved, data: folder(at('pets')), onNote })
  assert.is(found.images, 4)
  assert.match(notes.join('\n'), /pets: evaluates on valid\/; left out: train\//)
  // A step has no output to evaluate.
  const own = step(
    minimize('net', {
      over: images.net,
      optimizer: sgd({ lr: 0.1 }),
      losses: { cls: loss(crossEntropy, apply(images.net, fed('input', [4, 3, 16, 16])), fed('target', [4, 1, 1, 1])) },
    }),
  )
  const steps = await train(own, stage(own, { machine: DEVICE, algorithms: 'fixed' }), {
    ...{ epochs: 1, data: folder(at('pets')), onNote },
  })
  assert.equal([steps.steps, steps.measured.every(({ metrics }) => Object.keys(metrics).length === 1)], [1, true])
  assert.match(notes.at(-1)!, /pets: trains on train\/; left out: valid\//)
})

test('a classifier of the zoo gets the classes of the data; its metrics are in every log', async () => {
  const [log, board] = [at('log'), at('board')]
  const evaluating = ['--evaluate', at('shapes', 'val'), '--metrics', 'accuracy', '--epochs', '2', '--shuffle']
  const trained = await call(
    ...['train', ...NET, '--data', at('shapes', 'train'), ...evaluating],
    ...['--save', weights, '--log', log, '--tensorboard', board],
  )
  assert.is(trained.code, 0, trained.err)
  assert.match(trained.err, /^note: resnet20-cifar gets 3 classes, those of .*train$/m)
  const lines = readFileSync(join(log, 'steps.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text))
  const evaluations = lines.filter((line) => 'evaluate' in line)
  assert.equal(
    evaluations.map(({ step, epoch, evaluate }) => [step, epoch, Object.keys(evaluate)]),
    [
      [3, 1, ['loss', 'accuracy']],
      [6, 2, ['loss', 'accuracy']],
    ],
  )
  assert.is(lines.length, 8)
  const [head, ...rows] = readFileSync(join(log, 'metrics.csv'), 'utf8').trimEnd().split('\n')
  assert.is(head, 'step,epoch,loss,accuracy,time')
  assert.equal(
    rows.map((row) => row.split(',').slice(0, 4).map(Number)),
    evaluations.map(({ step, epoch, evaluate }) => [step, epoch, evaluate.loss, evaluate.accuracy]),
  )
  const events = readdirSync(board).map((name) => readFileSync(join(board, name), 'latin1'))
  assert.is(events.join('').split('evaluate/accuracy').length, 3)
})

test('weights carry their recipe', () => {
  const { version: _, product, ...recipe } = descriptionOf(weights) as never as Record<string, unknown>
  assert.equal(recipe, {
    model: 'resnet20-cifar',
    zoo: { classes: 3 },
    input: [3, 16, 16],
    from: 'images',
    classes: CLASSES,
    fit: 'cover',
    colours: 'RGB',
  })
  assert.match(String(product), /^\d+\.\d+\.\d+/)
})

test('an evaluation needs nothing but weights and data, and prints its confusion table', async () => {
  const evaluated = await call('evaluate', '--weights', weights, '--data', at('shapes', 'val'), '--metrics', 'confusion,accuracy')
  assert.is(evaluated.code, 0, evaluated.err)
  assert.match(evaluated.out, /^evaluated resnet20-cifar on 9 samples$/m)
  const table = CLASSES.map((name) =>
    new RegExp(`^ {2}${name} +(\\d+) +(\\d+) +(\\d+)$`, 'm').exec(evaluated.out)!.slice(1).map(Number),
  )
  assert.equal(
    table.map((row) => row.reduce((n, x) => n + x, 0)),
    [3, 3, 3],
  )
})

test('a prediction resizes pictures as training did', async () => {
  const [own, sized] = [at('own.npy'), at('sized.npy')]
  for (const [out, ...more] of [[own], [sized, '--image', '16']]) {
    const predicted = await call('predict', '--weights', weights, '--data', at('photos'), '--out', out!, ...more)
    assert.is(predicted.code, 0, predicted.err)
    assert.match(predicted.out, /predicted 3 images with resnet20-cifar: 3×1×1 each/)
  }
  assert.ok(readFileSync(own).equals(readFileSync(sized)))
  const onnx = await spillwayHere('export', '--weights', weights, '--out', at('three.onnx'))
  assert.is(onnx.code, 0, onnx.err)
  assert.match(onnx.out, /^resnet20-cifar as ONNX .*1×3×16×16 to 1×3, any batch$/m)
})

test('a classifier writes a table of files, classes and confidences', async () => {
  const data = at('shapes', 'val')
  const shown = await call('predict', '--weights', weights, '--data', data)
  assert.is(shown.code, 0, shown.err)
  const rows = [...shown.out.matchAll(/^ {2}(\S+\.png) +(\d\.\d{3}) {2}(\w+)$/gm)].map(([, ...row]) => row)
  assert.is(rows.length, 9)
  for (const out of ['csv', 'json', 'jsonl'].map((end) => at(`results.${end}`))) {
    const { code, err } = await call('predict', '--weights', weights, '--data', data, '--out', out)
    assert.is(code, 0, err)
  }
  const list = JSON.parse(readFileSync(at('results.json'), 'utf8')) as readonly Record<string, unknown>[]
  assert.equal(
    list.map((o) => [o['file'], (o['confidence'] as number).toFixed(3), o['class']]),
    rows,
  )
  assert.is(rows[0]![0], join(data, 'circle', '0.png'))
  const lines = readFileSync(at('results.jsonl'), 'utf8').trimEnd().split('\n')
  assert.equal(
    lines.map((line) => JSON.parse(line)),
    list,
  )
  const [head, first] = readFileSync(at('results.csv'), 'utf8').split('\n')
  assert.is(head, 'file,class,confidence,class2,confidence2,class3,confidence3')
  const top = list[0]!['top'] as readonly { readonly class: string; readonly confidence: number }[]
  assert.equal(first!.split(','), [list[0]!['file'], ...top.flatMap((t) => [t.class, String(t.confidence)])])
  assert.ok(Math.abs(top.reduce((n, t) => n + t.confidence, 0) - 1) < 1e-5)
  // A second run replaces its own tables.
  assert.is((await call('predict', '--weights', weights, '--data', data, '--out', at('results.csv'))).code, 0)
  const masks = await call(
    'predict',
    '--weights',
    weights,
    '--data',
    data,
    '--as',
    'classes',
    '--format',
    'png',
    '--out',
    at('m'),
  )
  assert.is(masks.code, 2)
  assert.match(masks.err, /format 'png' needs a class per pixel, but the model gives one per image: use a \.csv file as out/)
})

test('flags that contradict the recipe are refused with both values', async () => {
  const refused = async (...args: readonly string[]): Promise<string> => {
    const { code, err } = await call('evaluate', ...args, '--weights', weights, '--data', at('shapes', 'val'))
    assert.is(code, 2, err)
    return err
  }
  assert.match(await refused('--classes', '5'), /--classes 5 contradicts .*three\.safetensors, which was trained with 3 classes/)
  assert.match(await refused('--fit', 'pad'), /--fit pad contradicts .*three\.safetensors, which was trained with fit cover/)
  assert.match(
    await refused('resnet18'),
    /MODEL resnet18 contradicts .*three\.safetensors, which was trained with resnet20-cifar/,
  )
})

test('weights of a model file name the file as the missing part', async () => {
  const model = unchecked(join(__dirname, 'images-model.ts'))
  const saved = at('file.safetensors')
  const trained = await call(
    ...['train', model, '--loss', 'cross-entropy', '--ignore-index', '7', '--data', at('shapes', 'train', '..', '..', 'two')],
    ...['--steps', '1', '--shuffle', '--save', saved],
  )
  assert.is(trained.code, 0, trained.err)
  const bare = await call('evaluate', '--weights', saved, '--data', at('two'))
  assert.is(bare.code, 2)
  assert.match(bare.err, /names no network of the zoo: name its model, e\.g\. spillway evaluate my-net\.ts --weights /)
  // The loss comes from the recipe.
  const named = await call('evaluate', model, '--weights', saved, '--data', at('two'), '--metrics', 'accuracy')
  assert.is(named.code, 0, named.err)
  assert.match(named.out, /^ {2}accuracy /m)
})
for (const [c, name] of ['cat', 'dog'].entries()) for (let i = 0; i < 4; i++) picture(at('two', name, `${i}.png`), c)

test('notes of a script are printed on stderr; classes without a picture are counted', async () => {
  const write = process.stderr.write
  let text = ''
  process.stderr.write = ((part: string | Uint8Array): boolean => {
    text += part.toString()
    return true
  }) as typeof process.stderr.write
  try {
    picture(at('one', 'cat', '0.png'), 0)
    const plan = stage(images, { loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })
    await train(images, plan, { steps: 1, data: folder(at('one')), shuffle: false })
    await train(images, plan, { steps: 1, data: folder(at('two')), shuffle: false })
  } finally {
    process.stderr.write = write
  }
  assert.match(text, /^note: data .*one: 1 classes, but the model has 2 outputs: the last 1 never occur; .*--classes 1/m)
  assert.match(text, /^note: the images are in folder order, so a step sees only one class/m)
})

test('a run writes its folder, unless a flag says otherwise', async () => {
  const before = process.env['SPILLWAY_RUN_FOLDER']
  process.env['SPILLWAY_RUN_FOLDER'] = at('runs')
  const run = (...more: readonly string[]) => call('train', ...NET, '--data', at('shapes', 'train'), '--steps', '1', ...more)
  const shaOf = (out: string): string => /sha256 ([0-9a-f]{64})/.exec(out)![1]!
  try {
    const first = await run('--evaluate', at('shapes', 'val'))
    assert.is(first.code, 0, first.err)
    assert.match(first.out, /sha256 [0-9a-f]{64}, in .*runs\/resnet20-cifar\/last\.safetensors$/m)
    assert.equal(
      readdirSync(at('runs', 'resnet20-cifar'))
        .map((name) => name.replace(/^events.*/, 'events'))
        .sort(),
      ['best.safetensors', 'events', 'index.html', 'last.safetensors', 'metrics.csv', 'recipe.json', 'steps.jsonl'],
    )
    const recipe = JSON.parse(readFileSync(at('runs', 'resnet20-cifar', 'recipe.json'), 'utf8'))
    assert.equal(
      [recipe.model, recipe.classes, recipe.zoo, recipe.result.weightsSha256, recipe.state],
      ['resnet20-cifar', CLASSES, { classes: 3 }, shaOf(first.out), 'done'],
    )
    assert.equal([recipe.data.files, recipe.machine.device, recipe.options.steps], [9, DEVICE, 1])
    // The second run has a folder of its own; so has one whose checkpoints are resumed.
    const kept = ['--checkpoint-dir', at('state'), '--seed', '1']
    assert.match((await run(...kept)).out, /resnet20-cifar-2\/last/)
    assert.match((await run('--no-save')).out, /sha256 [0-9a-f]{64}; not saved$/m)
    assert.match((await run(...kept, '--steps', '2', '--resume')).out, /resnet20-cifar-2\/last/)
    const steps = readFileSync(at('runs', 'resnet20-cifar-2', 'steps.jsonl'), 'utf8')
    assert.equal(
      [...steps.matchAll(/"step":(\d+)/g)].map((m) => m[1]),
      ['1', '2'],
    )
    assert.equal(readdirSync(at('runs')).sort(), ['resnet20-cifar', 'resnet20-cifar-2'])
    // A flag moves a single part. A run that fails after its first step keeps its folder.
    const moved = await run('--run', 'moved', '--save', at('named.safetensors'), '--lr', '1e30', '--steps', '4')
    assert.is(moved.code, 4)
    assert.equal(JSON.parse(readFileSync(at('runs', 'moved', 'recipe.json'), 'utf8')).places.save, at('named.safetensors'))
    assert.match((await run('--save', at('named.safetensors'))).out, /, in .*named\.safetensors$/m)
    assert.equal(readdirSync(at('runs')).sort(), ['moved', 'resnet20-cifar', 'resnet20-cifar-2', 'resnet20-cifar-3'])
    process.env['SPILLWAY_RUN_FOLDER'] = at('named.safetensors')
    const refused = await run()
    assert.is(refused.code, 2)
    assert.match(
      refused.err,
      /named\.safetensors is not a folder; SPILLWAY_RUN_FOLDER names another folder for runs, --no-save writes none/,
    )
  } finally {
    if (before === undefined) delete process.env['SPILLWAY_RUN_FOLDER']
    else process.env['SPILLWAY_RUN_FOLDER'] = before
  }
})

test('a recipe of a later product is read', () => {
  const file = openTensors('weights', weights)
  if (file._tag === 'Left') throw new Error('not opened')
  assert.match(file.right.metadata['spillway']!, /^\{"version":1,/)
})

test.run()
