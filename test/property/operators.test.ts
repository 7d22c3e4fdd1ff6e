// timeout 900
// each of staging/ops
// Each operator whose tiles meet their image in a way of its own, between two convolutions: gradients of tiled plans equal
// those of untiled ones, to 1e-9 on `ref` and 1e-4 on `cpu`. Random sizes, attributes and grids, odd ones included.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { FULL } from '../full'
import { compare } from './compare'
import { type Block, conv, keeping, reflect, resample, sampled, tiledKinds, up } from './networks'
import { tilings } from './plans'

const RUNS = FULL ? 100 : 2

const operators: Readonly<Record<string, fc.Arbitrary<Block>>> = {
  'transposed convolution': up,
  resampling: resample,
  'reflection padding': reflect,
  'local response norm': fc.constant({ tag: 'lrn' }),
  ...Object.fromEntries(tiledKinds.map((kind) => [kind, sampled(kind)])),
}

const small = (lo: number, hi: number): fc.Arbitrary<number> => fc.integer({ min: lo, max: hi })
const casesOf = (operator: fc.Arbitrary<Block>) =>
  fc.record({
    recipe: fc.record({
      image: fc.tuple(small(1, 2), small(1, 3), small(5, 19), small(5, 17)),
      blocks: fc.tuple(keeping, operator, conv),
      end: fc.constant('map' as const),
      fused: fc.boolean(),
    }),
    tiling: tilings,
  })

for (const [name, operator] of Object.entries(operators))
  for (const [device, tolerance] of [
    ['ref', 1e-9],
    ['cpu', 1e-4],
  ] as const)
    test(`${name} in tiles agrees with the whole on ${device}`, async () => {
      let compared = 0
      await fc.assert(
        fc.asyncProperty(casesOf(operator), async (c) => {
          const worst = await compare(device, c, tolerance)
          if (worst !== undefined) compared++
          assert.ok(worst === undefined || worst <= 1, `${worst} times what is allowed`)
        }),
        { numRuns: 2 * RUNS, seed: 41 },
      )
      assert.ok(compared >= RUNS, `only ${compared} cases could be tiled`)
    })

test.run()
