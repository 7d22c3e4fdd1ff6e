// full
// Skips, dense layers (of convolutions, and of norms as DenseNet has them), stretched branches, a context of the whole image, and named values
// whose branches cross, in one network as it is trained: every way to
// save memory gives the same weights, tiles within rounding, each in half of what keeping everything takes.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  affine,
  atInputSize,
  batchNorm,
  channelShuffle,
  concat,
  conv2d,
  convTranspose2d,
  counted,
  globalAvgPool,
  hardSigmoid,
  maxPool,
  model,
  relu,
  repeat,
  seq,
  skip,
  sliceChannels,
  value,
  values,
} from '../../dsl'
import type { TrainResult } from '../../src/train/result'
import { halfway, smallestBudget, staged, trained } from './runs'

const unit = <N extends string, C extends number, D extends number = 1>(name: N, channels: C, dilation?: D) =>
  seq(conv2d(name, channels, 3, { dilation, bias: false }), batchNorm(`${name}_bn`), relu())

/** Half of DeepLabV3+, half of U-Net, a dense block between. */
// biome-ignore format: one part a line
const net = model([2, 3, 384, 320], atInputSize(
  conv2d('stem', 16, 3, { stride: 2 }), relu(),
  counted('dense', 1, repeat(3, skip(unit('conv', 8)))),
  counted('grown', 1, repeat(3, skip(batchNorm('norm'), relu(), conv2d('conv', 8, 3)))), batchNorm('grown_bn'), relu(),
  concat(
    conv2d('low', 8, 1),
    atInputSize(
      maxPool('half', 3, { stride: 2, pad: 1 }), unit('deep', 16),
      concat(conv2d('near', 8, 1), unit('far', 8, 6), atInputSize(globalAvgPool('all'), conv2d('context', 8, 1), relu())),
    ),
  ),
  skip(maxPool('down', 2), unit('below', 16), convTranspose2d('up', 16, 2, { stride: 2 })),
  values(
    value('a', 'input', sliceChannels(0, 8), conv2d('first', 8, 3), hardSigmoid()),
    value('b', 'input', sliceChannels(8, 8)),
    value('c', { added: ['a', 'b'] }, channelShuffle(2), unit('second', 8)),
    value('d', { multiplied: ['c', 'a'] }, affine(2, -1)),
    value('e', { joined: ['a', 'd'] }),
  ),
  conv2d('out', 4, 1),
))

let inCoreRun: Promise<TrainResult> | undefined
/** One run, which both tests compare theirs with. */
const inCoreOnce = (): Promise<TrainResult> => (inCoreRun ??= trained(net, staged(net, { strategy: 'in-core' }), { steps: 2 }))

test('recompute and swap plans have the bits of in-core, in half the memory', async () => {
  const inCore = await inCoreOnce()
  assert.ok(inCore.losses.every(Number.isFinite))
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
    const r = await trained(net, staged(net, { strategy, budget: halfway(net, strategy) }), { steps: 2 })
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.ok(r.peakBytes < inCore.peakBytes, strategy)
  }
})

test('tiles agree with the whole within rounding', async () => {
  const whole = await inCoreOnce()
  const tiled = await trained(net, staged(net, { strategy: 'tiled', budget: smallestBudget(net, 'tiled') }), { steps: 2 })
  tiled.losses.forEach((loss, i) =>
    assert.ok(Math.abs(loss - whole.losses[i]!) <= 1e-5 * Math.abs(whole.losses[i]!), `${tiled.losses} and ${whole.losses}`),
  )
  assert.ok(tiled.peakBytes < whole.peakBytes)
})

test.run()
