// timeout 900
// Tiled plans compute what untiled ones do: random networks under random grids. On `ref` (double) gradients agree to 1e-9
// of the tensor's norm; on `cpu` within 1e-4, with a floor for gradients that are zero in truth.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { FULL } from '../full'
import { compare } from './compare'
import { cases } from './plans'

const RUNS = FULL ? 400 : 6

for (const [device, tolerance] of [
  ['ref', 1e-9],
  ['cpu', 1e-4],
] as const)
  test(`tiles agree with the whole on ${device}`, async () => {
    let compared = 0
    await fc.assert(
      fc.asyncProperty(cases, async (c) => {
        const worst = await compare(device, c, tolerance)
        if (worst !== undefined) compared++
        assert.ok(worst === undefined || worst <= 1, `${worst} times what is allowed`)
      }),
      { numRuns: RUNS * 2, seed: 20240615, interruptAfterTimeLimit: 400_000 },
    )
    assert.ok(compared >= RUNS, `only ${compared} cases could be tiled`)
  })

test.run()
