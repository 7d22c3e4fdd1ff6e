// The safetensors format. In: a file of untrusted bytes, or named tensors. Out: an index of byte ranges, or a file.
// Invariant: every range of an index lies inside the file, has the bytes its shape needs, and the ranges tile the data
// area without holes or overlap, as the format demands.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { decodedOr, parsedJson, tuple, whole } from '../../staging/core/codecs'
import type { FileKind, SpillwayError } from '../errors/errors'
import { type ByteStream, type Links, readRange, type Written, withFile, writeWhole } from './whole'

export const TENSOR_BYTES = { F64: 8, I64: 8, F32: 4, I32: 4, F16: 2, BF16: 2, I16: 2, U8: 1, I8: 1, BOOL: 1 } as const
export type TensorType = keyof typeof TENSOR_BYTES

/** A tensor in a file: where its bytes start, counted from the start of the file. */
export interface StoredTensor {
  readonly name: string
  readonly type: TensorType
  readonly shape: readonly number[]
  readonly offset: number
  readonly bytes: number
  /** In elements, where these do not lie one behind the other. */
  readonly strides?: readonly number[]
}
export interface TensorFile {
  readonly kind: FileKind
  readonly path: string
  readonly tensors: ReadonlyMap<string, StoredTensor>
  readonly metadata: Readonly<Record<string, string>>
}

/** A tensor to be written; its bytes are asked for when their turn comes, so that only one is in memory. */
export interface NewTensor extends Pick<StoredTensor, 'name' | 'type' | 'shape'> {
  readonly read: () => Either<SpillwayError, Uint8Array>
}

// ---------------------------------------------------------------- reading

/** The reference implementation's own limit. */
const MAX_HEADER_BYTES = 100_000_000

/** Three for each tensor: more than any model has. */
const MOST_BRACKETS = 2 ** 20

const entryCodec = t.strict({ dtype: t.keyof(TENSOR_BYTES), shape: t.array(whole), data_offsets: tuple(whole, whole) })
const metadataCodec = t.record(t.string, t.string)

/** Bytes of a tensor, or undefined when the product leaves the exact integers. */
export const tensorBytes = (type: TensorType, shape: readonly number[]): number | undefined => {
  let n: number = TENSOR_BYTES[type]
  for (const d of shape) {
    n *= d
    if (!Number.isSafeInteger(n)) return undefined
  }
  return n
}

const entryAt =
  (dataStart: number, dataBytes: number) =>
  ([name, raw]: readonly [string, unknown]): Either<string, StoredTensor> =>
    pipe(
      raw,
      decodedOr(entryCodec, `tensor '${name}' is not {dtype, shape, data_offsets} of a known type`),
      E.flatMap(({ dtype: type, shape, data_offsets: [begin, end] }) => {
        if (begin > end || end > dataBytes)
          return E.left(`tensor '${name}' is at bytes [${begin}, ${end}), but there are ${dataBytes} data bytes`)
        const bytes = end - begin
        return tensorBytes(type, shape) === bytes
          ? E.right({ name, type, shape, offset: dataStart + begin, bytes })
          : E.left(`tensor '${name}' ${type}[${shape.join(',')}] does not match its ${bytes} bytes`)
      }),
    )

/** Without holes, overlaps or bytes that belong to none. */
const tiling = (tensors: readonly StoredTensor[], dataStart: number, fileBytes: number): Either<string, void> => {
  let at = dataStart
  for (const s of [...tensors].sort((a, b) => a.offset - b.offset || a.bytes - b.bytes)) {
    if (s.offset !== at) return E.left(`tensor '${s.name}' ${s.offset < at ? 'overlaps the one before it' : 'follows a hole'}`)
    at += s.bytes
  }
  return at === fileBytes ? E.right(undefined) : E.left(`${fileBytes - at} bytes belong to no tensor`)
}

/** The header's JSON text and the size of the file it heads. */
const parseIndex = (
  header: string,
  headerBytes: number,
  fileBytes: number,
): Either<string, Pick<TensorFile, 'tensors' | 'metadata'>> => {
  const dataStart = 8 + headerBytes
  return pipe(
    parsedJson(header, MOST_BRACKETS),
    E.mapLeft((why) => `its header: ${why}`),
    E.flatMap(decodedOr(t.UnknownRecord, 'its header is not a JSON object')),
    E.map(({ __metadata__ = {}, ...entries }) => ({ __metadata__, entries })),
    E.bind('metadata', ({ __metadata__: m }) => decodedOr(metadataCodec, 'its __metadata__ is not an object of strings')(m)),
    E.bind('stored', ({ entries }) => E.traverseArray(entryAt(dataStart, fileBytes - dataStart))(Object.entries(entries))),
    E.tap(({ stored }) => tiling(stored, dataStart, fileBytes)),
    E.map(({ stored, metadata }) => ({ tensors: new Map(stored.map((s) => [s.name, s])), metadata })),
  )
}

const textOf = (bytes: Uint8Array): Either<string, string> =>
  E.tryCatch(
    () => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes),
    () => 'its header is not UTF-8',
  )

export const openTensors = (kind: FileKind, path: string): Either<SpillwayError, TensorFile> =>
  pipe(
    withFile(kind, path, (fd, fileBytes) => {
      const head = fileBytes < 8 ? undefined : readRange(fd, 0, 8)
      if (!head) return E.left(`${fileBytes} bytes are too few for a safetensors file`)
      const headerBytes = Number(new DataView(head.buffer).getBigUint64(0, true))
      if (headerBytes > MAX_HEADER_BYTES || headerBytes > fileBytes - 8)
        return E.left(`it is no safetensors file, or truncated: its header length of ${headerBytes} bytes exceeds the file`)
      return pipe(
        readRange(fd, 8, headerBytes),
        E.fromNullable('it is truncated in its header'),
        E.flatMap(textOf),
        E.flatMap((text) => parseIndex(text, headerBytes, fileBytes)),
      )
    }),
    E.map((index) => ({ kind, path, ...index })),
  )

const ELEMENTS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array } as const

/** The elements of a tensor one behind the other, out of all from its first to its last. */
const gathered = (from: Uint8Array, { type, shape, bytes }: StoredTensor, strides: readonly number[]): Uint8Array => {
  const Elements = ELEMENTS[TENSOR_BYTES[type]]
  const source = new Elements(from.buffer as ArrayBuffer)
  const made = new Elements(bytes / Elements.BYTES_PER_ELEMENT)
  let to = 0
  const copy = (dim: number, at: number): void => {
    if (dim === shape.length) made[to++] = source[at]!
    else for (let i = 0; i < shape[dim]!; i++) copy(dim + 1, at + i * strides[dim]!)
  }
  copy(0, 0)
  return new Uint8Array(made.buffer)
}

const bytesOf = (fd: number, s: StoredTensor): Uint8Array | undefined => {
  if (s.strides === undefined) return readRange(fd, s.offset, s.bytes)
  const { strides, shape } = s
  const elements = shape.reduce((n, d, i) => n + (d - 1) * strides[i]!, 1)
  const from = readRange(fd, s.offset, elements * TENSOR_BYTES[s.type])
  return from && gathered(from, s, strides)
}

export const readTensor = ({ kind, path }: TensorFile, stored: StoredTensor): Either<SpillwayError, Uint8Array> =>
  withFile(kind, path, (fd) => E.fromNullable(`it is truncated in tensor '${stored.name}'`)(bytesOf(fd, stored)))

// ---------------------------------------------------------------- writing

/** Widest types first, then by name, so that every tensor is aligned: the reference writer's order. */
const inFileOrder = (tensors: readonly NewTensor[]): readonly NewTensor[] =>
  [...tensors].sort((a, b) => TENSOR_BYTES[b.type] - TENSOR_BYTES[a.type] || (a.name < b.name ? -1 : 1))

export const headerOf = (
  tensors: readonly Omit<NewTensor, 'read'>[],
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array => {
  const entries: [string, unknown][] = Object.keys(metadata).length ? [['__metadata__', metadata]] : []
  let at = 0
  for (const x of tensors) {
    const bytes = tensorBytes(x.type, x.shape)
    if (bytes === undefined) throw new Error(`tensor ${x.name} is too large to write`)
    entries.push([x.name, { dtype: x.type, shape: x.shape, data_offsets: [at, at + bytes] }])
    at += bytes
  }
  const json = Buffer.from(JSON.stringify(Object.fromEntries(entries)), 'utf8')
  const padded = Buffer.alloc(Math.ceil(json.length / 8) * 8, ' ')
  json.copy(padded)
  const head = Buffer.alloc(8)
  head.writeBigUInt64LE(BigInt(padded.length))
  return Buffer.concat([head, padded])
}

const piecesOf = function* (tensors: readonly NewTensor[], metadata: Readonly<Record<string, string>>): ByteStream {
  yield E.right(headerOf(tensors, metadata))
  for (const x of tensors)
    yield pipe(
      x.read(),
      E.tap((bytes) => {
        if (bytes.length !== tensorBytes(x.type, x.shape))
          throw new Error(`tensor ${x.name} has ${bytes.length} bytes, which does not match its shape`)
        return E.right(undefined)
      }),
    )
}

export const writeTensors = (
  path: string,
  tensors: readonly NewTensor[],
  metadata: Readonly<Record<string, string>> = {},
  links: Links = 'follow',
): Either<SpillwayError, Written> => writeWhole(path, piecesOf(inFileOrder(tensors), metadata), links)
