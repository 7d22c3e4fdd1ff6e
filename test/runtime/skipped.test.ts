// Winograd convolutions of images whose parts are 0: empty tiles take no products. Results and both gradients equal those of `ref`, whose kernels
// compute everything.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { DEVICE } from '../e2e/runs'

const native = loadNative()
const ATTRS = [1, 1, 1, 1, 1, 1, 1, 1, 1]

/** Numbers from -0.5 to 0.5, channels last; 0 where `isEmpty`. */
const image = ([b, c, h, w]: readonly number[], seed: number, isEmpty: (y: number, x: number) => boolean): Float32Array => {
  const out = new Float32Array(b! * c! * h! * w!)
  for (let i = 0; i < out.length; i++) {
    const pixel = Math.floor(i / c!)
    const [y, x] = [Math.floor(pixel / w!) % h!, pixel % w!]
    out[i] = isEmpty(y, x) ? (i % 2 ? 0 : -0) : (Math.imul(i + seed, 0x9e3779b9) >>> 0) / 2 ** 32 - 0.5
  }
  return out
}
const plain = (n: number, seed: number): Float32Array => image([1, 1, 1, n], seed, () => false)

interface Case {
  readonly name: string
  readonly channels: readonly [number, number]
  readonly isEmpty: (y: number, x: number) => boolean
}
const CASES: readonly Case[] = [
  { name: 'all of it', channels: [16, 32], isEmpty: () => true },
  { name: 'a half', channels: [16, 32], isEmpty: (_, x) => x >= 23 },
  { name: 'all but a corner', channels: [32, 16], isEmpty: (y, x) => y < 31 || x < 29 },
  { name: 'blocks', channels: [16, 16], isEmpty: (y, x) => (Math.floor(y / 8) + Math.floor(x / 8)) % 2 === 0 },
  // The forms of these weights are larger than a cache: threads share tiles.
  { name: 'blocks of many channels', channels: [176, 192], isEmpty: (y, x) => y < 24 && x > 7 },
  { name: 'all of it, of many channels', channels: [176, 192], isEmpty: () => true },
]

for (const { name, channels, isEmpty } of DEVICE === 'cpu' ? CASES : [])
  test(`empty: ${name}`, () => {
    const [C, O] = channels
    const [x, y, w] = [
      [2, C, 37, 43],
      [2, O, 37, 43],
      [O, C, 3, 3],
    ] as const
    const tensor = (dims: readonly number[], data: Float32Array) => ({ dims, data })
    const [xs, dys] = [image(x, 1, isEmpty), image(y, 2, isEmpty)]
    const calls = [
      { kind: 'conv2d', ins: [tensor(x, xs), tensor(w, plain(O * C * 9, 3)), tensor([O], plain(O, 4))], outs: [y] },
      { kind: 'conv2d_bwd_data', ins: [tensor(y, dys), tensor(w, plain(O * C * 9, 3))], outs: [x] },
      { kind: 'conv2d_bwd_weights', ins: [tensor(x, xs), tensor(y, dys)], outs: [w, [O]] },
      {
        kind: 'conv2d_bwd_weights',
        ins: [
          tensor(
            x,
            image(x, 1, () => false),
          ),
          tensor(y, dys),
        ],
        outs: [w, [O]],
      },
    ]
    for (const { kind, ins, outs } of calls) {
      const shapes = { kind, attrs: ATTRS, ins: ins.map(({ dims }) => ({ dims })), outs: outs.map((dims) => ({ dims })) }
      const winograd = native.ways({ device: 'cpu', ...shapes }).find((way) => way.name === 'winograd')
      assert.ok(winograd, `${kind} has a way by Winograd`)
      const run = (device: 'ref' | 'cpu', way = 0): readonly Float32Array[] => {
        const made = outs.map((dims) => new Float32Array(dims.reduce((n, d) => n * d, 1)).fill(Number.NaN))
        const views = outs.map((dims, i) => ({ dims, data: made[i]! }))
        native.runKernel({ device, kind, attrs: ATTRS, ins, outs: views, way })
        return made
      }
      const [expected, got] = [run('ref'), run('cpu', winograd.way)]
      expected.forEach((values, i) => {
        const most = values.reduce((m, v) => Math.max(m, Math.abs(v)), 1e-6)
        const off = got[i]!.reduce((m, v, k) => Math.max(m, Math.abs(v - values[k]!)), 0)
        assert.ok(off <= 1e-4 * most, `${kind}, output ${i}: ${off} of ${most}`)
      })
    }
  })

test.run()
