// What cuDNN names for convolutions on GPUs that are simulated, asked without them (scripts/cuda/answers.ts). In: a machine's name, a call.
// Out: the scratch of its first engine in fp32, where that was asked; undefined for other shapes, whose scratch the op table bounds.
// Invariant: the same for everybody: the table is committed.
import type { AnyAttrs, CallShapes } from '../ops/op'
import { SCRATCH } from './scratch'

type Scratch = (kind: string, attrs: AnyAttrs, s: CallShapes) => number | undefined

const CONVOLUTION = /^conv(2d|_transpose2d)(_|$)/

/** Calls that want one scratch: a rectifier comes behind a convolution by itself; a bias is added by an own kernel, and its gradient is a sum. */
export const convolutionKey = (kind: string, attrs: AnyAttrs, s: CallShapes): string | undefined => {
  if (!CONVOLUTION.test(kind)) return undefined
  const { slope: _, ...window } = attrs
  const plain = kind === 'conv2d_relu' ? 'conv2d' : kind
  return `${plain}|${Object.values(window).join()}|${s.ins.join(' ')}|${s.outs.join(' ')}`
}

/** In the order of the table's columns. */
const ASKED = ['h200-pcie-141g', 'a100-pcie-40g', '2080ti-pcie-11g']

const rows = ((): (() => ReadonlyMap<string, readonly number[]>) => {
  let read: ReadonlyMap<string, readonly number[]> | undefined
  return () => {
    read ??= new Map(
      SCRATCH.split('\n').flatMap((line) => {
        const [key, bytes] = line.split('=')
        return bytes === undefined ? [] : [[key!, bytes.split(',').map(Number)] as const]
      }),
    )
    return read
  }
})()

export const askedScratch = (machine: string): Scratch => {
  const column = ASKED.indexOf(machine)
  return (kind, attrs, s) => {
    const key = column < 0 ? undefined : convolutionKey(kind, attrs, s)
    return key === undefined ? undefined : rows().get(key)?.[column]
  }
}
