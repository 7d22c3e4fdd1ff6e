// Convolutions and pools as ONNX nodes.
import type { Op } from '../../staging/graph/graph'
import { windowOutput } from '../../staging/ops/rules'
import { type Attrs, type Inference, onImage, weightsOf, type Write } from './writing'

const convAttributes = (a: Attrs, kernel: readonly number[]) => ({
  dilations: [a['dilationH']!, a['dilationW']!],
  group: a['groups']!,
  kernel_shape: kernel.slice(2),
  pads: [a['padTop']!, a['padLeft']!, a['padBottom']!, a['padRight']!],
  strides: [a['strideH']!, a['strideW']!],
})

export const conv: Write = onImage((at, x, dims, op) =>
  at.nodes.add('Conv', [x, ...weightsOf(at, op)], dims, convAttributes(op.attrs, at.value(op.ins[1]!).shape)),
)

export const convTranspose: Write = onImage((at, x, dims, op) =>
  at.nodes.add('ConvTranspose', [x, ...weightsOf(at, op)], dims, {
    ...convAttributes(op.attrs, at.value(op.ins[1]!).shape),
    output_padding: [op.attrs['outputPadH']!, op.attrs['outputPadW']!],
  }),
)

interface Side {
  /** The missing part of the last window. */
  readonly extra: number
  /** True if rounding up rounds to the same. */
  readonly ceil: boolean
}

/** Windows that reach beyond the image get rows of padding, because operators differ in the last window. */
const sideOf = (extent: number, kernel: number, stride: number, low: number, high: number, ceil: boolean): Side => {
  const windows = windowOutput(extent, { kernel, stride, padLow: low, padHigh: high, dilation: 1, ceil })
  const lacking = (windows - 1) * stride + kernel - (extent + low + high)
  return { extra: Math.max(0, lacking), ceil: ceil && lacking >= 0 }
}

const poolOf = (at: Inference, { attrs: a, ins }: Op) => {
  const [, , h, w] = at.value(ins[0]!).shape
  const {
    kernelH,
    kernelW,
    strideH,
    strideW,
    padTop,
    padLeft,
    padEnd0 = padTop,
    padEnd1 = padLeft,
    padBottom = padEnd0,
    padRight = padEnd1,
    ceil,
  } = a as Record<string, number>
  const rows = sideOf(h!, kernelH!, strideH!, padTop!, padBottom!, ceil === 1)
  const columns = sideOf(w!, kernelW!, strideW!, padLeft!, padRight!, ceil === 1)
  return {
    pads: [padTop!, padLeft!, padBottom!, padRight!],
    extra: [rows.extra, columns.extra] as const,
    window: {
      ceil_mode: Number(rows.ceil && columns.ceil),
      kernel_shape: [kernelH!, kernelW!],
      strides: [strideH!, strideW!],
    },
  }
}

const withExtra = ([t, l, b, r]: readonly number[], [h, w]: readonly [number, number]) => [t!, l!, b! + h, r! + w]

export const maxPool: Write = onImage((at, x, dims, op) => {
  const { pads, extra, window } = poolOf(at, op)
  return at.nodes.add('MaxPool', [x], dims, { ...window, pads: withExtra(pads, extra) })
})

/** Zeros of the padding may count in the mean; the missing part of a last window does not. */
export const avgPool: Write = onImage((at, x, dims, op) => {
  const { pads, extra, window } = poolOf(at, op)
  const isPadded = pads.some((n) => n > 0)
  const counts = op.attrs['countIncludePad'] === 1 && (isPadded || extra[0] + extra[1] === 0)
  if (!counts || extra[0] + extra[1] === 0)
    return at.nodes.add('AveragePool', [x], dims, { ...window, pads: withExtra(pads, extra), count_include_pad: Number(counts) })
  const [t, l, b, r] = pads as [number, number, number, number]
  const [, c, h, w] = at.value(op.ins[0]!).shape
  const padded = at.nodes.add('Pad', [x, at.nodes.ints(0, 0, t, l, 0, 0, b, r)], ['batch', c!, h! + t + b, w! + l + r], {
    mode: 'constant',
  })
  return at.nodes.add('AveragePool', [padded], dims, { ...window, pads: [0, 0, ...extra], count_include_pad: 0 })
})
