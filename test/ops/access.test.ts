// Access maps: windows against brute force over taps, and agreement between each op and its backward.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { DIMS, extentOf } from '../../staging/core/box'
import type { Graph, Op } from '../../staging/graph/graph'
import { type Access, type AccessMap, all, asShape, inputDef, inside, reduce, same, touched, window } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { windowOutput } from '../../staging/ops/rules'
import { must, samePad, Sketch, trainingFrom } from '../graph/sketch'

const windowed = fc
  .record({
    kernel: fc.integer({ min: 1, max: 7 }),
    stride: fc.integer({ min: 1, max: 5 }),
    dilation: fc.integer({ min: 1, max: 4 }),
    padLow: fc.integer({ min: 0, max: 6 }),
    padHigh: fc.integer({ min: 0, max: 6 }),
    extent: fc.integer({ min: 1, max: 40 }),
    cuts: fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true })),
  })
  .map((w) => {
    const reach = w.dilation * (w.kernel - 1) + 1
    const padLow = Math.min(w.padLow, reach - 1)
    const padHigh = Math.min(w.padHigh, reach - 1)
    return { ...w, padLow, padHigh, reach, outs: windowOutput(w.extent, { ...w, padLow, padHigh, ceil: false }) }
  })
  .filter((w) => w.outs >= 1)

test('a window touches exactly the hull of its windows inside the image', () => {
  fc.assert(
    fc.property(windowed, (w) => {
      const lo = Math.min(Math.floor(w.cuts[0] * w.outs), w.outs - 1)
      const hi = lo + 1 + Math.floor(w.cuts[1] * (w.outs - lo - 1))
      const seen = new Set<number>()
      for (let o = lo; o < hi; o++)
        for (let k = 0; k < w.reach; k++) {
          const at = o * w.stride - w.padLow + k
          if (at >= 0 && at < w.extent) seen.add(at)
        }
      const got = touched(window(w.kernel, w.stride, w.padLow, w.dilation), [lo, hi], w.extent)
      assert.equal(got, [Math.min(...seen), Math.max(...seen) + 1])
      assert.ok(extentOf(got) > 0)
    }),
    { numRuns: 2000, seed: 11 },
  )
})

test('every row that some output needs is touched by the tiles together', () => {
  fc.assert(
    fc.property(windowed, fc.integer({ min: 1, max: 6 }), (w, tiles) => {
      const access = window(w.kernel, w.stride, w.padLow, w.dilation)
      const rows = new Set<number>()
      for (let t = 0; t < Math.min(tiles, w.outs); t++) {
        const n = Math.min(tiles, w.outs)
        const [a, b] = touched(access, [Math.floor((t * w.outs) / n), Math.floor(((t + 1) * w.outs) / n)], w.extent)
        for (let i = a; i < b; i++) rows.add(i)
      }
      for (let o = 0; o < w.outs; o++)
        for (let k = 0; k < w.kernel; k++) {
          const at = o * w.stride - w.padLow + k * w.dilation
          if (at >= 0 && at < w.extent) assert.ok(rows.has(at))
        }
    }),
    { numRuns: 500, seed: 12 },
  )
})

test('the other accesses', () => {
  assert.equal(touched(same, [3, 5], 9), [3, 5])
  assert.equal(touched(all, [3, 5], 9), [0, 9])
  assert.equal(touched(reduce, [3, 5], 1), [0, 1])
  assert.equal(touched(inside, [3, 5], 9), [3, 5])
})

/** A network that has every differentiable operator but the losses' other one. */
const everything = (): Graph => {
  const s = new Sketch([2, 3, 17, 13])
  const a = s.relu(
    s.norm(s.conv(s.image, 'conv1', 4, 3, { ...samePad(3), strideH: 2, dilationW: 2, padLeft: 2 }), 'bn1'),
    'relu1',
  )
  const pooled = s.maxPool(a, 'pool1', 3, { strideH: 2, strideW: 2, padTop: 1, padLeft: 1, ceil: 1 })
  const left = s.frozen(s.conv(pooled, 'conv2', 4), 'bn2')
  const joined = s.op(
    'concat',
    {},
    [s.op('add', {}, [left, pooled], 'add'), s.op('dropout', { p: 0.5, key: 1 }, [pooled], 'drop')],
    'cat',
  )
  const averaged = s.avgPool(joined, 'pool2', 2, { strideH: 1, strideW: 1, padTop: 1, padBottom: 1 })
  const flat = s.op('flatten', {}, [averaged], 'flatten')
  const wide = s.op('flatten', {}, [s.globalPool(averaged, 'gap')], 'flatten2')
  s.linear(wide, 'side', 10)
  const out = s.linear(flat, 'fc', 10)
  return must(
    trainingFrom(s.b.build(), out, {
      loss: 'cross-entropy',
      optimizer: { kind: 'adam', lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0 },
    }),
  )
}

const maps = (g: Graph, op: Op): { ins: (AccessMap | undefined)[]; outs: (AccessMap | undefined)[] } => {
  const d = opDef(op.kind)
  const shapes = { ins: op.ins.map((v) => g.values[v]!.shape), outs: op.outs.map((v) => g.values[v]!.shape) }
  return {
    ins: op.ins.map((_, i) => inputDef(d, i).access?.(op.attrs, shapes)),
    outs: op.outs.map((_, i) => d.outs[i]!.access?.(op.attrs, shapes)),
  }
}

test('the full iteration range of each op reads and writes its operands whole', () => {
  const g = everything()
  for (const op of g.ops) {
    const { ins, outs } = maps(g, op)
    const anchor = opDef(op.kind).anchor
    const space = g.values[anchor === 'out' ? op.outs[0]! : op.ins[anchor]!]!.shape
    const operands = [...op.ins.map((v, i) => [v, ins[i]] as const), ...op.outs.map((v, i) => [v, outs[i]] as const)]
    for (const [v, map] of operands) {
      if (!map) continue
      for (const [d, dim] of DIMS.entries()) {
        const extent = asShape(g.values[v]!.shape)[d]!
        const [lo, hi] = touched(map[dim], [0, asShape(space)[d]!], extent)
        // Windows may leave the last rows of the input unread (a stride that does not divide).
        assert.is(lo, 0, `${op.kind} ${dim}`)
        assert.ok(map[dim].tag === 'window' ? hi <= extent : hi === extent, `${op.kind} ${dim}: ${hi} of ${extent}`)
      }
    }
  }
})

test('a backward op writes dx where its forward read x', () => {
  const g = everything()
  const windowOf = (a: Access | undefined) => (a?.tag === 'window' ? a : undefined)
  let compared = 0
  for (const op of g.ops.filter((o) => o.phase === 'backward'))
    for (const [i, v] of op.outs.entries()) {
      const forwardOp = g.ops.find((o) => o.phase === 'forward' && o.layer === op.layer && o.ins.includes(g.values[v]!.gradOf!))
      const dx = maps(g, op).outs[i]
      if (!forwardOp || !dx) continue
      const x = maps(g, forwardOp).ins[forwardOp.ins.indexOf(g.values[v]!.gradOf!)]!
      for (const dim of ['H', 'W'] as const)
        if (windowOf(x[dim]) ?? windowOf(dx[dim])) {
          assert.equal(dx[dim], x[dim], `${op.kind} ${dim}`)
          compared++
        }
    }
  assert.ok(compared >= 6, `${compared} windows compared`)
})

test.run()
