// Without a lower tier: nothing is swapped, large parameters stay, and the search finds plans below the memory of the optimal chain.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Machine } from '../../staging/graph/machine'
import { isSwappedToTier, type Plan } from '../../staging/plan/plan'
import { computeSeconds } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const v100 = machines['v100-pcie-16g']!
const alone: Machine = { ...v100, link: { ...v100.link, bytes: 0 } }
const graph = trainingGraph('resnet18', [16, 3, 224, 224])

const smallest = (strategy: string, machine: Machine): number => {
  const refused = compile(graph, { strategy, machine, budgetBytes: PAGE_BYTES })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  return refused.left.smallestBytes
}
const planned = (budgetBytes: number): Plan => {
  const plan = compile(graph, { strategy: 'auto', machine: alone, budgetBytes })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  return plan.right
}

const budget = smallest('checkpoint:optimal', alone) - PAGE_BYTES
const plan = planned(budget)

test('a plan without a lower tier moves only fed values', () => {
  assert.is(plan.tierBytes, 0)
  assert.not.ok(plan.residencies.some((r) => isSwappedToTier(r) || r.swapIn?.from === 'tier'))
  assert.not.ok(plan.storages.some((s) => s.home !== undefined))
})

test('the search finds a plan near the compute where the optimal chain does not fit', () => {
  assert.ok(plan.peakPages <= pagesIn(budget))
  const seconds = simulate(plan, alone.link).makespanSeconds
  assert.ok(seconds < 1.5 * computeSeconds(inCoreLayout(graph, alone)), `${seconds}`)
})

test.run()
