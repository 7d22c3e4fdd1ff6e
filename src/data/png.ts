// PNG files with literal numbers: masks of class labels, by palette index or grey value, with any colours. In: untrusted bytes. Out: one number a
// pixel. Invariant: nothing is unpacked before the declared size is found small enough, and no more than that size. (Portable Network Graphics,
// sections 4 and 9.)
import { inflateSync } from 'node:zlib'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'

export interface Labels {
  readonly width: number
  readonly height: number
  readonly pixels: Uint8Array
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const GREY = 0
const PALETTE = 3

interface Header {
  readonly width: number
  readonly height: number
  readonly bits: number
}

const headerIn = (file: Buffer, most: number): Either<string, Header> => {
  if (file.length < 33 || !file.subarray(0, 8).equals(SIGNATURE) || file.toString('latin1', 12, 16) !== 'IHDR')
    return E.left('it does not begin like a PNG file')
  const [width, height] = [file.readUInt32BE(16), file.readUInt32BE(20)]
  const [bits, colour, interlaced] = [file[24]!, file[25]!, file[28]!]
  if (width === 0 || height === 0 || width * height > most)
    return E.left(`it has ${width} x ${height} pixels; the limit is ${most}`)
  if (colour !== GREY && colour !== PALETTE)
    return E.left('its pixels are colours; a mask needs one label per pixel, in grey or as a palette')
  if (![1, 2, 4, 8].includes(bits)) return E.left(`its pixels have ${bits} bits; allowed in a mask: 1, 2, 4, 8`)
  if (interlaced !== 0) return E.left('it is interlaced: save it without interlacing')
  return E.right({ width, height, bits })
}

/** The compressed pixels, chunk by chunk. */
const dataIn = (file: Buffer): Either<string, Buffer> => {
  const parts: Buffer[] = []
  for (let at = 8; at + 12 <= file.length; ) {
    const length = file.readUInt32BE(at)
    const kind = file.toString('latin1', at + 4, at + 8)
    if (kind === 'IEND') return E.right(Buffer.concat(parts))
    if (at + 12 + length > file.length) break
    if (kind === 'IDAT') parts.push(file.subarray(at + 8, at + 8 + length))
    at += 12 + length
  }
  return E.left('it ends before its last pixel')
}

const paeth = (a: number, b: number, c: number): number => {
  const p = a + b - c
  const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)]
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c
}

/** The sum of each filter, from the byte to the left, above, and above that to the left. */
const FILTERS: readonly ((a: number, b: number, c: number) => number)[] = [
  () => 0,
  (a) => a,
  (_, b) => b,
  (a, b) => (a + b) >> 1,
  paeth,
]

/** Rows as they were before their filters, in place; a pixel is one byte at most, so its left neighbour is the byte before. */
const unfiltered = (rows: Buffer, height: number, rowBytes: number): Either<string, Buffer> => {
  const out = Buffer.alloc(height * rowBytes)
  for (let y = 0; y < height; y++) {
    const filter = FILTERS[rows[y * (rowBytes + 1)]!]
    if (!filter) return E.left(`row ${y} has an unknown filter`)
    const at = y * rowBytes
    for (let x = 0; x < rowBytes; x++) {
      const left = x > 0 ? out[at + x - 1]! : 0
      const above = y > 0 ? out[at + x - rowBytes]! : 0
      const corner = x > 0 && y > 0 ? out[at + x - rowBytes - 1]! : 0
      out[at + x] = rows[y * (rowBytes + 1) + 1 + x]! + filter(left, above, corner)
    }
  }
  return E.right(out)
}

const pixelsIn = (rows: Buffer, { width, height, bits }: Header, rowBytes: number): Uint8Array => {
  if (bits === 8) return rows
  const perByte = 8 / bits
  return Uint8Array.from({ length: width * height }, (_, i) => {
    const [x, y] = [i % width, Math.floor(i / width)]
    const byte = rows[y * rowBytes + Math.floor(x / perByte)]!
    return (byte >> (8 - bits * ((x % perByte) + 1))) & ((1 << bits) - 1)
  })
}

const unpacked = (data: Buffer, bytes: number): Either<string, Buffer> => {
  try {
    const rows = inflateSync(data, { maxOutputLength: bytes })
    return rows.length === bytes ? E.right(rows) : E.left('it ends before its last pixel')
  } catch {
    return E.left('its pixels cannot be decompressed')
  }
}

/** The labels of a mask, of at most `most` pixels. */
export const pngLabels = (file: Buffer, most: number): Either<string, Labels> => {
  const header = headerIn(file, most)
  if (E.isLeft(header)) return header
  const { width, height, bits } = header.right
  const rowBytes = Math.ceil((width * bits) / 8)
  const data = dataIn(file)
  const rows = E.flatMap((d: Buffer) => unpacked(d, height * (rowBytes + 1)))(data)
  return E.map((r: Buffer) => ({ width, height, pixels: pixelsIn(r, header.right, rowBytes) }))(
    E.flatMap((r: Buffer) => unfiltered(r, height, rowBytes))(rows),
  )
}
