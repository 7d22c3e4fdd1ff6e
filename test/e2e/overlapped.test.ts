// timeout 300
// Training with steps that load the next step's batch: evaluations, checkpoints, stops at any step and resumed runs have the losses and weights of an
// in-core plan, in which each step loads its own. A batch that is loaded and not needed is drawn again.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, dropout, globalAvgPool, linear, model, relu, seq, sgd } from '../../dsl'
import { type Data, source } from '../../src/data/data'
import { validation } from '../../src/predict/validation'
import type { TrainOptions } from '../../src/train/options'
import { train, trainTask } from '../../src/train/trainer'
import { isForNext } from '../../staging/plan/ahead'
import { fewOrAll } from '../full'
import { staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-overlapped-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const fresh = (): string => join(root, String(made++))

const net = model(
  [4, 3, 64, 64],
  seq(
    conv2d('a', 16, 3),
    batchNorm('n'),
    relu(),
    dropout(0.1),
    conv2d('b', 16, 3),
    relu(),
    globalAvgPool('pool'),
    linear('head', 3),
  ),
)
const options = { loss: crossEntropy, optimizer: sgd({ lr: 0.05, momentum: 0.9 }) } as const
const single = staged(net, { ...options, strategy: 'in-core' })
const overlapped = staged(net, { ...options, strategy: 'auto' })
const samples = (length: number): Data =>
  source({
    length,
    read: (i) => ({ input: new Float32Array(3 * 64 * 64).map((_, k) => Math.sin(k * (1 + (i % 3)) + i)), target: i % 3 }),
  })

const STEPS = 23
/** Epochs end within batches, and evaluations between steps. */
const run = {
  data: samples(30),
  seed: 3,
  steps: STEPS,
  evaluate: validation({ data: samples(10), metrics: ['accuracy'] }),
  onNote: () => {},
} satisfies TrainOptions

const expected = train(net, single, run)

test('the plan loads batches ahead, in its peak', async () => {
  const { plan } = overlapped
  assert.ok(plan.residencies.some((r) => isForNext(r, plan.calls.length)))
  assert.is(plan.strategy, 'auto')
})

test('evaluations and checkpoints between steps', async () => {
  const one = await expected
  const many = await train(net, overlapped, { ...run, checkpointDir: fresh(), checkpointEvery: 2 })
  assert.equal([many.weightsSha256, many.losses, many.measured], [one.weightsSha256, one.losses, one.measured])
  assert.is(many.arenaPeakBytes, many.peakBytes)
  assert.is(many.peakBytes, overlapped.plan.peakPages * 2 ** 21)
})

test('a run of the number of samples draws no batch behind the last', async () => {
  let drawn = 0
  const data = source({
    length: 12,
    read: (i) => {
      drawn++
      return { input: new Float32Array(3 * 64 * 64).fill(i / 12), target: i % 3 }
    },
  })
  const own = { data, seed: 3, epochs: 1, onNote: () => {} }
  const a = await train(net, single, own)
  const once = drawn
  const b = await train(net, overlapped, own)
  assert.equal([a.weightsSha256, a.losses], [b.weightsSha256, b.losses])
  assert.is(drawn, 2 * once)
})

test('stops at any step, and resumed runs', async () => {
  const one = await expected
  for (const every of fewOrAll([5], [1, 2, 3, 5, 7])) {
    const checkpointDir = fresh()
    for (let done = 0, at = every; done < STEPS; at += every) {
      const stop = new AbortController()
      const answer = await trainTask(net, overlapped, {
        ...run,
        checkpointDir,
        checkpointEvery: 4,
        resume: done > 0,
        stop: stop.signal,
        onProgress: (p) => {
          if (p.kind === 'step' && p.step === at) stop.abort()
        },
      })()
      if (E.isLeft(answer)) {
        assert.ok(answer.left.tag === 'Stopped' || answer.left.tag === 'Cancelled', JSON.stringify(answer.left))
        assert.ok(answer.left.stepsDone > done)
        done = answer.left.stepsDone
      } else {
        done = STEPS
        assert.equal([answer.right.weightsSha256, answer.right.losses], [one.weightsSha256, one.losses])
      }
    }
  }
})

test.run()
