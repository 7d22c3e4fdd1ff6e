// ONNX models as plain objects, in the names of the official definitions (protos/onnx.proto). In: nodes, and weights that are read in turn. Out: the
// file's bytes, in pieces. Invariant: a file stays below protobuf's 2 GiB; a larger one has its weights in a second file beside it.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { Writer } from 'protobufjs'
import type { SpillwayError } from '../errors/errors'
import { encoded, type Int64, messageType, tagOf } from '../files/protobuf'
import { version } from '../files/version'
import type { ByteStream } from '../files/whole'

// ---------------------------------------------------------------- the messages, as protobufjs reads and takes them

export const ATTRIBUTE = { FLOAT: 1, INT: 2, STRING: 3, TENSOR: 4, FLOATS: 6, INTS: 7 } as const
/** Element types of tensors. */
export const ELEMENT = { FLOAT: 1, UINT8: 2, INT32: 6, INT64: 7, BOOL: 9, FLOAT16: 10, DOUBLE: 11, BFLOAT16: 16 } as const
export const EXTERNAL = 1
/** The domain of a program's nodes that ONNX does not have. */
export const OWN = 'spillway'

export interface TensorProto {
  readonly name?: string
  readonly dims?: readonly Int64[]
  readonly dataType?: number
  readonly rawData?: Uint8Array
  readonly floatData?: readonly number[]
  readonly int32Data?: readonly number[]
  readonly int64Data?: readonly Int64[]
  readonly doubleData?: readonly number[]
  readonly dataLocation?: number
  readonly externalData?: readonly { readonly key?: string; readonly value?: string }[]
}
export interface AttributeProto {
  readonly name?: string
  readonly type?: number
  readonly f?: number
  readonly i?: Int64
  readonly s?: Uint8Array
  readonly t?: TensorProto
  readonly floats?: readonly number[]
  readonly ints?: readonly Int64[]
}
export interface NodeProto {
  readonly name?: string
  readonly opType?: string
  readonly domain?: string
  readonly input?: readonly string[]
  readonly output?: readonly string[]
  readonly attribute?: readonly AttributeProto[]
  /** Nodes of PyTorch programs have two more facts: the operator in messages, and the reason if ONNX has no counterpart. */
  readonly called?: string
  readonly fault?: string
}
export interface DimensionProto {
  readonly dimValue?: Int64
  readonly dimParam?: string
}
export interface ValueInfoProto {
  readonly name?: string
  readonly type?: {
    readonly tensorType?: { readonly elemType?: number; readonly shape?: { readonly dim?: readonly DimensionProto[] } }
  }
}
export interface GraphProto {
  readonly name?: string
  readonly node?: readonly NodeProto[]
  readonly initializer?: readonly TensorProto[]
  readonly sparseInitializer?: readonly unknown[]
  readonly input?: readonly ValueInfoProto[]
  readonly output?: readonly ValueInfoProto[]
  readonly valueInfo?: readonly ValueInfoProto[]
}
export interface ModelProto {
  readonly irVersion?: Int64
  readonly producerName?: string
  readonly producerVersion?: string
  readonly opsetImport?: readonly { readonly domain?: string; readonly version?: Int64 }[]
  readonly graph?: GraphProto
  readonly functions?: readonly unknown[]
}

export const modelType = () => messageType('onnx', 'onnx.ModelProto')
const graphType = () => messageType('onnx', 'onnx.GraphProto')
const tensorType = () => messageType('onnx', 'onnx.TensorProto')

// ---------------------------------------------------------------- writing

/** Resize and Pad take the axes that they are along from here on, so that a batch of any size passes. */
export const OPSET = 18
const IR_VERSION = 8

/** PyTorch's GELU by tanh: x · ½ · (1 + tanh(scale · (x + cubic · x³))). */
export const GELU_SCALE = Math.sqrt(2 / Math.PI)
export const GELU_CUBIC = 0.044715

/** A weight: its numbers are asked for when their turn comes. */
export interface Weight {
  readonly name: string
  readonly shape: readonly number[]
  readonly read: () => Either<SpillwayError, Uint8Array>
}
export interface NewOnnx {
  readonly graph: Omit<GraphProto, 'initializer'>
  readonly weights: readonly Weight[]
}

export const weightBytes = ({ shape }: Weight): number => shape.reduce((n, d) => n * d, 4)

/** The bytes of the whole model without the numbers. */
const ROOM = 2 ** 26
const MOST_BYTES = 2 ** 31 - ROOM
/** Returns true if the weights need a file of their own. */
export const isLarge = ({ weights }: NewOnnx): boolean => weights.reduce((n, w) => n + weightBytes(w), 0) > MOST_BYTES

const numbers = (w: Weight): Either<SpillwayError, Uint8Array> =>
  pipe(
    w.read(),
    E.tap((bytes) => {
      if (bytes.length !== weightBytes(w))
        throw new Error(`weight ${w.name} has ${bytes.length} bytes, which does not match its shape`)
      return E.right(undefined)
    }),
  )

const ahead = (tag: number, bytes: number): Uint8Array => Writer.create().uint32(tag).uint32(bytes).finish()

/** The bytes before the numbers of a weight; `bytes` counts all, the numbers included. */
const headOf = (w: Weight): { readonly head: Uint8Array; readonly bytes: number } => {
  const type = tensorType()
  const own = encoded(type, { name: w.name, dims: w.shape, dataType: ELEMENT.FLOAT })
  const raw = ahead(tagOf(type, 'rawData'), weightBytes(w))
  const bytes = own.length + raw.length + weightBytes(w)
  const outer = ahead(tagOf(graphType(), 'initializer'), bytes)
  return { head: Buffer.concat([outer, own, raw]), bytes: outer.length + bytes }
}

const modelHead = (): Uint8Array =>
  encoded(modelType(), {
    irVersion: IR_VERSION,
    producerName: 'spillway',
    producerVersion: version(),
    opsetImport: [{ domain: '', version: OPSET }],
  })

/** All in one file: fields of a message may stand in any order, and the weights stand last. */
export const onnxPieces = function* ({ graph, weights }: NewOnnx): ByteStream {
  const body = encoded(graphType(), graph)
  const heads = weights.map(headOf)
  const bytes = heads.reduce((n, h) => n + h.bytes, body.length)
  yield E.right(Buffer.concat([modelHead(), ahead(tagOf(modelType(), 'graph'), bytes), body]))
  for (const [i, w] of weights.entries()) {
    yield E.right(heads[i]!.head)
    yield numbers(w)
  }
}

/** The weights' numbers one after the other. */
export const weightPieces = function* ({ weights }: NewOnnx): ByteStream {
  for (const w of weights) yield numbers(w)
}

/** The model whose weights lie in that file beside it. */
export const outsidePieces = function* ({ graph, weights }: NewOnnx, location: string): ByteStream {
  let at = 0
  const initializer = weights.map((w): TensorProto => {
    const bytes = weightBytes(w)
    const entries = { location, offset: `${at}`, length: `${bytes}` }
    at += bytes
    return {
      name: w.name,
      dims: w.shape,
      dataType: ELEMENT.FLOAT,
      dataLocation: EXTERNAL,
      externalData: Object.entries(entries).map(([key, value]) => ({ key, value })),
    }
  })
  const body = encoded(graphType(), { ...graph, initializer })
  yield E.right(Buffer.concat([modelHead(), ahead(tagOf(modelType(), 'graph'), body.length), body]))
}
