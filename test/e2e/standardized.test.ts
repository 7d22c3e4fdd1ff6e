// Convolutions with standardised weights, as they are trained: every way to save memory gives the same weights, tiles within rounding; devices and
// bf16 train alike. PyTorch's numbers of the operators are in test/conformance.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, groupNorm, identity, model, relu, residual, seq } from '../../dsl'
import { fewOrAll } from '../full'
import { BF16, halfway, smallestBudget, staged, trained } from './runs'

const unit = <N extends string, G extends number>(name: N, groups: G) =>
  seq(conv2d(name, 16, 3, { standardize: 1e-6, groups, bias: false }), groupNorm(`${name}.norm`, 4), relu())

const net = model(
  [2, 3, 192, 128],
  seq(
    unit('stem', 1),
    residual(seq(unit('a', 1), unit('b', 2)), identity),
    conv2d('down', 16, 3, { standardize: 1e-6, stride: 2 }),
    groupNorm('down.norm', 4),
    residual(seq(unit('c', 1), unit('d', 4)), identity),
    conv2d('out', 4, 1),
  ),
)

test('recompute and swaps give the bits of in-core, tiles agree within rounding', async () => {
  const inCore = await trained(net, staged(net, { strategy: 'in-core' }), { steps: 2 })
  assert.ok(inCore.losses.every(Number.isFinite))
  for (const strategy of fewOrAll(['checkpoint:sqrt'] as const, ['checkpoint:sqrt', 'swap:greedy'] as const)) {
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
