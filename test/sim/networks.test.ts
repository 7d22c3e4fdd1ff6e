// The seconds of exchanges on named networks, and plans for them.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy } from '../../dsl'
import { compile } from '../../staging/compile'
import type { Plan } from '../../staging/plan/plan'
import { exchangeSeconds, type NetworkName, networks, sentBytes } from '../../staging/sim/networks'
import type { Timeline } from '../../staging/sim/timeline'
import { simulate } from '../../staging/sim/simulate'
import { errorText } from '../../src/errors/errors'
import { machineNamed } from '../../src/machine/machine'
import { exchangesOf } from '../../src/report/facts'
import { prepare } from '../../src/stage/prepare'
import { zooEntry } from '../../src/zoo'

const near = (seconds: number, due: number): void => assert.ok(Math.abs(seconds - due) < 1e-9, `${seconds} for ${due}`)

test('a sum is sent twice but for its own part, statistics and few elements to all others', () => {
  assert.is(sentBytes('all_sum', 8, 1e6, 4e6), 7e6)
  assert.is(sentBytes('all_sums', 8, 4096, 16384), 7 * 16384)
  assert.is(sentBytes('all_sums', 8, 4097, 16388), (7 / 4) * 16388)
  assert.is(sentBytes('all_moments', 8, 1e6, 4e6), 28e6)
  assert.is(sentBytes('conv2d', 8, 250, 1000), 0)
  const ethernet = { bytesPerSecond: 2.8e9, latencySeconds: 2e-5 }
  near(exchangeSeconds(ethernet, 'all_sum', 8, 1e6, 4e6), 2.62e-3)
  near(exchangeSeconds(ethernet, 'all_sum', 8, 100, 400), 6e-5 + 1e-6)
})

test('messages that are sent directly to all others overlap', () => {
  const direct = { bytesPerSecond: 1e11, latencySeconds: 5e-6, messageSeconds: 1e-6 }
  near(exchangeSeconds(direct, 'all_moments', 2, 1, 0), 5e-6)
  near(exchangeSeconds(direct, 'all_moments', 8, 1, 0), 11e-6)
  near(exchangeSeconds(direct, 'all_sum', 8, 1e6, 4e6), 2 * 11e-6 + 7e-5)
})

interface Planned {
  readonly plan: Plan
  readonly timeline: Timeline
  readonly seconds: number
}

const planFor = (ranks: number, network?: NetworkName): Planned => {
  const on = machineNamed('v100-nvlink-16g', { ranks, network })
  assert.ok(E.isRight(on))
  const model = zooEntry('resnet20-cifar')!.build([256 * ranks, 3, 32, 32], 'train', {})
  assert.ok(E.isRight(model))
  const prepared = prepare(model.right, on.right, { loss: crossEntropy })
  assert.ok(E.isRight(prepared))
  const plan = compile(prepared.right.graph, { strategy: 'in-core', machine: on.right, budgetBytes: on.right.memoryBytes })
  assert.ok(E.isRight(plan))
  const timeline = simulate(plan.right, on.right.link)
  return { plan: plan.right, timeline, seconds: timeline.makespanSeconds }
}

const computing = ({ plan }: Planned): number => plan.calls.reduce((n, c) => n + (c.kind.startsWith('all_') ? 0 : c.seconds), 0)

test('an exchange in order precedes exchanges beside compute', () => {
  const { plan, timeline } = planFor(4, 'ethernet-25g')
  const all = timeline.spans.filter((s) => s.stream === 'ranks')
  assert.is(all.length, plan.calls.filter((c) => c.beside).length)
  const beside = all.filter((s) => plan.calls[s.call!]!.attrs['beside'] === 1)
  beside.forEach((s, i) => assert.ok(s.start >= (beside[i - 1]?.end ?? 0), 'one after the other'))
  const stretched = beside.filter((s) => s.end - s.start > plan.calls[s.call!]!.beside!.seconds + 1e-9)
  assert.ok(stretched.length > 0)
})

test('a plan over a network takes the time of its exchanges there, and the same memory', () => {
  const [bare, over] = [planFor(4), planFor(4, 'infiniband-100g')]
  const { calls, graph } = over.plan
  const expected = calls.reduce((n, c) => {
    if (!c.kind.startsWith('all_')) return n
    const elements = c.ins.reduce((sum, v) => sum + graph.values[v.value]!.shape.reduce((a, d) => a * d, 1), 0)
    return n + exchangeSeconds(networks['infiniband-100g'], c.kind, 4, elements, 4 * elements)
  }, 0)
  assert.ok(expected > 0)
  assert.is(over.plan.peakPages, bare.plan.peakPages)
  const [slow, quick] = [over, bare].map(({ plan, timeline }) => exchangesOf(plan, timeline)!)
  assert.ok(Math.abs(slow!.commSeconds - quick!.commSeconds - expected) < 1e-9)
  assert.is(slow!.ranks, 4)
  assert.is(slow!.exchanges, graph.ops.filter((op) => op.kind.startsWith('all_')).length)
  const alone = planFor(1)
  assert.is(exchangesOf(alone.plan, alone.timeline), undefined)
  // The hidden part is the difference to the step.
  const waited = slow!.commSeconds * (1 - slow!.commHiddenShare)
  assert.ok(slow!.commHiddenShare > 0 && slow!.commHiddenShare < 1)
  assert.ok(Math.abs(over.seconds - computing(over) - over.timeline.stallSeconds.data - waited) < 1e-9)
})

test('a network is between several', () => {
  const one = machineNamed('v100-nvlink-16g', { network: 'pcie-3' })
  assert.ok(E.isLeft(one))
  assert.match(errorText(one.left), "network 'pcie-3' needs several ranks")
  const norms = machineNamed('v100-nvlink-16g', { norms: 'local' })
  assert.ok(E.isLeft(norms))
  assert.match(errorText(norms.left), "norms 'local' needs several ranks")
})

test.run()
