// Optimizers and reductions against PyTorch: rates of steps, groups of parameters, frozen ones. Eight steps of a small classifier, from the same start and images by
// one formula: losses, and then all weights and running statistics by two numbers each, in double on `ref` and in single precision on `cpu`; in one
// run, in chunks, and swapping.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  batchNorm,
  conv2d,
  crossEntropy,
  gatedAttentionPool,
  generalizedMeanPool,
  globalAvgPool,
  globalMaxPool,
  linear,
  masked,
  maxPool,
  model,
  type Net,
  type Optimizer,
  relu,
  seq,
  type Updates,
} from '../../dsl'
import { openRunData } from '../../src/data/open'
import { writeTensors } from '../../src/files/safetensors'
import { tryStage } from '../../src/stage/stage'
import type { Staged } from '../../src/stage/staged'
import { openDevice } from '../../src/train/device'
import { loadWeights } from '../../src/train/loading'
import { modelState } from '../../src/train/weights'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { optimizerWith } from '../../staging/ops/optimizer'
import { UPDATES, updatesOf } from '../../staging/ops/updates'
import { labels, startOf, uniform } from '../fixtures/formula'
import { DEVICE } from './runs'
import { done } from './networks'

const [BATCH, CLASSES, SIZE] = [4, 5, 16] as const
const classifier = <R extends Net>(reduction: R) =>
  model(
    [BATCH, 3, SIZE, SIZE],
    seq(
      conv2d('stem', 8, 3, { bias: false }),
      batchNorm('bn'),
      relu(),
      maxPool('pool', 2),
      conv2d('body', 8, 3),
      relu(),
      reduction,
      linear('head', CLASSES),
    ),
  )
const BLOCK = 4
const maskedClassifier = <R extends Net>(reduction: R) => {
  const { net, input } = classifier(reduction)
  return model(input, masked(BLOCK, net))
}
const MASKED_NETS = {
  mean: maskedClassifier(globalAvgPool('gap')),
  max: maskedClassifier(globalMaxPool('gap')),
  generalizedMean: maskedClassifier(generalizedMeanPool(2.5, 1e-3)),
  gatedAttention: maskedClassifier(gatedAttentionPool('gap', 6)),
}
const NETS = {
  mean: classifier(globalAvgPool('gap')),
  max: classifier(globalMaxPool('gap')),
  generalizedMean: classifier(generalizedMeanPool(2.5, 1e-3)),
  gatedAttention: classifier(gatedAttentionPool('gap', 6)),
}

interface Case extends Updates {
  readonly optimizer: { readonly kind: Optimizer['kind'] }
  readonly reduction?: keyof typeof NETS
  /** Blocks of the images are 0, and the net is masked. */
  readonly masked?: boolean
  readonly rates?: readonly number[]
  readonly losses: readonly number[]
  readonly weights: Readonly<Record<string, readonly [length: number, beside: number]>>
}
const cases = JSON.parse(readFileSync(join(__dirname, '../fixtures/training.json'), 'utf8')) as Readonly<Record<string, Case>>
const root = mkdtempSync(join(tmpdir(), 'pytorch-training-'))
test.after(() => rmSync(root, { recursive: true }))

const bytesOf = (a: Float32Array | Int32Array): Uint8Array => new Uint8Array(a.buffer)
const [weights, data] = [join(root, 'weights.safetensors'), join(root, 'data.safetensors')]

/** The images; of a masked net with blocks of 0. */
const imagesOf = (samples: number, isMasked = false): Float32Array => {
  const images = uniform('input', [samples, 3, SIZE, SIZE], 1)
  return isMasked
    ? images.map((x, at) => {
        const [n, i, j] = [Math.floor(at / (3 * SIZE * SIZE)), Math.floor(at / SIZE) % SIZE, at % SIZE]
        const [down, across] = [Math.floor(i / BLOCK), Math.floor(j / BLOCK)]
        return (3 * n + down + 2 * across + ((down * across) % 2)) % 3 === 0 ? 0 : x
      })
    : images
}

const writeStart = ({ plan: { graph } }: Staged, samples: number, isMasked?: boolean): void => {
  writeTensors(
    weights,
    modelState(graph).weights.map(({ name, shape }) => ({
      name,
      type: 'F32',
      shape,
      read: () =>
        right(
          bytesOf(
            name.includes('.running_')
              ? new Float32Array(shape[0]!).fill(name.endsWith('var') ? 1 : 0)
              : startOf(name, shape, name === 'bn.weight'),
          ),
        ),
    })),
  )
  writeTensors(data, [
    {
      name: 'input',
      type: 'F32',
      shape: [samples, 3, SIZE, SIZE],
      read: () => right(bytesOf(imagesOf(samples, isMasked))),
    },
    { name: 'target', type: 'I32', shape: [samples, 1, 1, 1], read: () => right(bytesOf(labels('target', samples, CLASSES))) },
  ])
}

type Numbers = Readonly<Record<string, Float32Array | Float64Array>>
interface Trained {
  readonly losses: readonly number[]
  readonly weights: Numbers
}

/** All steps, in chunks of this number. */
const trained = async (staged: Staged, c: Case, chunk: number): Promise<Trained> => {
  const steps = c.losses.length
  const { graph } = staged.plan
  writeStart(staged, steps * BATCH, c.masked)
  const opened = done(openRunData(data, { seed: 0, shuffle: false, prefetch: 2, workers: 0, isKept: false }, graph))
  const session = done(openDevice(staged, { tier: { kind: 'memory' } }))
  done(session.initialise(0))
  done(loadWeights(weights, modelState(graph), session))
  const losses: number[] = []
  for (let from = 0; from < steps; from += chunk) {
    const count = Math.min(chunk, steps - from)
    const run = await session.run({
      firstStep: from + 1,
      steps: count,
      seed: 0,
      ...(c.rates ? { rates: Float64Array.from(c.rates.slice(from, from + count)) } : {}),
      data: opened.source,
      last: steps,
      onProgress: () => {},
    })
    losses.push(...done(run).losses)
  }
  const floats = (name: string, dtype: string): Float32Array | Float64Array => {
    const { buffer } = done(session.read(name)).slice()
    return dtype === 'f64' ? new Float64Array(buffer) : new Float32Array(buffer)
  }
  const read = Object.fromEntries(
    graph.values.flatMap((v) => (v.role === 'param' || v.role === 'state' ? [[v.name, floats(v.name, v.dtype)]] : [])),
  )
  session.dispose()
  return { losses, weights: read }
}

const staged = (
  c: Case,
  machine: 'ref' | 'cpu',
  strategy: 'in-core' | 'swap:greedy',
  budget?: number,
): ReturnType<typeof tryStage> => {
  const { kind, ...options } = c.optimizer
  const optimizer = optimizerWith(kind, options)
  return tryStage((c.masked ? MASKED_NETS : NETS)[c.reduction ?? 'mean'], {
    loss: crossEntropy,
    optimizer,
    ...updatesOf(c),
    machine,
    strategy,
    algorithms: 'fixed',
    ...(budget === undefined ? {} : { budget }),
  })
}

const isNear = (got: number, expected: number, within: number, what: string): void =>
  assert.ok(Math.abs(got - expected) <= within * Math.max(Math.abs(expected), 0.1), `${what}: ${got}, PyTorch ${expected}`)

const summed = (name: string, t: Float32Array | Float64Array): readonly [number, number] => {
  const beside = uniform(`${name} beside`, [t.length], 1)
  let [squares, product] = [0, 0]
  t.forEach((x, i) => {
    squares += x * x
    product += x * beside[i]!
  })
  return [Math.sqrt(squares), product]
}

const isAsExpected = (got: Trained, c: Case, within: number): void => {
  got.losses.forEach((loss, i) => isNear(loss, c.losses[i]!, within, `the loss of step ${i + 1}`))
  for (const [name, expected] of Object.entries(c.weights)) {
    const found = summed(name, got.weights[name]!)
    expected.forEach((n, i) => isNear(found[i]!, n, within, `${name} (${i === 0 ? 'length' : 'beside'})`))
  }
}

/** The in-core rest, less the strategy's least memory. */
const halfBudget = (c: Case): number => {
  const refused = staged(c, 'cpu', 'swap:greedy', PAGE_BYTES)
  return refused._tag === 'Left' && refused.left.tag === 'BudgetInfeasible' ? refused.left.smallestBytes : PAGE_BYTES
}

for (const [name, c] of Object.entries(cases)) {
  test(`${name}: in double`, async () => {
    const whole = await trained(done(staged(c, 'ref', 'in-core')), c, c.losses.length)
    isAsExpected(whole, c, 1e-9)
    assert.equal(await trained(done(staged(c, 'ref', 'in-core')), c, 3), whole, 'in chunks')
  })

  if (DEVICE === 'cpu')
    test(`${name}: in single precision, in the least memory too`, async () => {
      const whole = await trained(done(staged(c, 'cpu', 'in-core')), c, c.losses.length)
      isAsExpected(whole, c, 1e-4)
      assert.equal(await trained(done(staged(c, 'cpu', 'swap:greedy', halfBudget(c))), c, 5), whole, 'swapping, in chunks')
    })
}

test('ones are no rates at all', async () => {
  const { rates: _, ...c } = cases['adam, a rate for each step']!
  const run = (rates?: readonly number[]): Promise<Trained> =>
    trained(done(staged(c, 'ref', 'in-core')), { ...c, ...(rates ? { rates } : {}) }, 4)
  assert.equal(await run(c.losses.map(() => 1)), await run())
})

test('every option has a case', () => {
  for (const key of UPDATES.keys)
    assert.ok(
      Object.values(cases).some((c) => c[key] !== undefined),
      key,
    )
})

test.run()
