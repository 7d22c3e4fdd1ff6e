// Every named GPU plans in every precision that it has: such plans are verified, bf16 needs less memory, and no step is longer than in fp32.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { PRECISIONS } from '../../src/machine/localmachine'
import { compile } from '../../staging/compile'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import { mib } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import { simulated } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const planned = (graph: Graph, machine: Machine, strategy: string, budgetBytes: number): Plan => {
  const plan = compile(graph, { strategy, machine, budgetBytes, algorithms: 'fixed' })
  if (isLeft(plan)) throw new Error(`${machine.name} ${machine.precision} ${strategy}: ${JSON.stringify(plan.left)}`)
  return plan.right
}

const graphs = new Map<string, Graph>()
const graphIn = (on: Machine): Graph => {
  const known = graphs.get(on.precision) ?? trainingGraph('darknet19-features', [64, 3, 64, 64], on)
  graphs.set(on.precision, known)
  return known
}

test('every named GPU plans in each precision that it has', () => {
  for (const [name, at] of Object.entries(simulated)) {
    const own = PRECISIONS.flatMap((p) => at[p] ?? [])
    const plans = own.map((machine) => planned(graphIn(machine), machine, 'in-core', machine.memoryBytes))
    const seconds = plans.map((plan, i) => simulate(plan, own[i]!.link).makespanSeconds)
    // On this small network, the launches of the loss scale take longer than tensor cores save in fp16.
    for (const [i, s] of seconds.entries())
      assert.ok(s <= (own[i]!.precision === 'fp16' ? 1.1 : 1) * seconds[0]!, `${name}: ${seconds}`)
    // fp16 keeps all gradients of parameters until the last one; this network has few activations beside them.
    for (const [i, { precision }] of own.entries())
      if (precision === 'bf16') assert.ok(plans[i]!.peakPages < plans[0]!.peakPages, `${name}: ${plans.map((p) => p.peakPages)}`)
  }
})

test('a plan beyond memory in bf16 keeps its budget on each GPU that has it', () => {
  for (const { bf16 } of Object.values(simulated)) {
    if (!bf16) continue
    const plan = planned(graphIn(bf16), bf16, 'swap:greedy', mib(224))
    assert.ok(2 * plan.peakPages <= 224, `${bf16.name}: ${plan.peakPages}`)
  }
})

test.run()
