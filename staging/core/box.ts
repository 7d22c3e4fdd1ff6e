// Half-open ranges and boxes over the four tensor dimensions. A tile is a box; a box is a product of ranges.
// Worked example: rows [3, 7) of an image 10 high, seen through a 3x3 window with padding 1, need rows [2, 8).

/** The tensor dimensions, in the order of shapes. */
export const DIMS = ['B', 'C', 'H', 'W'] as const
/**
 * A dimension of images: batch (B), channels (C), rows (H) or columns (W).
 *
 * @example const tiled: readonly Dim[] = ['H', 'W']
 */
export type Dim = (typeof DIMS)[number]
/**
 * Sizes of an image tensor: batch, channels, rows, columns.
 *
 * @example const input: Shape = [8, 3, 224, 224]
 */
export type Shape = readonly [b: number, c: number, h: number, w: number]

/** A half-open interval [lo, hi). */
export type Range = readonly [lo: number, hi: number]
export type Box = readonly [b: Range, c: Range, h: Range, w: Range]

export const dimIndex: Readonly<Record<Dim, 0 | 1 | 2 | 3>> = { B: 0, C: 1, H: 2, W: 3 }

export const extentOf = (r: Range): number => r[1] - r[0]
export const sameRange = (a: Range, b: Range): boolean => a[0] === b[0] && a[1] === b[1]
export const hull = (a: Range, b: Range): Range => [Math.min(a[0], b[0]), Math.max(a[1], b[1])]
export const clip = (r: Range, extent: number): Range => [Math.max(0, r[0]), Math.min(extent, r[1])]

export const fullBox = (s: Shape): Box => [
  [0, s[0]],
  [0, s[1]],
  [0, s[2]],
  [0, s[3]],
]
export const shapeOf = (b: Box): Shape => [extentOf(b[0]), extentOf(b[1]), extentOf(b[2]), extentOf(b[3])]
/** The shape of a box of a value of this shape. Values that are no images are cut along the first dimension alone. */
export const shapeIn = (b: Box, natural: readonly number[]): readonly number[] =>
  natural.length === 4 ? shapeOf(b) : natural.length === 0 ? natural : [extentOf(b[0]), ...natural.slice(1)]
export const sameBox = (a: Box, b: Box): boolean =>
  sameRange(a[0], b[0]) && sameRange(a[1], b[1]) && sameRange(a[2], b[2]) && sameRange(a[3], b[3])
export const hullBox = (a: Box, b: Box): Box => [hull(a[0], b[0]), hull(a[1], b[1]), hull(a[2], b[2]), hull(a[3], b[3])]

export const sameShape = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((n, i) => n === b[i])
export const elementsOf = (s: readonly number[]): number => s.reduce((n, d) => n * d, 1)

/** Tile `i` of `n` disjoint tiles of an extent; sizes differ by one at most and need not divide. */
export const tileRange = (extent: number, n: number, i: number): Range => [
  Math.floor((i * extent) / n),
  Math.floor(((i + 1) * extent) / n),
]
