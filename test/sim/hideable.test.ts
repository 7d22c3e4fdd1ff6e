// The bound on the hidden part of exchanges in any schedule: flows by hand, and a chain with one op that can be beside one exchange alone.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { largestFlow, mostHiddenSeconds } from '../../bench/hideable'
import type { Op } from '../../staging/graph/graph'
import { callsOf, planWith } from '../schedule/steps'

test('flows by hand: shared capacity, capacity of one alone, and a path back over an existing flow', () => {
  assert.is(
    largestFlow([3, 2], [4], () => true),
    4,
  )
  assert.is(
    largestFlow([3, 2], [4, 1], (i, k) => k === 0 || i === 1),
    5,
  )
  assert.is(
    largestFlow([3, 2], [2, 3], (i, k) => i === 0 || k === 0),
    5,
  )
  assert.is(
    largestFlow([3, 2], [2, 3], (i) => i === 0),
    3,
  )
  assert.is(
    largestFlow([1], [], () => true),
    0,
  )
})

const op = (id: number, kind: string, ins: readonly number[], outs: readonly number[]): Op =>
  ({ id, kind, layer: kind, phase: 'forward', attrs: {}, ins, outs }) as Op

test('of exchanges that need one another a call hides one', () => {
  // a -> X (3 s) -> b -> Y (2 s) -> c, and an op of 4 s apart from them.
  const ops = [
    op(0, 'conv2d', [0], [1]),
    op(1, 'all_moments', [1], [2]),
    op(2, 'relu', [2], [3]),
    op(3, 'all_moments', [3], [4]),
    op(4, 'relu', [4], [5]),
    op(5, 'relu', [0], [6]),
  ]
  const calls = callsOf([1, 3, 1, 2, 1, 4]).map((c, i) => ({ ...c, op: i, kind: ops[i]!.kind }))
  const plan = planWith([], calls)
  assert.is(mostHiddenSeconds({ ...plan, graph: { ...plan.graph, ops } }), 3)
  // Without the call between them they are apart, and it hides as much as it takes.
  const both = ops.map((o) => (o.id === 2 ? op(2, 'relu', [0], [3]) : o))
  assert.is(mostHiddenSeconds({ ...plan, graph: { ...plan.graph, ops: both } }), 5)
})

test.run()
