// A graph whose batch ranks share: sums of all ranks before anyone reads them, and refusals of what takes a share for the whole.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, elaborate, globalAvgPool, linear, model, asStep, relu, seq, sgd } from '../../dsl'
import { trainingGraph } from '../../staging/compile'
import { renderError } from '../../staging/core/errors'
import { devices } from '../../staging/devices'
import { checkedGraph } from '../../staging/graph/codec'
import type { Graph } from '../../staging/graph/graph'
import { asOne, ranksFault, sharesOf } from '../../staging/graph/ranks'
import { soundGraph } from '../../staging/verify/soundgraph'

const net = seq(conv2d('c', 4, 3, { pad: 1 }), batchNorm('n'), relu(), globalAvgPool('pool'), linear('head', 3))
const graphOf = (ranks: number): E.Either<string, Graph> => {
  const step = asStep(model([6, 3, 8, 8], net), crossEntropy, sgd({ lr: 0.1 }))
  assert.ok(E.isRight(step))
  const elaborated = elaborate(step.right, 'net')
  assert.ok(E.isRight(elaborated))
  return E.mapLeft(renderError)(trainingGraph(elaborated.right, { device: devices.ref, precision: 'fp32', ranks }))
}
const made = (ranks: number): Graph => {
  const g = graphOf(ranks)
  assert.ok(E.isRight(g), E.isLeft(g) ? g.left : '')
  return g.right
}

test('every sum over images is made whole right behind what makes it', () => {
  const g = made(3)
  for (const op of g.ops) {
    const next = g.ops.slice(op.id + 1).filter((o) => o.ins.some((v) => op.outs.includes(v)))
    if (op.kind === 'bn_stats')
      assert.equal([next.length, next[0]!.kind, next[0]!.attrs], [1, 'all_moments', { ranks: 3, count: 128 }])
    if (op.kind.endsWith('_bwd_weights'))
      assert.equal(
        next.map((o) => o.kind),
        ['all_sum', 'all_sum'].slice(0, op.outs.length),
      )
  }
  const loss = g.values.find((v) => v.role === 'loss')!
  assert.is(g.ops.find((op) => op.outs.includes(loss.id))!.kind, 'all_sum')
})

test('shapes are of a share, what has images alone is shared, and attributes are of the whole batch', () => {
  const g = made(3)
  const shares = sharesOf(g)
  for (const v of g.values) if (shares.has(v.id)) assert.is(v.shape[0], 2, v.name)
  assert.equal(g.values.find((v) => v.name === 'c.weight')!.shape, [4, 3, 3, 3])
  assert.is(g.ops.find((op) => op.kind.endsWith('_apply'))!.attrs['count'], 6 * 64)
})

test('the graph of one process is found again', () => {
  assert.equal(asOne(made(2)), made(1))
  assert.equal(asOne(made(1)), made(1))
})

test('a batch that cannot be shared is refused', () => {
  assert.equal(graphOf(4), E.left("'input': its batch of 6 cannot be shared by 4 ranks; legal is a multiple of 4"))
})

test('both checks of graphs take it, and refuse a share that is read as if it were whole', () => {
  const g = made(2)
  assert.ok(E.isRight(checkedGraph(g)))
  assert.is(soundGraph(g), undefined)
  const total = g.ops.find((op) => op.kind === 'all_sum' && op.phase === 'backward')!
  const reads = (v: number): number => (v === total.outs[0] ? total.ins[0]! : v)
  const cheating: Graph = { ...g, ops: g.ops.map((op) => (op === total ? op : { ...op, ins: op.ins.map(reads) })) }
  assert.match(ranksFault(cheating)!, /reads a share, '.*', as if it were whole/)
  assert.ok(E.isLeft(checkedGraph(cheating)))
  assert.ok(soundGraph(cheating))
  const others: Graph = { ...g, ops: g.ops.map((op) => (op === total ? { ...op, attrs: { ranks: 3 } } : op)) }
  assert.match(ranksFault(others)!, /is of 3 ranks; legal is 2/)
  assert.match(
    ranksFault({ ...g, ops: g.ops.map((op) => (op === total ? { ...op, ins: total.outs } : op)) })!,
    /no rank has a share/,
  )
})

test.run()
