// PNG files, written: classes, one byte a pixel, whose index in a palette is the class; and small pictures in grey or colours. In: pixels, row
// by row. Out: the file's bytes. Invariant: classes are read back as a mask (src/data/png.ts). The palette is that of PASCAL VOC: bits of the
// class, the lowest first, are the highest bits of red, green and blue in turn. (Portable Network Graphics, sections 4 and 9.)
import { deflateSync } from 'node:zlib'

export const MOST_PNG_CLASSES = 256

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1
  return c
})
const crc = (bytes: Uint8Array): number => {
  let c = 0xffffffff
  for (const b of bytes) c = CRC_TABLE[(c ^ b) & 0xff]! ^ (c >>> 8)
  return (c ^ 0xffffffff) >>> 0
}

const chunk = (kind: string, data: Uint8Array): Buffer => {
  const out = Buffer.alloc(12 + data.length)
  out.writeUInt32BE(data.length, 0)
  out.write(kind, 4, 'latin1')
  out.set(data, 8)
  out.writeUInt32BE(crc(out.subarray(4, 8 + data.length)), 8 + data.length)
  return out
}

/** Red, green and blue of each class. */
export const PALETTE = Uint8Array.from({ length: 3 * MOST_PNG_CLASSES }, (_, i) => {
  const [label, colour] = [Math.floor(i / 3), i % 3]
  let byte = 0
  for (let k = 0; k < 8; k++) byte |= ((label >> (3 * k + colour)) & 1) << (7 - k)
  return byte
})

/** Bytes of a pixel, and the format's name of its kind. */
const KINDS = { grey: [1, 0], colours: [3, 2], classes: [1, 3] } as const

interface Colours {
  readonly palette: Uint8Array
  /** Opacity of the first colours; all others are opaque. */
  readonly opacity?: Uint8Array
}

const pngOf = (
  kind: keyof typeof KINDS,
  width: number,
  height: number,
  pixels: Uint8Array,
  { palette, opacity }: Colours = { palette: PALETTE },
): Buffer => {
  const [channels, code] = KINDS[kind]
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, code, 0, 0, 0], 8)
  // Each row begins with the number of its filter: none.
  const bytes = width * channels
  const rows = new Uint8Array(height * (bytes + 1))
  for (let y = 0; y < height; y++) rows.set(pixels.subarray(y * bytes, (y + 1) * bytes), y * (bytes + 1) + 1)
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([
    signature,
    chunk('IHDR', head),
    ...(kind === 'classes' ? [chunk('PLTE', palette)] : []),
    ...(opacity ? [chunk('tRNS', opacity)] : []),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', new Uint8Array()),
  ])
}

/** `classes`: of each pixel, row by row. */
export const pngOfClasses = (width: number, height: number, classes: Uint8Array): Buffer =>
  pngOf('classes', width, height, classes)

/** Pixels as indices of a palette whose first colour is transparent. */
export const pngOfIndices = (width: number, height: number, indices: Uint8Array, palette: Uint8Array): Buffer =>
  pngOf('classes', width, height, indices, { palette, opacity: Uint8Array.of(0) })

/** Share of the colour of a class in an overlay. */
const BLEND = 0.5

/** A picture whose pixels of class 1 and above are tinted by their class; in place. */
export const tinted = (pixels: Uint8Array, classOf: (pixel: number) => number): Uint8Array => {
  for (let i = 0; 3 * i < pixels.length; i++) {
    const label = classOf(i)
    if (label === 0) continue
    for (let c = 0; c < 3; c++)
      pixels[3 * i + c] = Math.round((1 - BLEND) * pixels[3 * i + c]! + BLEND * PALETTE[3 * (label % MOST_PNG_CLASSES) + c]!)
  }
  return pixels
}

/** Three bytes a pixel, or one. */
export const pngOfPixels = (width: number, height: number, pixels: Uint8Array): Buffer =>
  pngOf(pixels.length === width * height ? 'grey' : 'colours', width, height, pixels)
