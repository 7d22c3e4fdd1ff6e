// Weights laid out once a step: such a graph is sound, computes the same, and has the same fingerprint.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { inHalf } from '../../staging/grad/rewrite/half'
import { decodeGraph } from '../../staging/graph/codec'
import { fingerprint } from '../../staging/graph/fingerprint'
import type { Graph } from '../../staging/graph/graph'
import { asStaged, laidOut, layoutCount, readers } from '../../staging/graph/laid'
import { callKey } from '../../staging/ops/callkey'
import { soundGraph } from '../../staging/verify/soundgraph'
import { trained } from '../tile/trained'
import { Sketch } from './sketch'

/** A window of 3x3, one of 1x1, and one on a single channel. */
const network = (): Graph => {
  const s = new Sketch([2, 3, 8, 8])
  const first = s.relu(s.conv(s.image, 'first', 4), 'r')
  const second = s.conv(first, 'second', 6, 1)
  return trained(s, s.conv(s.relu(second, 's'), 'third', 6, 3, { padTop: 1, padBottom: 1, padLeft: 1, padRight: 1, groups: 6 }))
}

const named = (g: Graph): readonly string[] => [...readers(g).keys()].map((v) => g.values[v]!.name).sort()
const all = (g: Graph): Graph => laidOut(g, new Set(readers(g).keys()))

test('floats are laid out where that changes their order, bf16 wherever they are rounded', () => {
  const g = network()
  assert.equal(named(g), ['first.weight'])
  assert.equal(named(inHalf('bf16')(g)), ['first.weight', 'second.weight', 'third.weight'])
})

for (const [precision, g] of [
  ['fp32', network()],
  ['bf16', inHalf('bf16')(network())],
] as const)
  test(`in ${precision} the step that lays weights out is sound, and is the step as it was staged`, () => {
    const laid = all(g)
    assert.is(layoutCount(laid), readers(g).size)
    assert.is(soundGraph(laid), undefined)
    const read = decodeGraph(JSON.parse(JSON.stringify(laid)))
    assert.ok(isRight(read), JSON.stringify(read))
    assert.equal(asStaged(laid), g)
    assert.is(asStaged(g), g)
    assert.is(fingerprint(laid), fingerprint(g))
    laid.values.slice(g.values.length).forEach((v) => assert.is(v.dtype, precision === 'bf16' ? 'bf16' : 'f32'))
    assert.equal(
      laid.ops.slice(layoutCount(laid)).map((op) => op.kind),
      g.ops.map((op) => op.kind),
    )
  })

test('a layout that differs from the storage of activations is refused', () => {
  const wide = all(network())
  const narrow = all(inHalf('bf16')(network()))
  const with_ = (g: Graph, dtype: 'f32' | 'bf16'): unknown =>
    JSON.parse(JSON.stringify({ ...g, values: g.values.map((v) => (v.name.endsWith('.laid') ? { ...v, dtype } : v)) }))
  assert.ok(isLeft(decodeGraph(with_(wide, 'bf16'))))
  assert.ok(isLeft(decodeGraph(with_(narrow, 'f32'))))
  assert.ok(soundGraph(with_(wide, 'bf16') as Graph))
  assert.ok(soundGraph(with_(narrow, 'f32') as Graph))
})

test('the cost of a call depends on a laid-out weight only if it reads one', () => {
  const shapes = {
    ins: [
      [1, 3, 8, 8],
      [4, 3, 3, 3],
    ],
    outs: [[1, 4, 8, 8]],
  } // prettier-ignore
  const attrs = network().ops.find((op) => op.kind === 'conv2d')!.attrs
  assert.is(callKey('conv2d', attrs, { ...shapes, laid: true }), `${callKey('conv2d', attrs, shapes)}|laid`)
  const norm = {
    ins: [
      [1, 4, 8, 8],
      [1, 8, 1, 1],
    ],
    outs: [[1, 4, 8, 8]],
  } // prettier-ignore
  assert.is(callKey('relu', { slope: 0 }, { ...norm, laid: true }), callKey('relu', { slope: 0 }, norm))
})

test.run()
