// full
// timeout 600
// each of staging/schedule
// Planning grows no faster than n log n in the number of ops, for the greedy family: processor time on ever deeper networks.
// SPILLWAY_FULL and `npm run acceptance -- times` go to 20 000 ops.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { GROWING, growthOf, MANY_BLOCKS } from '../../bench/acceptance/times'

const blocks = process.env['SPILLWAY_FULL'] === '1' ? MANY_BLOCKS : 320

for (const strategy of GROWING)
  test(`${strategy} on ${blocks} residual blocks`, () => {
    const g = growthOf(strategy, blocks)
    assert.ok(g.moves, 'something has to leave')
    assert.ok(
      g.times <= g.allowed,
      `${g.seconds.toFixed(2)} s for ${g.ops} ops, ${g.times.toFixed(1)} times as long; n log n allows ${g.allowed.toFixed(1)}`,
    )
  })

test.run()
