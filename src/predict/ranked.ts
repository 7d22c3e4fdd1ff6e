// The classes of an image by their probability. In: the probabilities of one image, names of classes. Out: the first class with its
// confidence, the five best (of tiles all), and rows of a table. Invariant: of equal probabilities the lower class comes first.
// Worked example: 0.2, 0.7, 0.1 of ant, bee, cow: bee with 0.7, then ant and cow. One number p is the probability of class 1 of two.
import type { SlideTile } from '../data/data'
import { rowText } from '../files/rows'

/** Number of classes that a table lists for each image. */
const TOP = 5

/**
 * The classes of an image, the most probable first.
 *
 * @example const line = ({ file, class: name, confidence }: Ranked) => `${file}: ${name} (${confidence})`
 */
export interface Ranked {
  /** Path of the image file, or of the slide of a tile; the name of other images. */
  readonly file: string
  /** The left border of a tile, in pixels of the slide's finest level. */
  readonly x?: number
  /** The upper border of a tile. */
  readonly y?: number
  /** The width of a tile in pixels of the finest level. */
  readonly width?: number
  /** The height of a tile. */
  readonly height?: number
  /** Name of the most probable class; its number, if classes have no names. */
  readonly class: string
  /** Probability of this class, 0 to 1. */
  readonly confidence: number
  /** The five most probable classes; of a tile all classes. */
  readonly top: readonly { readonly class: string; readonly confidence: number }[]
}

/** Digits of a confidence: as many as 32 bits hold. */
const DIGITS = 7

export const rankedOf = (
  file: string,
  probabilities: ArrayLike<number>,
  classes: readonly string[],
  tile?: SlideTile,
): Ranked => {
  const [one = 0] = Array.from(probabilities)
  const all = probabilities.length === 1 ? [1 - one, one] : Array.from(probabilities)
  const top = all
    .map((confidence, c) => ({ class: classes[c] ?? String(c), confidence: Number(confidence.toPrecision(DIGITS)) }))
    .sort((a, b) => b.confidence - a.confidence)
    .slice(0, tile ? all.length : TOP)
  if (!tile) return { file, ...top[0]!, top }
  const { x, y, width, height } = tile
  return { file: tile.file, x, y, width, height, ...top[0]!, top }
}

/** Heads of the columns for a model with this number of classes. */
export const rankedHead = (classes: number): string =>
  rowText([
    'file',
    'class',
    'confidence',
    ...Array.from({ length: Math.min(TOP, classes) - 1 }, (_, i) => [`class${i + 2}`, `confidence${i + 2}`]).flat(),
  ])

export const rankedRow = ({ file, top }: Ranked): string => rowText([file, ...top.flatMap((t) => [t.class, t.confidence])])

// ---------------------------------------------------------------- tiles of slides

/** Names of all classes of a model with this number of channels; one channel has two classes. */
export const allClasses = (channels: number, names: readonly string[]): readonly string[] =>
  Array.from({ length: Math.max(2, channels) }, (_, c) => names[c] ?? String(c))

/** The confidence of a tile in a class. */
export const shareOf = ({ top }: Ranked, name: string): number => top.find((t) => t.class === name)?.confidence ?? Number.NaN

const PLACE = ['x', 'y', 'width', 'height'] as const
const SHARE = 'probability of '

/** Heads of the columns for tiles. */
export const tileHead = (classes: readonly string[]): string =>
  rowText(['file', ...PLACE, 'class', 'confidence', ...classes.map((name) => `${SHARE}${name}`)])

export const tileRow = (r: Ranked, classes: readonly string[]): string =>
  rowText([r.file, ...PLACE.map((p) => r[p]!), r.class, r.confidence, ...classes.map((name) => shareOf(r, name))])

/** The class of a column, if the column has its probability. */
export const classOfColumn = (head: string): string | undefined => (head.startsWith(SHARE) ? head.slice(SHARE.length) : undefined)
