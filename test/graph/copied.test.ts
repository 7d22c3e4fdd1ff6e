// Inputs copied once a step: such a graph is sound, computes the same, and has the same fingerprint.
import { isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { inHalf } from '../../staging/grad/rewrite/half'
import { decodeGraph, filedGraph } from '../../staging/graph/codec'
import { copiesIn, copyableIn, withCopies } from '../../staging/graph/copied'
import { fingerprint } from '../../staging/graph/fingerprint'
import type { Graph } from '../../staging/graph/graph'
import { asStaged, laidOut, readers } from '../../staging/graph/laid'
import { weightsInParts } from '../../staging/graph/weightparts'
import { soundGraph } from '../../staging/verify/soundgraph'
import { trained } from '../tile/trained'
import { Sketch } from './sketch'

const network = (): Graph => {
  const s = new Sketch([2, 3, 8, 8])
  return trained(s, s.conv(s.relu(s.conv(s.image, 'first', 32), 'r'), 'second', 6))
}
const copied = (g: Graph): Graph => withCopies(g, copyableIn(g, Infinity))

for (const [precision, g] of [
  ['fp32', network()],
  ['bf16', inHalf('bf16')(network())],
] as const)
  test(`in ${precision} the step with a copy is sound, and is the step as it was staged`, () => {
    const once = copied(g)
    assert.is(copiesIn(once).size, 1)
    assert.equal(copyableIn(once, Infinity), [])
    assert.is(soundGraph(once), undefined)
    const read = decodeGraph(JSON.parse(JSON.stringify(once)))
    assert.ok(isRight(read), JSON.stringify(read))
    assert.equal(asStaged(once), g)
    assert.is(fingerprint(once), fingerprint(g))
    assert.equal(
      once.ops.map((op) => op.kind),
      ['take_channels', ...g.ops.map((op) => op.kind)],
    )
  })

test('so is a step that also lays weights out, or has weights in parts', () => {
  const g = network()
  const laid = laidOut(copied(g), new Set(readers(g).keys()))
  const parts = weightsInParts(copied(g), { 'first.weight': 2 })!
  for (const both of [laid, parts]) {
    assert.is(soundGraph(both), undefined)
    assert.is(copiesIn(both).size, 1)
    assert.equal(asStaged(both), g)
    const read = decodeGraph(JSON.parse(JSON.stringify(filedGraph(both))))
    assert.ok(isRight(read), JSON.stringify(read))
    assert.equal(JSON.parse(JSON.stringify(filedGraph(read.right))), JSON.parse(JSON.stringify(filedGraph(both))))
  }
})

for (const [from, count] of [
  [1, 2],
  [0, 3],
] as const)
  test(`channels ${from} to ${from + count - 1} that a network takes itself are no copy`, () => {
    const s = new Sketch([2, 3, 8, 8])
    const some = s.op('take_channels', { from, count }, [s.image], 'some')
    const g = trained(s, s.conv(some, 'first', 4))
    assert.is(copiesIn(g).size, 0)
    assert.is(asStaged(g), g)
    assert.equal(copyableIn(g, Infinity), [])
  })

test.run()
