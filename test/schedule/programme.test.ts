// timeout 600
// The bound as a linear programme: what it says of a small network; solved, no plan is below it.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, globalAvgPool, linear, model, relu, residual, seq } from '../../dsl'
import { machineNamed } from '../../src/machine/machine'
import { leastSeconds } from '../../src/stage/least'
import { prepare } from '../../src/stage/prepare'
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

const unit = <N extends string>(name: N) => seq(conv2d(`${name}.conv`, 64, 3, { pad: 1, bias: false }), batchNorm(`${name}.bn`))
const block = <N extends string>(name: N) =>
  seq(residual(seq(unit(`${name}.a`), relu(), unit(`${name}.b`)), unit(`${name}.shortcut`)), relu())

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

test('what ranks exchange may go beside all else: no plan of theirs is below it', async () => {
  const least = await leastSeconds()
  assert.ok(least)
  const net = model(
    [64, 3, 64, 64],
    seq(unit('stem'), relu(), block('r1'), block('r2'), globalAvgPool('pool'), linear('head', 3)),
  )
  for (const network of ['nvlink-v100', 'ethernet-25g'] as const) {
    const on = machineNamed('v100-pcie-16g', { ranks: 4, network })
    assert.ok(isRight(on))
    const prepared = prepare(net, on.right, { loss: crossEntropy })
    assert.ok(isRight(prepared))
    const { graph } = prepared.right
    const plan = compile(graph, { strategy: 'auto', machine: on.right, budgetBytes: mib(4096) })
    assert.ok(isRight(plan) && plan.right.calls.some((c) => c.beside))
    const bound = least(graph, on.right, mib(4096))!
    const { makespanSeconds } = simulate(plan.right, on.right.link)
    assert.ok(bound <= makespanSeconds && bound > 0.9 * makespanSeconds, `${bound} for ${makespanSeconds} over ${network}`)
  }
})

test.run()
