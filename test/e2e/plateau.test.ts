// own process
// The schedule plateau in runs: rates follow the evaluations, a resumed run has the bits of an uninterrupted one, and ranks have equal rates.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, crossEntropy, globalAvgPool, linear, model, relu, seq, sgd } from '../../dsl'
import { source } from '../../src/data/data'
import { errorText } from '../../src/errors/errors'
import { validation } from '../../src/predict/validation'
import type { TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { plateau } from '../../src/train/schedules'
import { readLog } from '../../src/train/steplog'
import { train, trainTask } from '../../src/train/trainer'
import { staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-plateau-'))
test.after(() => rmSync(root, { recursive: true }))

const net = model([4, 3, 12, 12], seq(conv2d('a', 8, 3), relu(), globalAvgPool('pool'), linear('head', 3)))
const options = { loss: crossEntropy, optimizer: sgd({ lr: 0.05, momentum: 0.9 }), strategy: 'in-core' } as const
const plan = staged(net, options)
const samples = (length: number) =>
  source({
    length,
    read: (i) => ({ input: new Float32Array(432).map((_, k) => Math.sin(k * (1 + (i % 3)) + i)), target: i % 3 }),
  })
/** Two steps an epoch. The metric never improves by half, so each evaluation after the first is one of the plateau. */
const run = {
  data: samples(8),
  evaluate: validation({ data: samples(5), metrics: ['accuracy'] }),
  schedule: plateau({ factor: 0.5, patience: 1, threshold: 0.5, cooldown: 1, floor: 0.2 }),
  seed: 3,
  onNote: () => {},
} as const

/** Rates of the steps with their result. */
const rated = async (o: Partial<TrainOptions>, p = plan): Promise<readonly [rates: readonly number[], result: TrainResult]> => {
  const rates: number[] = []
  const result = await train(net, p, {
    ...run,
    epochs: 9,
    ...o,
    onProgress: (step) => {
      if (step.kind === 'step') rates.push(step.lr)
    },
  } as TrainOptions & { epochs: number })
  return [rates, result]
}
const EPOCHS = [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
const RATES = EPOCHS.flatMap((f) => [f * 0.05, f * 0.05])

test('the rate falls after evaluations without improvement, and a resumed run has the same bits', async () => {
  const log = join(root, 'log')
  const [rates, alone] = await rated({ log })
  assert.equal(rates, RATES)
  const written = readLog(log)
  assert.ok(E.isRight(written))
  assert.equal(
    written.right.steps.map((s) => s.lr),
    RATES,
  )
  const checkpointDir = join(root, 'state')
  const [before] = await rated({ epochs: 5, checkpointDir })
  const [after, resumed] = await rated({ checkpointDir, resume: true })
  assert.equal([...before, ...after], RATES)
  assert.equal([resumed.resumedFrom, resumed.weightsSha256], [10, alone.weightsSha256])
})

test('without evaluations the mean loss of an epoch decides; ranks have the same rates', async () => {
  const alone = { evaluate: undefined, epochs: 5 } as const
  const [rates] = await rated(alone)
  assert.equal(rates, RATES.slice(0, 10))
  const shared = staged(net, { ...options, ranks: 2 })
  const [led] = await rated({ ...alone, engine: 'threads' }, shared)
  assert.equal(led, rates)
})

test('a metric that is not measured is refused', async () => {
  const answer = await trainTask(net, plan, { ...run, epochs: 1, schedule: plateau({ metric: 'f1' }) })()
  assert.ok(E.isLeft(answer))
  assert.is(errorText(answer.left), "schedule 'plateau': metric 'f1' is not known; allowed: loss, accuracy")
})

test.run()
