// full
// Pixel shuffles and pools with unequal sides, as they are trained. Every way to save memory gives the same weights, tiles
// within rounding.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  avgPool,
  conv2d,
  groupNorm,
  identity,
  maxPool,
  model,
  pixelShuffle,
  pixelUnshuffle,
  relu,
  residual,
  seq,
} from '../../dsl'
import { BF16, halfway, smallestBudget, staged, trained } from './runs'

const net = model(
  [2, 3, 384, 256],
  seq(
    pixelUnshuffle(2),
    conv2d('stem', 16, 3, { bias: false }),
    groupNorm('norm', 4),
    relu(),
    maxPool(3, { stride: 2, pad: { top: 0, left: 0, bottom: 1, right: 1 } }),
    residual(seq(conv2d('a', 16, 3), relu(), conv2d('b', 16, 3, { groups: 2 })), identity),
    avgPool(2, { stride: 1, pad: { top: 0, left: 1, bottom: 1, right: 0 } }),
    conv2d('up', 48, 3),
    pixelShuffle(4),
    conv2d('out', 3, 3),
  ),
)

test('recompute and swaps give the bits of in-core, tiles agree within rounding', async () => {
  const inCore = await trained(net, staged(net, { strategy: 'in-core' }), { steps: 2 })
  assert.ok(inCore.losses.every(Number.isFinite))
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
    const r = await trained(net, staged(net, { strategy, budget: halfway(net, strategy) }), { steps: 2 })
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.ok(r.peakBytes < inCore.peakBytes, strategy)
  }
  const tiled = await trained(net, staged(net, { strategy: 'tiled', budget: smallestBudget(net, 'tiled') }), { steps: 2 })
  tiled.losses.forEach((loss, i) =>
    assert.ok(Math.abs(loss - inCore.losses[i]!) <= 1e-5 * Math.abs(inCore.losses[i]!), `${tiled.losses} and ${inCore.losses}`),
  )
  assert.ok(tiled.peakBytes < inCore.peakBytes)
})

test('the reference device and bf16 train alike', async () => {
  const cpu = await trained(net, staged(net, { strategy: 'in-core' }), { steps: 2 })
  for (const [o, tolerance] of [
    [{ machine: 'ref' }, 1e-4],
    [BF16, 3e-2],
  ] as const) {
    const { losses } = await trained(net, staged(net, { ...o, strategy: 'in-core' }), { steps: 2 })
    losses.forEach((loss, i) =>
      assert.ok(Math.abs(loss - cpu.losses[i]!) <= tolerance * Math.abs(cpu.losses[i]!), `${losses} and ${cpu.losses}`),
    )
  }
})

test.run()
