// ONNX files of untrusted bytes. In: a path. Out: the graph's nodes and its tensors, whose numbers are read when they are asked for; or why
// not, in words. Invariant: all sizes that the file declares were held against the bytes that are there before anything is made of
// them; a tensor outside the file lies in the file's own folder.
import { lstatSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { decoded, type Int64, type Limits, numberOf } from '../files/protobuf'
import type { SpillwayError } from '../errors/errors'
import { attempt } from '../errors/exceptions'
import { tensorBytes, type TensorType } from '../files/safetensors'
import { readRange, withFile } from '../files/whole'
import { type AttributeProto, ELEMENT, EXTERNAL, type GraphProto, type ModelProto, modelType, type TensorProto } from './onnx'

/** Far above networks of some thousand layers. */
const LIMITS: Limits = { depth: 32, messages: 1_000_000, elements: 2 ** 28 }
/** A protobuf message is not larger, and Node reads no larger file at once. */
const MOST_BYTES = 2 ** 31 - 1

const TYPES: Readonly<Record<number, TensorType>> = {
  [ELEMENT.FLOAT]: 'F32',
  [ELEMENT.INT32]: 'I32',
  [ELEMENT.INT64]: 'I64',
  [ELEMENT.BOOL]: 'BOOL',
  [ELEMENT.FLOAT16]: 'F16',
  [ELEMENT.DOUBLE]: 'F64',
  [ELEMENT.BFLOAT16]: 'BF16',
}

/** Numbers of a file, in C order. */
export interface Tensor {
  readonly name: string
  readonly type: TensorType
  readonly dims: readonly number[]
  /** True for a buffer of a PyTorch program, which PyTorch does not train. */
  readonly isFixed?: boolean
  /** True for a tensor of PyTorch's state dict. */
  readonly isSaved?: boolean
  readonly read: () => Either<SpillwayError, Uint8Array>
}

/** An array that the file computes from constants. */
export interface Constants {
  readonly dims: readonly number[]
  /** In C order. */
  readonly numbers: Float64Array
  readonly real: boolean
}

/** A graph of ONNX nodes: of an ONNX file, or of a PyTorch program (aten.ts). */
export interface OnnxFile {
  readonly path: string
  readonly graph: GraphProto
  readonly opset: number
  /** Arrays that a program computes from constants, by the names of their values. */
  readonly arrays?: ReadonlyMap<string, Constants>
  /** Modules of a program that have no layer and only act in training. */
  readonly left?: readonly string[]
  /** The state dict of a program. */
  readonly state?: readonly Tensor[]
  /** True for a program, whose nodes are written for the size of its example. */
  readonly isSized?: true
  /** Words of ours about this file. */
  readonly refused: (reason: string) => SpillwayError
  readonly tensor: (t: TensorProto, called: string) => Either<SpillwayError, Tensor>
}

// ---------------------------------------------------------------- tensors

type Refused = OnnxFile['refused']

/** If numbers are not bytes, they are listed by type. */
const listed = (t: TensorProto, type: TensorType): Uint8Array | undefined => {
  if (type === 'F32' && t.floatData?.length) return new Uint8Array(Float32Array.from(t.floatData).buffer)
  if (type === 'F64' && t.doubleData?.length) return new Uint8Array(Float64Array.from(t.doubleData).buffer)
  if (type === 'I64' && t.int64Data?.length)
    return new Uint8Array(BigInt64Array.from(t.int64Data, (n) => BigInt(n.toString())).buffer)
  if (!t.int32Data?.length) return undefined
  if (type === 'I32') return new Uint8Array(Int32Array.from(t.int32Data).buffer)
  if (type === 'F16' || type === 'BF16') return new Uint8Array(Uint16Array.from(t.int32Data).buffer)
  return type === 'BOOL' ? Uint8Array.from(t.int32Data) : undefined
}

/** Bytes [offset, offset + length) of a file in the same folder, which no link leads out of. */
const outside = (path: string, t: TensorProto, bytes: number, refused: Refused): Either<SpillwayError, () => Uint8Array> => {
  const entry = (key: string): string | undefined => t.externalData?.find((e) => e.key === key)?.value
  const location = entry('location') ?? ''
  const [offset, length] = [Number(entry('offset') ?? 0), Number(entry('length') ?? bytes)]
  if (location === '' || location === '.' || location === '..' || basename(location) !== location)
    return E.left(refused(`its weights are in '${location}'; allowed: the name of a file beside it`))
  if (![offset, length].every((n) => Number.isSafeInteger(n) && n >= 0) || length !== bytes)
    return E.left(
      refused(
        `tensor '${t.name ?? ''}' has ${bytes} bytes, but the file places it at bytes ${offset} to ${offset + length} of ${location}`,
      ),
    )
  const file = join(dirname(path), location)
  const stat = attempt(() => lstatSync(file))
  if (stat === undefined) return E.left({ tag: 'FileMissing', kind: 'weights', file })
  if (!stat.isFile()) return E.left(refused(`its weights are in '${location}', which is not a regular file`))
  if (offset + length > stat.size) return E.left(refused(`tensor '${t.name ?? ''}' is beyond the end of ${location}`))
  return E.right(() => {
    const read = withFile('weights', file, (fd) => E.fromNullable('it is truncated')(readRange(fd, offset, length)))
    if (E.isLeft(read)) throw new Error(`${file} changed during reading`)
    return read.right
  })
}

export const tensorOf =
  (path: string, refused: Refused) =>
  (t: TensorProto, called: string): Either<SpillwayError, Tensor> => {
    const type = TYPES[t.dataType ?? 0]
    const name = t.name || called
    if (type === undefined)
      return E.left(refused(`tensor '${name}' is of element type ${t.dataType}; allowed: ${Object.values(TYPES).join(', ')}`))
    const dims = (t.dims ?? []).map(numberOf)
    const bytes = dims.every((d) => Number.isSafeInteger(d) && d >= 0) ? tensorBytes(type, dims) : undefined
    const declared = `tensor '${name}' ${type}[${dims.join(',')}]`
    if (bytes === undefined) return E.left(refused(`${declared} has an impossible size`))
    const made = (read: () => Uint8Array): Tensor => ({ name, type, dims, read: () => E.right(read()) })
    if (t.dataLocation === EXTERNAL) return pipe(outside(path, t, bytes, refused), E.map(made))
    const own = t.rawData?.length ? t.rawData : (listed(t, type) ?? new Uint8Array(0))
    return own.length === bytes ? E.right(made(() => own)) : E.left(refused(`${declared} has ${own.length} bytes, not ${bytes}`))
  }

/** All of a small tensor of whole numbers, or of real ones. */
export const numbersOf = ({ type, read }: Tensor): readonly number[] | undefined => {
  const bytes = read()
  if (E.isLeft(bytes)) return undefined
  const copy = new Uint8Array(bytes.right)
  if (type === 'I64') return [...new BigInt64Array(copy.buffer)].map(Number)
  if (type === 'I32') return [...new Int32Array(copy.buffer)]
  if (type === 'F32') return [...new Float32Array(copy.buffer)]
  return type === 'F64' ? [...new Float64Array(copy.buffer)] : undefined
}

// ---------------------------------------------------------------- the file

const OWN_DOMAINS = ['', 'ai.onnx']
const LEAST_OPSET = 9

export const readOnnx = (path: string): Either<SpillwayError, OnnxFile> => {
  const refused: Refused = (reason) => ({ tag: 'FileRefused', kind: 'model', file: path, reason })
  return pipe(
    withFile('model', path, (fd, bytes) => {
      if (bytes > MOST_BYTES)
        return E.left(`it has ${bytes} bytes; an ONNX file has at most ${MOST_BYTES}; larger weights must be in a file beside it`)
      return pipe(
        readRange(fd, 0, bytes),
        E.fromNullable('it was truncated during reading'),
        E.flatMap((all) => decoded<ModelProto>(modelType(), all, LIMITS)),
        E.mapLeft((reason) => `it is not an ONNX model: ${reason}`),
        E.bindTo('model'),
        E.bind('graph', ({ model }) => E.fromNullable('it is not an ONNX model: it has no graph')(model.graph)),
        E.let('opset', ({ model }) =>
          numberOf((model.opsetImport ?? []).find((o) => OWN_DOMAINS.includes(o.domain ?? ''))?.version ?? 0),
        ),
        E.filterOrElse(
          ({ opset }) => opset >= LEAST_OPSET,
          ({ opset }) => `its operator set is version ${opset}; allowed: ${LEAST_OPSET} or newer`,
        ),
      )
    }),
    E.map(({ graph, opset }) => ({ path, graph, opset, refused, tensor: tensorOf(path, refused) })),
  )
}

// ---------------------------------------------------------------- attributes

export const intOf = (a: AttributeProto | undefined, usual: number): number => (a?.i === undefined ? usual : numberOf(a.i))
export const floatOf = (a: AttributeProto | undefined, usual: number): number => a?.f ?? usual
export const textOf = (a: AttributeProto | undefined, usual: string): string =>
  a?.s === undefined ? usual : Buffer.from(a.s).toString('utf8')
export const intsOf = (a: AttributeProto | undefined): readonly number[] | undefined =>
  a?.ints?.length ? a.ints.map((n: Int64) => numberOf(n)) : undefined
