// `sft`: segments by Listing 3 of paper 3. Branches end in the segment where they begin; an op that only the backward pass reads follows its inputs.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { graphOf, machine } from '../../bench/lab/steps'
import { groupsFor } from '../../staging/literature/sft'
import type { Ref } from '../../staging/ops/op'
import { must, Sketch, trainingFrom } from '../graph/sketch'

const KIB = 1024
const sgd = { kind: 'sgd', lr: 0.1, momentum: 0, weightDecay: 0, nesterov: false } as const

/** The layers of each group for a capacity, tiled groups in brackets. Images have 32² pixels, so a channel holds 4 KiB. */
const groups = (capacity: number, body: (s: Sketch) => Ref): string => {
  const s = new Sketch([1, 1, 32, 32])
  const y = body(s)
  const graph = must(trainingFrom(s.b.build(), y, { loss: 'mse', optimizer: sgd }))
  return groupsFor(graph, capacity, 2)
    .map(({ grid, ops }) => {
      const layers = [...new Set(ops.map((id) => graph.ops[id]!.layer))].join(' ')
      return grid.H > 1 ? `[${layers}]` : layers
    })
    .join(' ')
}

test('a chain: a segment ends at the first op that need not be tiled', () => {
  const chain = (s: Sketch): Ref => s.conv(s.conv(s.conv(s.conv(s.image, 'a', 8), 'b', 2), 'c', 8), 'd', 1)
  assert.is(groups(9 * KIB, chain), '[a b] [c d] loss')
  assert.is(groups(4 * KIB, chain), '[a b c d] loss')
  assert.is(groups(40 * KIB, chain), 'a b c d loss')
})

test('a branch begins and ends in one segment, with all ops between', () => {
  const residual = (s: Sketch): Ref => {
    const a = s.conv(s.image, 'a', 2)
    const c = s.conv(s.conv(a, 'b', 8), 'c', 2)
    const sum = s.op('add', {}, [c, s.conv(a, 'shortcut', 2)], 'sum')
    return s.conv(sum, 'd', 1)
  }
  assert.is(groups(9 * KIB, residual), 'a [b c] shortcut sum d loss')
  const forkInside = (s: Sketch): Ref => {
    const a = s.conv(s.image, 'a', 8)
    const sum = s.op('add', {}, [s.conv(a, 'b', 2), s.conv(a, 'c', 2)], 'sum')
    return s.conv(sum, 'd', 1)
  }
  assert.is(groups(9 * KIB, forkInside), '[a b c sum] d loss')
})

test('the places of a pool are found in its segment', () => {
  const graph = graphOf('vgg11-features', machine('v100-pcie-16g'), 1, 512)!
  const places = graph.ops.filter((o) => o.kind === 'max_pool_places')
  assert.is(places.length, 5)
  for (const mib of [0, 8, 20, 40]) {
    const all = groupsFor(graph, mib * KIB ** 2, 2)
    for (const p of places) {
      const pool = graph.ops.find((o) => o.kind === 'max_pool' && o.ins[0] === p.ins[0])!
      const own = all.find((g) => g.ops.includes(pool.id))!
      assert.ok(own.ops.includes(p.id), `${mib} MiB: ${pool.layer}`)
    }
  }
})

test.run()
