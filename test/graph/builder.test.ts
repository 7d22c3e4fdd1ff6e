// The builder: its results, its refusals and their words.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { renderError } from '../../staging/core/errors'
import { GraphBuilder } from '../../staging/graph/builder'
import { fingerprint } from '../../staging/graph/fingerprint'
import { graphText } from '../../staging/graph/text'
import { convAttrs, mustFail, Sketch } from './sketch'

const small = (): Sketch => {
  const s = new Sketch([1, 3, 8, 8], 'small')
  s.maxPool(s.relu(s.conv(s.image, 'conv1', 4), 'relu1'), 'pool1', 2)
  return s
}

test('the graph as text', () => {
  assert.is(
    graphText(small().b.build()),
    [
      'graph small',
      '%0 input image [1,3,8,8] f32',
      '%1 param conv1.weight [4,3,3,3] f32 uniform(0.1)',
      '%2 param conv1.bias [4] f32 uniform(0.1)',
      '0 forward conv1: conv2d(%0 image, %1 conv1.weight, %2 conv1.bias)' +
        ' {strideH=1 strideW=1 padTop=1 padLeft=1 padBottom=1 padRight=1 dilationH=1 dilationW=1 groups=1} -> %3 conv1 [1,4,8,8]',
      '1 forward relu1: relu(%3 conv1) {slope=0} -> %4 relu1 [1,4,8,8]',
      '2 forward pool1: max_pool(%4 relu1) {kernelH=2 kernelW=2 strideH=2 strideW=2 padTop=0 padLeft=0 ceil=0} -> %5 pool1 [1,4,4,4]',
    ].join('\n'),
  )
})

test('attributes are stored in wire order, however they were written', () => {
  const s = new Sketch([1, 3, 8, 8])
  const backwards = Object.fromEntries(Object.entries(convAttrs()).reverse())
  s.conv(s.image, 'conv1', 4, 3, backwards)
  assert.equal(Object.keys(s.b.build().ops[0]!.attrs), Object.keys(convAttrs()))
})

const refusal = (kind: string, attrs: Record<string, number>, pick: (s: Sketch) => number[]): string => {
  const s = small()
  return renderError(
    mustFail(
      s.b.op(
        kind,
        attrs,
        pick(s).map((v) => s.b.ref(v)),
        'layer7',
      ),
    ),
  )
}

test('each refusal names the layer and the legal values', () => {
  assert.match(
    refusal('conv3d', {}, () => [0]),
    /^layer 'layer7': there is no operator 'conv3d'; allowed: conv2d, /,
  )
  assert.match(
    refusal('copy', {}, () => [0]),
    /there is no operator 'copy'/,
    'plumbing is no op of a graph',
  )
  assert.is(
    refusal('relu', {}, () => [3]),
    "layer 'layer7' (relu): attributes {} are wrong; allowed: slope: float",
  )
  assert.is(
    refusal('add', { slope: 1 }, () => [3, 3]),
    'layer \'layer7\' (add): attributes {"slope":1} are wrong; allowed: none',
  )
  assert.is(
    refusal('add', {}, () => [3]),
    "layer 'layer7' (add): it has 1 inputs; allowed: 2 or more",
  )
  assert.is(
    refusal('relu', { slope: 0 }, () => [3, 3]),
    "layer 'layer7' (relu): it has 2 inputs; allowed: 1",
  )
  assert.is(
    refusal('add', {}, () => [3, 5]),
    "layer 'layer7' (add): input 1 has shape [1,4,4,4], but input 0 has [1,4,8,8]; allowed: [1,4,8,8]",
  )
  assert.is(
    refusal('relu', { slope: 0 }, () => [1]),
    "layer 'layer7' (relu): operand 0 (x) is 'conv1.weight', a value of role param; " +
      'allowed: a value of role input, target, activation, output, gradient, stat',
  )
  assert.match(
    refusal('linear', {}, () => [5, 3]),
    /operand 1 \(w\) is 'conv1', a value of role activation; allowed: a value of role param/,
  )
  assert.match(
    refusal('bn_running', { momentum: 0.1, count: 4 }, () => [2, 2, 4]),
    /operand 2 \(var\) is 'relu1', a value of role activation; allowed: a value of role param, state/,
  )
  assert.match(
    refusal('softmax_xent', { count: 64, weight: 1 }, () => [3, 3]),
    /operand 1 \(labels\) is 'conv1' of element type f32; allowed: element type i32/,
  )
  assert.match(
    refusal('conv2d_bwd_data', convAttrs(), () => [3, 1]),
    /it has 0 output shapes; allowed: 1/,
  )
})

test('leaves that are not allowed fail the op that reads them', () => {
  const cases: readonly (readonly [string, readonly number[], string])[] = [
    ['image', [1, 3, 8, 8], "two values are named 'image'; give each input its own name"],
    ['x', [1, 3, 8], "'x': its shape is [1,3,8]; allowed: a shape [B,C,H,W]"],
    ['x', [1, 3, 0, 8], "'x': its shape is [1,3,0,8]; allowed: a whole number of 1 or more in each dimension"],
    ['x', [1, 3, 8.5, 8], "'x': its shape is [1,3,8.5,8]; allowed: a whole number of 1 or more in each dimension"],
    ['x', [1, 3, 2 ** 30, 2 ** 30], "'x': its shape is [1,3,1073741824,1073741824]; allowed: at most 2^50 elements"],
    ['', [1, 3, 8, 8], "'': a value has no name; allowed: a name of at least one character"],
  ]
  for (const [name, shape, words] of cases) {
    const s = small()
    const bad = s.b.input(name, shape)
    assert.is(renderError(mustFail(s.b.op('relu', { slope: 0 }, [bad], 'layer7'))), words)
    assert.throws(
      () => s.b.build(),
      (e: Error) => e.message === words,
    )
  }
})

test('images of 100 000 x 100 000 pixels are exact', () => {
  const s = new Sketch([1, 3, 100000, 100000])
  assert.equal(s.shape(s.conv(s.image, 'conv1', 64, 3, { strideH: 2, strideW: 2 })), [1, 64, 49999, 49999])
})

test('equal graphs have equal fingerprints, any change another', () => {
  const name = fingerprint(small().b.build())
  assert.match(name, /^[0-9a-f]{16}$/)
  assert.is(fingerprint(small().b.build()), name)
  const g = small().b.build()
  const changed = [
    { ...g, ops: g.ops.map((o) => (o.kind === 'relu' ? { ...o, attrs: { slope: 0.1 } } : o)) },
    { ...g, ops: g.ops.map((o) => (o.kind === 'relu' ? { ...o, layer: 'relu2' } : o)) },
    { ...g, values: g.values.map((v) => (v.id === 0 ? { ...v, shape: [1, 3, 8, 9] } : v)) },
    { ...g, values: g.values.map((v) => (v.id === 1 ? { ...v, init: { dist: 'normal', a: 0.1 } as const } : v)) },
    { ...g, ops: g.ops.slice(0, -1) },
  ]
  assert.is(new Set([name, ...changed.map(fingerprint)]).size, changed.length + 1)
  const reordered = { ...g, ops: g.ops.map((o) => ({ ...o, attrs: Object.fromEntries(Object.entries(o.attrs).reverse()) })) }
  assert.is(fingerprint(reordered), name, 'the order in which attributes are written does not matter')
})

test('a reader of another float type', () => {
  const b = GraphBuilder.extending(small().b.build(), 'f64')
  b.target('labels', [1, 1, 4, 4], 'i32')
  assert.equal(new Set(b.build().values.map((v) => v.dtype)), new Set(['f64', 'i32']))
})

test.run()
