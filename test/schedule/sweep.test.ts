// gate
// timeout 1800
// Every planner over networks, sizes and budgets: a verified plan or the smallest budget that works, and how far the best of
// those that swap are above the bound. The whole zoo: `npm run sweep`; all of paper 5's cases: `npm run acceptance -- bounds`.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PAPER_5, behind, boundRatios } from '../../bench/acceptance/bounds'
import { median } from '../../bench/acceptance/cases'
import { graphOf, machine } from '../../bench/lab/steps'
import { autoBeside } from '../../bench/sweep/beside'
import { sweptNetwork } from '../../bench/sweep/network'
import { strategies } from '../../staging/planner/strategies'
import { FULL, fewOrAll } from '../full'

const on = machine('v100-pcie-16g')

/** `auto` does not ask the others. In steps of some 20 pages, one of 18 is sometimes a little faster. */
const SLOWER = 0.02

test('every planner has a verified plan for every budget, or names the smallest; auto is hardly ever behind', () => {
  const [resnet, vgg] = [['resnet18', 4, 64] as const, ['vgg11-features', 2, 96] as const]
  for (const [name, batch, size] of fewOrAll([resnet], [resnet, vgg])) {
    const swept = sweptNetwork(graphOf(name, on, batch, size)!, on, [batch, size, size], FULL ? 8 : 3)
    assert.equal(swept.faults, [])
    assert.is(Object.keys(swept.strategies).length, strategies.length)
    for (const [strategy, { smallestMiB, ratios }] of Object.entries(swept.strategies)) {
      const works = swept.budgetsMiB.map((b) => b >= smallestMiB)
      assert.equal(
        ratios.map((r) => r !== null),
        works,
        strategy,
      )
      assert.ok(
        ratios.every((r) => r === null || r >= 1),
        `${strategy} is faster than its compute`,
      )
    }
    assert.equal(
      autoBeside([swept], SLOWER).filter((b) => b.above > 0),
      [],
    )
  }
})

test('page by page, and by the dynamic programme, plans are near the bound and rarely slower than whole activations', () => {
  const cases = FULL ? PAPER_5 : ([['resnet50', 16, 224]] as const)
  const all = cases.flatMap((c) => boundRatios(c).map((r) => ({ at: c.join(), ...r })))
  for (const r of all) assert.ok(behind(r) <= 1.005, `${r.at}: ${behind(r)} of the better`)
  assert.ok(
    all.every((r) => r['swap:fractional'].overLeast >= 1 - 1e-9 && r['swap:dynprog'].overLeast >= 1 - 1e-9),
    'faster than is possible',
  )
  assert.ok(median(all.map((r) => r['swap:fractional'].overPaper)) <= 1.06)
  // The paper's bound knows no working sets: in the graphs that devices run it is out of reach by 1.215 at worst here, page by page too.
  for (const r of all) assert.ok(r['swap:dynprog'].overPaper <= 1.22, `${r.at}: ${r['swap:dynprog'].overPaper} of the bound`)
})

test.run()
