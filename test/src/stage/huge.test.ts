// gate
// Sizes that no memory holds. Invariant: planning uses bounded memory; grids have at most MOST_TILES tiles (staging/tile/gridfor.ts).
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import * as s from '../../../src'

test('a batch of a billion images is planned in bounded memory', () => {
  const huge = s.modelAt([1e9, 3, 8, 8], s.seq(s.conv2d('c', 2, 3), s.relu(), s.globalAvgPool()))
  if (isLeft(huge)) throw new Error(JSON.stringify(huge.left))
  const planned = s.tryStage(huge.right, { machine: 'v100-pcie-16g' })
  if (isLeft(planned)) throw new Error(s.errorText(planned.left))
  const { plan } = planned.right
  assert.ok(plan.peakPages * s.PAGE_BYTES <= plan.budgetBytes)
  assert.ok(plan.calls.length < 100_000, `${plan.calls.length} calls`)
})

test.run()
