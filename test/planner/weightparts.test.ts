// Weights in parts where whole weights fit, too: the faster plan wins, so more memory is not slower.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import { machines } from '../../staging/sim/machines'
import { outcomeOf } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'
import { gateTest } from '../full'

const machine = machines['v100-pcie-16g']!
const alexnet = trainingGraph('alexnet', [256, 3, 224, 224])

const planned = (budgetBytes: number, effort: number): Plan => {
  const plan = compile({ ...alexnet }, { strategy: 'auto', machine, budgetBytes, effort })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  return plan.right
}
const seconds = (plan: Plan): number => outcomeOf(plan, machine.link).makespanSeconds

gateTest('a step just above the smallest budget of whole weights is as fast as one below it', () => {
  const [less, more] = [planned(mib(150), 0.1), planned(mib(200), 0.1)]
  assert.ok(less.graph.inParts)
  assert.ok(seconds(more) <= 1.01 * seconds(less), `${seconds(more)} s, ${seconds(less)} s in less memory`)
})

test('without a search, weights are whole if they fit', () => {
  assert.is(planned(mib(200), 0).graph.inParts, undefined)
})

test.run()
