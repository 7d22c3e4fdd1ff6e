// timeout 600
// The bound as a linear programme: what it says of a small network; solved, no plan is below it.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { leastSeconds } from '../../src/stage/least'
import { compile } from '../../staging/compile'
import { bytesOf, mib } from '../../staging/core/bytes'
import type { Graph } from '../../staging/graph/graph'
import { computeSeconds, mostPages } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { programmeOf } from '../../staging/schedule/programme'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'
import { Sketch } from '../graph/sketch'
import { trained, valueNamed } from '../tile/trained'

const machine = machines['v100-pcie-16g']!

const oneNorm = (): Graph => {
  const s = new Sketch([4, 2, 16, 16])
  return trained(s, s.relu(s.norm(s.conv(s.image, 'c1', 4, 3, undefined, false), 'n1'), 'r1'))
}

test('the last norm parts the step: what is made before it is there, away or made again', () => {
  const g = oneNorm()
  const programme = programmeOf(g, machine, mib(1))!
  const [conv, norm] = [valueNamed(g, 'c1'), valueNamed(g, 'n1')]
  assert.match(programme, new RegExp(`\\+ 1 k${conv}\\s+\\+ 1 m${conv}\\s+\\+ 1 a0 >= 1`))
  assert.not.match(programme, `k${norm} `)
})

test('without norms of the batch nothing parts the step', () => {
  const s = new Sketch([4, 2, 16, 16])
  assert.is(programmeOf(trained(s, s.relu(s.conv(s.image, 'c1', 4), 'r1')), machine, mib(1)), null)
})

test('no plan is below it, and it grows as the budget shrinks', async () => {
  const least = await leastSeconds()
  assert.ok(least)
  for (const [name, batch, side] of [
    ['resnet20-cifar', 512, 32],
    ...(process.env['SPILLWAY_FULL'] ? ([['densenet121', 8, 128]] as const) : []),
  ] as const) {
    const graph = trainingGraph(name, [batch, 3, side, side])
    const layout = inCoreLayout(graph, machine)
    let before = computeSeconds(layout) * (1 - 1e-6)
    for (const share of [2, 1 / 2, 1 / 4, 1 / 8]) {
      const budgetBytes = bytesOf(Math.floor(mostPages(layout) * share))
      const bound = least(graph, machine, budgetBytes)!
      assert.ok(bound >= before * (1 - 1e-9), `${bound} after ${before}`)
      before = bound
      const plan = compile(graph, { strategy: 'auto', machine, budgetBytes })
      if (!isLeft(plan)) assert.ok(simulate(plan.right, machine.link).makespanSeconds >= bound * (1 - 1e-6))
    }
  }
})

test.run()
