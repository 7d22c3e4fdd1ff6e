// From groups of forward ops to segments: recomputed ops, the places of updates, held values, ops in place. Networks: a chain, a residual block,
// norms, a classification head.
import { isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compileSegments } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import type { Graph } from '../../staging/graph/graph'
import { type Segment, tilesOf, UNTILED } from '../../staging/plan/plan'
import { machines } from '../../staging/sim/machines'
import { assemble, forwardOps, type Group } from '../../staging/tile/segments'
import { profileForward, splitAt } from '../../staging/tile/cuts'
import { Sketch } from '../graph/sketch'
import { grid, keepOf, opNames, segmentsOf, trained } from './trained'

/** Groups of these sizes of the forward ops; the rest is the last group. */
const groupsOf = (g: Graph, at: readonly number[], grids: readonly Group['grid'][]): readonly Group[] =>
  splitAt(
    forwardOps(g).map((o) => o.id),
    at,
  ).map((ops, i) => ({ ops, grid: grids[i] ?? UNTILED }))

const outline = (g: Graph, segments: readonly Segment[]): string[] =>
  segments.map(
    (s) =>
      `${s.phase} ${tilesOf(s.grid)}: ${opNames(
        g,
        s.body.map((b) => b.op),
      )
        .map((n) => n.replace('conv2d', 'conv'))
        .join(' ')}`,
  )

/** The verifier, which shares no code with this, finds no error. */
const verified = (g: Graph, segments: readonly Segment[]): void => {
  const plan = compileSegments(g, segments, { strategy: 'by hand', budgetBytes: mib(512), machine: machines['v100-pcie-16g']! })
  if (!isRight(plan)) assert.unreachable(JSON.stringify(plan.left))
}

const chain = (): Graph => {
  const s = new Sketch([1, 2, 16, 16])
  let x = s.image
  for (const i of [1, 2, 3]) x = s.relu(s.conv(x, `c${i}`, 4, 3, undefined, false), `r${i}`)
  return trained(s, x)
}

test('one group: nothing runs again', () => {
  const g = chain()
  const segments = segmentsOf(g, groupsOf(g, [], []))
  assert.equal(outline(g, segments), [
    'forward 1: c1:conv r1:relu c2:conv r2:relu c3:conv r3:relu loss:mse',
    'backward 1: loss:mse_bwd r3:relu_bwd c3:conv_bwd_weights c3:conv_bwd_data c3:sgd r2:relu_bwd ' +
      'c2:conv_bwd_weights c2:conv_bwd_data c2:sgd r1:relu_bwd c1:conv_bwd_weights c1:sgd',
  ])
  verified(g, segments)
})

test('the worked example: a group that is not the last runs again before its backward, the last does not', () => {
  const g = chain()
  const segments = segmentsOf(g, groupsOf(g, [4], []))
  assert.equal(outline(g, segments), [
    'forward 1: c1:conv r1:relu c2:conv r2:relu',
    'forward 1: c3:conv r3:relu loss:mse',
    // c3's data gradient makes the gradient of r2, which is of the first group: it may run in either, and runs on.
    'backward 1: loss:mse_bwd r3:relu_bwd c3:conv_bwd_weights c3:conv_bwd_data c3:sgd',
    // r2 crosses and is held: c2 need not run again, since relu's gradient reads y.
    'recompute 1: c1:conv r1:relu',
    'backward 1: r2:relu_bwd c2:conv_bwd_weights c2:conv_bwd_data c2:sgd r1:relu_bwd c1:conv_bwd_weights c1:sgd',
  ])
  verified(g, segments)
})

test('tiled groups: recompute and backward are one loop, the last runs forward and backward in one visit, updates follow', () => {
  const g = chain()
  const segments = segmentsOf(g, groupsOf(g, [4], [grid(1, 4, 1), grid(1, 2, 2)]))
  assert.equal(outline(g, segments), [
    'forward 4: c1:conv r1:relu c2:conv r2:relu',
    'step 4: c3:conv r3:relu loss:mse loss:mse_bwd r3:relu_bwd c3:conv_bwd_weights c3:conv_bwd_data',
    'update 1: c3:sgd',
    'backward 4: c1:conv r1:relu r2:relu_bwd c2:conv_bwd_weights c2:conv_bwd_data r1:relu_bwd c1:conv_bwd_weights',
    'update 1: c2:sgd c1:sgd',
  ])
  assert.equal(
    segments[0]!.keeps.map((k) => [g.values[k.value]!.name, k.merge]),
    [['r2', undefined]],
  )
  assert.equal(
    segments[1]!.keeps.map((k) => [g.values[k.value]!.name, k.merge]),
    [
      ['loss', 'sum'],
      ['c3.weight.grad', 'sum'],
      ['r2.grad', 'sum'],
    ],
  )
  assert.equal(keepOf(g, segments[1]!, 'r2.grad').slices!.H, [
    [0, 9],
    [7, 16],
  ])
  verified(g, segments)
})

test('a tiled group before an untiled last group', () => {
  const g = chain()
  const segments = segmentsOf(g, groupsOf(g, [2], [grid(1, 2, 1)]))
  assert.equal(outline(g, segments), [
    'forward 2: c1:conv r1:relu',
    'forward 1: c2:conv r2:relu c3:conv r3:relu loss:mse',
    'backward 1: loss:mse_bwd r3:relu_bwd c3:conv_bwd_weights c3:conv_bwd_data c3:sgd r2:relu_bwd c2:conv_bwd_weights c2:conv_bwd_data c2:sgd',
    'backward 2: r1:relu_bwd c1:conv_bwd_weights',
    'update 1: c1:sgd',
  ])
  verified(g, segments)
})

const residual = (): Graph => {
  const s = new Sketch([1, 2, 16, 16])
  let x = s.conv(s.image, 'c0', 4, 3, undefined, false)
  for (const i of [1, 2]) {
    const y = s.conv(s.relu(s.conv(x, `a${i}`, 4, 3, undefined, false), `ra${i}`), `b${i}`, 4, 3, undefined, false)
    x = s.relu(s.op('add', {}, [y, x], `sum${i}`), `r${i}`)
  }
  return trained(s, x)
}

test('residual blocks: the skip is the block itself, made once; both gradients meet in one sum', () => {
  const g = residual()
  // Cut after r1: c0 a1 ra1 b1 sum1 r1 | a2 ra2 b2 sum2 r2 loss.
  const segments = segmentsOf(g, groupsOf(g, [6], []))
  assert.equal(outline(g, segments), [
    'forward 1: c0:conv a1:conv ra1:relu b1:conv sum1:add r1:relu',
    'forward 1: a2:conv ra2:relu b2:conv sum2:add r2:relu loss:mse',
    'backward 1: loss:mse_bwd r2:relu_bwd b2:conv_bwd_weights b2:conv_bwd_data b2:sgd ra2:relu_bwd a2:conv_bwd_weights a2:conv_bwd_data a2:sgd r1:grad_sum',
    'recompute 1: c0:conv a1:conv ra1:relu',
    'backward 1: r1:relu_bwd b1:conv_bwd_weights b1:conv_bwd_data b1:sgd ra1:relu_bwd a1:conv_bwd_weights a1:conv_bwd_data a1:sgd c0:grad_sum c0:conv_bwd_weights c0:sgd',
  ])
  verified(g, segments)
})

const normed = (): Graph => {
  const s = new Sketch([2, 2, 16, 16])
  let x = s.image
  for (const i of [1, 2]) x = s.relu(s.norm(s.conv(x, `c${i}`, 4, 3, undefined, false), `n${i}`), `r${i}`)
  return trained(s, x)
}

test('norms under tiles: a loop ends where its sums are read, once forwards and once backwards; running statistics move once', () => {
  const g = normed()
  const tiles = grid(1, 2, 1)
  // c1 n1.stats | n1.apply r1 c2 n2.stats | n2.apply r2 loss.
  const segments = segmentsOf(g, groupsOf(g, [2, 6], [tiles, tiles, tiles]))
  assert.equal(outline(g, segments), [
    'forward 2: c1:conv n1:bn_stats',
    'forward 2: n1:bn_apply r1:relu c2:conv n2:bn_stats',
    'step 2: n2:bn_apply r2:relu loss:mse loss:mse_bwd r2:relu_bwd n2:bn_bwd_reduce',
    'backward 2: n1:bn_apply r1:relu n2:bn_bwd_data c2:conv_bwd_weights c2:conv_bwd_data r1:relu_bwd n1:bn_bwd_reduce',
    'update 1: n2:sgd n2:sgd n2:bn_running c2:sgd',
    'backward 2: n1:bn_bwd_data c1:conv_bwd_weights',
    'update 1: n1:sgd n1:sgd n1:bn_running c1:sgd',
  ])
  assert.is(
    segments.flatMap((s) => s.body).filter((b) => g.ops[b.op]!.kind === 'bn_stats').length,
    2,
    'statistics are never computed again',
  )
  verified(g, segments)
})

test('a classification head stays whole; the gradient of pooling is broadcast to each tile', () => {
  const s = new Sketch([2, 2, 16, 16])
  const x = s.relu(s.conv(s.image, 'c1', 4, 3, undefined, false), 'r1')
  const g = trained(s, s.linear(s.op('flatten', {}, [s.globalPool(x, 'pool')], 'flat'), 'fc', 3), 'cross-entropy')
  const segments = segmentsOf(g, groupsOf(g, [3], [grid(1, 4, 1)]))
  assert.equal(outline(g, segments), [
    'forward 4: c1:conv r1:relu pool:global_avg_pool',
    'forward 1: flat:flatten fc:linear loss:softmax_xent',
    'backward 1: loss:softmax_xent_bwd fc:linear_bwd_weights fc:sgd fc:linear_bwd_data fc:sgd flat:flatten_bwd',
    'backward 4: c1:conv r1:relu pool:global_avg_pool_bwd r1:relu_bwd c1:conv_bwd_weights',
    'update 1: c1:sgd',
  ])
  verified(g, segments)
})

test('a value pooled twice, directly and through a convolution, keeps its gradient right under tiles', () => {
  const s = new Sketch([1, 2, 8, 8])
  const x = s.conv(s.image, 'c0', 4)
  const sum = s.op('add', {}, [s.globalPool(s.conv(x, 'c1', 4), 'p1'), s.globalPool(x, 'p0')], 'sum')
  const g = trained(s, s.linear(s.op('flatten', {}, [sum], 'flat'), 'fc', 3), 'cross-entropy')
  const pooled = forwardOps(g).findIndex((o) => o.kind === 'add')
  for (const over of [grid(1, 2, 1), grid(1, 3, 2)]) verified(g, segmentsOf(g, groupsOf(g, [pooled], [over])))
})

test('an update follows the last op that touches its weight or gradient, in any segment', () => {
  for (const g of [chain(), residual(), normed()])
    for (const at of [[], [2], [2, 4]])
      for (const over of [UNTILED, grid(1, 2, 1)]) {
        const built = assemble(g, groupsOf(g, at, [over, over, over]))
        if (!isRight(built)) continue
        const flat = built.right.flatMap((s) => s.body.map((b) => g.ops[b.op]!))
        for (const [i, op] of flat.entries()) {
          if (op.phase !== 'update') continue
          const touched = flat
            .slice(i + 1)
            .find((o) => o.phase !== 'update' && o.ins.some((v) => op.ins.includes(v) && g.values[v]!.role !== 'stat'))
          assert.is(touched, undefined, `${op.layer}:${op.kind} runs before ${touched?.layer}:${touched?.kind} (cuts ${at})`)
        }
        assert.is(flat.filter((o) => o.phase === 'update').length, g.ops.filter((o) => o.phase === 'update').length)
      }
})

test('cut at clean places, no forward op runs more than twice, and statistics and losses once', () => {
  let again = 0
  for (const g of [chain(), residual(), normed()]) {
    const clean = profileForward(g)
      .cuts.filter((c) => c.clean)
      .map((c) => c.at)
    for (const a of clean)
      for (const b of clean)
        for (const over of [UNTILED, grid(1, 2, 2)]) {
          const built = assemble(
            g,
            groupsOf(
              g,
              [...new Set([a, b])].sort((x, y) => x - y),
              [over, over, over],
            ),
          )
          if (!isRight(built)) continue
          const times = new Map<number, number>()
          for (const step of built.right.flatMap((s) => s.body)) times.set(step.op, (times.get(step.op) ?? 0) + 1)
          for (const op of g.ops) {
            const most = op.phase !== 'forward' || op.kind === 'bn_stats' ? 1 : 2
            assert.ok(times.get(op.id)! <= most, `${op.layer}:${op.kind} runs ${times.get(op.id)} times with cuts ${a}, ${b}`)
            if (times.get(op.id) === 2) again++
          }
        }
  }
  assert.ok(again > 100, `${again} ops ran again`)
})

// ---------------------------------------------------------------- in place

const inPlace = (g: Graph, segments: readonly Segment[]): string[] =>
  segments.flatMap((s) =>
    s.body
      .filter((b) => b.inPlace !== undefined)
      .map((b) => `${s.phase} ${opNames(g, [b.op])[0]} over ${g.values[g.ops[b.op]!.ins[b.inPlace!]!]!.name}`),
  )

test('relu overwrites the convolution before it and its gradient the gradient; nothing that is read later is overwritten', () => {
  const g = chain()
  assert.equal(inPlace(g, segmentsOf(g, groupsOf(g, [], []))), [
    'forward r1:relu over c1',
    'forward r2:relu over c2',
    'forward r3:relu over c3',
    'backward r3:relu_bwd over r3.grad',
    'backward r2:relu_bwd over r2.grad',
    'backward r1:relu_bwd over r1.grad',
  ])
})

test('a skip is not overwritten while its block still needs it', () => {
  const s = new Sketch([1, 2, 8, 8])
  const x = s.conv(s.image, 'c0', 4)
  const g = trained(s, s.op('add', {}, [s.conv(s.relu(x, 'r0'), 'c1', 4), x], 'sum'))
  const taken = inPlace(g, segmentsOf(g, groupsOf(g, [], [])))
  assert.not(
    taken.some((t) => t.includes('r0:relu ')),
    'c0 is read by the sum, after the relu',
  )
  assert.ok(taken.includes('forward sum:add over c1'))
})

test('in tiles, an op does not overwrite values with a wider halo or kept values', () => {
  const g = residual()
  const tiled = segmentsOf(g, groupsOf(g, [6], [grid(1, 4, 1), grid(1, 4, 1)]))
  const forward = inPlace(g, tiled.slice(0, 1))
  assert.ok(forward.includes('forward ra1:relu over a1'), 'as many rows of a1 as of ra1')
  assert.ok(forward.includes('forward sum1:add over b1'))
  assert.not(forward.includes('forward r1:relu over sum1'), 'r1 is left behind: it has its own bytes')
  // The tile makes c0 with the halo of a1; a sum over c0 would lie in other rows of memory.
  const s = new Sketch([1, 2, 8, 8])
  const x = s.conv(s.image, 'c0', 4)
  const h = trained(s, s.conv(s.op('add', {}, [x, s.conv(x, 'c1', 4)], 'sum'), 'c2', 4, 1))
  const halo = inPlace(h, segmentsOf(h, groupsOf(h, [], [grid(1, 2, 1)])))
  assert.not(
    halo.some((t) => t.includes('sum:add')),
    `${halo}`,
  )
  verified(h, segmentsOf(h, groupsOf(h, [], [grid(1, 2, 1)])))
})

test('segments are named by their first and last layer', () => {
  const g = chain()
  assert.equal(
    segmentsOf(g, groupsOf(g, [4], [])).map((s) => s.name),
    ['c1 … r2', 'c3 … loss', 'loss … c3', 'c1 … r1', 'r2 … c1'],
  )
})

test.run()
