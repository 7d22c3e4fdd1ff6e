// cuDNN's answers for convolutions on simulated GPUs, asked without such GPUs (scripts/cuda/answers.ts). In: the asked GPU, a precision, a
// call. Out: the scratch of its first engine, if that was asked; for a weight's gradient over another image, the largest answer for that weight; undefined
// for other shapes, whose scratch the op table bounds. Invariant: the same on every machine: the table is committed.
import type { AnyAttrs, CallShapes } from '../ops/op'
import type { Precision } from '../devices'
import type { AskedGpu } from './accelerators'
import { calls as rows, columns } from './scratch.json'

type Scratch = (kind: string, attrs: AnyAttrs, s: CallShapes) => number | undefined

const CONVOLUTION = /^conv(2d|_transpose2d)(_|$)/

/** Calls that want one scratch: a rectifier comes behind a convolution by itself; a bias is added by an own kernel, and its gradient is a sum. */
export const convolutionKey = (kind: string, attrs: AnyAttrs, s: CallShapes): string | undefined => {
  if (!CONVOLUTION.test(kind)) return undefined
  const { slope: _, ...window } = attrs
  const plain = kind === 'conv2d_relu' ? 'conv2d' : kind
  return `${plain}|${Object.values(window).join()}|${s.ins.join(' ')}|${s.outs.join(' ')}`
}

interface Table {
  readonly calls: ReadonlyMap<string, readonly number[]>
  /** By window and weight: the table's bound counts a copy for each of eight threads of a processor. */
  readonly gradients: ReadonlyMap<string, readonly number[]>
}

/** A weight's gradient, for any image, with a bias's or without. */
const GRADIENT = /^(conv(?:2d|_transpose2d)_bwd_weights\|[^|]*\|).*\|([^| ]*)[^|]*$/
const ofWeight = (key: string): string | undefined => {
  const found = GRADIENT.exec(key)
  return found ? found[1]! + found[2]! : undefined
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
      const weight = ofWeight(key!)
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

/** The answers for a GPU in a precision. */
export const askedScratch = (gpu: AskedGpu | undefined, precision: Precision): Scratch => {
  const column = columns.indexOf(`${gpu} ${precision}`)
  return (kind, attrs, s) => {
    const key = column < 0 ? undefined : convolutionKey(kind, attrs, s)
    if (key === undefined) return undefined
    const { calls, gradients } = table()
    return (calls.get(key) ?? gradients.get(ofWeight(key) ?? ''))?.[column]
  }
}
