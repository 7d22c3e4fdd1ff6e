// Calls known by their shapes only: the padding they imply, the smaller calls they are timed by, the scaling.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { CallShapes } from '../../../staging/ops/op'
import { nativeCall } from '../../../src/machine/operands'
import {
  callBytes,
  CPU_SAMPLES,
  type Measurements,
  roundedDown,
  sampleOf,
  slowestSeconds,
  takenOver,
  timer,
} from '../../../src/machine/timing'

const conv = (pad: number, stride = 1) => ({
  strideH: stride,
  strideW: stride,
  padTop: pad,
  padLeft: pad,
  padBottom: pad,
  padRight: pad,
  dilationH: 1,
  dilationW: 1,
  groups: 1,
})
const convCall = (rowsIn: number, rowsOut: number, c = 8, k = 3): CallShapes => ({
  ins: [[1, c, rowsIn, rowsIn], [c, c, k, k], [c]],
  outs: [[1, c, rowsOut, rowsOut]],
})

/** Rows of padding that a kernel sees at the top and the bottom (docs/internals/operators.md). */
const padding = (s: CallShapes, pad: number, stride: number, k: number): readonly [number, number] => {
  const call = nativeCall('conv2d', conv(pad, stride), s, 'f32')
  const [x, y] = [call.ins[0]!, call.outs[0]!]
  const first = y.origin[2]! * stride - pad
  const last = (y.origin[2]! + y.dims[2]! - 1) * stride - pad + k
  return [Math.max(0, x.origin[2]! - first), Math.max(0, last - (x.origin[2]! + x.dims[2]!))]
}

test('the padding of a tile follows from its shapes', () => {
  assert.equal(padding(convCall(8, 8), 1, 1, 3), [1, 1])
  assert.equal(padding(convCall(9, 8), 1, 1, 3), [1, 0])
  assert.equal(padding(convCall(10, 8), 1, 1, 3), [0, 0])
  assert.equal(padding(convCall(224, 112, 8, 7), 3, 2, 7), [3, 2])
  assert.equal(padding(convCall(224, 112, 8, 1), 0, 2, 1), [0, 0])
  assert.equal(padding(convCall(5, 3), 1, 2, 3), [1, 1])
})

test('operands of a timed call are inside their whole values', () => {
  for (const [rows, out] of [
    [8, 8],
    [9, 8],
    [10, 8],
  ] as const) {
    const call = nativeCall('conv2d', conv(1), convCall(rows, out), 'f64')
    for (const o of [...call.ins, ...call.outs])
      o.dims.forEach((d, i) =>
        assert.ok(o.origin[i]! >= 0 && o.origin[i]! + d <= o.extent[i]!, `${o.origin}+${o.dims} in ${o.extent}`),
      )
    assert.is(call.ins[0]!.dtype, 'f64')
  }
})

test('labels keep their integer type', () => {
  const call = nativeCall(
    'softmax_xent',
    { count: 4 },
    {
      ins: [
        [4, 10, 1, 1],
        [4, 1, 1, 1],
      ],
      outs: [[1]],
    },
    'f64',
  )
  assert.equal(
    call.ins.map((o) => o.dtype),
    ['f64', 'i32'],
  )
})

test('sizes are rounded down to few steps', () => {
  assert.equal(
    [1, 2, 3, 7, 17, 32, 35, 47, 48, 56, 100, 224, 509].map(roundedDown),
    [1, 2, 3, 7, 17, 32, 32, 44, 48, 56, 96, 224, 480],
  )
})

test('a large convolution is timed by a smaller one with the same channels, from inside the image', () => {
  const large = convCall(4096, 4096, 64)
  const { s: small } = sampleOf('conv2d', conv(1), large, 'f32')
  assert.ok(callBytes('conv2d', small, 'f32') <= CPU_SAMPLES.bytes)
  assert.equal(small.ins[1], [64, 64, 3, 3])
  assert.is(small.ins[0]![2], small.outs[0]![2]! + 2)
  assert.ok(small.outs[0]![2]! >= 8)
  for (const rows of [12, 13, 14]) assert.equal(sampleOf('conv2d', conv(1), convCall(rows, 12), 'f32').s, convCall(14, 12))
})

const dilated = { ...conv(12), dilationH: 12, dilationW: 12 }

test('a window that is mostly padding is timed unchanged', () => {
  assert.equal(sampleOf('conv2d', dilated, convCall(16, 16), 'f32'), { attrs: dilated, s: convCall(16, 16) })
  assert.is(sampleOf('conv2d', dilated, convCall(40, 16), 'f32').s.ins[0]![2], 40)
})

test('with fewer rows, a dilated window has a smaller dilation and the same share of padding', () => {
  const inside = sampleOf('conv2d', dilated, convCall(4096, 4096, 64), 'f32')
  assert.equal([inside.attrs.dilationH, inside.attrs.padTop, inside.attrs.padLeft], [1, 1, 12])
  assert.is(inside.s.ins[0]![2], inside.s.outs[0]![2]! + 2)
  assert.is(inside.s.ins[0]![3], inside.s.outs[0]![3]! + 24)
  const wide = { ...conv(48), dilationH: 48, dilationW: 48 }
  const { attrs, s } = sampleOf('conv2d', wide, convCall(96, 96, 1024), 'f32')
  assert.equal([attrs.dilationH, attrs.padTop, s.ins[0]![2], s.outs[0]![2]], [4, 4, 8, 8])
})

test('strided windows keep their relation when they are cut', () => {
  const { s } = sampleOf('conv2d', conv(3, 2), convCall(2048, 1024, 16, 7), 'f32')
  assert.is(s.ins[0]![2], (s.outs[0]![2]! - 1) * 2 + 7)
  assert.equal(padding(s, 3, 2, 7), [0, 0])
})

test('time scales with the work and each sample is measured once', () => {
  const known: Measurements = new Map()
  let measured = 0
  const t = timer(
    known,
    () => {
      measured++
      return { seconds: 0.001, quiet: true }
    },
    'f32',
  )
  const tall = (rows: number): CallShapes => ({ ins: [[1, 64, rows, 512], [64, 64, 3, 3], [64]], outs: [[1, 64, rows, 512]] })
  const one = t.seconds('conv2d', conv(1), tall(2048))
  const two = t.seconds('conv2d', conv(1), tall(4096))
  assert.is(measured, 1)
  assert.ok(Math.abs(two / one - 2) < 1e-9)
  assert.ok(t.isNew())
  const again = timer(
    known,
    () => {
      throw new Error('measured twice')
    },
    'f32',
  )
  assert.is(again.seconds('conv2d', conv(1), tall(2048)), one)
  assert.not.ok(again.isNew())
})

test('a measurement that something else disturbed is bounded, and known roughly', () => {
  const [known, rough]: [Measurements, Measurements] = [new Map(), new Map()]
  let measured = 0
  const t = timer(
    known,
    () => {
      measured++
      return { seconds: 20, quiet: true }
    },
    'f32',
    CPU_SAMPLES,
    { seconds: rough, mayBeBetter: () => true },
  )
  const call = convCall(16, 16)
  const slowest = slowestSeconds('conv2d', conv(1), sampleOf('conv2d', conv(1), call, 'f32').s, 'f32')
  assert.is(t.seconds('conv2d', conv(1), call), slowest)
  t.seconds('conv2d', conv(1), call)
  assert.equal([measured, known.size, [...rough.values()], t.isNew()], [1, 0, [slowest], true])
})

test('a measurement on a busy machine is used by the next process until the machine is quiet', () => {
  const [known, rough]: [Measurements, Measurements] = [new Map(), new Map()]
  let measured = 0
  const process = (seconds: number, quiet: boolean, mayBeBetter: boolean): number => {
    const measure = (): { readonly seconds: number; readonly quiet: boolean } => {
      measured++
      return { seconds, quiet }
    }
    const t = timer(known, measure, 'f32', CPU_SAMPLES, { seconds: rough, mayBeBetter: () => mayBeBetter })
    t.seconds('conv2d', conv(1), convCall(16, 16))
    return t.seconds('conv2d', conv(1), convCall(16, 16))
  }
  assert.is(process(3e-5, false, false), 3e-5)
  assert.is(process(1e-5, false, false), 3e-5)
  assert.equal([measured, known.size, rough.size], [1, 0, 1])
  // Disturbed again: the least time is the nearest to the truth.
  assert.is(process(5e-5, false, true), 3e-5)
  assert.is(process(2e-5, true, true), 2e-5)
  assert.equal([measured, known.size, rough.size], [3, 1, 0])
  assert.is(process(9e-5, true, true), 2e-5)
  assert.is(measured, 3)
})

test('a call beyond the time limit of measuring is estimated from the most similar call', () => {
  const t = timer(new Map(), (c) => ({ seconds: 1e-12 * c.outs[0]!.dims[1]! ** 3, quiet: true }), 'f32', {
    ...CPU_SAMPLES,
    patienceSeconds: 0,
  })
  const narrow = t.seconds('conv2d', conv(1), convCall(16, 16, 4))
  const like = t.seconds('conv2d', conv(1), convCall(16, 16, 5))
  const flopsRatio = (5 / 4) ** 2
  assert.ok(narrow > 0 && Math.abs(like / narrow - flopsRatio) < 0.01, `${like / narrow}`)
})

test('calls that work in place are timed in place', () => {
  const x = [1, 8, 16, 16]
  assert.is(takenOver('relu', { ins: [x], outs: [x] }), 0)
  assert.is(takenOver('relu_bwd', { ins: [x, x], outs: [x] }), 1)
  assert.is(takenOver('grad_sum', { ins: [[1, 8, 4, 16], x], outs: [x] }), undefined)
  assert.is(takenOver('conv2d', convCall(16, 16)), undefined)
  const seen: (number | undefined)[] = []
  const t = timer(
    new Map(),
    (_, __, inPlace) => {
      seen.push(inPlace)
      return { seconds: 1e-6, quiet: true }
    },
    'f32',
  )
  t.seconds('relu_bwd', { slope: 0 }, { ins: [x, x], outs: [x] })
  assert.equal(seen, [1])
})

test('counts, keys and rates do not make a call another one; strides do', () => {
  const known: Measurements = new Map()
  const t = timer(known, () => ({ seconds: 1e-5, quiet: true }), 'f32')
  const moments: CallShapes = { ins: [[2, 64]], outs: [[2, 64]] }
  t.seconds('merge_moments', { countX: 10, countY: 0 }, moments)
  t.seconds('merge_moments', { countX: 10, countY: 10 }, moments)
  assert.is(known.size, 1)
  t.seconds('conv2d', conv(1), convCall(16, 16))
  t.seconds('conv2d', conv(1, 2), { ...convCall(16, 8) })
  assert.is(known.size, 3)
})

test('each way to run a call is measured and known by itself', () => {
  const known: Measurements = new Map()
  const t = timer(known, (_, way) => ({ seconds: way === 1 ? 1e-4 : 2e-4, quiet: true }), 'f32')
  assert.is(t.seconds('conv2d', conv(1), convCall(16, 16, 16)), 2e-4)
  assert.is(t.seconds('conv2d', conv(1), convCall(16, 16, 16), 1), 1e-4)
  assert.is(known.size, 2)
})

test('a product with huge weights is not measured at its size', () => {
  const seen: number[] = []
  const t = timer(
    new Map(),
    (c) => {
      seen.push(c.ins.reduce((n, o) => n + o.dims.reduce((a, b) => a * b, 4), 0))
      return { seconds: 0.001, quiet: true }
    },
    'f32',
  )
  assert.ok(t.seconds('linear', {}, { ins: [[1, 25088, 1, 1], [4096, 25088], [4096]], outs: [[1, 4096, 1, 1]] }) > 0)
  assert.ok(Math.max(...seen) < 256 * 1024 ** 2)
})

test.run()
