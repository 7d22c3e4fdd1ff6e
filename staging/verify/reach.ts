// Window arithmetic, derived here again instead of shared with the tiler: the elements of an operand that a range of iterations reads, and the
// elements of a result that are final after a range of its anchor was consumed.
// Worked example: 3x3 window, padding 1, gradient rows [4, 8) of 16: rows [3, 9) of dx receive contributions, and rows [5, 7) are complete.
import type { Box, Range } from '../core/box'
import type { Access, AccessMap } from '../ops/op'

const AXES = ['B', 'C', 'H', 'W'] as const

const perAxis = (f: (axis: 'B' | 'C' | 'H' | 'W', i: 0 | 1 | 2 | 3) => Range): Box => [
  f(AXES[0], 0),
  f(AXES[1], 1),
  f(AXES[2], 2),
  f(AXES[3], 3),
]

/** The source pixels of pixel i of the resized image, in units of 1 / (2 * to) or 1 / (to - 1) of a source pixel. */
const sourcesOf = (a: Extract<Access, { tag: 'resampled' }>, i: number): Range => {
  // A mean covers the pixels from i·from/to until (i + 1)·from/to.
  if (a.mode === 3) return [(i * a.from - ((i * a.from) % a.to)) / a.to, Math.ceil(((i + 1) * a.from) / a.to) - 1]
  const steps = a.mode === 1 ? 2 * a.to : a.mode === 2 ? Math.max(1, a.to - 1) : a.to
  const at = a.mode === 1 ? Math.max(0, 2 * i * a.from + a.from - a.to) : a.mode === 2 ? i * (a.from - 1) : i * a.from
  const first = (at - (at % steps)) / steps
  return [first, a.mode !== 0 && at % steps > 0 ? first + 1 : first]
}

/** Three linear ranges: the reflection before the image, the image, the reflection after it. */
const mirroredSpan = (a: Extract<Access, { tag: 'mirrored' }>, r: Range, extent: number): Range => {
  const behind = a.pad + extent
  const pieces: Range[] = []
  if (r[0] < a.pad) pieces.push([a.pad - Math.min(r[1], a.pad) + 1, a.pad - r[0] + 1])
  if (r[0] < behind && r[1] > a.pad) pieces.push([Math.max(r[0], a.pad) - a.pad, Math.min(r[1], behind) - a.pad])
  if (r[1] > behind) pieces.push([extent - 1 - (r[1] - behind), extent - 1 - (Math.max(r[0], behind) - behind)])
  return pieces.reduce((x, y) => [Math.min(x[0], y[0]), Math.max(x[1], y[1])])
}

/** The first and the last element that one iteration reads, without clipping to the image. Both are monotone in the iteration. */
const met = (a: Exclude<Access, { tag: 'mirrored' | 'shifted' }>, i: number): Range => {
  switch (a.tag) {
    case 'same':
    case 'inside':
      return [i, i]
    case 'window':
      return [i * a.stride - a.pad, i * a.stride - a.pad + a.reach - 1]
    case 'transposed':
      // Window k ends before i up to k = (i + pad - reach) / stride, and begins after it from (i + 1 + pad) / stride on.
      return [Math.floor((i + a.pad - a.reach) / a.stride) + 1, Math.ceil((i + 1 + a.pad) / a.stride) - 1]
    case 'resampled':
      return sourcesOf(a, i)
    case 'all':
    case 'reduce':
      return [0, Number.POSITIVE_INFINITY]
  }
}

const bounded = (n: number, extent: number): number => Math.max(0, Math.min(extent, n))

const neededRange = (a: Access, r: Range, extent: number): Range => {
  if (a.tag === 'inside') return r
  if (a.tag === 'mirrored') return mirroredSpan(a, r, extent)
  if (a.tag === 'shifted') {
    // In a band, iteration i is iteration i + from of the whole, and element e element e + at.
    const [lo, hi] = neededRange(a.access, [r[0] + a.from, r[1] + a.from], a.whole)
    return [bounded(lo - a.at, extent), bounded(hi - a.at, extent)]
  }
  return [bounded(met(a, r[0])[0], extent), bounded(met(a, r[1] - 1)[1] + 1, extent)]
}

/** Returns the box of an operand (whole box `full`) that an iteration box reads. */
export const needed = (access: AccessMap, iteration: Box, full: Box): Box =>
  perAxis((axis, i) => neededRange(access[axis], iteration[i], full[i][1]))

/** Returns the elements to which no iteration outside of `r` contributes. */
const finalRange = (a: Access, r: Range, anchorExtent: number, extent: number): Range => {
  if (a.tag === 'inside') return r
  const from = r[0] <= 0 ? 0 : neededRange(a, [0, r[0]], extent)[1]
  return [from, Math.max(from, r[1] >= anchorExtent ? extent : neededRange(a, [r[1], anchorExtent], extent)[0])]
}

/** Returns the final part of a result (whole box `full`) after `iteration` of the anchor (whole box `anchor`). */
export const final = (access: AccessMap, iteration: Box, anchor: Box, full: Box): Box =>
  perAxis((axis, i) => finalRange(access[axis], iteration[i], anchor[i][1], full[i][1]))

/** Returns true if every element of the result depends on one element of the anchor, apart from dimensions that are never tiled. */
export const isElementwise = (access: AccessMap): boolean =>
  AXES.every((axis) => access[axis].tag === 'same' || access[axis].tag === 'all')
