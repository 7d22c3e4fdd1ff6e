// Single kernels through the addon: query, run, measure; what is refused.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ADDON, loadNative, tryLoadNative } from '../../src/device/native'

const native = loadNative()
const conv = [1, 1, 1, 1, 1, 1, 1, 1, 1]
const x = { dims: [1, 2, 4, 5] },
  w = { dims: [3, 2, 3, 3] },
  y = { dims: [1, 3, 4, 5] }

test('says what this build has', () => {
  const info = native.deviceInfo()
  assert.ok(info.devices.includes('ref') && info.devices.includes('null'))
  assert.ok(info.cores >= 1)
  assert.is(info.devices.includes('cpu'), info.oneDnn !== undefined)
  assert.ok(tryLoadNative()._tag === 'Right')
})

test('names the build that it is: a hash that stands in the addon', () => {
  const { build } = native.deviceInfo()
  assert.match(build, /^[0-9a-f]{40}$/)
  const file = process.env.SPILLWAY_ADDON ?? join(__dirname, '../..', ADDON)
  assert.ok(readFileSync(file).includes(Buffer.from(build, 'hex')))
  assert.is(native.deviceFacts('ref').build, build)
})

/** What measuring leaves behind would make OpenMP put the threads of a session to sleep between calls. */
test('ends the threads that measured when it forgets', () => {
  const threads = (): number => readdirSync('/proc/self/task').length
  const relu = [{ dims: [1, 64, 64, 64] }]
  const before = threads()
  native.measure('cpu', 'relu', [0], relu, relu, 'direct', 3)
  assert.is(threads(), before + 2)
  native.forget()
  assert.is(threads(), before)
})

test('asks kernels for their workspace, and whether shapes are legal', () => {
  assert.ok(native.query('ref', 'conv2d', conv, [x, w], [y]) >= 0)
  assert.is(native.query('ref', 1, conv, [x, w], [y]), native.query('ref', 'conv2d', conv, [x, w], [y]))
  assert.is(native.query('ref', 'conv2d', conv, [x, { dims: [3, 7, 3, 3] }], [y]), -1)
})

test('runs a kernel on typed arrays, dense and strided', () => {
  const data = new Float32Array([-1, 2, -3, 4, -5, 6]),
    out = new Float32Array(6)
  native.runKernel('ref', 'relu', [0.5], [{ dims: [1, 2, 1, 3], data }], [{ dims: [1, 2, 1, 3], data: out }])
  assert.equal([...out], [-0.5, 2, -1.5, 4, -2.5, 6])
  const wide = new Float32Array(12).fill(9)
  native.runKernel(
    'ref',
    'relu',
    [0],
    [{ dims: [1, 1, 1, 3], data, strides: [6, 1, 6, 2], offset: 1 }],
    [{ dims: [1, 1, 1, 3], data: wide, strides: [12, 1, 12, 4] }],
  )
  assert.equal([...wide], [2, 9, 9, 9, 4, 9, 9, 9, 6, 9, 9, 9])
})

test('runs a tile: the box says where it lies', () => {
  const image = Float32Array.from({ length: 5 }, (_, i) => i + 1),
    out = new Float32Array(2)
  const ones = new Float32Array(3).fill(1)
  // Rows 0 and 1 of a column of five, 3x1 window, padding 1: they see rows 0..2 and the border above.
  native.runKernel(
    'ref',
    'conv2d',
    [1, 1, 1, 0, 1, 0, 1, 1, 1],
    [
      { dims: [1, 1, 3, 1], extent: [1, 1, 5, 1], data: image },
      { dims: [1, 1, 3, 1], data: ones },
    ],
    [{ dims: [1, 1, 2, 1], extent: [1, 1, 5, 1], data: out }],
  )
  assert.equal([...out], [3, 6])
})

test('measures', () => {
  const { seconds } = native.measure(
    'ref',
    'conv2d',
    conv,
    [{ dims: [1, 8, 64, 64] }, { dims: [8, 8, 3, 3] }],
    [{ dims: [1, 8, 64, 64] }],
  )
  assert.ok(seconds > 1e-5 && seconds < 5, `${seconds}`)
  assert.throws(() => native.measure('ref', 'relu', [0], [x], [y], 'direct', 1, 'fp32', 1), /input 1 cannot be taken over/)
  assert.ok(native.measure('ref', 'relu', [0], [x], [x], 'direct', 1, 'fp32', 0).seconds > 0)
  const b = native.copyBandwidth()
  assert.ok(b.outBytesPerSecond > 1e8 && b.inBytesPerSecond > 1e8)
})

const f = (n: number): Float32Array => new Float32Array(n)
const WRONG: readonly (readonly [() => unknown, RegExp])[] = [
  [() => native.query('tpu' as never, 'relu', [0], [x], [x]), /there is no device 'tpu'/],
  [() => native.query('ref', 'teleport', [0], [x], [x]), /unknown operator teleport/],
  [() => native.query('ref', 'relu', [], [x], [x]), /relu has 1 attributes, not 0/],
  [() => native.query('ref', 'relu', [Number.NaN], [x], [x]), /attribute 0 is nan/],
  [() => native.query('ref', 'conv2d', [1.5, ...conv.slice(1)], [x, w], [y]), /attribute 0 is 1.5/],
  [() => native.query('ref', 'relu', [0], [x, x], [x]), /relu does not take 2 inputs/],
  [() => native.query('ref', 'relu', [0], [x], []), /relu does not take 0 outputs/],
  [() => native.query('ref', 'relu', [0], [{ dims: [1, 0, 4, 4] }], [x]), /empty or absurdly large/],
  [() => native.query('ref', 'relu', [0], [{ dims: [1, 2, 3] }], [x]), /must have rank 4/],
  [() => native.query('ref', 'relu', [0], [{ dims: [1, 2, 3, 4, 5] }], [x]), /one to four numbers/],
  [() => native.query('ref', 'relu', [0], [{ dims: [1, 2, 3, -4] }], [x]), /whole number/],
  [() => native.query('ref', 'relu', [0], [{ dims: [4294967295, 4294967295, 1, 1] }], [x]), /absurdly large/],
  [
    () => native.query('ref', 'relu', [0], [{ dims: [1, 1, 2, 2], extent: [1, 1, 1, 1] }], [x]),
    /passes the whole value in dimension 2/,
  ],
  [() => native.query('ref', 'relu', [0], [{ dims: [1, 1, 2, 2], dtype: 'f16' as never }], [x]), /dtype 'f16'/],
  [
    () => native.runKernel('ref', 'relu', [0], [{ dims: [1, 1, 2, 2], data: f(3) }], [{ dims: [1, 1, 2, 2], data: f(4) }]),
    /x.data has 3 elements; the view reaches element 4/,
  ],
  [
    () =>
      native.runKernel('ref', 'relu', [0], [{ dims: [1, 1, 2, 2], data: f(4) }], [{ dims: [1, 1, 2, 2], data: f(4), offset: 1 }]),
    /reaches element 5/,
  ],
  [
    () =>
      native.runKernel(
        'ref',
        'relu',
        [0],
        [{ dims: [1, 1, 2, 2], data: new Int32Array(4) }],
        [{ dims: [1, 1, 2, 2], data: f(4) }],
      ),
    /not of the operand's dtype/,
  ],
  [
    () => native.runKernel('ref', 'relu', [0], [{ dims: [1, 1, 2, 2] } as never], [{ dims: [1, 1, 2, 2], data: f(4) }]),
    /must be a typed array/,
  ],
  [
    () => native.runKernel('ref', 'relu', [0], [{ dims: [1, 1, 2, 2], data: f(4) }], [{ dims: [1, 1, 3, 2], data: f(6) }]),
    /refuses these shapes/,
  ],
  [() => (native.query as () => unknown)(), /device must be a string/],
  [() => native.copyBandwidth('/nonexistent'), /spill directory/],
]
WRONG.forEach(([act, says]) => test(`refuses: ${says.source}`, () => assert.throws(act, says)))

test('Winograd agrees with the direct algorithm where threads share several groups of tiles', () => {
  const [channels, rows, columns] = [176, 61, 57]
  const drawn = (n: number, seed: number): Float32Array =>
    Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898 + seed))
  const image = { dims: [1, channels, rows, columns], data: drawn(channels * rows * columns, 1) }
  const weights = { dims: [channels, channels, 3, 3], data: drawn(channels * channels * 9, 2) }
  const like = (t: typeof image) => ({ dims: t.dims, data: new Float32Array(t.data.length) })
  const calls = [
    ['conv2d', [image, weights], image],
    ['conv2d_bwd_data', [image, weights], image],
    ['conv2d_bwd_weights', [image, { ...image, data: drawn(image.data.length, 3) }], weights],
  ] as const
  for (const [kind, ins, shape] of calls) {
    const [direct, winograd] = [like(shape), like(shape)]
    native.runKernel('cpu', kind, conv, [...ins], [direct], { algorithm: 'direct' })
    native.runKernel('cpu', kind, conv, [...ins], [winograd], { algorithm: 'winograd' })
    const scale = Math.sqrt(direct.data.reduce((n, v) => n + v * v, 0) / direct.data.length)
    const worst = direct.data.reduce((n, v, i) => Math.max(n, Math.abs(v - winograd.data[i]!)), 0)
    assert.ok(worst / scale < 1e-4, `${kind}: ${worst / scale}`)
    assert.ok(direct.data.some((v) => Math.abs(v) > scale / 10))
  }
})

test.run()
