// Runs convolutions without a fast way of oneDNN in every layout, each direction once: onednn.test.ts starts this as a process of its own and reads
// the library's log of its primitives.
import { nativeCall } from '../../src/machine/operands'
import { loadNative } from '../../src/device/native'
import { FULL } from '../full'

interface Shape {
  readonly batch: number
  readonly channels: readonly [number, number]
  readonly image: readonly [number, number]
  readonly kernel: number
  readonly pad?: number
  readonly stride?: number
  readonly dilation?: number
  readonly groups?: number
}

const SHAPES: readonly Shape[] = [
  { batch: 1, channels: [64, 3], image: [40, 40], kernel: 3, pad: 1 },
  { batch: 1, channels: [64, 1], image: [40, 40], kernel: 3, pad: 1 },
  { batch: 1, channels: [18, 30], image: [20, 20], kernel: 3, pad: 1 },
  { batch: 2, channels: [32, 32], image: [20, 20], kernel: 3, pad: 1, groups: 8 },
  { batch: 1, channels: [64, 64], image: [33, 33], kernel: 3, pad: 36, dilation: 36 },
  { batch: 2, channels: [8, 256], image: [33, 33], kernel: 1, stride: 2 },
  { batch: 2, channels: [12, 20], image: [33, 33], kernel: 1, stride: 3 },
  { batch: 1, channels: [24, 2], image: [16, 1], kernel: 7, pad: 7, dilation: 2, groups: 2 },
]

const native = loadNative()
for (const { batch, channels, image, kernel, pad = 0, stride = 1, dilation = 1, groups = 1 } of SHAPES.filter(
  (_, i) => FULL || i % 2 === 0,
)) {
  const attrs = {
    strideH: stride,
    strideW: stride,
    padTop: pad,
    padLeft: pad,
    padBottom: pad,
    padRight: pad,
    dilationH: dilation,
    dilationW: dilation,
    groups,
  }
  const out = image.map((n) => Math.floor((n + 2 * pad - dilation * (kernel - 1) - 1) / stride) + 1)
  const x = [batch, channels[0], ...image]
  const y = [batch, channels[1], ...out]
  const w = [channels[1], channels[0] / groups, kernel, kernel]
  for (const [kind, ins, outs] of [
    ['conv2d', [x, w], [y]],
    ['conv2d_bwd_data', [y, w], [x]],
    ['conv2d_bwd_weights', [x, y], [w]],
  ] as const)
    for (const bf16 of [false, true]) {
      const c = nativeCall(kind, attrs, { ins, outs, ...(bf16 ? { bf16 } : {}) }, 'f32')
      if (native.ways({ device: 'cpu', ...c }).length > 0) native.measure({ device: 'cpu', ...c })
    }
}
