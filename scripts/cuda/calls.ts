// Every convolution that a step of a network of the zoo takes on a GPU, at the network's own input. In: the zoo. Out: calls, each once,
// by key: operator, attributes, shapes. Worked example: conv2d|1,1,1,1,1,1,1,1,1|1,64,56,56 64,64,3,3|1,64,56,56.
import { isRight } from 'fp-ts/Either'
import type { AnyAttrs, CallShapes } from '../../staging/ops/op'
import { machines } from '../../staging/sim/machines'
import { convolutionKey } from '../../staging/sim/cudnnscratch'
import { UNTAUGHT } from '../../src/machine/taught'
import { prepare } from '../../src/stage/prepare'
import { zoo, type ZooEntry } from '../../src/zoo'

export interface ConvolutionCall {
  readonly key: string
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly shapes: CallShapes
}

const MACHINE = { ...machines['h200-pcie-141g']!, tier: { kind: 'memory' } as const, ...UNTAUGHT }

export const callsOf = (entry: ZooEntry): readonly ConvolutionCall[] => {
  const model = entry.build()
  if (!isRight(model)) throw new Error(`${entry.name}: ${JSON.stringify(model.left)}`)
  const prepared = prepare(model.right, MACHINE, entry.loss === undefined ? {} : { loss: entry.loss })
  if (!isRight(prepared)) throw new Error(`${entry.name}: ${JSON.stringify(prepared.left)}`)
  const { ops, values } = prepared.right.graph
  const shapesOf = (ids: readonly number[]): readonly (readonly number[])[] => ids.map((id) => values[id]!.shape)
  return ops.flatMap(({ kind, attrs, ins, outs }) => {
    const shapes: CallShapes = { ins: shapesOf(ins), outs: shapesOf(outs) }
    const key = convolutionKey(kind, attrs, shapes)
    return key === undefined ? [] : [{ key, kind, attrs, shapes }]
  })
}

export const zooCalls = (names?: readonly string[]): readonly ConvolutionCall[] => {
  const all = zoo.filter((e) => names === undefined || names.includes(e.name)).flatMap(callsOf)
  return [...new Map(all.map((c) => [c.key, c])).values()]
}
