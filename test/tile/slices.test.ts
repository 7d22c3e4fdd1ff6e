// The part of every operand that a tile touches: the worked example, strides, dilation, ceil windows, joins, gradients, a tile's share of the whole,
// and impossible tilings; window chains against row-by-row brute force.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { elementsOf, type Range, tileRange } from '../../staging/core/box'
import type { Graph } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import { Sketch } from '../graph/sketch'
import { grid, keepOf, opNamed, ranges, refused, sliced, trained, valueNamed } from './trained'

const threeConvs = (): Graph => {
  const s = new Sketch([1, 2, 10, 10])
  return trained(s, s.conv(s.conv(s.conv(s.image, 'c0', 3), 'c1', 3), 'c2', 3))
}

test('the worked example: two 3x3 convolutions over ten rows in two tiles', () => {
  const g = threeConvs()
  const r = sliced(g, ['c1:conv2d', 'c2:conv2d'], grid(1, 2, 1), ['c2'])
  assert.equal(ranges(g, r.body, 'c2:conv2d', 'c2'), [
    [0, 5],
    [5, 10],
  ])
  assert.equal(ranges(g, r.body, 'c2:conv2d', 'c1'), [
    [0, 6],
    [4, 10],
  ])
  assert.equal(ranges(g, r.body, 'c1:conv2d', 'c1'), [
    [0, 6],
    [4, 10],
  ])
  assert.equal(ranges(g, r.body, 'c1:conv2d', 'c0'), [
    [0, 7],
    [3, 10],
  ])
  assert.equal(ranges(g, r.body, 'c1:conv2d', 'c0', 'W'), [[0, 10]])
  assert.equal(ranges(g, r.body, 'c1:conv2d', 'c1.weight'), null)
  assert.is(r.keeps.length, 1)
  assert.equal(keepOf(g, r, 'c2'), {
    value: valueNamed(g, 'c2'),
    slices: {
      B: [[0, 1]],
      H: [
        [0, 5],
        [5, 10],
      ],
      W: [[0, 10]],
    },
  })
})

test('in the backward pass, pieces of dy are disjoint and their results are added', () => {
  const g = threeConvs()
  const run = ['c2:conv2d_bwd_weights', 'c2:conv2d_bwd_data', 'c1:conv2d_bwd_weights', 'c1:conv2d_bwd_data']
  const r = sliced(g, run, grid(1, 2, 1), ['c0.grad', 'c2.weight.grad', 'c2.bias.grad'])
  assert.equal(ranges(g, r.body, 'c2:conv2d_bwd_data', 'c2.grad'), [
    [0, 5],
    [5, 10],
  ])
  assert.equal(ranges(g, r.body, 'c2:conv2d_bwd_data', 'c1.grad'), [
    [0, 6],
    [4, 10],
  ])
  assert.equal(
    ranges(g, r.body, 'c2:conv2d_bwd_weights', 'c1'),
    [
      [0, 6],
      [4, 10],
    ],
    'what it reads of the forward value',
  )
  assert.equal(
    ranges(g, r.body, 'c1:conv2d_bwd_weights', 'c1.grad'),
    [
      [0, 6],
      [4, 10],
    ],
    'all that the tile made, halo included',
  )
  assert.equal(ranges(g, r.body, 'c1:conv2d_bwd_data', 'c0.grad'), [
    [0, 7],
    [3, 10],
  ])
  assert.equal(keepOf(g, r, 'c0.grad').merge, 'sum')
  assert.equal(keepOf(g, r, 'c0.grad').slices!.H, [
    [0, 7],
    [3, 10],
  ])
  assert.equal(keepOf(g, r, 'c2.weight.grad'), { value: valueNamed(g, 'c2.weight.grad'), merge: 'sum', slices: null })
  assert.is(r.keeps.length, 3)
})

test('a 1x1 convolution passes gradients on without overlap: they are written, not added', () => {
  const s = new Sketch([2, 2, 7, 5])
  const g = trained(s, s.conv(s.conv(s.image, 'c0', 3, 1), 'c1', 3, 1))
  const r = sliced(g, ['c1:conv2d_bwd_data'], grid(2, 3, 2), ['c0.grad'])
  assert.equal(keepOf(g, r, 'c0.grad'), {
    value: valueNamed(g, 'c0.grad'),
    slices: {
      B: [
        [0, 1],
        [1, 2],
      ],
      H: [
        [0, 2],
        [2, 4],
        [4, 7],
      ],
      W: [
        [0, 2],
        [2, 5],
      ],
    },
  })
})

test('a stride wider than the window leaves rows without a tile: they are zeroed and merge by sums', () => {
  const s = new Sketch([1, 2, 10, 10])
  const g = trained(s, s.conv(s.conv(s.image, 'c0', 3, 1), 'c1', 3, 1, { strideH: 2, strideW: 2 }))
  const r = sliced(g, ['c1:conv2d_bwd_data'], grid(1, 2, 1), ['c0.grad'])
  assert.equal(ranges(g, r.body, 'c1:conv2d_bwd_data', 'c1.grad'), [
    [0, 2],
    [2, 5],
  ])
  assert.equal(ranges(g, r.body, 'c1:conv2d_bwd_data', 'c0.grad'), [
    [0, 3],
    [4, 9],
  ])
  assert.is(keepOf(g, r, 'c0.grad').merge, 'sum')
})

test('stride, dilation and asymmetric padding', () => {
  const s = new Sketch([1, 2, 17, 17])
  const over = { strideH: 2, dilationH: 3, padTop: 1, padBottom: 4, padLeft: 1, padRight: 1 }
  const g = trained(s, s.conv(s.image, 'c', 3, 3, over))
  // Reach 7, so rows: (17 + 5 - 7) / 2 + 1 = 8; row o touches [2o - 1, 2o + 6).
  const r = sliced(g, ['c:conv2d'], grid(1, 3, 1), ['c'])
  assert.equal(ranges(g, r.body, 'c:conv2d', 'c'), [
    [0, 2],
    [2, 5],
    [5, 8],
  ])
  assert.equal(ranges(g, r.body, 'c:conv2d', 'image'), [
    [0, 8],
    [3, 14],
    [9, 17],
  ])
})

test('a ceil window and its gradient end at the image', () => {
  const s = new Sketch([1, 2, 10, 10])
  const g = trained(s, s.conv(s.maxPool(s.conv(s.image, 'c', 2), 'p', 3, { strideH: 2, strideW: 2, ceil: 1 }), 'd', 2))
  const r = sliced(g, ['p:max_pool'], grid(1, 1, 5), ['p'])
  assert.equal(ranges(g, r.body, 'p:max_pool', 'p', 'W'), [
    [0, 1],
    [1, 2],
    [2, 3],
    [3, 4],
    [4, 5],
  ])
  assert.equal(ranges(g, r.body, 'p:max_pool', 'c', 'W'), [
    [0, 3],
    [2, 5],
    [4, 7],
    [6, 9],
    [8, 10],
  ])
  const b = sliced(g, ['p:max_pool_bwd'], grid(1, 1, 5), ['c.grad'])
  assert.equal(ranges(g, b.body, 'p:max_pool_bwd', 'c', 'W'), [
    [0, 3],
    [2, 5],
    [4, 7],
    [6, 9],
    [8, 10],
  ])
  assert.equal(keepOf(g, b, 'c.grad').slices!.W, [
    [0, 3],
    [2, 5],
    [4, 7],
    [6, 9],
    [8, 10],
  ])
})

const residual = (): Graph => {
  const s = new Sketch([1, 2, 12, 12])
  const x = s.conv(s.image, 'c0', 4)
  const y = s.conv(s.relu(s.conv(x, 'c1', 4), 'r1'), 'c2', 4)
  return trained(s, s.relu(s.op('add', {}, [y, x], 'sum'), 'r2'))
}

test('a value with two readers is computed for both: the hull of their ranges', () => {
  const g = residual()
  const r = sliced(g, ['c0:conv2d', 'c1:conv2d', 'r1:relu', 'c2:conv2d', 'sum:add', 'r2:relu'], grid(1, 3, 1), ['r2'])
  assert.equal(ranges(g, r.body, 'sum:add', 'c0'), [
    [0, 4],
    [4, 8],
    [8, 12],
  ])
  assert.equal(ranges(g, r.body, 'c1:conv2d', 'c0'), [
    [0, 6],
    [2, 10],
    [6, 12],
  ])
  assert.equal(
    ranges(g, r.body, 'c0:conv2d', 'c0'),
    [
      [0, 6],
      [2, 10],
      [6, 12],
    ],
    'c0 is made once',
  )
  assert.equal(ranges(g, r.body, 'c0:conv2d', 'image'), [
    [0, 7],
    [1, 11],
    [5, 12],
  ])
})

test('gradients of a fork add up although they reach differently far', () => {
  const g = residual()
  const run = ['r2:relu_bwd', 'c2:conv2d_bwd_data', 'r1:relu_bwd', 'c1:conv2d_bwd_data', 'c0:grad_sum']
  const r = sliced(g, run, grid(1, 3, 1), ['c0.grad'])
  const [skip, branch] = opNamed(g, 'c0:grad_sum').ins.map((v) => g.values[v]!.name)
  assert.equal([skip, branch], ['sum.grad', 'c0.grad.1'])
  assert.equal(ranges(g, r.body, 'c0:grad_sum', 'sum.grad'), [
    [0, 4],
    [4, 8],
    [8, 12],
  ])
  assert.equal(ranges(g, r.body, 'c0:grad_sum', 'c0.grad.1'), [
    [0, 6],
    [2, 10],
    [6, 12],
  ])
  assert.equal(ranges(g, r.body, 'c0:grad_sum', 'c0.grad'), [
    [0, 6],
    [2, 10],
    [6, 12],
  ])
  assert.is(keepOf(g, r, 'c0.grad').merge, 'sum')
})

/** Two pooled branches of one value, one through a convolution. */
const pooledTwice = (): Graph => {
  const s = new Sketch([1, 2, 8, 8])
  const x = s.conv(s.image, 'c0', 4)
  const direct = s.globalPool(x, 'p0')
  const through = s.globalPool(s.conv(x, 'c1', 4), 'p1')
  return trained(s, s.linear(s.op('flatten', {}, [s.op('add', {}, [through, direct], 'sum')], 'flat'), 'fc', 3), 'cross-entropy')
}

test('a gradient that is broadcast enters a sum once, however far the others reach', () => {
  const g = pooledTwice()
  const r = sliced(g, ['p1:global_avg_pool_bwd', 'c1:conv2d_bwd_data', 'p0:global_avg_pool_bwd', 'c0:grad_sum'], grid(1, 2, 1), [
    'c0.grad',
  ])
  const broadcast = g.values[opNamed(g, 'p0:global_avg_pool_bwd').outs[0]!]!.name
  const convolved = g.values[opNamed(g, 'c1:conv2d_bwd_data').outs[0]!]!.name
  assert.equal(ranges(g, r.body, 'c0:grad_sum', convolved), [
    [0, 5],
    [3, 8],
  ])
  assert.equal(ranges(g, r.body, 'c0:grad_sum', broadcast), [
    [0, 4],
    [4, 8],
  ])
  assert.equal(keepOf(g, r, 'c0.grad').slices!.H, [
    [0, 5],
    [3, 8],
  ])
})

test('statistics merge moments, sums add, pooled means add over tiles of the image and are written over the batch', () => {
  const s = new Sketch([4, 2, 8, 8])
  const g = trained(
    s,
    s.linear(s.op('flatten', {}, [s.globalPool(s.norm(s.conv(s.image, 'c', 4), 'n'), 'p')], 'flat'), 'fc', 3),
    'cross-entropy',
  )
  const stats = sliced(g, ['c:conv2d', 'n:bn_stats'], grid(2, 2, 1), ['c', 'n.stats'])
  assert.equal(keepOf(g, stats, 'n.stats'), { value: valueNamed(g, 'n.stats'), merge: 'moments', slices: null })
  assert.is(keepOf(g, stats, 'c').merge, undefined)
  const overBatch = sliced(g, ['p:global_avg_pool'], grid(2, 1, 1), ['p'])
  assert.equal(keepOf(g, overBatch, 'p'), {
    value: valueNamed(g, 'p'),
    slices: {
      B: [
        [0, 2],
        [2, 4],
      ],
      H: [[0, 1]],
      W: [[0, 1]],
    },
  })
  const overRows = sliced(g, ['p:global_avg_pool'], grid(2, 2, 1), ['p'])
  assert.equal(keepOf(g, overRows, 'p'), {
    value: valueNamed(g, 'p'),
    merge: 'sum',
    slices: {
      B: [
        [0, 2],
        [2, 4],
      ],
      H: [
        [0, 1],
        [0, 1],
      ],
      W: [[0, 1]],
    },
  })
  assert.equal(ranges(g, overRows.body, 'p:global_avg_pool', 'n'), [
    [0, 4],
    [4, 8],
  ])
})

test('the loss and its gradient read the same disjoint pieces', () => {
  const s = new Sketch([1, 2, 9, 4])
  const g = trained(s, s.conv(s.image, 'c', 3), 'cross-entropy')
  const r = sliced(g, ['c:conv2d', 'loss:softmax_xent', 'loss:softmax_xent_bwd', 'c:conv2d_bwd_weights'], grid(1, 4, 1), [
    'loss',
    'c.weight.grad',
  ])
  const pieces = [
    [0, 2],
    [2, 4],
    [4, 6],
    [6, 9],
  ]
  for (const [op, value] of [
    ['loss:softmax_xent', 'c'],
    ['loss:softmax_xent', 'target'],
    ['loss:softmax_xent_bwd', 'target'],
    ['c:conv2d_bwd_weights', 'c.grad'],
  ])
    assert.equal(ranges(g, r.body, op!, value!), pieces)
  assert.is(keepOf(g, r, 'loss').merge, 'sum')
})

// ---------------------------------------------------------------- what cannot be

test('more tiles than rows', () => {
  const e = refused(threeConvs(), ['c1:conv2d', 'c2:conv2d'], grid(1, 11, 1), ['c2'])
  assert.equal(e, { layer: 'c2', dim: 'H', why: '11 tiles along H exceed its 10 rows; allowed: at most 10' })
  const batch = refused(threeConvs(), ['c2:conv2d_bwd_data'], grid(2, 1, 1), ['c1.grad'])
  assert.equal(batch, { layer: 'c2', dim: 'B', why: '2 tiles along B exceed its 1 rows; allowed: at most 1' })
})

test('an op that needs the whole image', () => {
  const s = new Sketch([1, 2, 6, 6])
  const g = trained(s, s.linear(s.op('flatten', {}, [s.conv(s.image, 'c', 2)], 'flat'), 'fc', 3), 'cross-entropy')
  const e = refused(g, ['c:conv2d', 'flat:flatten'], grid(1, 1, 2), ['flat'])
  assert.is(e.dim, 'W')
  assert.is(e.layer, 'flat')
})

test('a sum that is read before all tiles have added to it', () => {
  const s = new Sketch([1, 2, 8, 8])
  const g = trained(s, s.norm(s.conv(s.image, 'c', 4), 'n'))
  assert.equal(refused(g, ['c:conv2d', 'n:bn_stats', 'n:bn_apply'], grid(1, 2, 1), ['n']), {
    layer: 'n',
    dim: 'H',
    why: 'reads the sum of n over the tiles: begin a new segment before it',
  })
  const dy = refused(g, ['n:bn_bwd_reduce', 'n:bn_bwd_data'], grid(1, 1, 2), ['c.grad'])
  assert.is(dy.why, 'reads the sum of n over the tiles: begin a new segment before it')
})

test('an op without readers is refused', () => {
  assert.equal(refused(threeConvs(), ['c1:conv2d', 'c2:conv2d'], grid(1, 2, 1), ['c1']), {
    layer: 'c2',
    dim: 'B',
    why: 'nothing in the segment reads it',
  })
})

// ---------------------------------------------------------------- brute force

interface Layer {
  readonly kernel: number
  readonly stride: number
  readonly dilation: number
  readonly low: number
  readonly high: number
}
const layer: fc.Arbitrary<Layer> = fc
  .record({
    kernel: fc.integer({ min: 1, max: 4 }),
    stride: fc.integer({ min: 1, max: 3 }),
    dilation: fc.integer({ min: 1, max: 2 }),
    low: fc.integer({ min: 0, max: 2 }),
    high: fc.integer({ min: 0, max: 2 }),
  })
  .map((l) => ({ ...l, low: Math.min(l.low, l.dilation * (l.kernel - 1)), high: Math.min(l.high, l.dilation * (l.kernel - 1)) }))

/** A chain of convolutions along H; as many of the layers as fit the image. */
const chain = (
  rows: number,
  layers: readonly Layer[],
): { readonly graph: Graph; readonly used: readonly Layer[]; readonly extents: readonly number[] } => {
  const s = new Sketch([1, 1, rows, 3])
  const used: Layer[] = []
  const extents = [rows]
  let x: Ref = s.conv(s.image, 'c0', 1, 1)
  for (const l of layers) {
    const room = extents[extents.length - 1]! + l.low + l.high - (l.dilation * (l.kernel - 1) + 1)
    if (room < 0) continue
    const w = s.weight(`w${used.length}`, [1, 1, l.kernel, 1])
    used.push(l)
    x = s.op(
      'conv2d',
      {
        strideH: l.stride,
        strideW: 1,
        padTop: l.low,
        padBottom: l.high,
        padLeft: 0,
        padRight: 0,
        dilationH: l.dilation,
        dilationW: 1,
        groups: 1,
      },
      [x, w],
      `c${used.length}`,
    )
    extents.push(Math.floor(room / l.stride) + 1)
  }
  return { graph: trained(s, x), used, extents }
}

/** Row by row: which rows of its input do these rows of a layer's output meet, first and last. */
const metBy = (l: Layer, rows: Range, extent: number): Range => {
  const met: number[] = []
  for (let o = rows[0]; o < rows[1]; o++)
    for (let k = 0; k < l.kernel; k++) {
      const i = o * l.stride - l.low + k * l.dilation
      if (i >= 0 && i < extent) met.push(i)
    }
  return [Math.min(...met), Math.max(...met) + 1]
}

test('chains of windows touch the rows of a brute-force search, forward and backward', () => {
  let compared = 0
  fc.assert(
    fc.property(
      fc.integer({ min: 6, max: 23 }),
      fc.array(layer, { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 5 }),
      (rows, layers, want) => {
        const { graph, used, extents } = chain(rows, layers)
        const n = Math.min(want, extents[extents.length - 1]!)
        const names = used.map((_, i) => `c${i + 1}`)
        if (n < 2 || !names.length) return
        const last = names[names.length - 1]!
        const there = sliced(
          graph,
          names.map((c) => `${c}:conv2d`),
          grid(1, n, 1),
          [last],
        )
        const back = sliced(
          graph,
          [...names].reverse().map((c) => `${c}:conv2d_bwd_data`),
          grid(1, n, 1),
          ['c0.grad'],
        )
        for (let t = 0; t < n; t++) {
          let range = tileRange(extents[extents.length - 1]!, n, t)
          for (let i = used.length; i >= 1; i--) {
            // The tiler works with hulls: a stride's holes and a dilation's count as touched, so a hull may begin in padding's stead at row 0.
            const met = metBy(used[i - 1]!, range, extents[i - 1]!)
            const forward = ranges(graph, there.body, `c${i}:conv2d`, `c${i - 1}`)![t]!
            assert.ok(forward[0] <= met[0] && met[1] <= forward[1], `tile ${t} of c${i} misses rows: ${forward} for ${met}`)
            assert.equal(
              forward,
              hullOfWindows(used[i - 1]!, range, extents[i - 1]!),
              `tile ${t} of c${i} takes more than its windows span`,
            )
            assert.equal(ranges(graph, back.body, `c${i}:conv2d_bwd_data`, `c${i - 1}.grad`)![t], forward)
            range = forward
            compared++
          }
        }
        assert.is(elementsOf(graph.values[valueNamed(graph, last)]!.shape), extents[extents.length - 1]! * 3)
      },
    ),
    { numRuns: 150, seed: 9 },
  )
  assert.ok(compared > 500, `only ${compared} comparisons`)
})

/** From the first row under any window to the last, within the image. */
const hullOfWindows = (l: Layer, rows: Range, extent: number): Range => {
  const covered: number[] = []
  for (let o = rows[0]; o < rows[1]; o++)
    for (let i = o * l.stride - l.low; i <= o * l.stride - l.low + l.dilation * (l.kernel - 1); i++)
      if (i >= 0 && i < extent) covered.push(i)
  return [Math.min(...covered), Math.max(...covered) + 1]
}

test('an op that computes its whole output for each tile is refused', () => {
  const s = new Sketch([1, 2, 6, 6])
  const kv = s.conv(s.image, 'kv', 4, 1)
  const g = trained(s, s.op('attend', { heads: 2, headFirst: 0, scale: 0.5 }, [s.conv(s.image, 'q', 2, 1), kv], 'y'))
  assert.match(
    refused(g, ['y:attend'], grid(1, 2, 1), ['y']).why,
    /computes all of its output along H: end the segment before it/,
  )
  assert.match(refused(g, ['y:attend_bwd'], grid(1, 1, 2), ['q.grad']).why, /computes all of its output along W/)
})

test.run()
