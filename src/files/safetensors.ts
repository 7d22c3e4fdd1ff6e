// The safetensors format. In: a file of untrusted bytes, or named tensors. Out: an index of byte ranges, or a file.
// Invariant: every range of an index lies inside the file, has the bytes its shape needs, and the ranges tile the data
// area without holes or overlap, as the format demands.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { readRange, type Written, withFile, writeWhole } from './whole'

export const TENSOR_BYTES = { F64: 8, I64: 8, F32: 4, I32: 4, F16: 2, BF16: 2, I16: 2, U8: 1, I8: 1, BOOL: 1 } as const
export type TensorType = keyof typeof TENSOR_BYTES

/** A tensor in a file: where its bytes start, counted from the start of the file. */
export interface StoredTensor {
  readonly name: string
  readonly type: TensorType
  readonly shape: readonly number[]
  readonly offset: number
  readonly bytes: number
}
export interface TensorFile {
  readonly path: string
  readonly tensors: ReadonlyMap<string, StoredTensor>
  readonly metadata: Readonly<Record<string, string>>
}

/** A tensor to be written; its bytes are asked for when their turn comes, so that only one is in memory. */
export interface NewTensor {
  readonly name: string
  readonly type: TensorType
  readonly shape: readonly number[]
  readonly read: () => Uint8Array
}

// ---------------------------------------------------------------- reading

/** The reference implementation's own limit. */
const MAX_HEADER_BYTES = 100_000_000

const count = new t.Type<number>(
  'Count',
  (u): u is number => Number.isSafeInteger(u) && (u as number) >= 0,
  (u, c) => (Number.isSafeInteger(u) && (u as number) >= 0 ? t.success(u as number) : t.failure(u, c)),
  t.identity,
)
const entryCodec = t.strict({ dtype: t.keyof(TENSOR_BYTES), shape: t.array(count), data_offsets: t.tuple([count, count]) })
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

const entryOf = (name: string, raw: unknown, dataStart: number, dataBytes: number): Either<string, StoredTensor> => {
  const entry = entryCodec.decode(raw)
  if (isLeft(entry)) return left(`tensor '${name}' is not {dtype, shape, data_offsets} of a known type`)
  const {
    dtype,
    shape,
    data_offsets: [begin, end],
  } = entry.right
  if (begin > end || end > dataBytes) return left(`tensor '${name}' lies at [${begin}, ${end}) of ${dataBytes} data bytes`)
  const bytes = tensorBytes(dtype, shape)
  if (bytes !== end - begin) return left(`tensor '${name}' ${dtype}[${shape.join(',')}] does not have ${end - begin} bytes`)
  return right({ name, type: dtype, shape, offset: dataStart + begin, bytes })
}

/** The header's JSON text and the size of the file it heads. */
export const parseIndex = (path: string, header: string, headerBytes: number, fileBytes: number): Either<string, TensorFile> => {
  let json: unknown
  try {
    json = JSON.parse(header)
  } catch {
    return left('its header is not JSON')
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return left('its header is not a JSON object')
  const dataStart = 8 + headerBytes
  const tensors = new Map<string, StoredTensor>()
  let metadata: Readonly<Record<string, string>> = {}
  for (const [name, raw] of Object.entries(json)) {
    if (name === '__metadata__') {
      const m = metadataCodec.decode(raw)
      if (isLeft(m)) return left('its __metadata__ is not a record of texts')
      metadata = m.right
      continue
    }
    const entry = entryOf(name, raw, dataStart, fileBytes - dataStart)
    if (isLeft(entry)) return entry
    tensors.set(name, entry.right)
  }
  let at = dataStart
  for (const s of [...tensors.values()].sort((a, b) => a.offset - b.offset || a.bytes - b.bytes)) {
    if (s.offset !== at) return left(`tensor '${s.name}' ${s.offset < at ? 'overlaps the one before it' : 'follows a hole'}`)
    at += s.bytes
  }
  if (at !== fileBytes) return left(`${fileBytes - at} bytes belong to no tensor`)
  return right({ path, tensors, metadata })
}

/** Left: why the file is refused. An absent or unreadable file throws the system's error. */
export const openTensors = (path: string): Either<string, TensorFile> =>
  withFile(path, (fd, fileBytes) => {
    const head = fileBytes < 8 ? undefined : readRange(fd, 0, 8)
    if (!head) return left(`${fileBytes} bytes are too few for a safetensors file`)
    const headerBytes = Number(new DataView(head.buffer).getBigUint64(0, true))
    if (headerBytes > MAX_HEADER_BYTES || headerBytes > fileBytes - 8)
      return left(`its header of ${headerBytes} bytes does not fit`)
    const header = readRange(fd, 8, headerBytes)
    if (!header) return left('it ends inside its header')
    let text: string
    try {
      text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(header)
    } catch {
      return left('its header is not UTF-8')
    }
    return parseIndex(path, text, headerBytes, fileBytes)
  })

export const readTensor = (file: TensorFile, tensor: StoredTensor): Either<string, Uint8Array> =>
  withFile(file.path, (fd) => {
    const bytes = readRange(fd, tensor.offset, tensor.bytes)
    return bytes ? right(bytes) : left(`it ends inside tensor '${tensor.name}'`)
  })

// ---------------------------------------------------------------- writing

/** Widest types first, then by name, so that every tensor is aligned: the reference writer's order. */
const inFileOrder = (tensors: readonly NewTensor[]): readonly NewTensor[] =>
  [...tensors].sort((a, b) => TENSOR_BYTES[b.type] - TENSOR_BYTES[a.type] || (a.name < b.name ? -1 : 1))

const headerOf = (tensors: readonly NewTensor[], metadata: Readonly<Record<string, string>>): Uint8Array => {
  const entries: [string, unknown][] = Object.keys(metadata).length ? [['__metadata__', metadata]] : []
  let at = 0
  for (const x of tensors) {
    const bytes = tensorBytes(x.type, x.shape)
    if (bytes === undefined) throw new Error(`tensor ${x.name} is too large to be written`)
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

export const writeTensors = (
  path: string,
  tensors: readonly NewTensor[],
  metadata: Readonly<Record<string, string>> = {},
): Written =>
  writeWhole(path, (sink) => {
    const ordered = inFileOrder(tensors)
    sink(headerOf(ordered, metadata))
    for (const x of ordered) {
      const bytes = x.read()
      if (bytes.length !== tensorBytes(x.type, x.shape)) throw new Error(`tensor ${x.name} came with ${bytes.length} bytes`)
      sink(bytes)
    }
  })
