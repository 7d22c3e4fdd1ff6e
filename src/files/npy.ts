// The header of a NumPy .npy file (versions 1 to 3, C order). In: untrusted bytes. Out: element type, shape, where the data starts.
// Invariant: an accepted header describes exactly the bytes that the file has.
import { type Either, left, right } from 'fp-ts/Either'
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

const shapeFrom = (tuple: string): readonly number[] | undefined => {
  const inner = tuple.slice(1, -1).trim()
  if (inner === '') return []
  const parts = inner.split(',').map((p) => p.trim())
  if (parts[parts.length - 1] === '') parts.pop()
  else if (parts.length === 1) return undefined
  return parts.every((p) => /^\d{1,15}$/.test(p)) ? parts.map(Number) : undefined
}

const elementType = (descr: string): Either<string, NpyType> => {
  const name = descr.slice(1, -1)
  const type = name.replace(/^[<|=]/, '')
  if (!Object.hasOwn(ELEMENT, type) || name.startsWith('>'))
    return left(`its elements are '${name}': legal are <f4, <f8, <f2, |u1, <i4, <i8`)
  return right(type as NpyType)
}

/** `head` is the start of the file: at least its header, when it has one. */
export const parseNpy = (head: Uint8Array, fileBytes: number): Either<string, NpyHeader> => {
  if (head.length < 10 || MAGIC.some((b, i) => head[i] !== b)) return left('it does not start as a .npy file does')
  const version = head[6]!
  if (version < 1 || version > 3 || head[7] !== 0) return left(`its format version ${version}.${head[7]} is not known`)
  const lengthBytes = version === 1 ? 2 : 4
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength)
  if (head.length < 8 + lengthBytes) return left('it ends inside its header')
  const length = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true)
  const offset = 8 + lengthBytes + length
  if (length > MAX_HEADER_BYTES || offset > head.length) return left(`its header of ${length} bytes does not fit`)
  const items = dictionary(Buffer.from(head.buffer, head.byteOffset + 8 + lengthBytes, length).toString('latin1'))
  if (!items) return left('its header is not the dictionary of descr, fortran_order and shape')
  return checked(items, offset, fileBytes)
}

const checked = (items: ReadonlyMap<string, string>, offset: number, fileBytes: number): Either<string, NpyHeader> => {
  const descr = items.get('descr')!
  if (!/^['"]/.test(descr)) return left('its descr is not a text')
  const type = elementType(descr)
  if (type._tag === 'Left') return type
  const order = items.get('fortran_order')!
  if (order === 'True') return left('it is in Fortran order: save np.ascontiguousarray(array)')
  if (order !== 'False') return left('its fortran_order is neither True nor False')
  const tuple = items.get('shape')!
  const shape = tuple.startsWith('(') ? shapeFrom(tuple) : undefined
  if (!shape) return left('its shape is not a tuple of sizes')
  const bytes = shape.reduce((n, d) => n * d, ELEMENT[type.right])
  if (!Number.isSafeInteger(bytes) || offset + bytes !== fileBytes)
    return left(
      `shape (${shape.join(', ')}) of ${type.right} needs ${bytes} bytes after the header, the file has ${fileBytes - offset}`,
    )
  return right({ type: type.right, shape, offset })
}

/** Left: why the file is refused. An absent or unreadable file throws the system's error. */
export const openNpy = (path: string): Either<string, NpyHeader> =>
  withFile(path, (fd, fileBytes) => {
    const head = readRange(fd, 0, Math.min(fileBytes, MAX_HEADER_BYTES + 12))
    return head ? parseNpy(head, fileBytes) : left('it ends inside its header')
  })
