// timeout 900
// An aborted signal ends train, evaluate and predict within a step, at any moment: while weights load, between two runs of a session,
// in a step, in an evaluation that ranks share. Full mode fires 12 000 signals.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  conv2d,
  crossEntropy,
  evaluate,
  globalAvgPool,
  type Model,
  modelAt,
  predict,
  relu,
  seq,
  source,
  stage,
  train,
  validation,
} from '../../src'
import { DEVICE } from '../e2e/runs'
import { FULL } from '../full'

const root = mkdtempSync(join(tmpdir(), 'spillway-signals-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')

const [BATCH, SIDE, CLASSES] = [2, 16, 3]
const net = seq(conv2d('c', 4, 3), relu(), globalAvgPool('pool'), conv2d('fc', CLASSES, 1))
const m: Model = (() => {
  const made = modelAt([BATCH, 3, SIDE, SIDE], net)
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return made.right
})()
/** Far more than runs before the latest signal. */
const BATCHES = 3000
const samplesOf = (batches: number) =>
  source({
    length: batches * BATCH,
    read: (i) => ({ input: new Float32Array(3 * SIDE * SIDE).fill((i % 7) / 7), target: Int32Array.of(i % CLASSES) }),
  })
const samples = samplesOf(BATCHES)
const inputs = source({ length: BATCHES * BATCH, read: (i) => ({ input: new Float32Array(3 * SIDE * SIDE).fill((i % 7) / 7) }) })
const options = { machine: DEVICE, algorithms: 'fixed' } as const
const weights = join(root, 'w.safetensors')

type Progressed = () => void
type Case = (signal: AbortSignal, progressed: Progressed) => Promise<unknown>

const plan = stage(m, { ...options, loss: crossEntropy })
const twoRanks = stage(m, { ...options, loss: crossEntropy, ranks: 2 })
const evaluating = stage(m, { ...options, loss: crossEntropy, mode: 'evaluate' })
const predicting = stage(m, { ...options, mode: 'predict' })
const steps = (progressed: Progressed) => (p: { readonly kind: string }) => {
  if (p.kind === 'step') progressed()
}

const CASES: Readonly<Record<string, Case>> = {
  train: (signal, progressed) => train(m, plan, { steps: BATCHES, data: samples, signal, onProgress: steps(progressed) }),
  'train with checkpoints, which end a run of the session': (signal, progressed) =>
    train(m, plan, {
      steps: BATCHES,
      signal,
      checkpointDir: mkdtempSync(join(root, 'checkpoints-')),
      checkpointEvery: 1,
      onProgress: steps(progressed),
    }),
  'train on two ranks': (signal, progressed) =>
    train(m, twoRanks, { steps: BATCHES, engine: 'threads', signal, onProgress: steps(progressed) }),
  'train with evaluations that two ranks share': (signal, progressed) =>
    train(m, twoRanks, {
      epochs: BATCHES,
      data: samplesOf(4),
      evaluate: validation({ data: samplesOf(8) }),
      engine: 'threads',
      signal,
      onProgress: steps(progressed),
    }),
  evaluate: (signal, progressed) => evaluate(m, evaluating, { weights, data: samples, signal, onProgress: progressed }),
  predict: (signal, progressed) =>
    predict(m, predicting, { weights, data: inputs, out: join(root, 'out.npy'), signal, onProgress: progressed }),
}

/** Steps of 0.1 ms that had ended before the signal, and whose progress was still queued. */
const MOST_AFTER = 100
const LATEST_MS = 30
/** A linear congruential generator: the moments repeat as far as timers do. */
const randomFrom = (seed: number) => {
  let state = seed
  return (): number => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

const fired = async (run: Case, random: () => number): Promise<number> => {
  const controller = new AbortController()
  const reason = new Error('enough')
  let after = 0
  const at = random() * LATEST_MS
  const turns = Math.floor(random() * 4)
  const abort = (left: number): void => {
    if (left === 0) controller.abort(reason)
    else setImmediate(abort, left - 1)
  }
  const timer = setTimeout(abort, at, turns)
  try {
    await run(controller.signal, () => {
      if (controller.signal.aborted) after++
    })
    throw new Error('the run ended as if there was no signal')
  } catch (e) {
    assert.is(e, reason)
  } finally {
    clearTimeout(timer)
  }
  return after
}

test.before(async () => {
  await train(m, plan, { steps: 1, save: weights })
})

const COUNT = FULL ? 2000 : 6
for (const [name, c] of Object.entries(CASES))
  test(`${COUNT} signals at random moments end ${name}`, async () => {
    const random = randomFrom(COUNT)
    for (let i = 0; i < COUNT; i++) {
      const after = await fired(c, random)
      assert.ok(after < MOST_AFTER, `signal ${i}: ${after} more steps`)
    }
  })

test.run()
