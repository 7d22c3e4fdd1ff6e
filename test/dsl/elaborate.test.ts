// each of staging/ops dsl/layers
// Elaboration: golden dumps of small graphs, order, names, initial weights; FT dimensions against the op table.
import { chain, type Either, isLeft } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  adaptiveAvgPool,
  atInputSize,
  attention,
  avgPool,
  batchNorm,
  block,
  blocks,
  concat,
  conv2d,
  convTranspose2d,
  counted,
  dropout,
  flatten,
  globalAvgPool,
  groupNorm,
  identity,
  instanceNorm,
  leakyRelu,
  linear,
  maxPool,
  modelAt,
  type Net,
  pixelLinear,
  relu,
  sigmoid,
  tanh,
  softmax,
  localResponseNorm,
  reflectionPad2d,
  upsample,
  value,
  values,
  repeat,
  residual,
  seq,
  skip,
} from '../../dsl'
import { DIMS, type Dim } from '../../staging/core/box'
import { type GraphError, renderError } from '../../staging/core/errors'
import type { Graph, Op } from '../../staging/graph/graph'
import { inputDef, sigmaDelta } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { graphText } from '../../staging/graph/text'
import { trainingFrom } from '../graph/sketch'
import { type Forward, forward } from './forward'

const rightOf = <T>(e: Either<GraphError, T>): T => {
  if (isLeft(e)) throw new Error(renderError(e.left))
  return e.right
}
const elaborated = (net: Net, input: readonly number[]): Forward => rightOf(forward(rightOf(modelAt(input, net)), 'test'))
const graphOf = (net: Net, input: readonly number[]): Graph => elaborated(net, input).graph
const dump = (net: Net, input: readonly number[]): readonly string[] => graphText(graphOf(net, input)).split('\n')

test("a chain, with PyTorch's names, shapes and initial weights", () => {
  assert.equal(
    dump(
      seq(conv2d('conv1', 8, 3, { stride: 2 }), relu(), flatten(), linear('fc', 5, { param: 'classifier.0', init: 0.01 })),
      [2, 3, 8, 8],
    ),
    [
      'graph test',
      '%0 input input [2,3,8,8] f32',
      '%1 param conv1.weight [8,3,3,3] f32 uniform(0.19245008972987526)',
      '%2 param conv1.bias [8] f32 uniform(0.19245008972987526)',
      '%6 param classifier.0.weight [5,128] f32 normal(0.01)',
      '%7 param classifier.0.bias [5] f32 constant(0)',
      '0 forward conv1: conv2d(%0 input, %1 conv1.weight, %2 conv1.bias) {strideH=2 strideW=2 padTop=1 padLeft=1 padBottom=1 padRight=1 ' +
        'dilationH=1 dilationW=1 groups=1} -> %3 conv1 [2,8,4,4]',
      '1 forward relu: relu(%3 conv1) {slope=0} -> %4 relu [2,8,4,4]',
      '2 forward flatten: flatten(%4 relu) -> %5 flatten [2,128,1,1]',
      '3 forward fc: linear(%5 flatten, %6 classifier.0.weight, %7 classifier.0.bias) -> %8 fc [2,5,1,1]',
    ],
  )
})

test("batch norm is statistics and apply; its running statistics are found by the layer's name", () => {
  assert.equal(dump(block('layer1', conv2d('c', 4, 1, { bias: false, init: 'fan-out-normal' }), batchNorm('bn')), [2, 3, 5, 7]), [
    'graph test',
    '%0 input input [2,3,5,7] f32',
    '%1 param layer1.c.weight [4,3,1,1] f32 normal(0.7071067811865476)',
    '%3 param layer1.bn.weight [4] f32 constant(1)',
    '%4 param layer1.bn.bias [4] f32 constant(0)',
    '%5 state layer1.bn.running_mean [4] f32 constant(0)',
    '%6 state layer1.bn.running_var [4] f32 constant(1)',
    '0 forward layer1.c: conv2d(%0 input, %1 layer1.c.weight) {strideH=1 strideW=1 padTop=0 padLeft=0 padBottom=0 padRight=0 dilationH=1 ' +
      'dilationW=1 groups=1} -> %2 layer1.c [2,4,5,7]',
    '1 forward layer1.bn: bn_stats(%2 layer1.c) -> %7 layer1.bn.stats [4,4]',
    '2 forward layer1.bn: bn_apply(%2 layer1.c, %7 layer1.bn.stats, %3 layer1.bn.weight, %4 layer1.bn.bias) {eps=0.00001 count=70} -> ' +
      '%8 layer1.bn [2,4,5,7]',
  ])
  const { graph, output } = elaborated(block('layer1', conv2d('c', 4, 1), batchNorm('bn')), [2, 3, 5, 7])
  const step = rightOf(
    trainingFrom(graph, output, {
      loss: 'mse',
      optimizer: { kind: 'sgd', lr: 0.1, momentum: 0, weightDecay: 0, nesterov: false },
    }),
  )
  const running = step.ops.filter((o) => o.kind === 'bn_running')
  assert.equal(
    running.map((o) => o.ins.map((v) => step.values[v]!.name)),
    [['layer1.bn.stats', 'layer1.bn.running_mean', 'layer1.bn.running_var']],
  )
})

test('frozen batch norm reads its running statistics', () => {
  const graph = graphOf(seq(batchNorm('bn', { frozen: true, eps: 1e-3 })), [1, 4, 2, 2])
  assert.equal(
    graph.ops.map((o) => [o.kind, o.attrs, o.ins.map((v) => graph.values[v]!.name)]),
    [['bn_frozen', { eps: 1e-3 }, ['input', 'bn.running_mean', 'bn.running_var', 'bn.weight', 'bn.bias']]],
  )
})

test('branches run one after the other, depth first, then the op that joins them', () => {
  const graph = graphOf(
    seq(
      conv2d('stem', 4, 3),
      blocks(
        'b',
        residual(seq(conv2d('c1', 4, 3), relu(), conv2d('c2', 4, 3)), conv2d('s', 4, 1)),
        repeat(2, residual(conv2d('c', 4, 3), identity)),
      ),
      concat(conv2d('x', 2, 1), seq(maxPool(3, { stride: 1, pad: 1 }), conv2d('y', 3, 1)), identity),
      relu(),
      relu('last'),
      relu(),
    ),
    [1, 3, 6, 6],
  )
  assert.equal(
    graph.ops.map((o) => `${o.layer}:${o.kind}`),
    [
      'stem:conv2d',
      'b.0.c1:conv2d',
      'b.0.relu:relu',
      'b.0.c2:conv2d',
      'b.0.s:conv2d',
      'b.0.residual:add',
      'b.1.c:conv2d',
      'b.1.residual:add',
      'b.2.c:conv2d',
      'b.2.residual:add',
      'x:conv2d',
      'maxPool:max_pool',
      'y:conv2d',
      'concat:concat',
      'relu:relu',
      'last:relu',
      'relu2:relu',
    ],
  )
  assert.equal(graph.values[graph.ops.find((o) => o.kind === 'concat')!.outs[0]!]!.shape, [1, 9, 6, 6])
})

test('nothing is done twice: flat inputs, sizes that fit already, single branches', () => {
  assert.equal(
    graphOf(seq(conv2d('c', 4, 1), globalAvgPool(), flatten(), linear('fc', 2)), [1, 3, 4, 4]).ops.map((o) => o.kind),
    ['conv2d', 'global_avg_pool', 'linear'],
  )
  assert.equal(
    graphOf(seq(concat(relu()), adaptiveAvgPool('p', 4), identity), [1, 3, 4, 4]).ops.map((o) => o.kind),
    ['relu'],
  )
  assert.equal(
    graphOf(seq(adaptiveAvgPool('p', [2, 4])), [1, 3, 6, 4]).ops.map((o) => [
      o.kind,
      o.attrs['kernelH'],
      o.attrs['strideH'],
      o.attrs['kernelW'],
    ]),
    [['avg_pool', 3, 3, 1]],
  )
})

test('numbered scopes continue from the given number, also in repeats', () => {
  const graph = graphOf(block('b', counted('layer', 3, repeat(2, skip(conv2d('c', 2, 1))), conv2d('d', 4, 1))), [1, 3, 4, 4])
  assert.equal(
    graph.values.filter((v) => v.role === 'param').map((v) => v.name),
    ['b.layer3.c', 'b.layer4.c', 'b.layer5.d'].flatMap((l) => [`${l}.weight`, `${l}.bias`]),
  )
  assert.equal(
    graph.ops.at(-1)!.ins.map((v) => graph.values[v]!.shape),
    [[1, 7, 4, 4], [4, 7, 1, 1], [4]],
  )
})

test('a value of another size is resized bilinearly to the input that it joins', () => {
  const ops = graphOf(
    concat(
      identity,
      atInputSize(conv2d('c', 4, 3)),
      atInputSize(globalAvgPool('all')),
      atInputSize(maxPool('p', 2, { ceil: true })),
    ),
    [2, 3, 5, 8],
  ).ops
  assert.equal(
    ops.map((o) => `${o.layer}:${o.kind}`),
    ['c:conv2d', 'all:global_avg_pool', 'atInputSize:upsample', 'p:max_pool', 'atInputSize2:upsample', 'concat:concat'],
  )
  assert.equal(
    ops.filter((o) => o.kind === 'upsample').map((o) => o.attrs),
    [
      { mode: 1, inH: 1, inW: 1, outH: 5, outW: 8 },
      { mode: 1, inH: 3, inW: 4, outH: 5, outW: 8 },
    ],
  )
})

test('named values are the operands of later ones, in the order of the values', () => {
  const { ops, values: made } = graphOf(
    values(
      value('a', 'input', conv2d('c', 4, 3)),
      value('b', { added: ['a', 'input'] }, conv2d('d', 4, 3)),
      value('e', { multiplied: ['a', 'b'] }),
      value('f', { joined: ['b', 'e', 'a'] }, relu()),
    ),
    [2, 4, 5, 8],
  )
  assert.equal(
    ops.map((o) => `${o.layer}:${o.kind}`),
    ['c:conv2d', 'sum:add', 'd:conv2d', 'product:multiply', 'concat:concat', 'relu:relu'],
  )
  const [c, sum, d, product, concat] = ops
  assert.equal(sum!.ins, [c!.outs[0], made.find((v) => v.role === 'input')!.id])
  assert.equal(product!.ins, [c!.outs[0], d!.outs[0]])
  assert.equal(concat!.ins, [d!.outs[0], product!.outs[0], c!.outs[0]])
})

test('named values run in the order in which they are written', () => {
  const { ops } = graphOf(
    values(
      value('a', 'input', conv2d('a1', 4, 3)),
      value('b', 'input', conv2d('b1', 4, 3)),
      value('a_out', 'a', conv2d('a2', 4, 3)),
      value('b_out', 'b', conv2d('b2', 4, 3)),
      value('sum', { added: ['a_out', 'b_out'] }),
    ),
    [1, 4, 5, 8],
  )
  assert.equal(
    ops.map((o) => o.layer),
    ['a1', 'b1', 'a2', 'b2', 'sum'],
  )
})

test('an adaptive average takes means along one dimension and repeats along the other', () => {
  assert.equal(
    graphOf(seq(conv2d('c', 4, 1), adaptiveAvgPool('p', [3, 6])), [1, 3, 6, 2])
      .ops.slice(1)
      .map((o) => [o.kind, o.layer]),
    [
      ['avg_pool', 'p'],
      ['upsample', 'p'],
    ],
  )
})

test('attributes reach the ops', () => {
  const ops = graphOf(
    seq(
      conv2d('c', 4, [3, 5], { stride: [1, 2], pad: [0, 1], dilation: [2, 1], groups: 2, bias: false }),
      maxPool(3, { stride: 2, pad: 1, ceil: true }),
      avgPool(2, { stride: 1, countIncludePad: false }),
      leakyRelu(0.2),
      dropout(0.25),
      dropout(0.5),
    ),
    [1, 2, 16, 16],
  ).ops
  assert.equal(
    ops.map((o) => o.attrs),
    [
      { strideH: 1, strideW: 2, padTop: 0, padLeft: 1, padBottom: 0, padRight: 1, dilationH: 2, dilationW: 1, groups: 2 },
      { kernelH: 3, kernelW: 3, strideH: 2, strideW: 2, padTop: 1, padLeft: 1, ceil: 1 },
      {
        kernelH: 2,
        kernelW: 2,
        strideH: 1,
        strideW: 1,
        padTop: 0,
        padLeft: 0,
        ceil: 0,
        countIncludePad: 0,
        padBottom: 0,
        padRight: 0,
      },
      { slope: 0.2 },
      { p: 0.25, key: 0 },
      { p: 0.5, key: 1 },
    ],
  )
})

test('a window as wide as the image is not shifted along its width', () => {
  const [op] = graphOf(seq(attention('a', 1, { window: [4, 3], shift: [2, 1] })), [1, 3, 8, 3]).ops
  assert.equal([op!.attrs['shiftH'], op!.attrs['shiftW']], [2, 0])
})

test('standardised weights are computed before all layers, and convolutions read them', () => {
  const { ops, values } = graphOf(
    seq(conv2d('a', 4, 3, { bias: false }), relu(), conv2d('b', 4, 3, { standardize: 1e-6, bias: false })),
    [1, 2, 8, 8],
  )
  assert.equal(
    ops.map((o) => [o.kind, o.layer]),
    [
      ['standardize', 'b'],
      ['conv2d', 'a'],
      ['relu', 'relu'],
      ['conv2d', 'b'],
    ],
  )
  assert.equal(values[ops[3]!.ins[1]!]!.role, 'stat')
  assert.is(ops[3]!.ins[1], ops[0]!.outs[0])
})

test('a network that cannot be elaborated is refused with the reason', () => {
  const words = (net: Net): string => {
    const e = pipe(
      modelAt([1, 3, 8, 8], net),
      chain((m) => forward(m)),
    )
    return isLeft(e) ? renderError(e.left) : 'nothing'
  }
  assert.is(words(seq()), 'not a model: net: it has no layers')
  assert.is(
    words(seq(linear('fc', 3))),
    "layer 'fc' (linear): needs an input of [B,C,1,1] but gets [1,3,8,8]; put flatten() or globalAvgPool() before it",
  )
  assert.is(
    words(seq(conv2d('a', 3, 1, { param: 'p' }), conv2d('b', 3, 1, { param: 'p' }))),
    "two values are named 'p.weight'; give each param its own name",
  )
})

// ---------------------------------------------------------------- FT dimensions

/** From the op table alone: the dimensions along which a slice of the op's result needs a slice of its input. */
const ftOf = (graph: Graph, op: Op): readonly Dim[] => {
  const def = opDef(op.kind)
  const shapes = { ins: op.ins.map((v) => graph.values[v]!.shape), outs: op.outs.map((v) => graph.values[v]!.shape) }
  const operands = [...op.ins.map((_, i) => inputDef(def, i)), ...op.outs.map((_, i) => def.outs[i]!)]
  return DIMS.filter((d) =>
    operands.every((o) => {
      if (o.role === 'data') return sigmaDelta(o.access!(op.attrs, shapes)[d]) !== undefined
      // Statistics of a channel are made of all its pixels in all images.
      return o.merge === undefined || d === 'C'
    }),
  )
}

const layers: readonly Net[] = [
  conv2d('c', 4, 3),
  convTranspose2d('u', 4, 3, { stride: 2 }),
  linear('l', 5),
  pixelLinear('l', 5),
  batchNorm('n'),
  batchNorm('n', { frozen: true }),
  groupNorm('n', 2),
  groupNorm('n', 1, { affine: false }),
  instanceNorm(),
  instanceNorm('n', { affine: true }),
  relu(),
  sigmoid(),
  tanh(),
  softmax(),
  localResponseNorm(5),
  reflectionPad2d({ top: 1, left: 2, bottom: 0, right: 3 }),
  upsample({ scale: 2, mode: 'bilinear' }),
  upsample({ size: [3, 7] }),
  leakyRelu(0.1),
  dropout(0.5),
  maxPool(2),
  avgPool(2),
  adaptiveAvgPool('a', 2),
  globalAvgPool(),
  flatten(),
  concat(relu(), identity),
  residual(relu(), identity),
]
for (const net of layers)
  test(`FT dimensions of ${net.kind}${'frozen' in net && net.frozen ? ' (frozen)' : ''} are the op table's`, () => {
    const input = net.kind === 'linear' ? [2, 4, 1, 1] : [2, 4, 4, 4]
    const m = rightOf(modelAt(input, net))
    const graph = graphOf(net, input)
    assert.ok(graph.ops.length > 0)
    assert.equal(
      m.ft,
      DIMS.filter((d) => graph.ops.every((op) => ftOf(graph, op).includes(d))),
    )
  })

test.run()
