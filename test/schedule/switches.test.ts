// timeout 600
// each of staging/schedule
// Every heuristic has an off switch that works: each leaves a planner with plans, and changes something somewhere.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { graphOf, machine } from '../../bench/lab/steps'
import { type Method, SWITCHES } from '../../bench/lab/switches'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { inCoreLayout } from '../../staging/schedule/incore'
import { strategies } from '../../staging/planner/strategies'
import { leastPages } from '../../staging/schedule/stays'
import { simulate } from '../../staging/sim/simulate'
import { FULL, GATE, gateTest } from '../full'

const on = machine('v100-pcie-16g')

/** Shares of the in-core memory. */
const SHARES = FULL ? [0, 0.4, 0.6, 0.8] : [0, 0.6]
/** Effort of `auto`. */
const EFFORT = GATE ? 5 : 0.3

/** A method's results for a network at several budgets: its least memory, then seconds. */
const outcome = (graph: NonNullable<ReturnType<typeof graphOf>>, strategy: string, method: Method): string => {
  const l = inCoreLayout(graph, on)
  const most = leastPages(l.planned, l.calls.length)
  return SHARES.map((share) => {
    const plan = compile(graph, {
      strategy,
      method,
      machine: on,
      budgetBytes: bytesOf(Math.max(1, Math.floor(share * most))),
      effort: EFFORT,
    })
    if (!isLeft(plan)) return simulate(plan.right, on.link).makespanSeconds.toPrecision(6)
    return plan.left.tag === 'BudgetInfeasible' ? `from ${plan.left.smallestBytes}` : `refused: ${plan.left.tag}`
  }).join(' ')
}

const graphs = (
  GATE
    ? ([
        ['resnet20-cifar', 64, 32],
        ['vgg11-features', 4, 224],
      ] as const)
    : ([['resnet20-cifar', 64, 32]] as const)
).map(([name, batch, size]) => graphOf(name, on, batch, size)!)

test('every strategy but in-core has switches', () => {
  assert.equal(Object.keys(SWITCHES).sort(), strategies.filter((s) => s !== 'in-core').sort())
})

/** Switches without effect on these small networks: few on both, which the gate has. */
const idle: string[] = []

/** Strategies whose plans take longest: in the gate. */
const LONG = ['auto', 'sft']

for (const [strategy, [whole, ...off]] of Object.entries(SWITCHES))
  (LONG.includes(strategy) ? gateTest : test)(`${strategy}: ${off.length} switches`, () => {
    const before = graphs.map((g) => outcome(g, strategy, whole!.method))
    for (const { words, method } of off) {
      const after = graphs.map((g) => outcome(g, strategy, method))
      assert.not(
        after.some((o) => o.includes('refused')),
        `${words}: ${after.join('; ')}`,
      )
      if (after.join() === before.join()) idle.push(`${strategy} ${words}`)
    }
  })

gateTest('most switches change something, even here', () => {
  const all = Object.values(SWITCHES).reduce((n, s) => n + s.length - 1, 0)
  assert.ok(idle.length <= all / 3, `of ${all}: ${idle.join(', ')}`)
})

test.run()
