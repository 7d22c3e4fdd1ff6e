// The canvas of whole slides. In: paths of slides. Out: the smallest height and width on which each slide, or each bag, fits.
import type { PixelSize } from '../data'
import { NO_DAMAGE, openedAt } from './openedslides'
import { bagsOf, type Labelled, shelved } from './parts'
import type { SlideOptions } from './slideoptions'

/** A canvas for all samples of several paths, and the slides that it serves. */
export interface Canvas {
  readonly size: PixelSize
  /** Sizes of all slides, the smallest area first. */
  readonly slides: readonly PixelSize[]
}

/** Sides of a canvas without blocks are multiples of this number. */
const CANVAS_STEP = 32

const byArea = (a: PixelSize, b: PixelSize): number => a[0] * a[1] - b[0] * b[1]

/** Widths of a canvas on which rows of a bag's slides end exactly. */
const widthsFor = (bag: readonly Labelled[], side: number): readonly number[] =>
  bag.map((_, n) =>
    bag.slice(0, n + 1).reduce((sum, { slide: { level } }, i) => sum + (i > 0 ? side : 0) + up(level.width, side), 0),
  )

const up = (n: number, step: number): number => Math.ceil(n / step) * step

/** The smallest canvas on which each slide and each bag fits, with sides that are multiples of a block. */
export const canvasFor = (paths: readonly string[], o: SlideOptions, damaged = NO_DAMAGE): Canvas => {
  const side = o.blocks ?? CANVAS_STEP
  const bags = paths.flatMap((path) => bagsOf(openedAt(path, o, damaged).all))
  const levels = bags.flat().map(({ slide: { level } }) => level)
  const least = up(Math.max(...levels.map((l) => l.width)), side)
  const rowsAt = (width: number): number =>
    Math.max(
      ...bags.flatMap((bag) =>
        shelved(bag, [Number.POSITIVE_INFINITY, width], side)!.map((p) => up(p.top + p.region.height, side)),
      ),
    )
  const widths = [...new Set([least, ...bags.flatMap((bag) => widthsFor(bag, side))])].filter((width) => width >= least)
  const sizes = widths.map((width): PixelSize => [rowsAt(width), width])
  return {
    size: [...sizes].sort(byArea)[0]!,
    slides: levels.map((l): PixelSize => [l.height, l.width]).sort(byArea),
  }
}
