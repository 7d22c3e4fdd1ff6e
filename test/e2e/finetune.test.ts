// timeout 300
// Fine-tuning against PyTorch (test/fixtures/make_pytorch.py): torch.save's file is loaded without its head, the stem is frozen, and losses and
// weights of eight steps are PyTorch's, in double on `ref` and in single precision here; in-core, recomputed and swapped, to the same bits. From the
// command line and from scripts; the absent head begins with its seed, for any contents of the file.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, globalAvgPool, linear, maxPool, model, relu, seq, sgd } from '../../dsl'
import { orThrow } from '../../src/errors/exceptions'
import { openTensors, readTensor, writeTensors } from '../../src/files/safetensors'
import { evaluate } from '../../src/predict/evaluator'
import { predict } from '../../src/predict/predictor'
import { stage } from '../../src/stage/stage'
import type { Staged } from '../../src/stage/staged'
import type { TrainResult } from '../../src/train/result'
import { train } from '../../src/train/trainer'
import { labels, uniform } from '../fixtures/formula'
import { spillwayHere } from './processes'
import { DEVICE, smallestBudget } from './runs'

const fixtures = join(__dirname, '../fixtures')
const at = (name: string): string => join(fixtures, 'pytorch', name)
const { 'fine-tuned': expected } = JSON.parse(readFileSync(join(fixtures, 'pytorch.json'), 'utf8')) as {
  readonly 'fine-tuned': {
    readonly freeze: readonly string[]
    readonly losses: readonly number[]
    readonly weights: Readonly<Record<string, readonly [length: number, beside: number]>>
  }
}
const root = mkdtempSync(join(tmpdir(), 'spillway-finetune-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')

const [BATCH, CLASSES, SIZE] = [4, 5, 16] as const
const STEPS = expected.losses.length
const net = model(
  [BATCH, 3, SIZE, SIZE],
  seq(
    conv2d('stem', 8, 3, { bias: false }),
    batchNorm('bn'),
    relu(),
    maxPool('pool', 2),
    conv2d('body', 8, 3),
    relu(),
    globalAvgPool('gap'),
    linear('head', CLASSES, { init: 0 }),
  ),
)

const bytesOf = (a: Float32Array | Int32Array): Uint8Array => new Uint8Array(a.buffer)
const data = join(root, 'data.safetensors')
const samples = BATCH * STEPS
orThrow(
  writeTensors(data, [
    {
      name: 'input',
      type: 'F32',
      shape: [samples, 3, SIZE, SIZE],
      read: () => right(bytesOf(uniform('input', [samples, 3, SIZE, SIZE], 1))),
    },
    { name: 'target', type: 'I32', shape: [samples, 1, 1, 1], read: () => right(bytesOf(labels('target', samples, CLASSES))) },
  ]),
)

const optimizer = sgd({ lr: 0.1, momentum: 0.9, weightDecay: 0.01 })
const options = { loss: crossEntropy, optimizer, freeze: expected.freeze, algorithms: 'fixed' } as const
const loading = { weights: at('pretrained.pth'), weightsSkip: 'head.*' } as const
const tuned = (plan: Staged, save: string): Promise<TrainResult> =>
  train(net, plan, { steps: STEPS, data, shuffle: false, save, ...loading })

const summed = (name: string, t: Float32Array): readonly [number, number] => {
  const beside = uniform(`${name} beside`, [t.length], 1)
  let [squares, product] = [0, 0]
  t.forEach((x, i) => {
    squares += x * x
    product += x * beside[i]!
  })
  return [Math.sqrt(squares), product]
}
const isNear = (got: number, wanted: number, within: number, what: string): void =>
  assert.ok(Math.abs(got - wanted) <= within * Math.max(Math.abs(wanted), 0.1), `${what}: ${got}, PyTorch ${wanted}`)

const numbersOf = (path: string, name: string): Float32Array => {
  const file = orThrow(openTensors('weights', path))
  const stored = file.tensors.get(name)!
  const { buffer } = orThrow(readTensor(file, stored)).slice()
  return stored.type === 'F64' ? Float32Array.from(new Float64Array(buffer)) : new Float32Array(buffer)
}

for (const [machine, within] of [
  ['ref', 1e-6],
  [DEVICE, 1e-4],
] as const)
  test(`losses and weights are PyTorch's on ${machine}`, async () => {
    const save = join(root, `${machine}.safetensors`)
    const { losses, weights } = await tuned(stage(net, { ...options, machine, strategy: 'in-core' }), save)
    losses.forEach((loss, i) => isNear(loss, expected.losses[i]!, within, `the loss of step ${i + 1}`))
    for (const [name, wanted] of Object.entries(expected.weights)) {
      const found = summed(name, numbersOf(save, name))
      wanted.forEach((n, i) => isNear(found[i]!, n, within, `${name} (${i === 0 ? 'length' : 'beside'})`))
    }
    assert.equal([weights!.taken.length, weights!.unused], [7, []])
    assert.equal(
      weights!.left.map(({ name, shape, inFile }) => ({ name, shape: [...shape], inFile: inFile && [...inFile] })),
      [
        { name: 'head.bias', shape: [5], inFile: [7] },
        { name: 'head.weight', shape: [5, 8], inFile: [7, 8] },
      ],
    )
    // 41 batches that the file's norm had seen, and those of the run.
    const file = orThrow(openTensors('weights', save))
    const counted = orThrow(readTensor(file, file.tensors.get('bn.num_batches_tracked')!))
    assert.is(Number(new DataView(counted.buffer, counted.byteOffset).getBigInt64(0, true)), 41 + STEPS)
  })

test('in-core, computed again and swapped: the same bits, and the peak is the planned one', async () => {
  const inCore = await tuned(stage(net, { ...options, machine: DEVICE, strategy: 'in-core' }), join(root, 'a.safetensors'))
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
    const budget = smallestBudget(net, strategy, options)
    const r = await tuned(stage(net, { ...options, machine: DEVICE, strategy, budget }), join(root, 'b.safetensors'))
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes)
  }
})

test('evaluating and predicting take the same file, with the same flags', async () => {
  const evaluated = await evaluate(net, stage(net, { mode: 'evaluate', loss: crossEntropy, machine: DEVICE }), {
    ...loading,
    data,
  })
  // A head of zeros knows nothing.
  isNear(evaluated.loss, Math.log(CLASSES), 1e-5, 'the loss')
  const notes: string[] = []
  const { outputs } = await predict(net, stage(net, { mode: 'predict', machine: DEVICE }), {
    weights: at('parallel.pt'),
    weightsSkip: ['head.*'],
    weightsStrip: 'module.',
    data,
    onNote: (text) => notes.push(text),
  })
  assert.ok(outputs.every((o) => (o.values as Float32Array).every((x) => x === 0)))
  assert.match(
    notes[0]!,
    /loaded 7 of 9 weights of the model\n.*loaded {13}7 {2}.*\n.*not loaded {9}2 {2}head\.bias \[5\] \(\[7\] in the file\)/s,
  )
})

test('the command line names the flag that helps, and accepts it', async () => {
  const file = join(root, 'net.js')
  const dsl = JSON.stringify(join(__dirname, '../../src'))
  writeFileSync(
    file,
    `const s = require(${dsl})\nmodule.exports = ${JSON.stringify({ kind: 'model', net: net.net, input: net.input })}\n`,
  )
  const call = (...more: readonly string[]) =>
    spillwayHere('train', file, '--loss', 'cross-entropy', '--device', DEVICE, '--steps', '2', '--data', data, '--json', ...more)
  const wrong = await call('--weights', at('parallel.pt'))
  assert.is(wrong.code, 2)
  assert.match(wrong.err, /the names in the file begin with 'module\.': remove it with --weights-strip 'module\.'/)
  const shaped = await call('--weights', at('parallel.pt'), '--weights-strip', 'module.')
  assert.is(shaped.code, 2)
  assert.match(
    shaped.err,
    /'head\.weight' is \[7,8\], but \[5,8\] in the model; --weights-skip 'head\.\*' trains them from initial values/,
  )
  const right = await call('--weights', at('parallel.pt'), '--weights-strip', 'module.', '--weights-skip', 'head.*')
  assert.is(right.code, 0, right.err)
  assert.match(right.err, /note: .*loaded 7 of 9 weights of the model/)
  assert.equal((JSON.parse(right.out) as TrainResult).weights!.left.length, 2)
})

test.run()
