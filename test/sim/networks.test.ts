// What exchanges take on named networks, and plans for them.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy } from '../../dsl'
import { compile } from '../../staging/compile'
import type { Plan } from '../../staging/plan/plan'
import { exchangeSeconds, type NetworkName, networks, sentBytes } from '../../staging/sim/networks'
import { simulate } from '../../staging/sim/simulate'
import { errorText } from '../../src/errors/errors'
import { machineNamed } from '../../src/machine/machine'
import { exchangesOf } from '../../src/report/facts'
import { prepare } from '../../src/stage/prepare'
import { zooEntry } from '../../src/zoo'

test('a sum is sent twice but for its own part, statistics to all others', () => {
  assert.is(sentBytes('all_sum', 8, 4e6), 7e6)
  assert.is(sentBytes('all_moments', 8, 1000), 7000)
  assert.is(sentBytes('conv2d', 8, 1000), 0)
  const seconds = exchangeSeconds({ bytesPerSecond: 2.8e9, latencySeconds: 2e-5 }, 'all_sum', 8, 4e6)
  assert.ok(Math.abs(seconds - 2.62e-3) < 1e-9, `${seconds}`)
})

const planFor = (ranks: number, network?: NetworkName): { readonly plan: Plan; readonly seconds: number } => {
  const on = machineNamed('v100-nvlink-16g', { ranks, network })
  assert.ok(E.isRight(on))
  const model = zooEntry('resnet20-cifar')!.build([8 * ranks, 3, 32, 32], 'train', {})
  assert.ok(E.isRight(model))
  const prepared = prepare(model.right, on.right, { loss: crossEntropy })
  assert.ok(E.isRight(prepared))
  const plan = compile(prepared.right.graph, { strategy: 'in-core', machine: on.right, budgetBytes: on.right.memoryBytes })
  assert.ok(E.isRight(plan))
  return { plan: plan.right, seconds: simulate(plan.right, on.right.link).makespanSeconds }
}

test('a plan over a network takes what its exchanges take on it, and the same memory', () => {
  const [bare, over] = [planFor(4), planFor(4, 'ethernet-25g')]
  const { calls, graph } = over.plan
  const expected = calls.reduce((n, c) => {
    const bytes = graph.values[c.ins[0]?.value ?? 0]!.shape.reduce((a, d) => a * d, 4)
    return n + exchangeSeconds(networks['ethernet-25g'], c.kind, 4, bytes)
  }, 0)
  assert.ok(expected > 0)
  assert.ok(Math.abs(over.seconds - bare.seconds - expected) < 1e-6, `${over.seconds} ${bare.seconds} ${expected}`)
  assert.is(over.plan.peakPages, bare.plan.peakPages)
  const { ranks, commSeconds, exchanges } = exchangesOf(over.plan)!
  assert.is(ranks, 4)
  assert.is(exchanges, graph.ops.filter((op) => op.kind.startsWith('all_')).length)
  assert.ok(commSeconds > expected)
  assert.is(exchangesOf(planFor(1).plan), undefined)
})

test('a network is between several', () => {
  const one = machineNamed('v100-nvlink-16g', { network: 'pcie-3' })
  assert.ok(E.isLeft(one))
  assert.match(errorText(one.left), "network 'pcie-3': a network is between several processes")
})

test.run()
