// Small budgets for small networks: if values are under a page, every strategy below in-core has a plan at half of it (each was accepted by `verify`,
// which ends every compile), or its rule forbids one, and the refusal names the values that stay.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf, mib, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import type { StageError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import { inCoreLayout } from '../../staging/schedule/incore'
import { sharing } from '../../staging/schedule/sharing'
import { scheduleSwaps } from '../../staging/schedule/swaptimes'
import { planners, strategies } from '../../staging/planner/strategies'
import { machines } from '../../staging/sim/machines'
import { trainingGraph } from '../golden/golden'
import { gateTest } from '../full'

const machine = machines['v100-pcie-16g']!

const refused = (graph: Graph, strategy: string, budgetBytes: number): Extract<StageError, { tag: 'BudgetInfeasible' }> => {
  const plan = compile(graph, { strategy, machine, budgetBytes, algorithms: 'fixed' })
  if (isRight(plan) || plan.left.tag !== 'BudgetInfeasible') throw new Error(`${strategy} works in ${budgetBytes}`)
  return plan.left
}
const halfOf = (graph: Graph): number => bytesOf(pagesIn(refused(graph, 'in-core', PAGE_BYTES).smallestBytes / 2))

/** They move only inputs or results of convolutions. */
const CONVOLUTIONS_ONLY = ['swap:vdnn-conv', 'swap:superneurons', 'hybrid:superneurons']
/** They move nothing: tiles hold whole values between norms, and outputs of convolutions stay. */
const MOVES_NOTHING = ['sft', 'recompute:conv']
const others = strategies.filter((s) => s !== 'in-core')

gateTest(
  'resnet20-cifar, 34 MiB: each strategy that can move all activations has a plan; the others name the values that stay',
  () => {
    const graph = trainingGraph('resnet20-cifar', [16, 3, 32, 32])
    const half = halfOf(graph)
    for (const strategy of others)
      if ([...CONVOLUTIONS_ONLY, ...MOVES_NOTHING].includes(strategy)) {
        const { smallestBytes, inTheWay } = refused(graph, strategy, half)
        assert.ok(smallestBytes <= 2 * half + PAGE_BYTES && inTheWay.length > 0, strategy)
      } else assert.ok(isRight(compile(graph, { strategy, machine, budgetBytes: half, algorithms: 'fixed' })), strategy)
  },
)

test('resnet56-cifar, 48 MiB: those have one, too, where nothing has a page of its own', () => {
  const graph = trainingGraph('resnet56-cifar', [8, 3, 32, 32])
  const half = halfOf(graph)
  assert.ok(half <= mib(24))
  for (const strategy of [...CONVOLUTIONS_ONLY, 'swap:greedy', 'tiled']) {
    const plan = compile(graph, { strategy, machine, budgetBytes: half, algorithms: 'fixed' })
    assert.ok(isRight(plan) && bytesOf(plan.right.peakPages) <= half, strategy)
  }
})

test('candidates over shared pages work exactly from their own least on; there are none where values have pages of their own', () => {
  const small = trainingGraph('resnet20-cifar', [4, 3, 32, 32])
  const large = trainingGraph('resnet18', [8, 3, 224, 224])
  assert.ok(sharing(inCoreLayout(small, machine)))
  assert.is(sharing(inCoreLayout(large, machine)), null)
  for (const strategy of ['swap:vdnn++', 'swap:window', 'swap:dymem', 'hybrid:tflms', 'hybrid:superneurons', 'tiled']) {
    const listed = planners[strategy]!.small!(small, machine)
    if (isLeft(listed)) throw new Error(strategy)
    let count = 0
    for (let next = listed.right.next(false); !next.done; next = listed.right.next(false), count++) {
      const c = next.value
      const works = (pages: number): boolean => scheduleSwaps(c.fit(pages), c.layout.calls, pages, machine.link) !== null
      assert.ok(works(c.least) && works(c.least + 3) && !works(c.least - 1), strategy)
    }
    assert.ok(count > 0, strategy)
  }
})

test.run()
