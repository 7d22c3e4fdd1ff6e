// own process
// Runs that stop before their end keep the weights of the last whole step: the bits of a run of that many steps, with their recipe. An evaluation
// ends early, and a resumed run repeats it.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, dropout, globalAvgPool, linear, model, relu, seq, sgd } from '../../dsl'
import { type Data, source } from '../../src/data/data'
import { descriptionIn } from '../../src/data/description'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import { LAST_FILE } from '../../src/files/runs'
import { openTensors } from '../../src/files/safetensors'
import { validation } from '../../src/predict/validation'
import { readRecord } from '../../src/train/runrecord'
import type { TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { train, trainTask } from '../../src/train/trainer'
import { staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-stopped-'))
test.after(() => rmSync(root, { recursive: true }))
const before = process.env['SPILLWAY_RUN_FOLDER']
process.env['SPILLWAY_RUN_FOLDER'] = join(root, 'runs')
test.after(() => {
  if (before === undefined) delete process.env['SPILLWAY_RUN_FOLDER']
  else process.env['SPILLWAY_RUN_FOLDER'] = before
})
let made = 0
const fresh = (): string => join(root, String(made++))

const net = model(
  [4, 3, 16, 16],
  seq(conv2d('a', 8, 3), batchNorm('n'), relu(), dropout(0.1), globalAvgPool('pool'), linear('head', 3)),
)
const options = { loss: crossEntropy, optimizer: sgd({ lr: 0.05, momentum: 0.9 }), strategy: 'in-core' } as const
const plan = staged(net, options)
const samples = (length: number, read: (i: number) => void = () => {}): Data =>
  source({
    length,
    read: (i) => {
      read(i)
      return { input: new Float32Array(768).map((_, k) => Math.sin(k * (1 + (i % 3)) + i)), target: i % 3 }
    },
  })
const data = samples(16)
const run = { data, seed: 3, onNote: () => {} } as const

/** Trains until the signal that `use` gets, and returns the error. */
const stopped = async (
  use: (stop: AbortController) => TrainOptions,
  p: Parameters<typeof trainTask>[1] = plan,
): Promise<Extract<SpillwayError, { tag: 'Stopped' | 'Cancelled' }>> => {
  const stop = new AbortController()
  const answer = await trainTask(net, p, { ...run, ...use(stop), stop: stop.signal })()
  assert.ok(E.isLeft(answer) && (answer.left.tag === 'Stopped' || answer.left.tag === 'Cancelled'), JSON.stringify(answer))
  return answer.left
}
const atStep = (step: number, act: () => void): Pick<TrainOptions, 'onProgress'> => ({
  onProgress: (p) => {
    if (p.kind === 'step' && p.step === step) act()
  },
})
/** Parameters and statistics in a file. */
const bytesIn = (file: string): Buffer => {
  const all = readFileSync(file)
  return all.subarray(8 + Number(all.readBigUInt64LE(0)))
}
const sameWeights = async (file: string, steps: number, p = plan): Promise<void> => {
  const save = `${fresh()}.safetensors`
  await train(net, p, { ...run, steps, save })
  assert.ok(bytesIn(file).equals(bytesIn(save)), `the weights are not those of ${steps} steps`)
}

test('a run without checkpoints keeps the weights of its last whole step', async () => {
  const save = `${fresh()}.safetensors`
  const e = await stopped((stop) => ({ steps: 100_000, save, ...atStep(3, () => stop.abort('lunch')) }))
  assert.is(e.tag, 'Stopped')
  assert.is(e.weights, save)
  assert.match(errorText(e), /^stopped by lunch after \d+ steps; the weights are in /)
  await sameWeights(save, e.stepsDone)
})

test('a signal of the system cancels the run; its folder has the weights, and the file of save stays', async () => {
  const save = `${fresh()}.safetensors`
  await train(net, plan, { ...run, steps: 1, save })
  const earlier = readFileSync(save)
  const e = await stopped((stop) => ({ steps: 100_000, save, run: 'left', ...atStep(2, () => stop.abort('SIGTERM')) }))
  assert.ok(e.tag === 'Cancelled' && e.signal === 'SIGTERM')
  const file = join(root, 'runs', 'left', LAST_FILE)
  assert.is(e.weights, file)
  assert.ok(readFileSync(save).equals(earlier))
  const tensors = openTensors('weights', file)
  assert.ok(E.isRight(tensors))
  assert.is(descriptionIn(tensors.right.metadata)?.model, plan.plan.graph.name)
  const record = readRecord(join(root, 'runs', 'left'))
  assert.ok(E.isRight(record) && record.right.state === 'stopped')
  await sameWeights(file, e.stepsDone)
})

test('a run that stops before the first step saves no weights', async () => {
  const save = `${fresh()}.safetensors`
  const e = await stopped((stop) => {
    stop.abort('SIGINT')
    return { steps: 10, save }
  })
  assert.equal([e.stepsDone, e.weights, existsSync(save)], [0, undefined, false])
  assert.match(errorText(e), /nothing is saved/)
})

test('an evaluation ends early, and the weights of the step before it are kept', async () => {
  const save = `${fresh()}.safetensors`
  let read = 0
  const e = await stopped((stop) => ({
    epochs: 3,
    save,
    evaluate: validation({
      data: samples(4000, (i) => {
        read = i
        if (i > 20) stop.abort('SIGINT')
      }),
    }),
  }))
  assert.is(e.stepsDone, 4)
  assert.ok(read < 3999)
  assert.is(e.weights, save)
  await sameWeights(save, 4)
})

const measuredAlone = (epochs: number): Promise<TrainResult> =>
  train(net, plan, { ...run, epochs, evaluate: validation({ data: samples(40), metrics: ['accuracy'] }) })

for (const [when, at] of [
  ['first', 1],
  ['last', 2],
] as const)
  test(`a resumed run begins with the ${when} evaluation if that one ended early`, async () => {
    const checkpointDir = fresh()
    let evaluations = 0
    const metrics = ['accuracy'] as const
    const e = await stopped((stop) => ({
      epochs: 2,
      checkpointDir,
      evaluate: validation({
        data: samples(40, (i) => {
          if (i === 20 && ++evaluations === at) stop.abort('lunch')
        }),
        metrics,
      }),
    }))
    assert.equal([e.tag, e.stepsDone, e.weights], ['Stopped', 4 * at, undefined])
    const resumed = await train(net, plan, {
      ...run,
      epochs: 2,
      checkpointDir,
      resume: true,
      evaluate: validation({ data: samples(40), metrics }),
    })
    const alone = await measuredAlone(2)
    assert.equal([resumed.resumedFrom, resumed.measured], [4 * at, alone.measured])
    assert.is(resumed.weightsSha256, alone.weightsSha256)
  })

test('two ranks that share an evaluation and the optimizer stop, and the weights are kept', async () => {
  const [save, checkpointDir] = [`${fresh()}.safetensors`, fresh()]
  const shared = staged(net, { ...options, ranks: 2, shard: 'optimizer' })
  let evaluations = 0
  const o = { engine: 'threads', epochs: 2, checkpointDir } as const
  const e = await stopped(
    (stop) => ({
      ...o,
      save,
      evaluate: validation({
        data: samples(400, (i) => {
          if (i === 20 && ++evaluations === 1) stop.abort('SIGINT')
        }),
      }),
    }),
    shared,
  )
  assert.equal([e.tag, e.stepsDone, e.weights], ['Cancelled', 4, save])
  const evaluate = validation({ data: samples(400) })
  const resumed = await train(net, shared, { ...run, ...o, resume: true, evaluate })
  const alone = await train(net, shared, { ...run, engine: 'threads', epochs: 2, evaluate })
  assert.equal([resumed.resumedFrom, resumed.weightsSha256], [4, alone.weightsSha256])
  assert.equal(resumed.measured, alone.measured)
})

test('a stop without a place is refused', async () => {
  const stop = new AbortController()
  const answer = await trainTask(net, plan, { steps: 1, stop: stop.signal })()
  assert.ok(E.isLeft(answer))
  assert.is(errorText(answer.left), 'stop needs a place to save the run: give checkpointDir, run or save')
})

test.run()
