// A graph whose batch ranks share: sums of all ranks before their first reader, and refusals of shares read as wholes.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, elaborate, globalAvgPool, linear, model, asStep, relu, seq, sgd } from '../../dsl'
import { trainingGraph } from '../../staging/compile'
import { renderError } from '../../staging/core/errors'
import { devices } from '../../staging/devices'
import { checkedGraph } from '../../staging/graph/codec'
import type { Graph } from '../../staging/graph/graph'
import { asOne, ownOfRank, ranksFault, sharesOf } from '../../staging/graph/ranks'
import { soundGraph } from '../../staging/verify/soundgraph'

const net = seq(conv2d('c', 4, 3, { pad: 1 }), batchNorm('n'), relu(), globalAvgPool('pool'), linear('head', 3))
const graphOf = (ranks: number, norms?: 'local'): E.Either<string, Graph> => {
  const step = asStep(model([6, 3, 8, 8], net), crossEntropy, sgd({ lr: 0.1 }))
  assert.ok(E.isRight(step))
  const elaborated = elaborate(step.right, 'net')
  assert.ok(E.isRight(elaborated))
  return E.mapLeft(renderError)(
    trainingGraph(elaborated.right, { device: devices.ref, precision: 'fp32', ranks, ...(norms ? { norms } : {}) }),
  )
}
const made = (ranks: number, norms?: 'local'): Graph => {
  const g = graphOf(ranks, norms)
  assert.ok(E.isRight(g), E.isLeft(g) ? g.left : '')
  return g.right
}

test('each sum over images is completed directly behind its op', () => {
  const g = made(3)
  for (const op of g.ops) {
    const next = g.ops.slice(op.id + 1).filter((o) => o.ins.some((v) => op.outs.includes(v)))
    if (op.kind === 'bn_stats')
      assert.equal([next.length, next[0]!.kind, next[0]!.attrs], [1, 'all_moments', { ranks: 3, count: 128 }])
    if (op.kind.endsWith('_bwd_weights')) assert.ok(next.length > 0 && next.every((o) => o.kind === 'all_sums'))
  }
  const loss = g.values.find((v) => v.role === 'loss')!
  assert.is(g.ops.find((op) => op.outs.includes(loss.id))!.kind, 'all_sum')
})

test('small gradients of the backward pass are exchanged together, and their updates follow', () => {
  const g = made(2)
  const buckets = g.ops.filter((op) => op.attrs['beside'] === 1)
  const gradients = g.ops.filter((op) => op.kind.endsWith('_bwd_weights')).flatMap((op) => op.outs)
  assert.equal(
    buckets.flatMap((b) => b.ins),
    gradients,
  )
  assert.ok(buckets.some((b) => b.ins.length > 1))
  for (const bucket of buckets)
    for (const v of bucket.outs) {
      const readers = g.ops.filter((op) => op.ins.includes(v))
      assert.ok(readers.length === 1 && readers[0]!.phase === 'update' && readers[0]!.id > bucket.id)
    }
  const reduced = g.ops.find((op) => op.kind.endsWith('_bwd_reduce'))!
  const next = g.ops[reduced.id + 1]!
  assert.equal([next.kind, next.attrs['beside'], next.ins], ['all_sums', 0, reduced.outs])
})

/** Every gradient is larger than a bucket, so that each goes by itself and updates come while others are under way. */
test('updates wait until later gradients are under way', () => {
  const wide = <N extends string>(name: N) => conv2d(name, 400, 3, { pad: 1, bias: false })
  const all = seq(wide('a'), wide('b'), wide('c'), wide('d'), wide('e'), wide('f'), globalAvgPool('pool'))
  const step = asStep(model([2, 3, 8, 8], all), crossEntropy, sgd({ lr: 0.1, momentum: 0.9 }))
  assert.ok(E.isRight(step))
  const elaborated = elaborate(step.right, 'wide')
  assert.ok(E.isRight(elaborated))
  const g = trainingGraph(elaborated.right, { device: devices.ref, precision: 'fp32', ranks: 2 })
  const one = trainingGraph(elaborated.right, { device: devices.ref, precision: 'fp32' })
  assert.ok(E.isRight(g) && E.isRight(one))
  const kinds = g.right.ops.filter((op) => op.attrs['beside'] === 1 || op.phase === 'update').map((op) => op.kind)
  assert.equal(kinds, [
    'all_sums',
    'all_sums',
    'all_sums',
    'sgd',
    'all_sums',
    'sgd',
    'all_sums',
    'sgd',
    'all_sums',
    'sgd',
    'sgd',
    'sgd',
  ])
  assert.equal(asOne(g.right), one.right)
  assert.ok(E.isRight(checkedGraph(g.right)))
  assert.match(ranksFault({ ...g.right, alone: g.right.alone!.slice(1) })!, /the order for one process has \d+ of \d+ operators/)
})

test('with local norms statistics are of a share, updates read sums of all, and the graph of one process is found again', () => {
  const g = made(3, 'local')
  assert.not(g.ops.some((op) => op.kind === 'all_moments'))
  assert.is(g.ops.find((op) => op.kind.endsWith('_apply'))!.attrs['count'], 2 * 64)
  const reduced = g.ops.find((op) => op.kind.endsWith('_bwd_reduce'))!
  const readers = g.ops.filter((op) => op.ins.includes(reduced.outs[0]!)).map((op) => op.kind)
  assert.equal(readers.sort(), ['all_sums', 'bn_relu_bwd_data'])
  assert.equal(asOne(g), made(1))
  assert.ok(E.isRight(checkedGraph(g)))
  assert.is(soundGraph(g), undefined)
  assert.equal(
    [...ownOfRank(g)].filter((n) => !n.endsWith('stats')),
    ['n.running_mean', 'n.running_var'],
  )
  const { norms: _, ...whole } = g
  assert.match(ranksFault(whole)!, /reads the share/)
})

test('shapes are those of a share, values of images are divided, and attributes are those of the whole batch', () => {
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
  assert.equal(graphOf(4), E.left("'input': its batch of 6 cannot be split between 4 ranks; allowed: a multiple of 4"))
})

test('both checks of graphs take it, and refuse a share that is read as if it were whole', () => {
  const g = made(2)
  assert.ok(E.isRight(checkedGraph(g)))
  assert.is(soundGraph(g), undefined)
  const total = g.ops.find((op) => op.kind === 'all_sums' && op.attrs['beside'] === 1)!
  const reads = (v: number): number => (v === total.outs[0] ? total.ins[0]! : v)
  const cheating: Graph = { ...g, ops: g.ops.map((op) => (op === total ? op : { ...op, ins: op.ins.map(reads) })) }
  assert.match(ranksFault(cheating)!, /reads the share '.*' as the whole value/)
  assert.ok(E.isLeft(checkedGraph(cheating)))
  assert.ok(soundGraph(cheating))
  const others: Graph = { ...g, ops: g.ops.map((op) => (op === total ? { ...op, attrs: { ranks: 3, beside: 1 } } : op)) }
  assert.match(ranksFault(others)!, /is for 3 ranks; allowed: 2/)
  assert.match(
    ranksFault({ ...g, ops: g.ops.map((op) => (op === total ? { ...op, ins: total.outs } : op)) })!,
    /no rank has a share/,
  )
})

test.run()
