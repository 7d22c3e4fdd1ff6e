// Window arithmetic, derived here once more from DESIGN 5 rather than shared with the tiler: which elements of an
// operand an iteration range meets, and which elements of a result are final once a range of its anchor was consumed.
// Worked example: 3x3 window, padding 1, gradient rows [4, 8) of 16: rows [3, 9) of dx get something, [5, 7) get everything.
import type { Box, Range } from '../core/box'
import type { Access, AccessMap } from '../ops/op'

const AXES = ['B', 'C', 'H', 'W'] as const

const perAxis = (f: (axis: 'B' | 'C' | 'H' | 'W', i: 0 | 1 | 2 | 3) => Range): Box => [
  f(AXES[0], 0),
  f(AXES[1], 1),
  f(AXES[2], 2),
  f(AXES[3], 3),
]

/** First and last window of the iteration range, as far as the image goes. */
const windowSpan = (a: Extract<Access, { tag: 'window' }>, r: Range, extent: number): Range => [
  Math.max(0, r[0] * a.stride - a.pad),
  Math.min(extent, (r[1] - 1) * a.stride - a.pad + a.reach),
]

const neededRange = (a: Access, r: Range, extent: number): Range => {
  switch (a.tag) {
    case 'window':
      return windowSpan(a, r, extent)
    case 'all':
    case 'reduce':
      return [0, extent]
    case 'same':
    case 'inside':
      return r
  }
}

/** What an iteration box meets of an operand whose whole box is `full`. */
export const needed = (access: AccessMap, iteration: Box, full: Box): Box =>
  perAxis((axis, i) => neededRange(access[axis], iteration[i], full[i][1]))

/** Elements that no iteration outside `r` contributes to. */
const finalRange = (a: Access, r: Range, anchorExtent: number, extent: number): Range => {
  const everything = r[0] <= 0 && r[1] >= anchorExtent
  switch (a.tag) {
    case 'same':
    case 'inside':
      return r
    case 'all':
    case 'reduce':
      return everything ? [0, extent] : [0, 0]
    case 'window':
      return [
        r[0] <= 0 ? 0 : Math.max(0, (r[0] - 1) * a.stride - a.pad + a.reach),
        r[1] >= anchorExtent ? extent : Math.min(extent, r[1] * a.stride - a.pad),
      ]
  }
}

/** What of a result (whole box `full`) is final when `iteration` of the anchor (whole box `anchor`) is consumed. */
export const final = (access: AccessMap, iteration: Box, anchor: Box, full: Box): Box =>
  perAxis((axis, i) => finalRange(access[axis], iteration[i], anchor[i][1], full[i][1]))

/** Whether every element of the result stems from one element of the anchor, or from dimensions that are never cut. */
export const isElementwise = (access: AccessMap): boolean =>
  AXES.every((axis) => access[axis].tag === 'same' || access[axis].tag === 'all')
