// The classes of an image by their probability. In: the probabilities of one image, names of classes. Out: the first class with its
// confidence, the five best, and rows of a table. Invariant: of equal probabilities the lower class comes first.
// Worked example: 0.2, 0.7, 0.1 of ant, bee, cow: bee with 0.7, then ant and cow. One number p is the probability of class 1 of two.
import { rowText } from '../files/rows'

/** Number of classes that a table lists for each image. */
const TOP = 5

/**
 * The classes of an image, the most probable first.
 *
 * @example const line = ({ file, class: name, confidence }: Ranked) => `${file}: ${name} (${confidence})`
 */
export interface Ranked {
  /** Path of the image file; the name of other images. */
  readonly file: string
  /** Name of the most probable class; its number, if classes have no names. */
  readonly class: string
  /** Probability of this class, 0 to 1. */
  readonly confidence: number
  /** The five most probable classes. */
  readonly top: readonly { readonly class: string; readonly confidence: number }[]
}

/** Digits of a confidence: as many as 32 bits hold. */
const DIGITS = 7

export const rankedOf = (file: string, probabilities: ArrayLike<number>, classes: readonly string[]): Ranked => {
  const [one = 0] = Array.from(probabilities)
  const all = probabilities.length === 1 ? [1 - one, one] : Array.from(probabilities)
  const top = all
    .map((confidence, c) => ({ class: classes[c] ?? String(c), confidence: Number(confidence.toPrecision(DIGITS)) }))
    .sort((a, b) => b.confidence - a.confidence)
    .slice(0, TOP)
  return { file, ...top[0]!, top }
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
