// timeout 600
// Tiles that grow both ways (paper 3) compute what whole values do: random networks under random grids, cut so that gradients are complete
// in each tile. `verify` accepts every plan; on `ref` (double) gradients agree to 1e-9 of the tensor's norm. No gradient of an image's values
// is added up between tiles: each is made once, complete.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { assemble } from '../../staging/tile/segments'
import { FULL } from '../full'
import { compareWith } from './compare'
import { cases, groupsOf, planOfSegments } from './plans'

const RUNS = FULL ? 200 : 5

test('tiles that grow both ways agree with the whole', async () => {
  let compared = 0
  await fc.assert(
    fc.asyncProperty(cases, async (c) => {
      const worst = await compareWith('ref', c.recipe, 1e-9, (graph, m) => {
        const plan = planOfSegments(graph, assemble(graph, groupsOf(graph, c.tiling), true), c.tiling.squeeze, m)
        for (const s of plan?.segments ?? [])
          for (const k of s.keeps) {
            const isImage = k.slices !== null && graph.values[k.value]!.shape[2]! > 1
            assert.ok(!isImage || k.merge === undefined, graph.values[k.value]!.name)
          }
        return plan
      })
      if (worst !== undefined) compared++
      assert.ok(worst === undefined || worst <= 1, `${worst} times what is allowed`)
    }),
    { numRuns: RUNS * 4, seed: 20240615, interruptAfterTimeLimit: 200_000 },
  )
  assert.ok(compared >= RUNS, `only ${compared} cases could be tiled`)
})

test.run()
