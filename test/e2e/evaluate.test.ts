// timeout 400
// Evaluations: each sample once, whatever the batch, the budget and the source of the data; the loss that the predictions have, and metrics of
// what is handed out; weights from files and from memory; on the command line too.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  batchNorm,
  conv2d,
  crossEntropy,
  crossEntropyWith,
  dropout,
  type Evaluated,
  evaluate,
  type EvaluateOptions,
  files,
  globalAvgPool,
  linear,
  type Loss,
  maxPool,
  metric,
  type Model,
  modelAt,
  mse,
  type Net,
  predict,
  relu,
  type Shape,
  seq,
  source,
  SpillwayException,
  split,
  stage,
  type Staged,
  type StageOptions,
  train,
  tryStage,
  upsample,
} from '../../src'
import { main } from '../../src/cli'
import { exitCode } from '../../src/errors/errors'
import { npyHead } from '../../src/files/npy'
import { evaluateTask } from '../../src/predict/evaluator'
import { openTensors, readTensor } from '../../src/files/safetensors'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { labels, uniform } from '../fixtures/formula'
import { fewOrAll } from '../full'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-evaluate-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
const at = (...names: readonly string[]): string => join(root, ...names)

const CLASSES = 5
const body = seq(conv2d('c1', 8, 3, { bias: false }), batchNorm('b1'), relu(), maxPool('p1', 2), dropout(0.3), conv2d('c2', 8, 3))
const segmenter = seq(body, relu(), upsample({ scale: 2 }), conv2d('head', CLASSES, 3))
const classifier = seq(body, relu(), globalAvgPool('pool'), linear('fc', 9))
const copier = seq(body, relu(), upsample({ scale: 2 }), conv2d('out', 3, 3))
const detector = seq(body, relu(), upsample({ scale: 2 }), conv2d('one', 1, 3))

const sized = (net: Net, shape: Shape): Model => {
  const made = modelAt(shape, net, 'predict')
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return made.right
}

const [N, H, W] = [5, 26, 20]
interface Subject {
  readonly net: Net
  readonly loss: Loss
  readonly target: Float32Array | Int32Array
  readonly of: readonly number[]
}
const IGNORED = 255
const pixels = labels('pixels', N * H * W, CLASSES)
const some = pixels.map((l, i) => (i % 7 === 0 || i > 4.7 * H * W ? IGNORED : l))
const SUBJECTS: Readonly<Record<string, Subject>> = {
  pixels: { net: segmenter, loss: crossEntropy, target: pixels, of: [1, H, W] },
  ignored: { net: segmenter, loss: crossEntropyWith({ ignoreIndex: IGNORED }), target: some, of: [1, H, W] },
  images: { net: classifier, loss: crossEntropy, target: labels('images', N, 9), of: [1, 1, 1] },
  numbers: { net: copier, loss: mse, target: uniform('numbers', [N, 3, H, W], 1), of: [3, H, W] },
  whether: { net: detector, loss: 'bce-with-logits', target: Float32Array.from(pixels, (l) => l % 2), of: [1, H, W] },
}

const input = uniform('images', [N, 3, H, W], 1)
const npy = (path: string, type: 'f4' | 'i4', shape: readonly number[], values: Float32Array | Int32Array): void =>
  writeFileSync(path, Buffer.concat([npyHead(type, shape), Buffer.from(values.buffer, values.byteOffset, values.byteLength)]))

const weights: Record<string, string> = {}
test.before(async () => {
  for (const [name, { net, loss, target, of }] of Object.entries(SUBJECTS)) {
    mkdirSync(at(name))
    npy(at(name, 'input.npy'), 'f4', [N, 3, H, W], input)
    npy(at(name, 'target.npy'), target instanceof Int32Array ? 'i4' : 'f4', [N, ...of], target)
    npy(at(`${name}-input.npy`), 'f4', [N, 3, H, W], input)
    weights[name] = at(`${name}.safetensors`)
    const m = sized(net, [2, 3, H, W])
    await train(m, stage(m, { machine: DEVICE, loss, algorithms: 'fixed' }), { steps: 3, data: at(name), save: weights[name] })
  }
})

const evaluated = (
  name: string,
  batch: number,
  o: Partial<EvaluateOptions> = {},
  staging: StageOptions = {},
): Promise<Evaluated> => {
  const { net, loss } = SUBJECTS[name]!
  const m = sized(net, [batch, 3, H, W])
  const plan = stage(m, { mode: 'evaluate', loss, machine: DEVICE, algorithms: 'fixed', ...staging })
  return evaluate(m, plan, { weights: weights[name]!, data: at(name), ...o })
}

/** The loss of a prediction, in double. */
const lossOf = async (name: string): Promise<number> => {
  const { net, loss, target, of } = SUBJECTS[name]!
  const m = sized(net, [1, 3, H, W])
  const plan = stage(m, { mode: 'predict', machine: DEVICE, algorithms: 'fixed' })
  const { outputs, shape } = await predict(m, plan, { weights: weights[name]!, data: at(`${name}-input.npy`) })
  const plane = shape[1]! * shape[2]!
  const each = of.reduce((a, b) => a * b, 1)
  let [sum, count] = [0, 0]
  outputs.forEach(({ values }, n) => {
    for (let i = 0; i < each; i++) {
      const t = target[n * each + i]!
      const x = values[i]!
      if (loss === mse) sum += (x - t) ** 2
      else if (loss === 'bce-with-logits') sum += Math.max(x, 0) - x * t + Math.log1p(Math.exp(-Math.abs(x)))
      else if (t === IGNORED) continue
      else {
        const all = Array.from({ length: shape[0]! }, (_, c) => values[c * plane + i]!)
        sum += Math.log(all.reduce((s, v) => s + Math.exp(v), 0)) - all[t]!
      }
      count++
    }
  })
  return sum / count
}

const results = ({ images, metrics, perClass, confusion }: Evaluated): unknown => ({ images, metrics, perClass, confusion })
const near = (a: number, b: number, most = 2e-6): void => assert.ok(Math.abs(a - b) <= most * Math.abs(b), `${a}, should be ${b}`)

for (const name of fewOrAll(['ignored', 'numbers'], Object.keys(SUBJECTS)))
  test(`${name}: each sample once in batches of any size and any budget, with the loss of the predictions`, async () => {
    const expected = await lossOf(name)
    const one = await evaluated(name, 1)
    assert.is(one.images, N)
    near(one.loss, expected)
    assert.is(one.arenaPeakBytes, one.peakBytes)
    for (const batch of [2, 3, 5, 7]) {
      const r = await evaluated(name, batch)
      near(r.loss, expected)
      assert.equal(results(r), results(one), `batches of ${batch}`)
    }
    const { net, loss } = SUBJECTS[name]!
    const refused = tryStage(sized(net, [2, 3, H, W]), {
      mode: 'evaluate',
      loss,
      machine: DEVICE,
      algorithms: 'fixed',
      budget: PAGE_BYTES,
    })
    if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page is enough')
    const least = refused.left.smallestBytes
    const small = await evaluated(name, 2, {}, { budget: least })
    assert.ok(small.arenaPeakBytes === small.peakBytes && small.peakBytes <= least)
    near(small.loss, expected)
    if (name !== 'images') assert.equal(results(small), results(one))
    const reference = await evaluated(name, 2, {}, { machine: 'ref' })
    near(reference.loss, expected, 1e-5)
  })

test('a large image in tiles, with labels that are ignored: the same classes, a loss to rounding', async () => {
  const [h, w] = [394, 310]
  const big = sized(segmenter, [1, 3, h, w])
  const marked = labels('big', h * w, CLASSES + 1).map((l) => (l === CLASSES ? IGNORED : l))
  const data = source({ length: 1, read: () => ({ input: uniform('big', [3, h, w], 1), target: marked }) })
  const options = { mode: 'evaluate', loss: SUBJECTS['ignored']!.loss, machine: DEVICE, algorithms: 'fixed' } as const
  const refused = tryStage(big, { ...options, budget: PAGE_BYTES })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page is enough')
  const runs: Evaluated[] = []
  for (const staging of [{}, { budget: refused.left.smallestBytes }, { strategy: 'tiled' as const }]) {
    const plan = stage(big, { ...options, ...staging })
    const r = await evaluate(big, plan, { weights: weights['ignored']!, data, metrics: ['accuracy', 'f1', 'confusion'] })
    assert.is(r.arenaPeakBytes, r.peakBytes)
    runs.push(r)
  }
  assert.ok(new Set(runs.map((r) => r.peakBytes)).size > 1)
  for (const r of runs) {
    assert.equal(results(r), results(runs[0]!))
    near(r.loss, runs[0]!.loss, 1e-6)
  }
  assert.is(
    runs[0]!.confusion!.flat().reduce((a, b) => a + b, 0),
    marked.filter((l) => l !== IGNORED).length,
  )
})

test('data of every kind, all of them once', async () => {
  for (const name of fewOrAll(['numbers'], ['ignored', 'numbers'])) {
    const { target, of } = SUBJECTS[name]!
    const each = of.reduce((a, b) => a * b, 1)
    const sample = (i: number) => ({
      input: input.subarray(i * 3 * H * W, (i + 1) * 3 * H * W),
      target: target.subarray(i * each, (i + 1) * each),
    })
    const turned = (list: Float32Array | Int32Array, c: number): number[] =>
      Array.from({ length: list.length }, (_, i) => list[(i % c) * (list.length / c) + Math.floor(i / c)]!)
    const last = (i: number) => ({ input: turned(sample(i).input, 3), target: turned(sample(i).target, of[0]!) })
    const one = await evaluated(name, 2)
    const generator = function* (n = N): Generator<ReturnType<typeof sample>> {
      for (let i = 0; i < n; i++) yield sample(i)
    }
    const later = async function* (): AsyncGenerator<ReturnType<typeof sample>> {
      yield* generator()
    }
    for (const data of [
      source({ length: N, read: sample }),
      source({ length: N, read: last, layout: 'NHWC' }),
      source(generator()),
      source(generator),
      source(later),
      source(Array.from({ length: N }, (_, i) => sample(i))),
    ]) {
      const told: unknown[] = []
      const r = await evaluated(name, 2, { data, onProgress: (done) => told.push(done) })
      assert.equal(told, [2, 4, 5])
      assert.equal([r.loss, results(r)], [one.loss, results(one)])
    }
    for (const [n, batch] of [
      [4, 2],
      [1, 2],
      [2, 2],
      [3, 5],
    ] as const) {
      const r = await evaluated(name, batch, { data: source(() => generator(n)) })
      const same = await evaluated(name, 1, { data: source({ length: n, read: sample }) })
      assert.equal(results(r), results(same))
      near(r.loss, same.loss)
    }
    const [most, rest] = split(files(at(name)), 0.6)
    const parts = [await evaluated(name, 2, { data: most }), await evaluated(name, 2, { data: rest })]
    assert.equal(
      parts.map((r) => r.images),
      [3, 2],
    )
    if (name === 'numbers') near((parts[0]!.loss * 3 + parts[1]!.loss * 2) / 5, one.loss)
  }
})

test('weights from memory are those of the file', async () => {
  const { net, loss } = SUBJECTS['images']!
  const m = sized(net, [2, 3, H, W])
  const plan = stage(m, { mode: 'evaluate', loss, machine: DEVICE, algorithms: 'fixed' })
  const file = openTensors('weights', weights['images']!)
  if (isLeft(file)) throw new Error('no file')
  const read = (name: string) => readTensor(file.right, file.right.tensors.get(name)!)
  const r = await evaluateTask(m, plan, { weights: { read }, data: at('images') })()
  if (isLeft(r)) throw new SpillwayException(r.left)
  const own = await evaluate(m, plan, { weights: weights['images']!, data: at('images') })
  assert.equal([r.right.loss, r.right.metrics], [own.loss, own.metrics])
})

const refusal = async (run: () => unknown): Promise<readonly [words: string, code: number]> => {
  try {
    await run()
  } catch (e) {
    assert.ok(e instanceof SpillwayException, String(e))
    return [e.message, exitCode(e.error)]
  }
  throw new Error('nothing was refused')
}

test('data that do not fit are refused with the reason', async () => {
  const { net, loss } = SUBJECTS['pixels']!
  const m = sized(net, [2, 3, H, W])
  const o = { weights: weights['pixels']!, data: at('pixels') }
  const options = { machine: DEVICE, algorithms: 'fixed', loss } as const
  // Plans of an unknown mode compile, and are refused at run time.
  const [plan, training, predicting]: readonly Staged[] = [
    stage(m, { ...options, mode: 'evaluate' }),
    stage(m, options),
    stage(m, { mode: 'predict', machine: DEVICE }),
  ]
  const other = sized(net, [1, 3, H, W])
  const cases: readonly (readonly [RegExp, () => unknown])[] = [
    [/has mode 'train', but the call needs mode 'evaluate': stage with mode: 'evaluate'/, () => evaluate(m, training!, o)],
    [/has mode 'predict', but the call needs mode 'evaluate'/, () => evaluate(m, predicting!, o)],
    [/has mode 'evaluate', but the call needs mode 'predict'/, () => predict(m, plan!, { ...o, data: at('pixels-input.npy') })],
    [/has mode 'evaluate', but the call needs mode 'train'/, () => train(m, plan!, { steps: 1 })],
    [/but this model differs: stage it again/, () => evaluate(other, plan!, o)],
    [/'top5' needs the values of the net/, () => evaluate(m, plan!, { ...o, metrics: ['top5'] })],
    [/evaluate needs data/, () => evaluate(m, plan!, { weights: o.weights } as EvaluateOptions)],
    [/mode 'evalute' is not known; allowed: train, predict, evaluate/, () => stage(m, { mode: 'evalute' as 'evaluate' })],
    [/which does not train/, () => stage(m, { mode: 'evaluate', optimizer: { kind: 'adam' } as never })],
    [/allowed in an evaluation: values, classes/, () => stage(m, { mode: 'evaluate', as: 'probabilities' })],
    [/no such file/, () => evaluate(m, plan!, { ...o, weights: at('none') })],
    [/does not match the model/, () => evaluate(m, plan!, { ...o, weights: weights['images']! })],
  ]
  for (const [words, run] of cases) {
    const [text, code] = await refusal(run)
    assert.match(text, words)
    assert.is(code, 2, text)
  }
  const bad = source({
    length: 3,
    read: (i) => ({ input: input.subarray(0, 3 * H * W), target: new Int32Array(H * W).fill(i * 4) }),
  })
  assert.match((await refusal(() => evaluate(m, plan!, { ...o, data: bad })))[0], /8 is not one of 5 classes/)
  const own = metric({
    name: 'own',
    start: () => 0,
    add: () => {
      throw new RangeError('mine')
    },
    value: (x: number) => x,
  })
  await evaluate(m, stage(m, { ...options, mode: 'evaluate' }), { ...o, metrics: [own] }).then(
    () => assert.unreachable(),
    (e) => assert.ok(e instanceof RangeError, String(e)),
  )
  const controller = new AbortController()
  const reason = new Error('enough')
  await evaluate(m, plan!, { ...o, signal: controller.signal, onProgress: () => controller.abort(reason) }).then(
    () => assert.unreachable(),
    (e) => assert.is(e, reason),
  )
})

const told = async (...args: readonly string[]): Promise<readonly [code: number, answer: Record<string, unknown>]> => {
  const real = [process.stdout.write, process.stderr.write] as const
  let text = ''
  process.stdout.write = ((t: string) => {
    text += t
    return true
  }) as typeof process.stdout.write
  process.stderr.write = (() => true) as typeof process.stderr.write
  try {
    const code = await main([...args, '--json'])
    return [code, JSON.parse(text) as Record<string, unknown>]
  } finally {
    ;[process.stdout.write, process.stderr.write] = real
  }
}

test('the command line prints and writes the same metrics', async () => {
  writeFileSync(
    at('net.ts'),
    `import { conv2d, globalAvgPool, linear, model, relu, seq } from '${join(__dirname, '../../src')}'
export default model([2, 3, ${H}, ${W}], seq(conv2d('c', 4, 3), relu(), globalAvgPool('pool'), linear('fc', 9)))
`,
  )
  const [trained] = await told(
    'train',
    at('net.ts'),
    '--loss',
    'cross-entropy',
    '--data',
    at('images'),
    '--steps',
    '2',
    '--save',
    at('w.safetensors'),
    '--device',
    DEVICE,
  )
  assert.is(trained, 0)
  const call = [
    'evaluate',
    at('net.ts'),
    '--weights',
    at('w.safetensors'),
    '--data',
    at('images'),
    '--loss',
    'cross-entropy',
    '--device',
    DEVICE,
  ]
  const [code, r] = await told(...call, '--out', at('result.json'))
  assert.is(code, 0)
  assert.equal([r['images'], Object.keys(r['metrics'] as object)], [N, ['accuracy', 'top5']])
  assert.equal(JSON.parse(readFileSync(at('result.json'), 'utf8')), r)
  const [, few] = await told(...call, '--metrics', 'top2,f1', '--out', at('result.csv'))
  const [head, ...rows] = readFileSync(at('result.csv'), 'utf8').trimEnd().split('\n')
  const { loss, metrics, perClass } = few as unknown as {
    readonly loss: number
    readonly metrics: Readonly<Record<string, number>>
    readonly perClass: Readonly<Record<string, readonly (number | null)[]>>
  }
  assert.is(head, 'metric,class,value')
  assert.equal(rows.slice(0, 3), [`loss,,${loss}`, `top2,,${metrics['top2']}`, `f1,,${metrics['f1']}`])
  assert.equal(
    rows.slice(3).map((row) => row.split(',')[2]),
    perClass['f1']!.map((x) => (x === null ? '' : String(x))),
  )
  await told(...call, '--out', at('result.jsonl'))
  assert.equal(JSON.parse(readFileSync(at('result.jsonl'), 'utf8').trimEnd()).metrics, r['metrics'])
  assert.equal([Object.keys(few['metrics'] as object), few['loss']], [['top2', 'f1'], r['loss']])
  for (const [wrong, words] of [
    [['--metrics', 'acc'], /metric 'acc' is not known/],
    [['--metrics', 'psnr'], /compares numbers/],
    [['--out', at('w.safetensors', 'x.json')], /w\.safetensors/],
    [['--out', at('result.png')], /--out writes a result of evaluate, but the name ends in \.png: use .*result\.json/],
    [['--data', at('nowhere')], /no such file/],
  ] as const) {
    const [c, e] = await told(...call, ...wrong)
    assert.is(c, 2)
    assert.match((e['error'] as { message: string }).message, words)
  }
  assert.match(
    String(((await told('evaluate', at('net.ts')))[1]['error'] as { message: string }).message),
    /needs --weights, --data/,
  )
})

test.run()
