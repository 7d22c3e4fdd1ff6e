// Sets of tensor elements as lists of disjoint boxes: the written part of a value, the consumed part of a gradient. Invariant: the boxes of a region
// are disjoint. Boxes that touch are joined, so that tiles visited in index order stay a handful of boxes: a finished row of tiles becomes one box,
// finished rows one box.
import { mapped } from '../core/mapped'
import type { Box, Range } from '../core/box'

export type Region = readonly Box[]
export const NOTHING: Region = []

const AXES = [0, 1, 2, 3] as const

export const isEmptyBox = (b: Box): boolean => AXES.some((i) => b[i][0] >= b[i][1])
// These two functions run for every operand of every call and every box of a region, so they are plain loops.
export const inBox = (outer: Box, inner: Box): boolean => {
  for (const i of AXES) if (outer[i][0] > inner[i][0] || inner[i][1] > outer[i][1]) return false
  return true
}
export const overlap = (a: Box, b: Box): boolean => {
  for (const i of AXES) if (a[i][0] >= b[i][1] || b[i][0] >= a[i][1]) return false
  return true
}
export const volume = (b: Box): number => AXES.reduce<number>((n, i) => n * Math.max(0, b[i][1] - b[i][0]), 1)
export const elementsIn = (r: Region): number => r.reduce((n, b) => n + volume(b), 0)

const meetRange = (a: Range, b: Range): Range => [Math.max(a[0], b[0]), Math.min(a[1], b[1])]
export const meet = (a: Box, b: Box): Box => [
  meetRange(a[0], b[0]),
  meetRange(a[1], b[1]),
  meetRange(a[2], b[2]),
  meetRange(a[3], b[3]),
]

const withAxis = (b: Box, axis: number, r: Range): Box => mapped(b, (old, i) => (i === axis ? r : old)) as unknown as Box

/** Returns the parts of `a` outside `b`: at most two slabs along each axis. */
export const outside = (a: Box, b: Box): readonly Box[] => {
  if (!overlap(a, b)) return [a]
  const slabs: Box[] = []
  let rest = a
  for (const i of AXES) {
    if (rest[i][0] < b[i][0]) slabs.push(withAxis(rest, i, [rest[i][0], b[i][0]]))
    if (b[i][1] < rest[i][1]) slabs.push(withAxis(rest, i, [b[i][1], rest[i][1]]))
    rest = withAxis(rest, i, meetRange(rest[i], b[i]))
  }
  return slabs
}

export const without = (r: Region, b: Box): Region => (r.some((e) => overlap(e, b)) ? r.flatMap((e) => outside(e, b)) : r)

/** Returns the part of `b` outside the region. */
export const lacking = (r: Region, b: Box): Region => {
  if (r.some((e) => inBox(e, b))) return NOTHING
  return r.reduce<Region>((rest, e) => rest.flatMap((piece) => outside(piece, e)), isEmptyBox(b) ? [] : [b])
}

/** The boxes of a region are disjoint, so a region with too few elements is excluded without a look at each box: it may have thousands. */
export const contains = (r: Region, b: Box): boolean => elementsIn(r) >= volume(b) && lacking(r, b).length === 0
export const touches = (r: Region, b: Box): boolean => r.some((e) => overlap(e, b))
export const sameRegion = (a: Region, b: Region): boolean => a.every((x) => contains(b, x)) && b.every((x) => contains(a, x))
export const within = (r: Region, b: Box): Region => mapped(r, (e) => meet(e, b)).filter((e) => !isEmptyBox(e))

/** Returns one box if the two boxes differ along at most one axis and touch or overlap along it. */
const joined = (a: Box, b: Box): Box | undefined => {
  const axes = AXES.filter((i) => a[i][0] !== b[i][0] || a[i][1] !== b[i][1])
  const axis = axes[0] ?? 0
  if (axes.length > 1 || a[axis][0] > b[axis][1] || b[axis][0] > a[axis][1]) return undefined
  return withAxis(a, axis, [Math.min(a[axis][0], b[axis][0]), Math.max(a[axis][1], b[axis][1])])
}

/** Returns the union of a region and a box. */
export const plus = (r: Region, added: Box): Region => {
  if (isEmptyBox(added) || contains(r, added)) return r
  let box = added
  const rest = r.filter((e) => !inBox(box, e))
  for (let i = rest.length - 1; i >= 0; i--) {
    const one = joined(rest[i]!, box)
    if (!one) continue
    box = one
    rest.splice(i, 1)
    i = rest.length
  }
  return [...rest, ...lacking(rest, box)]
}

export const union = (a: Region, b: Region): Region => b.reduce(plus, a)
export const disjoint = (a: Region, b: Region): boolean => !b.some((x) => touches(a, x))

export const rangeText = (r: Range): string => `[${r[0]},${r[1]})`
export const boxText = (b: Box): string => `B${rangeText(b[0])} C${rangeText(b[1])} H${rangeText(b[2])} W${rangeText(b[3])}`
export const regionText = (r: Region): string =>
  r.length === 0 ? 'nothing' : mapped(r.slice(0, 3), boxText).join(' and ') + (r.length > 3 ? ' and more' : '')
