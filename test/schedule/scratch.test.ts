// Algorithms in plans: the fastest where memory is plentiful, those with the least scratch where it is not.
import { chain, isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import { type Choice, fastest, type Machine, withScratch } from '../../staging/graph/machine'
import { machines } from '../../staging/sim/machines'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { elaborated } from '../dsl/forward'
import { classifier } from '../e2e/models'
import { type ElaboratedStep, training } from '../../staging/grad/grad'

const named = machines['v100-pcie-16g']!
/** Convolutions may run in half the time with 16 MiB more scratch. */
const machine: Machine = {
  ...named,
  choices: (kind, attrs, s): readonly Choice[] => {
    const direct: Choice = {
      way: 0,
      seconds: named.seconds(kind, attrs, s),
      workspace: named.workspace(kind, attrs, s),
    }
    return kind.startsWith('conv2d')
      ? [direct, { way: 1, seconds: direct.seconds / 2, workspace: direct.workspace + 16 * 1024 ** 2 }]
      : [direct]
  },
}

const trained = (s: ElaboratedStep) => training(s)
const graph = (() => {
  const step = elaborated(classifier, 'classifier', 'cross-entropy')
  const g = chain(trained)(step)
  if (isLeft(g)) throw new Error('no training graph')
  return g.right
})()

const planAt = (budgetBytes: number): Plan => {
  const p = compile(graph, { strategy: 'in-core', budgetBytes, machine })
  if (isLeft(p)) throw new Error(JSON.stringify(p.left))
  return p.right
}
const waysOf = (p: Plan): ReadonlySet<number> =>
  new Set(p.calls.filter((c) => c.kind.startsWith('conv2d')).map((c) => c.way ?? 0))

test('scratch that fits is used; where it does not, the plan is direct and smaller', () => {
  const roomy = planAt(2 ** 34)
  assert.equal([...waysOf(roomy)], [1])
  const tight = planAt(bytesOf(roomy.peakPages - 1))
  assert.equal([...waysOf(tight)], [0])
  assert.ok(tight.peakPages < roomy.peakPages)
  const refused = compile(graph, { strategy: 'in-core', budgetBytes: PAGE_BYTES, machine })
  assert.ok(isLeft(refused) && refused.left.tag === 'BudgetInfeasible' && refused.left.smallestBytes === bytesOf(tight.peakPages))
})

test('a limit on scratch leaves the least way of all', () => {
  const s = {
    ins: [
      [1, 64, 32, 32],
      [64, 64, 3, 3],
    ],
    outs: [[1, 64, 32, 32]],
  }
  const attrs = {
    strideH: 1,
    strideW: 1,
    padTop: 1,
    padLeft: 1,
    padBottom: 1,
    padRight: 1,
    dilationH: 1,
    dilationW: 1,
    groups: 1,
  }
  assert.is(fastest(machine, 'conv2d', attrs, s).way, 1)
  assert.is(fastest(withScratch(machine, 0), 'conv2d', attrs, s).way, 0)
  assert.is(fastest(withScratch(machine, 2 ** 30), 'conv2d', attrs, s).way, 1)
})

test('a plan file keeps the algorithms', () => {
  const plan = planAt(2 ** 34)
  const again = decodePlan(encodePlan(plan))
  assert.ok(isRight(again))
  if (isRight(again))
    assert.equal(
      again.right.calls.map((c) => c.way),
      plan.calls.map((c) => c.way),
    )
})

test.run()
