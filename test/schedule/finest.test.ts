// timeout 400
// Where nothing fits, tiles finer than the usual ones: the smallest budget of a large image is not that of a set number of tiles.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, model, relu, seq } from '../../dsl'
import { type Staged, tryStage } from '../../src/stage/stage'
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import { tilesOf } from '../../staging/plan/plan'

const large = model([1, 3, 8192, 8192], seq(conv2d('a', 192, 3), relu(), conv2d('b', 1, 3)))
const staged = (budget: number, strategy: 'tiled' | 'auto') => tryStage(large, { machine: 'v100-pcie-16g', strategy, budget })
const most = ({ plan }: Staged): number => Math.max(...plan.segments.map((s) => tilesOf(s.grid)))

const STRATEGIES = process.env['SPILLWAY_FULL'] ? (['tiled', 'auto'] as const) : (['tiled'] as const)
for (const strategy of STRATEGIES)
  test(`${strategy}: a smallest budget below that of 512 tiles, which works`, () => {
    const refused = staged(PAGE_BYTES, strategy)
    if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
    const { smallestBytes } = refused.left
    const plan = staged(smallestBytes, strategy)
    if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
    assert.ok(most(plan.right) > 512, `${most(plan.right)} tiles`)
    assert.is(bytesOf(plan.right.plan.peakPages), smallestBytes)
  })

test.run()
