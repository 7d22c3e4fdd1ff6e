// FT-compatible dimensions of each operator, and the maximal runs that can be tiled together.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Graph } from '../../staging/graph/graph'
import { maximalRuns, tileableDims } from '../../staging/tile/ft'
import { Sketch } from '../graph/sketch'
import { opNamed, trained } from './trained'

const dims = (g: Graph, op: string): string => [...tileableDims(g, opNamed(g, op))].join('')
const runs = (g: Graph): string[] =>
  maximalRuns(g).map(
    (r) => `${r.ops.map((o) => (o.layer === o.kind ? o.kind : `${o.layer}:${o.kind}`)).join(' ')} [${[...r.dims].join('')}]`,
  )

const classifier = (): Graph => {
  const s = new Sketch([2, 3, 8, 8])
  const x = s.maxPool(s.relu(s.conv(s.image, 'c', 4), 'r'), 'mp', 2)
  const y = s.op('dropout', { p: 0.5, key: 1 }, [s.norm(x, 'n')], 'drop')
  return trained(s, s.linear(s.op('flatten', {}, [s.globalPool(y, 'gap')], 'flat'), 'fc', 5), 'cross-entropy')
}

test('dimensions of each operator', () => {
  const g = classifier()
  for (const op of [
    'c:conv2d',
    'r:relu',
    'mp:max_pool',
    'n:bn_stats',
    'n:bn_apply',
    'drop:dropout',
    'c:conv2d_bwd_weights',
    'n:bn_bwd_data',
    'mp:max_pool_bwd',
  ])
    assert.is(dims(g, op), 'BHW', op)
  assert.is(dims(g, 'gap:global_avg_pool'), 'BHW', 'a sum over tiles')
  assert.is(dims(g, 'gap:global_avg_pool_bwd'), 'BHW', 'a broadcast')
  for (const op of ['flat:flatten', 'fc:linear', 'fc:linear_bwd_data', 'loss:softmax_xent'])
    assert.is(dims(g, op), 'B', `${op} of [2,C,1,1]`)
  for (const op of ['c:sgd', 'n:bn_running']) assert.is(dims(g, op), '', op)
})

test('an image is not cut where it is one row, nor before an op that needs all of it', () => {
  const s = new Sketch([1, 2, 1, 9])
  const g = trained(s, s.linear(s.op('flatten', {}, [s.conv(s.image, 'c', 2, 1)], 'flat'), 'fc', 3), 'cross-entropy')
  assert.is(dims(g, 'c:conv2d'), 'W')
  assert.is(dims(g, 'flat:flatten'), '')
})

test('a loss per pixel is tiled with the network', () => {
  const s = new Sketch([1, 2, 6, 6])
  const g = trained(s, s.conv(s.image, 'c', 3), 'cross-entropy')
  assert.is(dims(g, 'loss:softmax_xent'), 'HW')
  assert.equal(runs(g), ['c:conv2d loss:softmax_xent [HW]'])
})

test('runs end where a sum is read and where the image ends', () => {
  assert.equal(runs(classifier()), [
    'c:conv2d r:relu mp:max_pool n:bn_stats [BHW]',
    'n:bn_apply drop:dropout gap:global_avg_pool [BHW]',
    'flat:flatten fc:linear loss:softmax_xent [B]',
  ])
})

test('a run has the dimensions that all of its ops have', () => {
  const s = new Sketch([1, 2, 9, 4])
  // The last convolution leaves one row.
  const g = trained(s, s.conv(s.conv(s.image, 'a', 2), 'b', 2, 9, { padLeft: 4, padRight: 4 }))
  assert.equal(runs(g), ['a:conv2d b:conv2d loss:mse [W]'])
})

test('without norms a whole trunk is one run', () => {
  const s = new Sketch([2, 2, 16, 16])
  const x = s.conv(s.image, 'a', 2)
  const g = trained(s, s.op('concat', {}, [s.frozen(s.op('add', {}, [s.conv(x, 'b', 2), x], 'sum'), 'f'), x], 'cat'))
  assert.equal(runs(g), ['a:conv2d b:conv2d sum:add f:bn_frozen cat:concat loss:mse [BHW]'])
})

test.run()
