// Single kernels through the addon: query, run, measure; refusals.
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { devices } from '../../staging/devices'
import { opDef, opDefs } from '../../staging/ops/registry'
import { addonFile, loadNative, tryLoadNative } from '../../src/device/native'
import { gateTest } from '../full'

const native = loadNative()
const conv = [1, 1, 1, 1, 1, 1, 1, 1, 1]
const x = { dims: [1, 2, 4, 5] },
  w = { dims: [3, 2, 3, 3] },
  y = { dims: [1, 3, 4, 5] }

test('the addon reports the devices of this build', () => {
  const info = native.deviceInfo()
  assert.ok(info.devices.includes('ref') && info.devices.includes('null'))
  assert.ok(info.cores >= 1)
  // There are builds of cpu without oneDNN, and none of oneDNN without cpu.
  if (info.oneDnn !== undefined) {
    assert.match(info.oneDnn, /^\d+\.\d+\.\d+$/)
    assert.ok(info.devices.includes('cpu'))
  }
  assert.ok(tryLoadNative()._tag === 'Right')
})

test('the addon reports the hash of its build', () => {
  const { build } = native.deviceInfo()
  assert.match(build, /^[0-9a-f]{40}$/)
  assert.ok(readFileSync(addonFile()!).includes(Buffer.from(build, 'hex')))
  assert.is(native.deviceFacts('ref').build, build)
})

/** The state after a measurement would make OpenMP put the threads of a session to sleep between calls. */
gateTest('ends the threads that measured when it forgets', () => {
  const threads = (): number => readdirSync('/proc/self/task').length
  const relu = [{ dims: [1, 64, 64, 64] }]
  const before = threads()
  native.measure({ device: 'cpu', kind: 'relu', attrs: [0], ins: relu, outs: relu, way: 0, threads: 3 })
  assert.is(threads(), before + 2)
  native.forget()
  assert.is(threads(), before)
})

test('asks kernels for their workspace, and whether shapes are legal', () => {
  assert.ok(native.ways({ device: 'ref', kind: 'conv2d', attrs: conv, ins: [x, w], outs: [y] }).length > 0)
  assert.equal(
    native.ways({ device: 'ref', kind: 1, attrs: conv, ins: [x, w], outs: [y] }),
    native.ways({ device: 'ref', kind: 'conv2d', attrs: conv, ins: [x, w], outs: [y] }),
  )
  assert.equal(native.ways({ device: 'ref', kind: 'conv2d', attrs: conv, ins: [x, { dims: [3, 7, 3, 3] }], outs: [y] }), [])
})

test('sums over ranks need the scratch of their plan, in one round and in pieces', () => {
  for (const device of native.deviceInfo().devices.filter((d) => d === 'ref' || d === 'cpu'))
    for (const ranks of [1, 2, 3, 8, 1024])
      for (const n of [1, 31, 32, 33, 4095, 4096, 4097, 10922, 10923, 16384, 16385, 2 ** 15, 2 ** 15 + 1, 2 ** 21 + 1])
        for (const [kind, sizes] of [
          ['all_sum', [n]],
          ['all_sums', [n]],
          ['all_sums', [n, 1]],
        ] as const) {
          const shapes = sizes.map((size) => [size])
          const views = shapes.map((dims) => ({ dims }))
          const attrs = kind === 'all_sum' ? { ranks } : { ranks, beside: 0 }
          const [way] = native.ways({ device, kind, attrs: Object.values(attrs), ins: views, outs: views })
          const given = opDef(kind).workspace!(attrs as never, { ins: shapes, outs: shapes }, 1)
          assert.is(way!.workspace, given * (device === 'ref' ? 8 : 4), `${device} ${kind} ${ranks} ${sizes}`)
        }
})

/** A run must not continue with gradients that PyTorch makes zero. */
test('squares that are not finite leave no gradient that is', () => {
  for (const device of native.deviceInfo().devices.filter((d) => d === 'ref' || d === 'cpu'))
    for (const squares of [Number.POSITIVE_INFINITY, Number.NaN]) {
      const data = new Float32Array([1, -2, 3])
      const [dims, out] = [[3], new Float32Array(3)]
      const ins = [
        { dims, data },
        { dims: [1], data: new Float32Array([squares]) },
      ]
      native.runKernel({ device, kind: 'clip_norm', attrs: [1], ins, outs: [{ dims, data: out }] })
      assert.ok(out.every(Number.isNaN), `${device}: ${out}`)
    }
})

test('runs a kernel on typed arrays, dense and strided', () => {
  const data = new Float32Array([-1, 2, -3, 4, -5, 6]),
    out = new Float32Array(6)
  native.runKernel({
    device: 'ref',
    kind: 'relu',
    attrs: [0.5],
    ins: [{ dims: [1, 2, 1, 3], data }],
    outs: [{ dims: [1, 2, 1, 3], data: out }],
  })
  assert.equal([...out], [-0.5, 2, -1.5, 4, -2.5, 6])
  const wide = new Float32Array(12).fill(9)
  native.runKernel({
    device: 'ref',
    kind: 'relu',
    attrs: [0],
    ins: [{ dims: [1, 1, 1, 3], data, strides: [6, 1, 6, 2], offset: 1 }],
    outs: [{ dims: [1, 1, 1, 3], data: wide, strides: [12, 1, 12, 4] }],
  })
  assert.equal([...wide], [2, 9, 9, 9, 4, 9, 9, 9, 6, 9, 9, 9])
})

test('a kernel runs on a tile: the box gives its place', () => {
  const image = Float32Array.from({ length: 5 }, (_, i) => i + 1),
    out = new Float32Array(2)
  const ones = new Float32Array(3).fill(1)
  // Rows 0 and 1 of a column of five, 3x1 window, padding 1: they see rows 0..2 and the border above.
  native.runKernel({
    device: 'ref',
    kind: 'conv2d',
    attrs: [1, 1, 1, 0, 1, 0, 1, 1, 1],
    ins: [
      { dims: [1, 1, 3, 1], extent: [1, 1, 5, 1], data: image },
      { dims: [1, 1, 3, 1], data: ones },
    ],
    outs: [{ dims: [1, 1, 2, 1], extent: [1, 1, 5, 1], data: out }],
  })
  assert.equal([...out], [3, 6])
})

test('measures', () => {
  const { seconds } = native.measure({
    device: 'ref',
    kind: 'conv2d',
    attrs: conv,
    ins: [{ dims: [1, 8, 64, 64] }, { dims: [8, 8, 3, 3] }],
    outs: [{ dims: [1, 8, 64, 64] }],
  })
  assert.ok(seconds > 1e-5 && Number.isFinite(seconds), `${seconds}`)
  assert.throws(
    () =>
      native.measure({
        device: 'ref',
        kind: 'relu',
        attrs: [0],
        ins: [x],
        outs: [y],
        inPlace: 1,
      }),
    /input 1 cannot be the memory of the first output/,
  )
  assert.ok(
    native.measure({
      device: 'ref',
      kind: 'relu',
      attrs: [0],
      ins: [x],
      outs: [x],
      inPlace: 0,
    }).seconds > 0,
  )
  const b = native.copyBandwidth()
  assert.ok(b.outBytesPerSecond > 1e8 && b.inBytesPerSecond > 1e8)
})

const f = (n: number): Float32Array => new Float32Array(n)
const WRONG: readonly (readonly [() => unknown, RegExp])[] = [
  [() => native.ways({ device: 'tpu' as never, kind: 'relu', attrs: [0], ins: [x], outs: [x] }), /there is no device 'tpu'/],
  [() => native.ways({ device: 'ref', kind: 'teleport', attrs: [0], ins: [x], outs: [x] }), /unknown operator teleport/],
  [() => native.ways({ device: 'ref', kind: 'relu', attrs: [], ins: [x], outs: [x] }), /relu: 0 attributes instead of 1/],
  [() => native.ways({ device: 'ref', kind: 'relu', attrs: [Number.NaN], ins: [x], outs: [x] }), /attribute 0 is not finite/],
  [
    () => native.ways({ device: 'ref', kind: 'conv2d', attrs: [1.5, ...conv.slice(1)], ins: [x, w], outs: [y] }),
    /attribute 0 \(1.5\) is not an integer/,
  ],
  [() => native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [x, x], outs: [x] }), /relu: 2 inputs/],
  [() => native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [x], outs: [] }), /relu: 0 outputs/],
  [
    () => native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [{ dims: [1, 0, 4, 4] }], outs: [x] }),
    /a dimension is 0, or it has more/,
  ],
  [() => native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [{ dims: [1, 2, 3] }], outs: [x] }), /must have rank 4/],
  [
    () => native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [{ dims: [1, 2, 3, 4, 5] }], outs: [x] }),
    /one to four numbers/,
  ],
  [() => native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [{ dims: [1, 2, 3, -4] }], outs: [x] }), /whole number/],
  [
    () => native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [{ dims: [4294967295, 4294967295, 1, 1] }], outs: [x] }),
    /more than 2\^/,
  ],
  [
    () =>
      native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [{ dims: [1, 1, 2, 2], extent: [1, 1, 1, 1] }], outs: [x] }),
    /exceeds the whole value in dimension 2/,
  ],
  [
    () =>
      native.ways({ device: 'ref', kind: 'relu', attrs: [0], ins: [{ dims: [1, 1, 2, 2], dtype: 'f8' as never }], outs: [x] }),
    /dtype 'f8'/,
  ],
  [
    () =>
      native.runKernel({
        device: 'ref',
        kind: 'relu',
        attrs: [0],
        ins: [{ dims: [1, 1, 2, 2], data: f(3) }],
        outs: [{ dims: [1, 1, 2, 2], data: f(4) }],
      }),
    /x.data has 3 elements; the view reaches element 4/,
  ],
  [
    () =>
      native.runKernel({
        device: 'ref',
        kind: 'relu',
        attrs: [0],
        ins: [{ dims: [1, 1, 2, 2], data: f(4) }],
        outs: [{ dims: [1, 1, 2, 2], data: f(4), offset: 1 }],
      }),
    /reaches element 5/,
  ],
  [
    () =>
      native.runKernel({
        device: 'ref',
        kind: 'relu',
        attrs: [0],
        ins: [{ dims: [1, 1, 2, 2], data: new Int32Array(4) }],
        outs: [{ dims: [1, 1, 2, 2], data: f(4) }],
      }),
    /another type than the operand's dtype/,
  ],
  [
    () =>
      native.runKernel({
        device: 'ref',
        kind: 'relu',
        attrs: [0],
        ins: [{ dims: [1, 1, 2, 2] } as never],
        outs: [{ dims: [1, 1, 2, 2], data: f(4) }],
      }),
    /must be a typed array/,
  ],
  [
    () =>
      native.runKernel({
        device: 'ref',
        kind: 'relu',
        attrs: [0],
        ins: [{ dims: [1, 1, 2, 2], data: f(4) }],
        outs: [{ dims: [1, 1, 3, 2], data: f(6) }],
      }),
    /relu: x has the wrong layout/,
  ],
  [() => (native.ways as () => unknown)(), /request must be an object/],
  [() => native.ways({} as never), /device must be a string/],
  [() => native.copyBandwidth('/nonexistent'), /spill directory/],
]
WRONG.forEach(([act, says]) => test(`refuses: ${says.source}`, () => assert.throws(act, says)))

test('a device describes the ways of a call: Winograd for 3x3 windows, taps for dilated ones, between many channels; own ones for groups', () => {
  const ways = (
    channels: number,
    k: number,
    [stride, dilation]: readonly [number, number] = [1, 1],
    groups = 1,
    kind = 'conv2d',
  ): readonly string[] => {
    const reach = dilation * (k - 1) + 1
    const pad = (reach - 1) / 2
    const size = Math.floor((16 + 2 * pad - reach) / stride) + 1
    const attrs = [stride, stride, pad, pad, pad, pad, dilation, dilation, groups]
    const [x, y] = [16, size].map((n) => ({ dims: [1, channels, n, n] }))
    const w = { dims: [channels, channels / groups, k, k] }
    const [ins, outs] = kind === 'conv2d' ? [[x!, w], [y!]] : [[x!, y!], [w]]
    return native.ways({ device: 'cpu', kind, attrs, ins, outs }).map((w) => `${w.way} ${w.name}`)
  }
  assert.equal(ways(64, 3), ['0 direct', '1 winograd'])
  assert.equal(ways(64, 3, [2, 1]), ['0 direct'])
  assert.equal(ways(64, 3, [1, 2]), ['0 direct', '1 winograd', '2 taps'])
  assert.equal(ways(64, 3, [1, 12]), ['0 direct', '2 taps'])
  assert.equal(ways(64, 1, [1, 2]), ['0 direct'])
  assert.equal(ways(8, 3), ['0 direct'])
  assert.equal(ways(8, 3, [1, 2]), ['0 direct'])
  assert.equal(ways(48, 3, [2, 1], 2), ['0 direct', '3 grouped'])
  assert.equal(ways(48, 5, [1, 1], 48), ['0 direct'])
  assert.equal(ways(48, 3, [1, 1], 48, 'conv2d_bwd_weights'), ['0 direct'])
  assert.equal(ways(48, 5, [1, 1], 48, 'conv2d_bwd_weights'), ['0 direct', '3 grouped'])
})

test('devices report the properties that staging declares', () => {
  for (const name of native.deviceInfo().devices) {
    const { kernels, ...said } = native.describeDevice(name)
    const { dtype, precisions, gathersUpdates, fused } = devices[name]
    assert.equal(said, { name, dtype, precisions, gathersUpdates })
    assert.is(
      opDefs.every((op) => kernels.includes(op.kind)),
      fused,
    )
  }
})

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
    native.runKernel({ device: 'cpu', kind, attrs: conv, ins: [...ins], outs: [direct], way: 0 })
    native.runKernel({ device: 'cpu', kind, attrs: conv, ins: [...ins], outs: [winograd], way: 1 })
    const scale = Math.sqrt(direct.data.reduce((n, v) => n + v * v, 0) / direct.data.length)
    const worst = direct.data.reduce((n, v, i) => Math.max(n, Math.abs(v - winograd.data[i]!)), 0)
    assert.ok(worst / scale < 1e-4, `${kind}: ${worst / scale}`)
    assert.ok(direct.data.some((v) => Math.abs(v) > scale / 10))
  }
})

test.run()
