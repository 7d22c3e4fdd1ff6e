// Protocol buffers by the official definitions (protos/). In: a message's name; untrusted bytes, or plain objects. Out: the message, or the reason
// why not. Invariant: bytes are counted before any object is made: a message of many small ones, or of nested ones, costs nothing. 64-bit numbers are
// numbers if they are exact, otherwise their reader refuses them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { parse, Reader, type Root, type Type } from 'protobufjs'
import { packageFolder } from './version'

export type ProtoFile = 'onnx' | 'tensorboard'

const roots = new Map<ProtoFile, Root>()
const rootOf = (file: ProtoFile): Root => {
  const known = roots.get(file)
  if (known) return known
  const { root } = parse(readFileSync(join(packageFolder(), 'protos', `${file}.proto`), 'utf8'))
  root.resolveAll()
  roots.set(file, root)
  return root
}

export const messageType = (file: ProtoFile, name: string): Type => rootOf(file).lookupType(name)

/** A field's number and kind, as it stands before the field's bytes: of one that is bytes, text or a message. */
export const tagOf = (type: Type, field: string): number => (type.fields[field]!.id << 3) | 2

// ---------------------------------------------------------------- limits

export interface Limits {
  /** Messages within messages. */
  readonly depth: number
  /** Messages in all; each becomes an object. */
  readonly messages: number
  /** Numbers and texts of repeated fields; each becomes an element. */
  readonly elements: number
}

interface Count {
  messages: number
  elements: number
}

const LENGTH_DELIMITED = 2
const TEXTS = ['string', 'bytes']

/** Walks over bytes by the definitions, without making anything. Throws its first error. */
const walk = (type: Type, r: Reader, end: number, depth: number, limits: Limits, count: Count): void => {
  if (depth > limits.depth) throw new Error(`its messages nest deeper than ${limits.depth}`)
  if (++count.messages > limits.messages) throw new Error(`it has more than ${limits.messages} parts`)
  while (r.pos < end) {
    const tag = r.uint32()
    const [id, wire] = [tag >>> 3, tag & 7]
    const field = type.fieldsById[id]
    if (field === undefined || wire !== LENGTH_DELIMITED) {
      r.skipType(wire)
      if (field?.repeated) count.elements++
    } else {
      const bytes = r.uint32()
      const next = r.pos + bytes
      if (next > end) throw new Error('a part exceeds its end')
      const inner = field.resolve().resolvedType
      if (inner !== null && 'fieldsById' in inner) walk(inner as Type, r, next, depth + 1, limits, count)
      else if (field.repeated) count.elements += TEXTS.includes(field.type) ? 1 : bytes
      r.pos = next
    }
    if (count.elements > limits.elements) throw new Error(`it lists more than ${limits.elements} numbers one by one`)
  }
  if (r.pos !== end) throw new Error('a part exceeds its end')
}

/** The words of protobufjs, without offsets. */
const reasonOf = (e: unknown): string => {
  const { message } = E.toError(e)
  return /index out of range|invalid wire|invalid varint/.test(message)
    ? 'its bytes are not a message, or are truncated'
    : message
}

/** A message, by its definition. */
export const decoded = <T>(type: Type, bytes: Uint8Array, limits: Limits): Either<string, T> =>
  E.tryCatch(() => {
    const count = { messages: 0, elements: 0 }
    walk(type, Reader.create(bytes), bytes.length, 1, limits, count)
    return type.decode(bytes) as unknown as T
  }, reasonOf)

export const encoded = (type: Type, message: object): Uint8Array => type.encode(message as Record<string, unknown>).finish()

/** protobufjs's value for 64 bits. */
export type Int64 = number | { readonly toNumber: () => number }
export const numberOf = (n: Int64): number => (typeof n === 'number' ? n : n.toNumber())
