// Every way to save memory trains a network to the same weights: recompute and swaps to the same bits, tiles within rounding; and `ref` and bf16 agree with
// the device. In: a model whose layers are to be tried, the strategies that give the same bits. Out: two tests.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Model } from '../../dsl'
import { BF16, halfway, smallestBudget, staged, trained } from './runs'

const BIT_EQUAL = ['checkpoint:sqrt', 'swap:greedy'] as const

export const savesMemory = (net: Model, strategies: readonly (typeof BIT_EQUAL)[number][] = BIT_EQUAL): void => {
  test('recompute and swap plans have the bits of in-core, tiles agree within rounding', async () => {
    const inCore = await trained(net, staged(net, { strategy: 'in-core' }), { steps: 2 })
    assert.ok(inCore.losses.every(Number.isFinite))
    for (const strategy of strategies) {
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

  test('the reference device and bf16 have similar losses', async () => {
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
}
