// Samples of slides. In: opened slides, the size of tiles or of a canvas. Out: the parts: for each sample the slides on it, their regions and places.
import type { PixelSize, Region } from '../data'
import type { Found } from './foundslides'
import { openSlide, type Slide } from './slide'
import { refused, type SlideOptions } from './slideoptions'

export interface Labelled {
  readonly slide: Slide
  readonly label?: number
  readonly mask?: Slide
  readonly bag?: string
}

/** A rectangle of a slide, and its place in a sample. */
export interface Placed {
  readonly of: Labelled
  readonly region: Region
  readonly top: number
  readonly left: number
}

/** A sample: a whole slide, a tile of one, or the slides of a bag, on a canvas that may be larger. */
export interface Part {
  readonly height: number
  readonly width: number
  /** At least one. */
  readonly placed: readonly Placed[]
}

export const opened =
  (o: SlideOptions) =>
  ({ file, label, mask, bag }: Found): Labelled => {
    const slide = openSlide(file, o)
    const own = { slide, ...(bag === undefined ? {} : { bag }) }
    if (mask === undefined) return { ...own, ...(label === undefined ? {} : { label }) }
    const whole = openSlide(mask, {})
    // The coarsest level of the mask with at least the slide's detail.
    const at = Math.max(1, whole.pyramid.levels.filter((l) => l.width >= slide.level.width).length) - 1
    const level = whole.pyramid.levels[at]!
    if (level.channels !== 1)
      refused(`slides: ${mask}: its pixels have ${level.channels} channels; a mask has one label per pixel`)
    return { ...own, mask: { ...whole, at, level } }
  }

/** Starts of tiles along a side. The last tile ends at the border, so it may overlap the one before it. */
export const starts = (side: number, tile: number): readonly number[] =>
  Array.from({ length: Math.ceil(side / tile) }, (_, i) => Math.min(i * tile, side - tile))

export const sizeOf = (size: number | PixelSize | undefined): PixelSize | undefined =>
  typeof size === 'number' ? [size, size] : size

export const tilesOf = (of: Labelled, [height, width]: PixelSize): readonly Part[] => {
  const { level, file } = of.slide
  if (level.height < height || level.width < width)
    refused(`slides: ${file} has ${level.height} x ${level.width} pixels at this level, less than a tile of ${height} x ${width}`)
  return starts(level.height, height).flatMap((top) =>
    starts(level.width, width).map((left) => ({
      ...{ height, width },
      placed: [{ of, region: { top, left, height, width }, top: 0, left: 0 }],
    })),
  )
}

/** Whole slides in rows, from the top left, `side` pixels or more apart and at multiples of `side`. Returns undefined if they need more room. */
export const shelved = (of: readonly Labelled[], [height, width]: PixelSize, side: number): readonly Placed[] | undefined => {
  const after = (n: number): number => (Math.ceil(n / side) + 1) * side
  let [top, left, next] = [0, 0, 0]
  const placed = of.map((one): Placed => {
    const { level } = one.slide
    if (left > 0 && left + level.width > width) [top, left] = [next, 0]
    const at = { of: one, region: { top: 0, left: 0, height: level.height, width: level.width }, top, left }
    left += after(level.width)
    next = Math.max(next, top + after(level.height))
    return at
  })
  const isInside = ({ region, ...at }: Placed): boolean => at.top + region.height <= height && at.left + region.width <= width
  return placed.every(isInside) ? placed : undefined
}

/** Whole slides as samples. Those of a bag are on one canvas, with an empty block between them. */
export const wholes = (all: readonly Labelled[], { canvas, blocks }: SlideOptions): readonly Part[] => {
  const size = sizeOf(canvas)
  return bagsOf(all).map((of) => {
    const [{ slide, bag }] = of as readonly [Labelled, ...Labelled[]]
    if (bag !== undefined && (size === undefined || blocks === undefined))
      return refused(`slides: bag ${bag} has its slides on one canvas, a block apart: set blocks and canvas`)
    const [height, width] = size ?? [slide.level.height, slide.level.width]
    const placed = shelved(of, [height, width], blocks ?? 1)
    const odd = of.find(({ slide: { level } }) => level.channels !== slide.level.channels || level.bits !== slide.level.bits)
    if (odd)
      return refused(
        `slides: bag ${bag}: ${odd.slide.file} has ${odd.slide.level.channels} channels of ${odd.slide.level.bits} bits, but ${slide.file} has ${slide.level.channels} of ${slide.level.bits}`,
      )
    if (placed) return { height, width, placed }
    const { level, file } = slide
    const found = bag === undefined ? `${file} has ${level.height} x ${level.width} pixels` : `bag ${bag} has ${of.length} slides`
    return refused(`slides: ${found} at this level, more than the canvas of ${height} x ${width}`)
  })
}

/** The slides of each bag; a slide without a bag is alone. In the order of the first slide of each. */
export const bagsOf = (all: readonly Labelled[]): readonly (readonly Labelled[])[] => {
  const bags = new Map<string, Labelled[]>()
  for (const one of all) {
    const key = one.bag === undefined ? `slide ${one.slide.file}` : `bag ${one.bag}`
    const there = bags.get(key)
    if (there) there.push(one)
    else bags.set(key, [one])
  }
  return [...bags.values()]
}

export const firstOf = ({ placed }: Part): Placed => placed[0]!
