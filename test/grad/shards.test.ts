// A graph whose updates ranks divide: parts, and whole values; the graph of one process found again; refusals of parts read as wholes.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adam, asStep, batchNorm, conv2d, crossEntropy, elaborate, globalAvgPool, linear, model, relu, seq } from '../../dsl'
import { trainingGraph } from '../../staging/compile'
import { devices } from '../../staging/devices'
import { checkedGraph, decodeGraph } from '../../staging/graph/codec'
import type { Graph, Op } from '../../staging/graph/graph'
import { asOne, ownOfRank, ranksFault } from '../../staging/graph/ranks'
import type { Updates } from '../../staging/ops/updates'
import { soundGraph } from '../../staging/verify/soundgraph'

const net = seq(conv2d('a', 17, 3), batchNorm('n'), relu(), conv2d('b', 31, 3), globalAvgPool('pool'), linear('head', 3))
const made = (ranks: number, shard?: 'optimizer' | 'gradients', updates: Updates = {}): Graph => {
  const step = asStep(model([6, 3, 8, 8], net), crossEntropy, adam({ lr: 0.1 }), updates)
  assert.ok(E.isRight(step))
  const elaborated = elaborate(step.right, 'net')
  assert.ok(E.isRight(elaborated))
  const g = trainingGraph(elaborated.right, { device: devices.ref, precision: 'fp32', ranks, ...(shard ? { shard } : {}) })
  assert.ok(E.isRight(g))
  return g.right
}
const kinds = (g: Graph): readonly string[] => g.ops.map((op) => op.kind)
const parts = (g: Graph): readonly string[] => g.values.filter((v) => v.part).map((v) => v.name)

test('of a large parameter each rank has a part of the state, updates its part and puts it back', () => {
  const g = made(2, 'gradients')
  assert.equal([...parts(g)].sort(), ['b.weight.exp_avg', 'b.weight.exp_avg_sq', 'b.weight.grad', 'b.weight.part'])
  for (const v of g.values) if (v.part) assert.equal([v.shape, v.part], [[Math.ceil((31 * 17 * 9) / 2)], [31, 17, 3, 3]])
  const at = kinds(g).indexOf('take_part')
  assert.equal(kinds(g).slice(at, at + 3), ['take_part', 'adam', 'put_part'])
  assert.ok(ownOfRank(g).has('b.weight.exp_avg'))
  assert.not(ownOfRank(g).has('b.weight'))
})

test('with the state alone shared out gradients are whole, and parts are taken of them', () => {
  const g = made(2, 'optimizer')
  assert.not(kinds(g).includes('sum_parts'))
  assert.is(kinds(g).filter((k) => k === 'take_part').length, 2)
})

test('sums over steps are parts, too; values that are clipped by norm are whole until then', () => {
  const over = made(2, 'gradients', { accumulate: 2, clipValue: 1 })
  assert.ok(parts(over).includes('b.weight.grad'))
  assert.is(over.values.filter((v) => v.role === 'state' && v.part).length, 3)
  const clipped = made(2, 'gradients', { accumulate: 2, clipNorm: 1 })
  assert.not(kinds(clipped).includes('sum_parts'))
  assert.is(clipped.values.filter((v) => v.role === 'state' && v.part).length, 2)
})

test('the graph of one process is found again, and both checks take it, from a file, too', () => {
  for (const shard of ['optimizer', 'gradients'] as const)
    for (const updates of [{}, { accumulate: 2, clipValue: 1, average: 0.9 }, { accumulate: 2, clipNorm: 1 }]) {
      const g = made(3, shard, updates)
      assert.equal(asOne(g), made(1, undefined, updates))
      assert.is(soundGraph(g), undefined)
      assert.ok(E.isRight(checkedGraph(g)))
      assert.equal(decodeGraph(JSON.parse(JSON.stringify(g))), E.right(g))
    }
})

test('an op that reads a part as a whole value is refused', () => {
  const g = made(2, 'gradients')
  const change = (kind: string, to: (op: Op) => Partial<Op>): Graph => ({
    ...g,
    ops: g.ops.map((op) => (op.kind === kind ? { ...op, ...to(op) } : op)),
  })
  const named = (name: string): number => g.values.find((v) => v.name === name)!.id
  const wrong: readonly (readonly [Graph, RegExp])[] = [
    [change('take_part', () => ({ attrs: { ranks: 3 } })), /take_part of 'b' is for 3 ranks; allowed: 2/],
    [change('take_part', () => ({ ins: [named('b.weight.exp_avg')] })), /does not split a whole value/],
    [
      change('put_part', (op) => ({ ins: [named('a.weight'), op.ins[1]!] })),
      /writes 'b.weight.part' into 'a.weight', but it is not an updated part of it/,
    ],
    [
      { ...g, values: g.values.map((v) => (v.name === 'b.weight.part' ? { ...v, shape: [7] } : v)) },
      /has 7 elements; allowed: 2372/,
    ],
    [{ ...g, values: g.values.map(({ part: _, ...v }) => v) }, /does not split a whole value/],
    [{ ...g, ops: g.ops.filter((op) => op.kind !== 'put_part') }, /the part 'b.weight.part' is not written back/],
    [
      { ...g, values: g.values.map((v) => (v.name === 'b.weight' ? { ...v, shape: [2372], part: v.shape } : v)) },
      /of role param is a part/,
    ],
    [
      {
        ...g,
        ops: g.ops.map((op) =>
          op.kind === 'adam' && op.layer === 'b' ? { ...op, ins: [named('b.weight'), ...op.ins.slice(1)] } : op,
        ),
      },
      /as the whole value/,
    ],
  ]
  for (const [bad, words] of wrong) {
    assert.match(ranksFault(bad)!, words)
    assert.ok(soundGraph(bad))
  }
})

test.run()
