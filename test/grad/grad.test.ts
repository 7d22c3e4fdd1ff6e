// The gradient pass: the appended backward ops, their order, and the places of updates.
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { renderError } from '../../staging/core/errors'
import { type Optimizer, training } from '../../staging/grad/grad'
import type { Graph, Op } from '../../staging/graph/graph'
import { checkedGraph } from '../../staging/graph/codec'
import { lossNames } from '../../staging/ops/losses'
import { opDef } from '../../staging/ops/registry'
import type { Ref } from '../../staging/ops/op'
import { convAttrs, minimising, must, mustFail, type OneObjective, samePad, Sketch, trainingFrom } from '../graph/sketch'

const sgd = (over: Partial<Extract<Optimizer, { kind: 'sgd' }>> = {}): Optimizer => ({
  kind: 'sgd',
  lr: 0.1,
  momentum: 0.9,
  weightDecay: 0,
  nesterov: false,
  ...over,
})
const options = (over: Partial<OneObjective> = {}): OneObjective => ({ loss: 'mse', optimizer: sgd(), ...over })

const trained = (s: Sketch, output: Ref, over: Partial<OneObjective> = {}): Graph => {
  const g = must(trainingFrom(s.b.build(), output, options(over)))
  assert.equal(checkedGraph(g), right(g))
  return g
}
/** 'conv1:conv2d_bwd_weights' in order. */
const tail = (g: Graph): string[] => g.ops.filter((o) => o.phase !== 'forward').map((o) => `${o.layer}:${o.kind}`)
const named = (g: Graph, name: string) => g.values.find((v) => v.name === name)!
const opNames = (g: Graph, ids: readonly number[]): string[] => ids.map((v) => g.values[v]!.name)

test('a chain: reverse order, no gradient of the image, updates as early as legal', () => {
  const s = new Sketch([1, 3, 8, 8])
  const g = trained(s, s.relu(s.conv(s.relu(s.conv(s.image, 'conv1', 4, 3, {}, false), 'relu1'), 'conv2', 4), 'relu2'))
  assert.equal(tail(g), [
    'loss:mse',
    'loss:mse_bwd',
    'relu2:relu_bwd',
    // The bias is not read again; the weight is, by the data gradient.
    'conv2:conv2d_bwd_weights',
    'conv2:sgd',
    'conv2:conv2d_bwd_data',
    'conv2:sgd',
    'relu1:relu_bwd',
    'conv1:conv2d_bwd_weights',
    'conv1:sgd',
  ])
  const updates = g.ops.filter((o) => o.kind === 'sgd')
  assert.equal(
    updates.map((o) => opNames(g, o.ins)),
    [
      ['conv2.bias', 'conv2.bias.grad', 'conv2.bias.momentum'],
      ['conv2.weight', 'conv2.weight.grad', 'conv2.weight.momentum'],
      ['conv1.weight', 'conv1.weight.grad', 'conv1.weight.momentum'],
    ],
  )
  assert.equal(updates[0]!.attrs, { lr: 0.1, momentum: 0.9, weightDecay: 0, nesterov: 0 })
  assert.equal(named(g, 'conv2.weight.momentum').init, { dist: 'constant', a: 0 })
})

test('gradients have role, name, shape and the value that they belong to', () => {
  const s = new Sketch([2, 3, 8, 9])
  const g = trained(s, s.conv(s.relu(s.conv(s.image, 'conv1', 4), 'relu1'), 'conv2', 5))
  for (const [grad, of] of [
    ['conv1.grad', 'conv1'],
    ['relu1.grad', 'relu1'],
    ['conv1.bias.grad', 'conv1.bias'],
    ['conv2.weight.grad', 'conv2.weight'],
  ]) {
    const v = named(g, grad!)
    assert.is(v.role, 'gradient')
    assert.is(v.gradOf, named(g, of!).id)
    assert.equal(v.shape, named(g, of!).shape)
  }
  assert.is(named(g, 'image.grad'), undefined)
  assert.is(named(g, 'loss').role, 'loss')
  assert.equal(named(g, 'target').shape, [2, 5, 8, 9])
})

test('a residual join passes dy on; the fork sums once', () => {
  const s = new Sketch([1, 4, 8, 8])
  const x = s.relu(s.conv(s.image, 'stem', 4), 'relu')
  const g = trained(s, s.op('add', {}, [x, s.conv(x, 'body', 4)], 'join'))
  const sum = g.ops.filter((o) => o.kind === 'grad_sum')
  assert.is(sum.length, 1)
  assert.equal(opNames(g, sum[0]!.ins), ['join.grad', 'relu.grad.1'])
  assert.equal(opNames(g, sum[0]!.outs), ['relu.grad'])
  assert.is(g.ops.filter((o) => o.layer === 'join').length, 1, 'the join itself has no backward op')
  const body = g.ops.find((o) => o.kind === 'conv2d_bwd_data')!
  assert.equal(opNames(g, body.ins), ['join.grad', 'body.weight'])
})

test('a value with four readers has one sum of four; the order of the parts is that of the backward pass', () => {
  const s = new Sketch([1, 4, 8, 8])
  const x = s.conv(s.image, 'stem', 4)
  const g = trained(
    s,
    s.op(
      'add',
      {},
      ['a', 'b', 'c', 'd'].map((n) => s.conv(x, n, 4)),
      'join',
    ),
  )
  const sums = g.ops.filter((o) => o.kind === 'grad_sum')
  assert.equal(
    sums.map((o) => opNames(g, o.ins)),
    [['stem.grad.0', 'stem.grad.1', 'stem.grad.2', 'stem.grad.3']],
  )
  const producers = sums[0]!.ins.map((v) => g.ops.find((o) => o.outs.includes(v))!.layer)
  assert.equal(producers, ['d', 'c', 'b', 'a'])
})

test('add of a value to itself counts it twice', () => {
  const s = new Sketch([1, 4, 8, 8])
  const x = s.conv(s.image, 'stem', 4)
  const g = trained(s, s.op('add', {}, [x, x], 'double'))
  assert.equal(opNames(g, g.ops.find((o) => o.kind === 'grad_sum')!.ins), ['double.grad', 'double.grad'])
})

test('the gradient of concat gives each input its channels', () => {
  const s = new Sketch([1, 4, 8, 8])
  const parts = [s.conv(s.image, 'a', 3), s.conv(s.image, 'b', 5), s.image]
  const g = trained(s, s.op('concat', {}, parts, 'cat'))
  const slices = g.ops.filter((o) => o.kind === 'slice_channels')
  assert.equal(
    slices.map((o) => [o.attrs.from, g.values[o.outs[0]!]!.name]),
    [
      [0, 'a.grad'],
      [3, 'b.grad'],
    ],
  )
  assert.equal(
    slices.map((o) => g.values[o.outs[0]!]!.shape),
    [
      [1, 3, 8, 8],
      [1, 5, 8, 8],
    ],
  )
})

test('batch norm reads its statistics, has one update, and its running statistics are last', () => {
  const s = new Sketch([2, 3, 8, 8])
  const g = trained(s, s.relu(s.norm(s.conv(s.image, 'conv', 4), 'bn'), 'relu'), { normMomentum: 0.03 })
  assert.equal(tail(g).slice(2), [
    'relu:relu_bwd',
    'bn:bn_bwd_reduce',
    'bn:bn_bwd_data',
    'bn:sgd',
    'bn:sgd',
    'bn:bn_running',
    'conv:conv2d_bwd_weights',
    'conv:sgd',
    'conv:sgd',
  ])
  const data = g.ops.find((o) => o.kind === 'bn_bwd_data')!
  assert.equal(opNames(g, data.ins), ['conv', 'bn.grad', 'bn.stats', 'bn.weight', 'bn.weight.grad', 'bn.bias.grad'])
  const running = g.ops.find((o) => o.kind === 'bn_running')!
  assert.equal(running.attrs, { momentum: 0.03, count: 128 })
  assert.equal(opNames(g, running.ins), ['bn.stats', 'bn.running_mean', 'bn.running_var'])
  assert.is(named(g, 'bn.stats').role, 'stat')
})

test('a norm after the image has no image gradient but trains its scale', () => {
  const s = new Sketch([2, 3, 8, 8])
  const g = trained(s, s.norm(s.image, 'bn'))
  assert.equal(tail(g), ['loss:mse', 'loss:mse_bwd', 'bn:bn_bwd_reduce', 'bn:sgd', 'bn:sgd', 'bn:bn_running'])
})

test('a frozen norm trains scale and shift and leaves running statistics alone', () => {
  const s = new Sketch([2, 3, 8, 8])
  const g = trained(s, s.frozen(s.conv(s.image, 'conv', 4), 'bn'))
  assert.equal(tail(g).slice(2, 6), ['bn:bn_frozen_bwd_reduce', 'bn:sgd', 'bn:bn_frozen_bwd_data', 'bn:sgd'])
  assert.not(g.ops.some((o) => o.kind === 'bn_running'))
})

test('a norm without running states keeps none', () => {
  const s = new Sketch([2, 3, 8, 8])
  const stats = s.op('bn_stats', {}, [s.image], 'bn')
  const out = s.op(
    'bn_apply',
    { eps: 1e-5, count: 128 },
    [s.image, stats, s.weight('bn.weight', [3]), s.weight('bn.bias', [3])],
    'bn',
  )
  assert.not(trained(s, out).ops.some((o) => o.kind === 'bn_running'))
})

test('cross-entropy takes whole-number labels, one for each pixel', () => {
  const s = new Sketch([2, 3, 8, 8])
  const g = trained(s, s.conv(s.image, 'conv', 10), { loss: 'cross-entropy' })
  assert.equal(named(g, 'target').shape, [2, 1, 8, 8])
  assert.is(named(g, 'target').dtype, 'i32')
  assert.equal(g.ops.find((o) => o.phase === 'loss')!.attrs, { count: 128, weight: 1 })
})

test('optimizers keep the states that they need', () => {
  const states = (optimizer: Optimizer): string[] => {
    const s = new Sketch([1, 3, 8, 8])
    return trained(s, s.conv(s.image, 'conv', 4, 3, {}, false), { optimizer })
      .values.filter((v) => v.role === 'state')
      .map((v) => v.name)
  }
  const adam = { lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0.01 }
  assert.equal(states(sgd({ momentum: 0 })), [])
  assert.equal(states(sgd()), ['conv.weight.momentum'])
  assert.equal(states({ kind: 'adam', ...adam }), ['conv.weight.exp_avg', 'conv.weight.exp_avg_sq'])
  const s = new Sketch([1, 3, 8, 8])
  const g = trained(s, s.conv(s.image, 'conv', 4), { optimizer: { kind: 'adamw', ...adam } })
  assert.equal(g.ops.at(-1)!.attrs, { ...adam, decoupled: 1 })
})

test("the float type is the machine's", () => {
  const s = new Sketch([1, 3, 8, 8])
  const g = trained(s, s.conv(s.image, 'conv', 4), { dtype: 'f64', loss: 'cross-entropy' })
  assert.equal(
    g.values.filter((v) => v.dtype !== 'f64').map((v) => v.name),
    ['target'],
  )
})

/** Every rule that holds for any network, on one that has every operator. */
const everything = (): Graph => {
  const s = new Sketch([2, 3, 17, 13])
  const a = s.relu(s.norm(s.conv(s.image, 'conv1', 4), 'bn1'), 'relu1')
  const pooled = s.maxPool(a, 'pool1', 3, { strideH: 2, strideW: 2, padTop: 1, padLeft: 1, ceil: 1 })
  const left = s.frozen(s.conv(pooled, 'conv2', 4), 'bn2')
  const cat = s.op(
    'concat',
    {},
    [s.op('add', {}, [left, pooled], 'add'), s.op('dropout', { p: 0.5, key: 1 }, [pooled], 'drop')],
    'cat',
  )
  const wide = s.op('flatten', {}, [s.avgPool(cat, 'pool2', 2)], 'flatten')
  const mixed = s.op('concat', {}, [s.linear(wide, 'fc1', 6), s.globalPool(cat, 'gap')], 'cat2')
  return trained(s, s.linear(mixed, 'fc2', 10), { loss: 'cross-entropy' })
}

test('each parameter is updated exactly once, after its last reader, and each gradient feeds something', () => {
  const g = everything()
  for (const p of g.values.filter((v) => v.role === 'param')) {
    const touching = g.ops.filter((o) => o.ins.includes(p.id))
    assert.equal(touching.filter((o) => o.phase === 'update').length, 1, p.name)
    assert.is(touching.at(-1)!.phase, 'update', p.name)
  }
  for (const v of g.values.filter((x) => x.role === 'gradient'))
    assert.ok(
      g.ops.some((o) => o.ins.includes(v.id)),
      `${v.name} is read`,
    )
})

test('backward ops read only inputs, outputs and gradients of their forward op', () => {
  const g = everything()
  for (const op of g.ops.filter((o) => o.phase === 'backward' && o.kind !== 'grad_sum')) {
    const own = g.ops.filter((o) => (o.phase === 'forward' || o.phase === 'loss') && o.layer === op.layer)
    const known = new Set(own.flatMap((o) => [...o.ins, ...o.outs]))
    // A join passes its own gradient to its inputs.
    const joins = g.ops.filter((o) => o.kind === 'add' && o.ins.some((v) => known.has(v))).flatMap((o) => o.outs)
    for (const v of op.ins) {
      const { name, gradOf } = g.values[v]!
      assert.ok(
        known.has(v) || (gradOf !== undefined && (known.has(gradOf) || joins.includes(gradOf))),
        `${op.kind} reads ${name}`,
      )
    }
  }
})

test('every operator with a backward rule, and every op that the rules emit, is in the big network', () => {
  const seen = new Set(everything().ops.map((o: Op) => o.kind))
  for (const kind of [...seen]) assert.ok(opDef(kind))
  for (const kind of [
    'conv2d_bwd_data',
    'conv2d_bwd_weights',
    'linear_bwd_data',
    'linear_bwd_weights',
    'bn_bwd_reduce',
    'bn_bwd_data',
    'bn_frozen_bwd_data',
    'bn_frozen_bwd_reduce',
    'bn_running',
    'relu_bwd',
    'max_pool_bwd',
    'avg_pool_bwd',
    'global_avg_pool_bwd',
    'grad_sum',
    'slice_channels',
    'flatten_bwd',
    'dropout_bwd',
    'softmax_xent_bwd',
  ])
    assert.ok(seen.has(kind), kind)
})

test('labels that are ignored are counted before all else, for the loss and its gradient', () => {
  const s = new Sketch([1, 3, 8, 8])
  const g = trained(s, s.conv(s.image, 'conv', 4), { loss: { kind: 'cross-entropy', ignoreIndex: -100 } })
  const [count, loss, back] = ['count_labels', 'softmax_xent_counted', 'softmax_xent_counted_bwd'].map(
    (kind) => g.ops.find((o) => o.kind === kind)!,
  )
  assert.is(g.ops[0], count)
  assert.equal(opNames(g, count!.ins), ['target'])
  assert.equal([loss!.ins[2], back!.ins[2]], [count!.outs[0], count!.outs[0]])
  assert.equal([count!.attrs, loss!.attrs], [{ ignoreIndex: -100 }, { ignoreIndex: -100, weight: 1 }])
})

const refusal = (s: Sketch, output: number, over: Partial<OneObjective> = {}): string =>
  renderError(mustFail(trainingFrom(s.b.build(), output, options(over))))

test('a graph that cannot be trained is refused with the reason', () => {
  const s = new Sketch([1, 3, 8, 8])
  const y = s.conv(s.image, 'conv', 4)
  assert.is(refusal(s, 99), 'value 99 cannot have a loss; allowed: a value that the forward graph computes')
  assert.is(
    refusal(s, s.image),
    "'image', a value of role input, cannot have a loss; allowed: a value that the forward graph computes",
  )
  assert.is(refusal(s, y, { loss: 'l3' as 'mse' }), `there is no loss 'l3'; allowed: ${lossNames.join(', ')}`)
  assert.is(
    refusal(s, y, { loss: { kind: 'cross-entropy', ignoreIndex: 2 ** 31 } }),
    "layer 'loss' (count_labels): ignoreIndex is 2147483648; allowed: -2147483648 to 2147483647",
  )
  assert.match(refusal(s, y, { loss: { kind: 'cross-entropy', ignoreIndex: 1.5 } }), /ignoreIndex/)
  assert.is(refusal(s, y, { optimizer: sgd({ lr: -1 }) }), 'optimizer: lr is -1; allowed: 0 or more')
  assert.is(
    refusal(s, y, { optimizer: sgd({ momentum: 0, nesterov: true }) }),
    'optimizer: momentum with nesterov is 0; allowed: more than 0',
  )
  assert.is(
    refusal(s, y, { optimizer: { kind: 'adam', lr: 1, beta1: 1, beta2: 0.9, eps: 1, weightDecay: 0 } }),
    'optimizer: beta1 is 1; allowed: 0 or more and below 1',
  )
  assert.is(
    refusal(s, y, { optimizer: { kind: 'sgd', lr: 1 } as Optimizer }),
    'optimizer: momentum is undefined; allowed: 0 or more',
  )
  const bare = new Sketch([1, 3, 8, 8])
  const out = bare.relu(bare.image, 'relu')
  assert.is(refusal(bare, out), "the output of layer 'relu' depends on no trained parameter; unfreeze at least one before it")
  const taken = new Sketch([1, 3, 8, 8])
  taken.b.param('target', [1], { dist: 'constant', a: 0 })
  assert.is(refusal(taken, taken.conv(taken.image, 'conv', 4)), "two values are named 'target'; give each target its own name")
  const step = must(minimising(s.b.build(), y, 'mse', sgd()))
  assert.match(
    renderError(mustFail(training({ ...step, graph: must(training(step)) }))),
    /^a graph with 'mse' of phase loss cannot have a loss/,
  )
})

test('a parameter that two layers read gets the sum of their gradients, and one update after both', () => {
  const s = new Sketch([1, 4, 8, 8])
  const w = s.weight('shared.weight', [4, 4, 3, 3])
  const first = s.op('conv2d', convAttrs(samePad(3)), [s.image, w], 'first')
  const second = s.op('conv2d', convAttrs(samePad(3)), [first, w], 'second')
  const g = must(trainingFrom(s.b.build(), second, options()))
  const sum = g.ops.find((o) => o.kind === 'param_grad_sum')!
  assert.equal(
    sum.ins.map((v) => g.values[v]!.name),
    ['shared.weight.grad.0', 'shared.weight.grad.1'],
  )
  assert.is(g.values[sum.outs[0]!]!.name, 'shared.weight.grad')
  const update = g.ops.filter((o) => o.phase === 'update')
  assert.equal(
    update.map((o) => o.ins.slice(0, 2)),
    [[w, sum.outs[0]]],
  )
  assert.is(g.ops.indexOf(update[0]!), g.ops.length - 1)
})

test('an operator without a backward rule is refused where a gradient must pass it', () => {
  const s = new Sketch([1, 4, 8, 8])
  const x = s.conv(s.image, 'conv', 4)
  const odd = s.op('relu_bwd', { slope: 0 }, [x, x], 'odd')
  assert.match(refusal(s, odd), /^layer 'odd' \(relu_bwd\) has no backward rule, .* allowed: conv2d, linear, /)
  const beside = new Sketch([1, 4, 8, 8])
  const constant = beside.op('relu_bwd', { slope: 0 }, [beside.image, beside.image], 'odd')
  assert.equal(tail(trained(beside, beside.conv(constant, 'conv', 4))).slice(2), [
    'conv:conv2d_bwd_weights',
    'conv:sgd',
    'conv:sgd',
  ])
})

test('the forward ops stay as they were', () => {
  const s = new Sketch([1, 3, 8, 8])
  const y = s.relu(s.conv(s.image, 'conv', 4), 'relu')
  const forward = s.b.build()
  const g = must(trainingFrom(forward, y, options()))
  assert.equal(g.ops.slice(0, forward.ops.length), forward.ops)
  assert.equal(g.values.slice(0, forward.values.length), forward.values)
  assert.not(isLeft(trainingFrom(forward, y, options())), 'the forward graph is not changed by training it')
})

test('a network deeper than the stack of calls has gradients', () => {
  const s = new Sketch([1, 3, 8, 8])
  const depth = 20_000
  let x = s.conv(s.image, 'conv', 4)
  for (let i = 0; i < depth; i++) x = s.relu(x, `relu${i}`)
  const g = must(trainingFrom(s.b.build(), x, options()))
  assert.is(g.ops.filter((o) => o.kind === 'relu_bwd').length, depth)
})

test.run()
