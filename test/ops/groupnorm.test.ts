// Group norm: shapes and refusals, which gradients the graph asks for, and the bits of tiled statistics.
import { type Either, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { loadNative, type NativeArray } from '../../src/device/native'
import { maximalRuns } from '../../staging/tile/ft'
import { opDef } from '../../staging/ops/registry'
import { must, Sketch, trainingFrom } from '../graph/sketch'

const rule = (
  kind: string,
  attrs: Record<string, number>,
  ins: readonly (readonly number[])[],
  given: readonly (readonly number[])[] = [],
): unknown => {
  const s: Either<string, unknown> = opDef(kind).shape(attrs as never, ins, given)
  return isRight(s) ? s.right : s.left
}

const x = [2, 6, 4, 5]
const two = { groups: 2, eps: 1e-5, count: 60 }

test('statistics, sums and outputs', () => {
  assert.equal(rule('group_norm_stats', { groups: 2 }, [x]), [[2, 8, 1, 1]])
  assert.is(rule('group_norm_stats', { groups: 4 }, [x]), '6 channels do not divide into 4 groups; allowed: divisors of 6')
  assert.match(rule('group_norm_stats', { groups: 6 }, [[2, 6, 1, 1]]) as string, /one value per group, so no variance/)
  assert.equal(rule('group_norm_apply', two, [x, [2, 8, 1, 1]]), [x])
  assert.equal(rule('group_norm_apply', two, [x, [2, 8, 1, 1], [6], [6]]), [x])
  assert.is(rule('group_norm_apply', two, [x, [2, 8, 1, 1], [6]]), 'gamma is given without beta; give both or neither')
  assert.is(rule('group_norm_apply', { ...two, count: 20 }, [x, [2, 8, 1, 1]]), 'count is 20; allowed: 60 to 60')
  assert.is(rule('group_norm_apply', two, [x, [4, 6]]), 'stats has shape [4,6]; allowed: [2,8,1,1]')
  assert.equal(rule('group_norm_bwd_reduce', two, [x, x, [2, 8, 1, 1]], [[2, 12, 1, 1], [6], [6]]), [[2, 12, 1, 1], [6], [6]])
  assert.is(
    rule('group_norm_bwd_reduce', two, [x, x, [2, 8, 1, 1]], [[2, 6, 1, 1]]),
    'sums has shape [2,6,1,1]; allowed: [2,12,1,1]',
  )
  assert.equal(rule('group_norm_bwd_data', two, [x, x, [2, 8, 1, 1], [2, 12, 1, 1]]), [x])
})

const normed = (affine: boolean) => {
  const s = new Sketch([2, 4, 8, 8])
  const y = s.conv(s.groupNorm(s.conv(s.image, 'conv1', 6), 'gn', 3, affine), 'conv2', 2)
  return must(
    trainingFrom(s.b.build(), y, {
      loss: 'l1',
      optimizer: { kind: 'sgd', lr: 0.1, momentum: 0, weightDecay: 0, nesterov: false },
    }),
  )
}

test('statistics are kept, and scale and shift are trained when there are any', () => {
  const plain = normed(false)
  assert.is(plain.values.find((v) => v.name === 'gn.stats')!.role, 'stat')
  assert.equal(plain.ops.find((o) => o.kind === 'group_norm_bwd_reduce')!.outs.length, 1)
  const affine = normed(true)
  const reduce = affine.ops.find((o) => o.kind === 'group_norm_bwd_reduce')!
  assert.equal(
    reduce.outs.slice(1).map((v) => affine.values[v]!.name),
    ['gn.weight.grad', 'gn.bias.grad'],
  )
})

test('tiles of rows and columns end before the readers of the statistics; tiles of the batch do not', () => {
  const runs = maximalRuns(normed(true)).map((r) => r.ops.map((o) => o.kind))
  assert.equal(runs, [
    ['conv2d', 'group_norm_stats'],
    ['group_norm_apply', 'conv2d', 'l1'],
  ])
})

// ---------------------------------------------------------------- bits

const array = (dims: readonly number[], data: Float32Array): NativeArray => ({ dims, dtype: 'f32', data })
const blank = (dims: readonly number[]): NativeArray => array(dims, new Float32Array(dims.reduce((n, d) => n * d, 1)))

for (const groups of [1, 4, 12])
  test(`statistics of tiles merge to the bits of the whole, ${groups} groups`, () => {
    const native = loadNative()
    const [c, h, w] = [12, 37, 29]
    let state = groups
    const random = (): number => {
      state = (Math.imul(state, 1664525) + 1013904223) | 0
      return state / 2 ** 31
    }
    const pixels = Float32Array.from({ length: c * h * w }, () => 3 + random())
    const apply = (stats: NativeArray): NativeArray => {
      const y = blank([1, c, h, w])
      native.runKernel({
        device: 'cpu',
        kind: 'group_norm_apply',
        attrs: [groups, 1e-5, (c / groups) * h * w],
        ins: [array([1, c, h, w], pixels), stats],
        outs: [y],
      })
      return y
    }
    const statsOf = (from: number, to: number): NativeArray => {
      const stats = blank([1, 4 * groups, 1, 1])
      native.runKernel({
        device: 'cpu',
        kind: 'group_norm_stats',
        attrs: [groups],
        ins: [array([1, c, to - from, w], pixels.slice(from * w * c, to * w * c))],
        outs: [stats],
      })
      return stats
    }
    const merged = blank([1, 4 * groups, 1, 1])
    let before = 0
    for (const [from, to] of [
      [0, 11],
      [11, 12],
      [12, 37],
    ] as const) {
      const count = (c / groups) * (to - from) * w
      native.runKernel({ device: 'cpu', kind: 'merge_moments', attrs: [count, before], ins: [statsOf(from, to)], outs: [merged] })
      before += count
    }
    assert.equal(Buffer.from(apply(merged).data.buffer), Buffer.from(apply(statsOf(0, h)).data.buffer))
  })

test.run()
