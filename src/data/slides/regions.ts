// Pixels and labels of a region of a sample. In: a part, a region, the blocks with tissue. Out: the numbers that the step is fed. Invariant: no more of
// a slide is decoded than the region needs.
import type { Region, Sample, Wanted } from '../data'
import type { Part, Placed } from './parts'
import { regionOf, type Slide } from './slide'
import type { Level } from './tiff'

type Pixels = Uint8Array | Uint16Array | Int32Array

/** A region of a sample, composed of the parts of its slides; `blank` is between them. */
const composed = async <A extends Pixels>(
  { placed }: Part,
  r: Region,
  read: (placed: Placed, from: Region) => Promise<A>,
  channels: number,
  blank: (length: number) => A,
): Promise<A> => {
  const shared = placed.flatMap((p) => {
    const [top, left] = [Math.max(r.top, p.top), Math.max(r.left, p.left)]
    const height = Math.min(r.top + r.height, p.top + p.region.height) - top
    const width = Math.min(r.left + r.width, p.left + p.region.width) - left
    const from = { top: p.region.top + top - p.top, left: p.region.left + left - p.left, height, width }
    return height > 0 && width > 0 ? [{ p, from, top: top - r.top, left: left - r.left }] : []
  })
  const [only] = shared
  if (only && only.from.height === r.height && only.from.width === r.width) return read(only.p, only.from)
  const out = blank(r.height * r.width * channels)
  for (const { p, from, top, left } of shared) {
    const pixels = await read(p, from)
    const row = from.width * channels
    for (let y = 0; y < from.height; y++)
      out.set(pixels.subarray(y * row, (y + 1) * row), ((top + y) * r.width + left) * channels)
  }
  return out
}

/** The labels of a region of a sample; pixels beyond its slides have the label `outside`. */
const labelsOn = (part: Part, r: Region, outside: number): Promise<Uint8Array | Int32Array> => {
  const isByte = outside >= 0 && outside <= 255
  const blank = (length: number): Uint8Array | Int32Array => new (isByte ? Uint8Array : Int32Array)(length).fill(outside)
  const read = ({ of: { slide, mask } }: Placed, from: Region): Promise<Uint8Array> => labelsIn({ slide, mask: mask! }, from)
  return composed<Uint8Array | Int32Array>(part, r, read, 1, blank)
}

interface SlideAndMask {
  readonly slide: Slide
  readonly mask: Slide
}

/** The labels of a rectangle of the slide: those of the mask's nearest pixels. */
const labelsIn = async ({ slide, mask }: SlideAndMask, region: Region): Promise<Uint8Array> => {
  const along = (from: number, length: number, side: keyof Pick<Level, 'width' | 'height'>): Int32Array =>
    Int32Array.from({ length }, (_, i) =>
      Math.min(mask.level[side] - 1, Math.floor(((from + i + 0.5) * mask.level[side]) / slide.level[side])),
    )
  const [rows, columns] = [along(region.top, region.height, 'height'), along(region.left, region.width, 'width')]
  const [top, left] = [rows[0]!, columns[0]!]
  const [height, width] = [rows.at(-1)! - top + 1, columns.at(-1)! - left + 1]
  const labels = await regionOf(mask, { top, left, height, width })
  const out = new Uint8Array(region.height * region.width)
  for (let y = 0; y < region.height; y++)
    for (let x = 0; x < region.width; x++) out[y * region.width + x] = labels[(rows[y]! - top) * width + columns[x]! - left]!
  return out
}

/** Blocks of pixels, and the shares of tissue in rectangles of slides. */
export interface Blocks {
  readonly side: number
  readonly tissue: Tissue
}

/** A rectangle of a slide, with 0 in the blocks of `sample` without tissue. If it has no others, nothing is decoded. */
const pixelsIn = async (
  slide: Slide,
  sample: Region,
  region: Region,
  { side, tissue }: Blocks,
): Promise<Uint8Array | Uint16Array> => {
  const share = tissue.get(slide.file)!
  const { channels, bits } = slide.level
  const cut = (from: number, length: number, first: number, end: number): readonly (readonly [number, number])[] => {
    const count = Math.ceil((from + length - first) / side)
    const starts = Array.from({ length: count }, (_, i) => first + i * side)
    return starts.flatMap((at) => (at + side > from ? [[at, Math.min(at + side, end)] as const] : []))
  }
  const blocks = cut(region.top, region.height, sample.top, sample.top + sample.height).flatMap(([top, bottom]) =>
    cut(region.left, region.width, sample.left, sample.left + sample.width).map(([left, right]) => ({
      ...{ top, left, height: bottom - top, width: right - left },
    })),
  )
  const empty = blocks.filter((b) => share(b) === 0)
  const count = region.height * region.width * channels
  if (empty.length === blocks.length) return bits === 16 ? new Uint16Array(count) : new Uint8Array(count)
  const pixels = await regionOf(slide, region)
  for (const b of empty) {
    const [left, right] = [Math.max(b.left, region.left), Math.min(b.left + b.width, region.left + region.width)]
    const [top, bottom] = [Math.max(b.top, region.top), Math.min(b.top + b.height, region.top + region.height)]
    for (let y = top; y < bottom; y++) {
      const row = (y - region.top) * region.width
      pixels.fill(0, (row + left - region.left) * channels, (row + right - region.left) * channels)
    }
  }
  return pixels
}

/** Returns true for pixels of a placed rectangle in blocks without tissue. */
export const emptyIn = ({ of: { slide }, region }: Placed, { side, tissue }: Blocks): ((y: number, x: number) => boolean) => {
  const share = tissue.get(slide.file)!
  const columns = Math.ceil(region.width / side)
  const known = new Map<number, boolean>()
  return (y, x) => {
    const [row, column] = [Math.floor(y / side), Math.floor(x / side)]
    const [top, left] = [region.top + row * side, region.left + column * side]
    const height = Math.min(side, region.top + region.height - top)
    const width = Math.min(side, region.left + region.width - left)
    const is = known.get(row * columns + column) ?? share({ top, left, height, width }) === 0
    known.set(row * columns + column, is)
    return is
  }
}

/** 16-bit numbers are shares of 65535, as those of images. */
const numbersOf = (pixels: Uint8Array | Uint16Array): Uint8Array | Float32Array =>
  pixels instanceof Uint16Array ? Float32Array.from(pixels, (x) => x / 65535) : pixels

/** With a key, only this value of the sample is read. */
export const sampleOf = async (
  part: Part,
  region: Region,
  { key, outside = 0 }: Wanted,
  blocks: Blocks | undefined,
): Promise<Sample> => {
  const [{ of }] = part.placed as readonly [Placed, ...Placed[]]
  const { channels, bits } = of.slide.level
  const read = (p: Placed, from: Region): Promise<Uint8Array | Uint16Array> =>
    blocks ? pixelsIn(p.of.slide, p.region, from, blocks) : regionOf(p.of.slide, from)
  const blank = (length: number): Uint8Array | Uint16Array => new (bits === 16 ? Uint16Array : Uint8Array)(length)
  const [pixels, labels] = await Promise.all([
    key === 'target' ? undefined : composed<Uint8Array | Uint16Array>(part, region, read, channels, blank),
    of.mask && key !== 'input' ? labelsOn(part, region, outside) : of.label,
  ])
  return { ...(pixels ? { input: numbersOf(pixels) } : {}), ...(labels === undefined ? {} : { target: labels }) }
}

/** Shares of tissue in rectangles of slides, by file. */
export type Tissue = ReadonlyMap<string, (region: Region) => number>
