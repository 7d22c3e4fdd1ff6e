// Label masks from annotations of an image. In: polygons and run lengths, each with a label. Out: one label per pixel. Invariant: a pixel belongs to a
// polygon if its centre is inside (even-odd rule). Crowds are painted first, then the others from large to small; so small objects stay visible.
// Worked example: a cat of 100 pixels in front of a sofa of 900 keeps its 100 pixels, in any order of the file.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Labels } from './png'

/** A region of an image: polygons of x and y in turn, or run lengths down the columns that begin with pixels outside. */
export type Shape = { readonly label: number; readonly isCrowd: boolean } & (
  | { readonly polygons: readonly (readonly number[])[] }
  | { readonly runs: readonly number[] }
)

/** All annotations of an image of this size. */
export interface Annotations {
  readonly name: string
  readonly width: number
  readonly height: number
  readonly shapes: readonly Shape[]
}

/** The crossings of a polygon's edges with a horizontal line, from left to right. */
const crossingsAt = (polygon: readonly number[], y: number): readonly number[] => {
  const found: number[] = []
  for (let i = 0; i < polygon.length; i += 2) {
    const [x0, y0] = [polygon[i]!, polygon[i + 1]!]
    const [x1, y1] = [polygon[(i + 2) % polygon.length]!, polygon[(i + 3) % polygon.length]!]
    if (y0 <= y !== y1 <= y) found.push(x0 + ((y - y0) / (y1 - y0)) * (x1 - x0))
  }
  return found.sort((a, b) => a - b)
}

/** Marks the pixels whose centres are inside a polygon. */
const markPolygon = (marks: Uint8Array, { width, height }: Annotations, polygon: readonly number[]): void => {
  const ys = polygon.filter((_, i) => i % 2 === 1)
  const [first, last] = [Math.max(0, Math.floor(Math.min(...ys))), Math.min(height - 1, Math.ceil(Math.max(...ys)))]
  for (let y = first; y <= last; y++) {
    const crossings = crossingsAt(polygon, y + 0.5)
    for (let k = 0; k + 1 < crossings.length; k += 2) {
      const from = Math.max(0, Math.ceil(crossings[k]! - 0.5))
      const until = Math.min(width, Math.ceil(crossings[k + 1]! - 0.5))
      if (until > from) marks.fill(1, y * width + from, y * width + until)
    }
  }
}

const markRuns = (marks: Uint8Array, { width, height }: Annotations, runs: readonly number[]): void => {
  let at = 0
  runs.forEach((run, k) => {
    if (k % 2 === 1) for (let i = at; i < at + run; i++) marks[(i % height) * width + Math.floor(i / height)] = 1
    at += run
  })
}

/** Pixel numbers of a shape. */
const pixelsOf = (image: Annotations, shape: Shape): readonly number[] => {
  const marks = new Uint8Array(image.width * image.height)
  if ('runs' in shape) markRuns(marks, image, shape.runs)
  else for (const polygon of shape.polygons) markPolygon(marks, image, polygon)
  const out: number[] = []
  marks.forEach((m, i) => m && out.push(i))
  return out
}

/** One label per pixel; 0, the background, without a shape. */
export const paintedLabels = (image: Annotations): Labels => {
  const pixels = new Uint8Array(image.width * image.height)
  const painted = image.shapes
    .map((shape) => ({ shape, own: pixelsOf(image, shape) }))
    .sort((a, b) => Number(b.shape.isCrowd) - Number(a.shape.isCrowd) || b.own.length - a.own.length)
  for (const { shape, own } of painted) for (const i of own) pixels[i] = shape.label
  return { width: image.width, height: image.height, pixels }
}

/**
 * Run lengths from the text of COCO's compressed form. Each number has groups of 5 bits, the lowest first, as characters from '0' on; bit 5 continues,
 * bit 4 of the last group is the sign. From the third number on, a number is the difference to the one two places before.
 */
export const runsIn = (text: string): Either<string, readonly number[]> => {
  const runs: number[] = []
  for (let at = 0; at < text.length; ) {
    let [value, bits, group] = [0, 0, 0]
    do {
      group = text.charCodeAt(at) - 48
      if (!(group >= 0 && group < 64)) return E.left(`its counts end or have an illegal character at position ${at}`)
      value += (group & 31) * 2 ** bits
      bits += 5
      at++
    } while (group & 32)
    if (group & 16) value -= 2 ** bits
    runs.push(runs.length > 2 ? value + runs[runs.length - 2]! : value)
  }
  return E.right(runs)
}
