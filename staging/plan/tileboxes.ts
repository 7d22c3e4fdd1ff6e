// The boxes of values that tiles touch. In: the slices of an operand, a tile. Out: its box, and the test that a box is one run of bytes.
import { type Box, extentOf, type Range, sameRange } from '../core/box'
import type { Slices } from './plan'

export interface TileIndex {
  readonly index: number
  readonly B: number
  readonly H: number
  readonly W: number
}

/** The box of an operand at one tile; channels are whole. */
export const boxAt = (s: Slices, full: Box, t: TileIndex): Box => [s.B[t.B]!, full[1], s.H[t.H]!, s.W[t.W]!]

/** Returns true if a box is one run of bytes inside the holding one (channels-last: B, H, W, C from the outside in). */
export const isDense = (held: Box, box: Box): boolean => {
  const full = (i: 0 | 1 | 2 | 3): boolean => extentOf(held[i]) === extentOf(box[i])
  const one = (i: 0 | 1 | 2 | 3): boolean => extentOf(box[i]) === 1
  const outerOne = (i: 0 | 2 | 3): boolean => (i === 0 ? true : i === 2 ? one(0) : one(0) && one(2))
  return full(1) && (full(3) || outerOne(3)) && (full(2) || outerOne(2))
}

/** The boxes of one operand, or of several with the same slices, one at each tile. */
export class Boxes {
  private tile = -1
  private box: Box | undefined

  constructor(
    readonly slices: Slices,
    readonly full: Box,
  ) {}

  isOf(slices: Slices, full: Box): boolean {
    const own = this.slices
    return (
      sameRange(this.full[1], full[1]) &&
      sameRanges(own.H, slices.H) &&
      sameRanges(own.W, slices.W) &&
      sameRanges(own.B, slices.B)
    )
  }

  at(t: TileIndex): Box {
    if (!this.box || this.tile !== t.index) this.box = boxAt(this.slices, this.full, t)
    this.tile = t.index
    return this.box
  }
}

const sameRanges = (a: readonly Range[], b: readonly Range[]): boolean =>
  a === b || (a.length === b.length && a.every((r, i) => sameRange(r, b[i]!)))
