// Exchanges of norms begun early: the ops beside them, the unmoved ones, and budgets without memory for that.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, globalAvgPool, linear, model, relu, residual, seq } from '../../dsl'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import type { Op } from '../../staging/graph/graph'
import { mayStartEarly } from '../../staging/graph/ranks'
import type { Call, Plan } from '../../staging/plan/plan'
import { withEarlyExchanges } from '../../staging/schedule/early'
import { inCoreRows } from '../../staging/schedule/incore'
import { simulate } from '../../staging/sim/simulate'
import { runsOf } from '../../staging/tile/segments'
import { resident } from '../../staging/schedule/candidate'
import { machineNamed } from '../../src/machine/machine'
import { prepare } from '../../src/stage/prepare'

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { pad: 1, bias: false }), batchNorm(`${name}.bn`))
const net = model(
  [64, 3, 64, 64],
  seq(
    unit('stem', 16),
    relu(),
    residual(seq(unit('a', 32), relu(), unit('b', 32)), unit('shortcut', 32)),
    relu(),
    globalAvgPool('pool'),
    linear('head', 3),
  ),
)
const found = machineNamed('v100-nvlink-16g', { ranks: 4, network: 'nvlink-v100' })
assert.ok(E.isRight(found))
const on = found.right
const prepared = prepare(net, on, { loss: crossEntropy })
assert.ok(E.isRight(prepared))
const { graph } = prepared.right
const planned = (budgetBytes: number, strategy = 'in-core'): Plan => {
  const plan = compile(graph, { strategy, machine: on, budgetBytes })
  assert.ok(E.isRight(plan), E.isLeft(plan) ? JSON.stringify(plan.left) : '')
  return plan.right
}
const early = (plan: Plan): readonly Call[] => plan.calls.filter((c) => c.beside && mayStartEarly(c))
const layerOf = (c: Call): string => graph.ops[c.op]!.layer

/** The ops that run while the exchange of a layer's norm is in flight, forward or backward. */
const besideOf = (plan: Plan, kind: string, layer: string): readonly string[] => {
  const at = plan.calls.findIndex((c) => c.kind === kind && layerOf(c) === layer && c.attrs['beside'] !== 1)
  return plan.calls.slice(at + 1, plan.calls[at]!.beside?.until ?? at + 1).map((c) => `${c.kind} ${layerOf(c)}`)
}

test("a norm's backward pass overlaps with the weight gradient of the layer behind it, running statistics with the next norm", () => {
  const plan = planned(2 ** 34)
  assert.equal(besideOf(plan, 'all_sums', 'stem.bn'), ['conv2d_bwd_weights a.conv', 'all_sums a.conv'])
  assert.equal(besideOf(plan, 'all_sums', 'shortcut.bn'), ['conv2d_bwd_weights b.conv'])
  assert.equal(besideOf(plan, 'all_moments', 'a.bn'), ['conv2d shortcut.conv'])
  assert.equal(besideOf(plan, 'all_moments', 'stem.bn'), [])
  const running = plan.calls.flatMap((c, i) => (c.kind === 'bn_running' ? [i] : []))
  assert.ok(running[0]! < plan.calls.findIndex((c) => c.kind === 'bn_apply' || c.kind === 'bn_add_relu_apply'))
  assert.ok(early(plan).length >= 6, `${early(plan).map(layerOf)}`)
})

test('each op runs once, and the step takes at most the time of the serial order', () => {
  const inTurn = inCoreRows(graph, on)
  const ordered = withEarlyExchanges(graph, runsOf(graph, inTurn.segments), () => 1)!
  const ops = (runs: readonly { readonly ops: readonly number[] }[]): readonly number[] =>
    runs.flatMap((r) => r.ops).sort((a, b) => a - b)
  assert.equal(ops(ordered), ops(runsOf(graph, inTurn.segments)))
  const plan = planned(2 ** 34)
  const before = simulate({ ...plan, ...inTurn, residencies: [] }, on.link).makespanSeconds
  assert.ok(simulate(plan, on.link).makespanSeconds < before)
})

test('if no value may live longer, ops run in serial order, in the same memory', () => {
  const least = resident(inCoreRows(graph, on)).least
  const tight = planned(bytesOf(least))
  assert.ok(tight.peakPages <= least)
  const alone = machineNamed('v100-nvlink-16g')
  assert.ok(E.isRight(alone))
  const one = prepare(net, alone.right, { loss: crossEntropy })
  assert.ok(E.isRight(one))
  assert.is(
    withEarlyExchanges(one.right.graph, runsOf(one.right.graph, inCoreRows(one.right.graph, alone.right).segments), () => 1),
    undefined,
  )
})

/** An exchange without independent ops is unmoved. */
test('a chain of one norm has no op for its statistics to overlap with', () => {
  const chain = model([64, 3, 32, 32], seq(unit('a', 8), relu(), globalAvgPool('pool'), linear('head', 3)))
  const small = prepare(chain, on, { loss: crossEntropy })
  assert.ok(E.isRight(small))
  const g = small.right.graph
  const runs = runsOf(g, inCoreRows(g, on).segments)
  const [forward] = withEarlyExchanges(g, runs, (op: Op) => (op.kind === 'bn_running' ? 0 : 1))!
  const kinds = forward!.ops.map((id) => g.ops[id]!.kind)
  assert.is(kinds[kinds.indexOf('all_moments') + 1]!.startsWith('bn_'), true)
})

test.run()
