// The header of a NumPy .npy file (versions 1 to 3, C order). In: untrusted bytes. Out: element type, shape, where the data starts.
// Invariant: an accepted header describes exactly the bytes that the file has.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { readRange, withFile } from './whole'

/** The element types that training data may have; the tag is the one of the native data source. */
const ELEMENT = { f2: 2, f4: 4, f8: 8, u1: 1, i4: 4, i8: 8 } as const
export type NpyType = keyof typeof ELEMENT
export interface NpyHeader {
  readonly type: NpyType
  readonly shape: readonly number[]
  readonly offset: number
}

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] as const
const MAX_HEADER_BYTES = 64 * 1024

/** The Python dictionary that NumPy writes: three keys in any order, a trailing comma allowed. */
const ITEM =
  /^\s*(?:'(descr|fortran_order|shape)'|"(descr|fortran_order|shape)")\s*:\s*('[^']{1,8}'|"[^"]{1,8}"|True|False|\([\d\s,]*\))\s*(,|(?=\}))/

const dictionary = (text: string): ReadonlyMap<string, string> | undefined => {
  const body = /^\s*\{([\s\S]*\})\s*$/.exec(text)
  if (!body) return undefined
  const found = new Map<string, string>()
  let rest = body[1]!
  for (let m = ITEM.exec(rest); m; m = ITEM.exec(rest)) {
    const key = m[1] ?? m[2]!
    if (found.has(key)) return undefined
    found.set(key, m[3]!)
    rest = rest.slice(m[0].length)
  }
  return found.size === 3 && /^\s*\}$/.test(rest) ? found : undefined
}

const shapeFrom = (tuple: string): Either<string, readonly number[]> => {
  const parts = /^\((.*)\)$/s
    .exec(tuple)?.[1]
    ?.split(',')
    .map((p) => p.trim())
  // A tuple of one has a comma behind it, an empty one none.
  const sizes = parts?.[parts.length - 1] === '' ? parts.slice(0, -1) : parts?.length === 1 ? undefined : parts
  return sizes?.every((p) => /^\d{1,15}$/.test(p)) ? E.right(sizes.map(Number)) : E.left('its shape is not a tuple of sizes')
}

const elementType = (descr: string): Either<string, NpyType> => {
  if (!/^['"]/.test(descr)) return E.left('its descr is not a string')
  const name = descr.slice(1, -1)
  const type = name.replace(/^[<|=]/, '')
  return Object.hasOwn(ELEMENT, type) && !name.startsWith('>')
    ? E.right(type as NpyType)
    : E.left(`its elements are '${name}'; allowed: <f4, <f8, <f2, |u1, <i4, <i8`)
}

const inCOrder = (order: string): Either<string, void> => {
  if (order === 'True') return E.left('it is in Fortran order: save np.ascontiguousarray(array)')
  return order === 'False' ? E.right(undefined) : E.left('its fortran_order is neither True nor False')
}

/** `head` is the start of the file: at least its header, when it has one. */
export const parseNpy = (head: Uint8Array, fileBytes: number): Either<string, NpyHeader> => {
  if (head.length < 10 || MAGIC.some((b, i) => head[i] !== b)) return E.left('it does not begin like a .npy file')
  const version = head[6]!
  if (version < 1 || version > 3 || head[7] !== 0) return E.left(`its format version ${version}.${head[7]} is unknown`)
  const lengthBytes = version === 1 ? 2 : 4
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength)
  if (head.length < 8 + lengthBytes) return E.left('it is truncated in its header')
  const length = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true)
  const offset = 8 + lengthBytes + length
  if (length > MAX_HEADER_BYTES || offset > head.length) return E.left(`its header length of ${length} bytes exceeds the file`)
  const items = dictionary(Buffer.from(head.buffer, head.byteOffset + 8 + lengthBytes, length).toString('latin1'))
  if (!items) return E.left('its header is not a dictionary of descr, fortran_order and shape')
  return described(items, offset, fileBytes)
}

const described = (items: ReadonlyMap<string, string>, offset: number, fileBytes: number): Either<string, NpyHeader> =>
  pipe(
    elementType(items.get('descr')!),
    E.bindTo('type'),
    E.tap(() => inCOrder(items.get('fortran_order')!)),
    E.bind('shape', () => shapeFrom(items.get('shape')!)),
    E.flatMap(({ type, shape }) => {
      const bytes = shape.reduce((n, d) => n * d, ELEMENT[type])
      return Number.isSafeInteger(bytes) && offset + bytes === fileBytes
        ? E.right({ type, shape, offset })
        : E.left(
            `shape (${shape.join(', ')}) of ${type} needs ${bytes} bytes after the header, but the file has ${fileBytes - offset}`,
          )
    }),
  )

/** The bytes before the numbers of a new file: version 1.0, padded so that they start at a multiple of 64. */
export const npyHead = (type: NpyType, shape: readonly number[]): Uint8Array => {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`
  const text = `{'descr': '${type === 'u1' ? '|' : '<'}${type}', 'fortran_order': False, 'shape': ${tuple}, }`
  const length = Math.ceil((10 + text.length + 1) / 64) * 64 - 10
  const head = Buffer.alloc(10 + length, ' ')
  head.set(MAGIC)
  head.writeUInt8(1, 6)
  head.writeUInt8(0, 7)
  head.writeUInt16LE(length, 8)
  head.write(text, 10, 'latin1')
  head.write('\n', 10 + length - 1, 'latin1')
  return head
}

export const openNpy = (path: string): Either<SpillwayError, NpyHeader> =>
  withFile('data', path, (fd, fileBytes) => {
    const head = readRange(fd, 0, Math.min(fileBytes, MAX_HEADER_BYTES + 12))
    return head ? parseNpy(head, fileBytes) : E.left('it is truncated in its header')
  })
