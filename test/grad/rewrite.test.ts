// Rewriting passes: the replacements of each, its untouched ops, and equal training of rewritten and plain networks.
import { type Either, isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Model } from '../../dsl'
import {
  batchNorm,
  conv2d,
  crossEntropy,
  globalAvgPool,
  identity,
  leakyRelu,
  linear,
  maxPool,
  model,
  mse,
  relu,
  repeat,
  residual,
  seq,
  sigmoid,
  skip,
} from '../../dsl'
import { type ElaboratedStep, type Loss, training } from '../../staging/grad/grad'
import { flatConcat, normOfConcat, statsOfConcat } from '../../staging/grad/rewrite/joinednorm'
import { poolThenRelu } from '../../staging/grad/rewrite/poolfirst'
import { addThenRelu, convThenRelu, normAddThenRelu, normThenRelu } from '../../staging/grad/rewrite/rectified'
import type { Rewrite } from '../../staging/grad/rewrite/rewrite'
import { withGatheredUpdates } from '../../staging/grad/rewrite/gathered'
import { withPoolPlaces } from '../../staging/grad/rewrite/poolplaces'
import { rewritten } from '../../staging/grad/rewrite/rewrites'
import { checkedGraph } from '../../staging/graph/codec'
import type { Graph } from '../../staging/graph/graph'
import { machineNamed } from '../../src/machine/machine'
import { stageGraph } from '../../src/stage/stage'
import { trainTask } from '../../src/train/trainer'
import { elaborated, outputOf } from '../dsl/forward'

const given = <A>(e: Either<unknown, A>): A => {
  if (isLeft(e)) throw new Error(JSON.stringify(e.left))
  return e.right
}
const forward = (m: Model, loss: Loss = mse): ElaboratedStep => given(elaborated(m, 'net', loss))
const kinds = (g: Graph): readonly string[] => g.ops.map((o) => o.kind)
const after = (m: Model, pass: Rewrite): readonly string[] => {
  const r = pass.apply(forward(m))
  assert.equal(checkedGraph(r.graph), right(r.graph))
  assert.ok(r.graph.ops.some((o) => o.outs.includes(outputOf(r))))
  return kinds(r.graph)
}
const names = (g: Graph): readonly string[] => g.values.map((v) => v.name)

const norms = model([1, 3, 8, 8], seq(conv2d('c', 4, 3), batchNorm('bn'), relu(), maxPool('pool', 2)))
const plain = model([1, 3, 8, 8], seq(conv2d('c', 4, 3), leakyRelu(0.1), maxPool('pool', 2)))
const join = model([1, 4, 8, 8], seq(residual(seq(conv2d('c', 4, 3)), identity), relu()))
const last = model([1, 3, 8, 8], seq(conv2d('c', 4, 3), batchNorm('bn')))

test('batch norm takes the rectifier behind it in', () => {
  assert.equal(after(norms, normThenRelu), ['conv2d', 'bn_stats', 'bn_relu_apply', 'max_pool'])
  const { graph } = forward(norms)
  const r = normThenRelu.apply(forward(norms)).graph
  assert.is(r.values.length, graph.values.length - 1)
  assert.is(r.ops[2]!.attrs['slope'], 0)
  assert.ok(names(r).includes('bn.weight') && names(r).includes('bn.running_mean'))
})

test('a sum takes the rectifier behind it in', () => {
  assert.equal(after(join, addThenRelu), ['conv2d', 'add_relu'])
})

const block = residual(seq(conv2d('c', 4, 3), batchNorm('bn')), seq(conv2d('p', 4, 1), batchNorm('bp')))

test('a sum with a norm that it alone reads, and its rectifier, become one, with a bit for each element', () => {
  const ends = (m: Model): Graph => {
    const r = normAddThenRelu.apply(addThenRelu.apply(forward(m)))
    assert.equal(checkedGraph(r.graph), right(r.graph))
    return r.graph
  }
  const g = ends(model([2, 4, 8, 8], seq(block, leakyRelu(0.1), globalAvgPool())))
  assert.equal(kinds(g), ['conv2d', 'bn_stats', 'conv2d', 'bn_stats', 'bn_apply', 'bn_add_relu_apply', 'global_avg_pool'])
  const [, , , , , fused] = g.ops
  assert.equal([fused!.layer, fused!.attrs['slope'], fused!.attrs['count']], ['bn', 0.1, 128])
  assert.equal(fused!.ins.map((v) => g.values[v]!.name).slice(2), ['bn.stats', 'bn.weight', 'bn.bias'])
  assert.equal(g.values[fused!.outs[1]!]!.shape, [2, 1, 8, 8])
  assert.equal(
    kinds(ends(model([2, 4, 8, 8], block))).slice(-1),
    ['add'],
    'without a rectifier there is nothing to keep signs for',
  )
  const read = model([2, 4, 8, 8], seq(conv2d('c', 4, 3), batchNorm('bn'), residual(identity, conv2d('p', 4, 1)), relu()))
  assert.equal(kinds(ends(read)).slice(-1), ['add_relu'], 'the convolution reads what the norm gives, too')
})

test('a convolution is fused with the rectifier behind it, whose gradient reads the output', () => {
  const net = model([1, 3, 8, 8], seq(conv2d('c', 4, 3), leakyRelu(0.1), conv2d('d', 4, 1)))
  assert.equal(after(net, convThenRelu), ['conv2d_relu', 'conv2d'])
  const r = convThenRelu.apply(forward(net))
  const trained = given(training(r))
  const gradient = trained.ops.find((o) => o.kind === 'relu_bwd')!
  assert.equal([gradient.ins[0], gradient.attrs['slope']], [r.graph.ops[0]!.outs[0], 0.1])
})

test('a pool moves before a rectifier, which then has the pooled shape', () => {
  assert.equal(after(plain, poolThenRelu), ['conv2d', 'max_pool', 'relu'])
  const r = poolThenRelu.apply(forward(plain))
  const [pool, rectifier] = r.graph.ops.slice(1)
  assert.equal(r.graph.values[pool!.outs[0]!]!.shape, [1, 4, 4, 4])
  assert.equal(rectifier!.ins, pool!.outs)
  assert.equal([rectifier!.outs[0], rectifier!.attrs['slope']], [outputOf(r), 0.1])
})

const grown = <N extends number, G extends number>(n: N, growth: G) =>
  skip(batchNorm(`n${n}`), relu(), conv2d(`g${n}` as const, growth, 3))
const dense = seq(conv2d('c', 4, 3), grown(1, 3), grown(2, 2), grown(3, 2), batchNorm('n4'))

test('a concatenation of concatenations takes their parts', () => {
  const step = forward(model([2, 3, 8, 8], seq(dense, relu())))
  const { graph } = step
  const before = graph.ops.filter((o) => o.kind === 'concat').map((o) => o.ins.length)
  const r = flatConcat.apply(step).graph
  assert.equal(
    [before, r.ops.filter((o) => o.kind === 'concat').map((o) => o.ins.length)],
    [
      [2, 2, 2],
      [2, 3, 4],
    ],
  )
  const read = model([2, 3, 8, 8], seq(conv2d('c', 4, 3), skip(conv2d('d', 2, 3)), skip(conv2d('e', 2, 3))))
  assert.equal(after(read, flatConcat), ['conv2d', 'conv2d', 'concat', 'conv2d', 'concat'], 'a convolution needs the inner one')
})

test('norms of a growing concatenation read its parts, whose statistics are computed once', () => {
  const net = model([2, 3, 8, 8], seq(dense, relu()))
  const passes = [normThenRelu, flatConcat, statsOfConcat, normOfConcat]
  const r = passes.reduce((x, pass) => pass.apply(x), forward(net))
  assert.equal(checkedGraph(r.graph), right(r.graph))
  assert.equal(kinds(r.graph), [
    'conv2d',
    'bn_stats',
    'bn_relu_apply',
    'conv2d',
    'bn_stats',
    'join_stats',
    'joined_norm',
    'conv2d',
    'bn_stats',
    'join_stats',
    'joined_norm',
    'conv2d',
    'bn_stats',
    'join_stats',
    'joined_norm',
  ])
  const norms = r.graph.ops.filter((o) => o.kind === 'joined_norm')
  assert.equal(
    norms.map((o) => [o.ins.length - 3, o.attrs['slope']]),
    [
      [2, 0],
      [3, 0],
      [4, 0],
    ],
  )
  const trained = given(training(r, { dtype: 'f64' }))
  const data = trained.ops.filter((o) => o.kind === 'joined_norm_bwd_data')
  assert.equal(
    data.map((o) => o.attrs['onto']),
    [0, 1, 1],
  )
  assert.not.ok(
    trained.ops.some((o) => o.kind === 'grad_sum' && trained.values[o.outs[0]!]!.shape[1]! > 4),
    'nothing wide is summed',
  )
  assert.equal(trained.ops.filter((o) => o.kind === 'bn_running').length, 4)
})

test('a pool keeps places where its gradient alone reads its input', () => {
  const places = (m: Model): readonly string[] => {
    const g = withPoolPlaces(given(training(rewritten(forward(m)))))
    assert.equal(checkedGraph(g), right(g))
    return kinds(g).filter((k) => k.startsWith('max_pool'))
  }
  assert.equal(places(plain), ['max_pool', 'max_pool_places', 'max_pool_places_bwd'])
  assert.equal(places(norms), ['max_pool', 'max_pool_places', 'max_pool_places_bwd'])
  const squashed = model([1, 3, 8, 8], seq(conv2d('c', 4, 3), sigmoid(), maxPool('pool', 2)))
  assert.equal(places(squashed), ['max_pool', 'max_pool_bwd'], 'the gradient of the sigmoid reads its output anyway')
  const wide = model([1, 3, 34, 34], seq(conv2d('c', 4, 3), maxPool('pool', 17)))
  assert.equal(places(wide), ['max_pool', 'max_pool_bwd'], 'a byte does not count 289 places')
})

test('values with another reader, and the output, remain', () => {
  assert.equal(after(last, normThenRelu), ['conv2d', 'bn_stats', 'bn_apply'])
  const twice = model([1, 4, 8, 8], seq(batchNorm('bn'), residual(seq(relu(), conv2d('c', 4, 3)), identity)))
  assert.equal(after(twice, normThenRelu), ['bn_stats', 'bn_apply', 'relu', 'conv2d', 'add'])
  const step = forward(last)
  assert.is(rewritten(step).graph, step.graph)
})

test('updates of small parameters wait for one another, those of large ones do not', () => {
  const net = model([1, 3, 8, 8], seq(conv2d('a', 4, 3), batchNorm('bn'), relu(), conv2d('b', 300, 8), conv2d('d', 2, 1)))
  const before = given(training(forward(net)))
  const gathered = withGatheredUpdates(before)
  assert.equal(checkedGraph(gathered), right(gathered))
  const updated = (g: Graph): readonly string[] => g.ops.filter((o) => o.kind === 'sgd').map((o) => g.values[o.ins[0]!]!.name)
  const isLarge = (name: string): boolean => name === 'b.weight'
  assert.equal(updated(gathered), [...updated(before).filter(isLarge), ...updated(before).filter((n) => !isLarge(n))])
  assert.ok(gathered.ops.slice(-updated(gathered).length + 1).every((o) => o.kind === 'sgd'))
  const others = (g: Graph): readonly string[] => kinds(g).filter((k) => k !== 'sgd')
  assert.equal(others(gathered), others(before))
})

test('at most 64 updates wait', () => {
  const net = model([1, 1, 4, 4], repeat(40, conv2d('c', 1, 1)))
  const gathered = withGatheredUpdates(given(training(forward(net))))
  const runs = kinds(gathered)
    .map((k) => (k === 'sgd' ? 's' : ' '))
    .join('')
    .split(/ +/)
    .filter(Boolean)
    .map((run) => run.length)
  assert.equal(runs, [64, 16])
})

const trainsAlike = async (net: Model): Promise<void> => {
  const step = forward(net, crossEntropy)
  const machine = given(machineNamed('ref'))
  const lossesOf = async (s: ElaboratedStep, places = false): Promise<readonly number[]> => {
    const g = given(training(s, { dtype: 'f64' }))
    const staged = given(stageGraph(places ? withPoolPlaces(g) : g, machine, { strategy: 'in-core' }))
    return given(await trainTask(undefined, staged, { steps: 4, seed: 3 })()).losses
  }
  const before = await lossesOf(step)
  const now = await lossesOf(rewritten(step), true)
  before.forEach((loss, i) => assert.ok(Math.abs(loss - now[i]!) < 1e-10, `step ${i + 1}: ${loss} and ${now[i]}`))
}

test('a rewritten network trains as the plain one, to rounding', () =>
  trainsAlike(
    model(
      [2, 3, 12, 12],
      seq(
        conv2d('c1', 6, 3),
        batchNorm('bn1'),
        leakyRelu(0.1),
        maxPool('p1', 2),
        residual(seq(conv2d('c2', 6, 3), batchNorm('bn2'), relu()), identity),
        relu(),
        conv2d('c3', 5, 3),
        relu(),
        maxPool('p2', 2),
        globalAvgPool('gap'),
        linear('fc', 4),
      ),
    ),
  ))

test('a rewritten dense block trains as the plain one, to rounding', () =>
  trainsAlike(model([2, 3, 12, 12], seq(dense, leakyRelu(0.1), globalAvgPool('gap'), linear('fc', 4)))))

test.run()
