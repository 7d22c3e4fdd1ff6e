// Images and labels read at other positions. In: the positions of a deformation, pixels or labels. Out: the same at these positions. Invariant: pixels
// and labels use one list of positions; pixels are interpolated linearly, labels take the nearest. Worked example: in a row of two pixels, position 1
// is the border between both: the mean of the pixels, and the label of the second.
import type { Pixels, Size } from './decode'
import type { Random } from './random'

/** For each pixel of the result its position, in pixels from the top left corner; the centre of the first pixel is (0.5, 0.5). */
export interface Warp {
  readonly xs: Float64Array
  readonly ys: Float64Array
  /** Positions beyond the image: they take a fill, or the nearest pixel of the border. */
  readonly beyond: 'fill' | 'border'
}

/** A coordinate of the result times these numbers is a coordinate of the image: x = a·x' + b·y' + c, y = d·x' + e·y' + f. */
export type Affine = readonly [a: number, b: number, c: number, d: number, e: number, f: number]

export const affineWarp = ({ width, height }: Size, [a, b, c, d, e, f]: Affine): Warp => {
  const [xs, ys] = [new Float64Array(width * height), new Float64Array(width * height)]
  for (let i = 0; i < xs.length; i++) {
    const [x, y] = [(i % width) + 0.5, Math.floor(i / width) + 0.5]
    xs[i] = a * x + b * y + c
    ys[i] = d * x + e * y + f
  }
  return { xs, ys, beyond: 'fill' }
}

// ---------------------------------------------------------------- elastic deformations

/** The four weights of a uniform cubic B-spline at t between two knots. Their sum is 1. */
const splineAt = (t: number): readonly [number, number, number, number] => [
  (1 - t) ** 3 / 6,
  (3 * t ** 3 - 6 * t ** 2 + 4) / 6,
  (-3 * t ** 3 + 3 * t ** 2 + 3 * t + 1) / 6,
  t ** 3 / 6,
]

/** Along one axis: the first of four control points, and their weights. */
const knotsOf = (extent: number, cells: number) =>
  Array.from({ length: extent }, (_, i) => {
    const at = ((i + 0.5) * cells) / extent
    const from = Math.min(cells - 1, Math.floor(at))
    return { from, weights: splineAt(at - from) }
  })

/** A field over the image from (cells + 3)² control points. */
export const splineField = ({ width, height }: Size, cells: number, points: Float64Array): Float64Array => {
  const [across, down, row] = [knotsOf(width, cells), knotsOf(height, cells), cells + 3]
  const field = new Float64Array(width * height)
  down.forEach((v, y) =>
    across.forEach((h, x) => {
      let sum = 0
      for (let j = 0; j < 4; j++)
        for (let k = 0; k < 4; k++) sum += v.weights[j]! * h.weights[k]! * points[(v.from + j) * row + h.from + k]!
      field[y * width + x] = sum
    }),
  )
  return field
}

/** Control points between -1 and 1 move each pixel by at most `shift` of the shorter side. */
export const elasticWarp = (size: Size, shift: number, cells: number, random: Random): Warp => {
  const pixels = shift * Math.min(size.width, size.height)
  const points = (): Float64Array => Float64Array.from({ length: (cells + 3) ** 2 }, () => pixels * (2 * random() - 1))
  const [dx, dy] = [splineField(size, cells, points()), splineField(size, cells, points())]
  return {
    xs: dx.map((d, i) => (i % size.width) + 0.5 + d),
    ys: dy.map((d, i) => Math.floor(i / size.width) + 0.5 + d),
    beyond: 'border',
  }
}

// ---------------------------------------------------------------- pixels and labels

const isOutside = (x: number, y: number, { width, height }: Size): boolean => !(x >= 0 && y >= 0 && x < width && y < height)

const within = (i: number, extent: number): number => Math.min(extent - 1, Math.max(0, i))

/** Interpolated pixels of `channels` numbers each. Bytes are rounded once. */
export const warpedPixels = (pixels: Pixels, size: Size, channels: number, warp: Warp, fill: readonly number[]): Pixels => {
  const { width, height } = size
  const isBytes = pixels instanceof Uint8Array
  const out = isBytes ? new Uint8Array(pixels.length) : new Float32Array(pixels.length)
  for (let i = 0; i < width * height; i++) {
    const [x, y] = [warp.xs[i]!, warp.ys[i]!]
    if (warp.beyond === 'fill' && isOutside(x, y, size)) {
      for (let c = 0; c < channels; c++) out[i * channels + c] = fill[c]!
      continue
    }
    const [left, top] = [Math.floor(x - 0.5), Math.floor(y - 0.5)]
    const [dx, dy] = [x - 0.5 - left, y - 0.5 - top]
    const [x0, x1] = [within(left, width) * channels, within(left + 1, width) * channels]
    const [y0, y1] = [within(top, height) * width * channels, within(top + 1, height) * width * channels]
    for (let c = 0; c < channels; c++) {
      const above = pixels[y0 + x0 + c]! * (1 - dx) + pixels[y0 + x1 + c]! * dx
      const below = pixels[y1 + x0 + c]! * (1 - dx) + pixels[y1 + x1 + c]! * dx
      const value = above * (1 - dy) + below * dy
      out[i * channels + c] = isBytes ? Math.round(value) : value
    }
  }
  return out
}

/** The nearest labels; `outside` beyond the image. */
export const warpedLabels = <N extends Uint8Array | Int32Array | Float32Array>(
  labels: N,
  size: Size,
  { xs, ys, beyond }: Warp,
  outside: number,
): N => {
  const out = labels.slice() as N
  for (let i = 0; i < out.length; i++) {
    const [x, y] = [xs[i]!, ys[i]!]
    out[i] =
      beyond === 'fill' && isOutside(x, y, size)
        ? outside
        : labels[within(Math.floor(y), size.height) * size.width + within(Math.floor(x), size.width)]!
  }
  return out
}
