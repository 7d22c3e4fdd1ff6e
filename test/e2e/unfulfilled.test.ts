// Options that a run of some length or a model of some task cannot fulfil: refused before the first step, or a note. In: small runs.
// Invariant: an evaluation that is asked for happens.
import { mkdtempSync, rmSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adam, conv2d, crossEntropy, globalAvgPool, model, rmsprop, seq, sgd } from '../../dsl'
import { source } from '../../src/data/data'
import { SpillwayException } from '../../src/errors/errors'
import { validation } from '../../src/predict/validation'
import type { Staged } from '../../src/stage/staged'
import type { StageOptions } from '../../src/stage/stageoptions'
import { stage } from '../../src/stage/stage'
import type { TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { train } from '../../src/train/trainer'

const root = mkdtempSync(join(tmpdir(), 'spillway-unfulfilled-'))
test.after(() => rmSync(root, { recursive: true }))

const net = model([2, 3, 4, 4], seq(conv2d('a', 10, 3), globalAvgPool('pool')))
const staged = (o: StageOptions = {}): Staged =>
  stage(net, { loss: crossEntropy, machine: 'ref', algorithms: 'fixed', strategy: 'in-core', ...o })
const plan = staged()
/** Eight samples: an epoch has four steps. */
const eight = () =>
  source({ length: 8, read: (i) => ({ input: Float32Array.from({ length: 48 }, (_, k) => Math.sin(k * i)), target: i }) })
const [data, held] = [eight(), eight()]
const shortNote = (steps: number): string =>
  `the run takes ${2 * steps} of 8 samples: --epochs 1 instead of --steps (epochs: 1) takes all of them once`

type Length = { readonly steps: number } | { readonly epochs: number }
const run = async (
  o: Omit<TrainOptions, 'steps' | 'epochs'> & Length,
  on = plan,
): Promise<readonly [TrainResult, readonly string[]]> => {
  const notes: string[] = []
  const result = await train(net, on, { onNote: (text: string) => notes.push(text), ...o } as { readonly steps: number })
  return [result, notes]
}
const refused = async (doing: () => unknown): Promise<string> => {
  try {
    await doing()
  } catch (e) {
    if (e instanceof SpillwayException) return e.message
    throw e
  }
  return 'nothing is refused'
}
const at = ({ measured }: TrainResult): readonly (readonly number[])[] => measured.map(({ epoch, step }) => [epoch, step])

test('a run shorter than an epoch, or than the interval, is evaluated at its end', async () => {
  const evaluate = validation({ data: held, metrics: ['accuracy'] })
  const [short, none] = await run({ steps: 1, data, evaluate })
  // A run of one step is a trial.
  assert.equal([at(short), none], [[[0, 1]], []])
  assert.equal(Object.keys(short.measured[0]!.metrics), ['loss', 'accuracy'])
  const [three, note] = await run({ steps: 3, data, evaluate })
  assert.equal([at(three), note], [[[0, 3]], [shortNote(3)]])
  assert.equal(at((await run({ steps: 9, data, evaluate }))[0]), [
    [1, 4],
    [2, 8],
  ])
  const [sparse, notes] = await run({ epochs: 2, data, evaluate: validation({ data: held, every: 5 }) })
  assert.equal(at(sparse), [[2, 8]])
  assert.equal(notes, ['the run has 2 epochs and evaluates every 5 epochs: the only evaluation is at its end'])
})

test('the best weights of a run shorter than an epoch are saved; its loss is the mean of its steps', async () => {
  const saveBest = join(root, 'best.safetensors')
  const [{ measured, losses }] = await run({ steps: 3, data, saveBest })
  assert.ok(existsSync(saveBest))
  assert.equal(measured, [{ epoch: 0, step: 3, metrics: { loss: losses.reduce((n, l) => n + l, 0) / 3 } }])
})

test('a resumed run continues after the last evaluation of a shorter one', async () => {
  const o = { data, evaluate: validation({ data }), checkpointDir: join(root, 'short') }
  await run({ steps: 2, ...o })
  assert.equal(at((await run({ steps: 8, resume: true, ...o }))[0]), [
    [0, 2],
    [1, 4],
    [2, 8],
  ])
})

test('a warm-up as long as the run is noted', async () => {
  assert.equal((await run({ steps: 3, data, warmup: 500 }))[1], [
    'the warm-up has 500 steps, but the run has 3: the learning rate only rises',
    shortNote(3),
  ])
  assert.equal((await run({ steps: 3, data, warmup: 2 }))[1], [shortNote(3)])
})

test('numbers without a meaning are refused before the first step', async () => {
  assert.is(
    await refused(() => run({ steps: 1, data, evaluate: validation({ data, metrics: ['top99'] }) })),
    "metric 'top99': the model has 10 classes; allowed: top1 to top10",
  )
  for (const optimizer of [sgd({ lr: 0.1, momentum: 1 }), rmsprop({ lr: 0.1, momentum: 2 })])
    assert.is(await refused(() => staged({ optimizer })), `momentum is ${optimizer.momentum}; allowed: 0 or more and below 1`)
  assert.match(await refused(() => staged({ optimizer: sgd({ lr: 0.1, momentum: 2 }), average: 0.9 })), /momentum is 2/)
  assert.is(await refused(() => staged({ optimizer: sgd({ lr: 0.1, momentum: 0.99 }) })), 'nothing is refused')
  assert.match(
    await refused(() => run({ steps: 1, data, samples: 4 })),
    /^samples is the number of synthetic samples.*leave one of them out/,
  )
})

test('a refused resume names the options that differ', async () => {
  const checkpointDir = join(root, 'resumed')
  const before = staged({ optimizer: sgd({ lr: 0.1, momentum: 0.5 }) })
  await run({ steps: 1, data, checkpointDir }, before)
  const resume = (o: StageOptions) => refused(() => run({ steps: 2, data, checkpointDir, resume: true }, staged(o)))
  assert.is(
    await resume({ optimizer: sgd({ lr: 0.2, momentum: 0.5 }) }),
    `checkpoint directory ${checkpointDir}: it belongs to another run: lr is '0.1' in the checkpoint and '0.2' now`,
  )
  assert.match(
    await resume({ optimizer: adam({ lr: 0.1 }) }),
    /optimizer is 'sgd' in the checkpoint and 'adam' now; .*momentum is '0.5' .* 'not set' now/,
  )
  assert.match(
    await resume({ optimizer: sgd({ lr: 0.1, momentum: 0.5 }), clipNorm: 1 }),
    /clipNorm is 'not set' in the checkpoint and '1' now/,
  )
  assert.match(
    await resume({ optimizer: sgd({ lr: 0.1, momentum: 0.5 }), loss: { kind: 'cross-entropy', labelSmoothing: 0.1 } as never }),
    /loss is /,
  )
  const other = model([2, 3, 4, 4], seq(conv2d('b', 10, 3), globalAvgPool('pool')))
  const renamed = stage(other, {
    loss: crossEntropy,
    optimizer: sgd({ lr: 0.1, momentum: 0.5 }),
    machine: 'ref',
    algorithms: 'fixed',
    strategy: 'in-core',
  })
  assert.match(
    await refused(() => train(other, renamed, { steps: 2, data, checkpointDir, resume: true })),
    /the layers of the model differ/,
  )
})

test.run()
