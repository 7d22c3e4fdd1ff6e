// Sums and products of a step's tensors: to the bits of the net that adds and multiplies within itself, for any plan.
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  add,
  apply,
  conv2d,
  fed,
  globalAvgPool,
  identity,
  loss,
  minimize,
  mse,
  multiply,
  relu,
  residual,
  scaled,
  seq,
  sgd,
  sigmoid,
  step,
  type TrainingStep,
} from '../../dsl'
import { PAGE_BYTES } from '../../staging/core/bytes'
import type { StrategyName } from '../../staging/core/names'
import type { Staged } from '../../src/stage/staged'
import { tryStage } from '../../src/stage/stage'
import { trainTask } from '../../src/train/trainer'
import { DEVICE } from './runs'

const done = <A>(result: Either<unknown, A>): A => {
  if (isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right
}

const optimizer = sgd({ lr: 0.05, momentum: 0.9 })
const image = fed('image', [2, 3, 32, 24])
const target = fed('target', [2, 4, 32, 24])

const stem = seq(conv2d('stem', 16, 3), relu())
const body = conv2d('body', 16, 3)
const channels = seq(globalAvgPool(), conv2d('channels', 16, 1), sigmoid())
const pixels = seq(conv2d('pixels', 1, 1), sigmoid())
const whole = seq(conv2d('whole', 16, 1), sigmoid())
const head = conv2d('head', 4, 1)

const net = seq(stem, residual(body, identity), scaled(channels), scaled(pixels), scaled(whole), head)
const within = step(minimize('all', { over: net, optimizer, losses: { one: loss(mse, apply(net, image), target) } }))

const x = apply(stem, image)
const sum = add(apply(body, x), x)
const gated = multiply(sum, apply(channels, sum))
const masked = multiply(gated, apply(pixels, gated))
const mixed = multiply(masked, apply(whole, masked))
const between = step(
  minimize('all', {
    over: [stem, body, channels, pixels, whole, head],
    optimizer,
    losses: { one: loss(mse, apply(head, mixed), target) },
  }),
)

const trained = async (s: TrainingStep, strategy: StrategyName, budget?: number) => {
  const plan: Staged = done(tryStage(s, { machine: DEVICE, algorithms: 'fixed', strategy, budget }))
  const result = done(await trainTask(s, plan, { steps: 4, seed: 3, threads: 1 })())
  assert.is(result.arenaPeakBytes, result.peakBytes)
  return result
}
const least = (strategy: StrategyName): number => {
  const refused = tryStage(between, { machine: DEVICE, algorithms: 'fixed', strategy, budget: PAGE_BYTES })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  return refused.left.smallestBytes
}

test('a step that adds and multiplies trains to the bits of the net that does', async () => {
  const [a, b] = [await trained(within, 'in-core'), await trained(between, 'in-core')]
  assert.equal([b.losses, b.weightsSha256], [a.losses, a.weightsSha256])
  assert.is(new Set(a.losses).size, 4)
})

test('recomputed, swapped or tiled in the smallest budget, it is the same run', async () => {
  const inCore = await trained(between, 'in-core')
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy', 'tiled'] as const) {
    const r = await trained(between, strategy, least(strategy))
    if (strategy !== 'tiled') assert.is(r.weightsSha256, inCore.weightsSha256, strategy)
    r.losses.forEach((l, i) => assert.ok(Math.abs(l - inCore.losses[i]!) <= 1e-4 * Math.abs(l), strategy))
  }
})

test.run()
