// timeout 300
// Every swapping planner trains to the bits of in-core, in the smallest budget that it names, and really moves.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { strategies } from '../../staging/planner/strategies'
import { FULL } from '../full'
import { trunk } from './models'
import { smallestBudget, staged, trained } from './runs'

test('the bits of in-core, in the smallest budget', async () => {
  const inCore = await trained(trunk, staged(trunk, { strategy: 'in-core' }), { steps: 2 })
  const swapping = strategies.filter((s) => s.startsWith('swap:'))
  assert.ok(swapping.length >= 11)
  // Every fourth planner stands for all.
  for (const strategy of swapping.filter((_, i) => FULL || i % 4 === 0)) {
    const budget = smallestBudget(trunk, strategy)
    const r = await trained(trunk, staged(trunk, { strategy, budget }), { steps: 2 })
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.ok(r.bytesOut > 0 && r.bytesIn > 0, `${strategy} moved nothing`)
    assert.ok(r.arenaPeakBytes <= budget && budget < inCore.peakBytes, `${strategy}: ${r.arenaPeakBytes} of ${budget}`)
  }
})

test.run()
