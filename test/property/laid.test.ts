// timeout 300
// A step that lays its weights out once computes the same bits as one whose convolutions read them as they lie: random networks in random
// tiles and budgets, on `ref` in doubles and in bf16, on `cpu` in floats. Every plan is verified.
import { isLeft, right } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { inHalf } from '../../staging/grad/rewrite/half'
import { laidOut, readers } from '../../staging/graph/laid'
import { behindLaying } from '../../staging/planner/laying'
import { assemble } from '../../staging/tile/segments'
import { verify } from '../../staging/verify/verify'
import { FULL } from '../full'
import { machine, stepOn } from './compare'
import { cases, groupsOf, planOfSegments, trainingOf } from './plans'

const RUNS = FULL ? 300 : 5

for (const [device, precision] of [
  ['ref', 'fp32'],
  ['ref', 'bf16'],
  ['cpu', 'fp32'],
] as const)
  test(`the same bits on ${device} in ${precision}`, async () => {
    const on = machine(device)
    let compared = 0
    await fc.assert(
      fc.asyncProperty(cases, async ({ recipe, tiling }) => {
        const wide = trainingOf(recipe, on.device.dtype)
        const graph = precision === 'bf16' ? inHalf('bf16')(wide) : wide
        const weights = new Set(readers(graph).keys())
        const segments = assemble(graph, groupsOf(graph, tiling))
        if (weights.size === 0 || isLeft(segments)) return
        const laid = laidOut(graph, weights)
        const plans = [
          planOfSegments(graph, segments, tiling.squeeze, on),
          planOfSegments(laid, right(behindLaying(laid, segments.right)), tiling.squeeze, on),
        ]
        for (const plan of plans) {
          const sound = verify(plan!)
          assert.ok(!isLeft(sound), JSON.stringify(sound))
        }
        assert.equal(await stepOn(device, plans[1]!), await stepOn(device, plans[0]!))
        compared++
      }),
      { numRuns: 2 * RUNS, seed: 5 },
    )
    assert.ok(3 * compared > RUNS, `${compared} of ${2 * RUNS} laid out`)
  })

test.run()
