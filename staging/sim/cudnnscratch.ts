// cuDNN's scratch for convolutions on simulated GPUs, recorded without such GPUs (scripts/cuda/answers.ts). In: the GPU, a precision, a call. Out:
// the scratch of cuDNN's first engine, if the call is recorded; for a weight's gradient over another image, the largest recorded scratch for that
// weight; undefined for other shapes, whose scratch the op table bounds. Invariant: the result is the same on every machine, because the table is
// committed.
import type { AnyAttrs, CallShapes } from '../ops/op'
import type { Precision } from '../devices'
import type { RecordedGpu } from './accelerators'
import { calls as rows, columns } from './scratch.json'

type Scratch = (kind: string, attrs: AnyAttrs, s: CallShapes) => number | undefined

const CONVOLUTION = /^conv(2d|_transpose2d)(_|$)/

/**
 * Returns a key of calls that need the same scratch. A rectifier runs separately after a convolution. A bias is added by a kernel of our own, and its
 * gradient is a sum.
 */
export const convolutionKey = (kind: string, attrs: AnyAttrs, s: CallShapes): string | undefined => {
  if (!CONVOLUTION.test(kind)) return undefined
  const { slope: _, ...window } = attrs
  const plain = kind === 'conv2d_relu' ? 'conv2d' : kind
  return `${plain}|${Object.values(window).join()}|${s.ins.join(' ')}|${s.outs.join(' ')}`
}

interface Table {
  readonly calls: ReadonlyMap<string, readonly number[]>
  /** By window and weight: the largest scratch. The op table's bound would count a copy for each of eight threads of a processor. */
  readonly gradients: ReadonlyMap<string, readonly number[]>
}

/** Matches a weight's gradient for any image, with or without a bias's gradient. */
const GRADIENT = /^(conv(?:2d|_transpose2d)_bwd_weights\|[^|]*\|).*\|([^| ]*)[^|]*$/
const gradientKey = (key: string): string | undefined => {
  const match = GRADIENT.exec(key)
  return match ? match[1]! + match[2]! : undefined
}

const table = ((): (() => Table) => {
  let read: Table | undefined
  return () => {
    if (read) return read
    const calls = new Map<string, readonly number[]>()
    const gradients = new Map<string, readonly number[]>()
    for (const row of rows) {
      const [key, bytes] = row.split('=')
      const own = bytes!.split(',').map(Number)
      calls.set(key!, own)
      const weight = gradientKey(key!)
      if (weight !== undefined)
        gradients.set(
          weight,
          own.map((n, i) => Math.max(n, gradients.get(weight)?.[i] ?? 0)),
        )
    }
    read = { calls, gradients }
    return read
  }
})()

/** Returns the recorded scratch for a GPU in a precision. */
export const recordedScratch = (gpu: RecordedGpu | undefined, precision: Precision): Scratch => {
  const column = columns.indexOf(`${gpu} ${precision}`)
  return (kind, attrs, s) => {
    const key = column < 0 ? undefined : convolutionKey(kind, attrs, s)
    if (key === undefined) return undefined
    const { calls, gradients } = table()
    return (calls.get(key) ?? gradients.get(gradientKey(key) ?? ''))?.[column]
  }
}
