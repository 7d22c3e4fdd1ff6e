// PNG files for tests, written by the standard alone: each row with another filter.
import { crc32, deflateSync } from 'node:zlib'

export type Colour = 'grey' | 'rgb' | 'palette'
interface Image {
  readonly width: number
  readonly height: number
  readonly bits: 1 | 2 | 4 | 8 | 16
  readonly colour: Colour
  readonly pixels: Uint8Array | Uint16Array
  /** How many rows are written, if not those that are declared. */
  readonly rows?: number
}

const NUMBERS: Readonly<Record<Colour, number>> = { grey: 0, rgb: 2, palette: 3 }

const chunk = (kind: string, data: Uint8Array): Buffer => {
  const body = Buffer.concat([Buffer.from(kind, 'latin1'), data])
  const out = Buffer.alloc(8 + body.length)
  out.writeUInt32BE(data.length, 0)
  body.copy(out, 4)
  out.writeUInt32BE(crc32(body), 4 + body.length)
  return out
}

const packed = ({ width, bits, colour, pixels }: Image, y: number): Uint8Array => {
  const perRow = width * (colour === 'rgb' ? 3 : 1)
  const row = Array.from({ length: perRow }, (_, x) => pixels[y * perRow + x] ?? 0)
  if (bits === 16) return Uint8Array.from(row.flatMap((n) => [n >> 8, n & 255]))
  const out = new Uint8Array(Math.ceil((perRow * bits) / 8))
  row.forEach((n, x) => {
    const bit = x * bits
    out[bit >> 3]! |= n << (8 - bits - (bit & 7))
  })
  return out
}

const paeth = (a: number, b: number, c: number): number => {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)]
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c
}

export const png = (image: Image): Uint8Array => {
  const { width, height, bits, colour } = image
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([bits, NUMBERS[colour], 0, 0, 0], 8)
  const few = Math.max(1, (bits * (colour === 'rgb' ? 3 : 1)) >> 3)
  const written = image.rows ?? Math.min(height, Math.ceil(image.pixels.length / width))
  let above: Uint8Array = new Uint8Array(0)
  const rows = Array.from({ length: written }, (_, y) => {
    const row = packed(image, y)
    const filter = y % 5
    const out = row.map((n, x) => {
      const [a, b, c] = [row[x - few] ?? 0, above[x] ?? 0, x < few ? 0 : (above[x - few] ?? 0)]
      return n - [0, a, b, (a + b) >> 1, paeth(a, b, c)][filter]!
    })
    above = row
    return Buffer.concat([Buffer.from([filter]), out])
  })
  const palette = Uint8Array.from({ length: 3 * 2 ** Math.min(8, bits) }, (_, i) => (i * 97) & 255)
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    ...(colour === 'palette' ? [chunk('PLTE', palette)] : []),
    chunk('IDAT', deflateSync(Buffer.concat(rows))),
    chunk('IEND', new Uint8Array(0)),
  ])
}
