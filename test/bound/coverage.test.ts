// Parts that ops touch: the factors hold for every set of rows of small windows, by trying all of them.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { coverageOf } from '../../staging/bound/coverage'
import type { Graph, Op } from '../../staging/graph/graph'
import { touched } from '../../staging/ops/op'
import { operandsOf } from '../../staging/tile/slices'
import { samePad, Sketch } from '../graph/sketch'
import { opNamed, trained } from '../tile/trained'

const ROWS = 7

const graphWith = (kernel: number, stride: number, pad: number): Graph => {
  const s = new Sketch([1, 2, ROWS, ROWS])
  const x = s.conv(s.image, 'first', 2)
  const pads = { padTop: pad, padBottom: pad, padLeft: pad, padRight: pad }
  return trained(s, s.conv(x, 'c', 2, kernel, { strideH: stride, strideW: stride, ...pads }, false))
}

/** Rows of the operand that a set of rows of the anchor touches, along H. */
const rowsTouched = (graph: Graph, op: Op, rows: readonly number[]): Set<number> => {
  const { access, value } = operandsOf(graph, op).ins[0]!
  const extent = graph.values[value]!.shape[2]!
  const all = rows.flatMap((r) => {
    const [from, to] = touched(access!.H, [r, r + 1], extent)
    return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i)
  })
  return new Set(all)
}

test('reads and needs bound each set of rows, and the worst set reaches them', () => {
  for (const [kernel, stride, pad] of [
    [1, 1, 0],
    [3, 1, 1],
    [2, 2, 0],
    [1, 2, 0],
    [3, 2, 1],
    [1, 3, 0],
    [5, 3, 2],
  ] as const) {
    const g = graphWith(kernel, stride, pad)
    const op = opNamed(g, 'c:conv2d')
    const [factors] = coverageOf(g, op)
    const rows = rowsOf(g, op)
    const reads = factors!.least[2]! / ROWS
    const all = rowsTouched(g, op, rows).size / ROWS
    let worst = 1
    for (let set = 1; set < 2 ** rows.length; set++) {
      const chosen = rows.filter((r) => set & (2 ** r))
      worst = Math.min(worst, rowsTouched(g, op, chosen).size / ROWS / (chosen.length / rows.length))
    }
    assert.ok(reads <= worst + 1e-6, `kernel ${kernel} stride ${stride}: ${reads} above ${worst}`)
    assert.ok(reads >= worst - 1e-4, `kernel ${kernel} stride ${stride}: ${reads} far below ${worst}`)
    // Rows and columns alike.
    assert.ok(Math.abs(factors!.all - all ** 2) < 1e-9)
    // A row that no window touches needs nothing.
    assert.is(factors!.needs === 0, all < 1, `kernel ${kernel} stride ${stride}`)
  }
})

const rowsOf = (g: Graph, op: Op): readonly number[] => Array.from({ length: g.values[op.outs[0]!]!.shape[2]! }, (_, i) => i)

test('sums and parameters have no part: each tile takes them whole', () => {
  const s = new Sketch([2, 4, 8, 8])
  const g = trained(s, s.norm(s.conv(s.image, 'c', 4, 3, samePad(3), false), 'n'))
  const stats = opNamed(g, 'n:bn_stats')
  assert.equal(
    coverageOf(g, stats).map((c) => c?.reads ?? null),
    [1, null],
  )
})

test.run()
