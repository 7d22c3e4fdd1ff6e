// Labels by name. In: the class folders or the label texts of images, and the class names of the run or of its weights. Out: a number for each
// text, and the names in the order of these numbers. Invariant: with known names, a text has the number of its name; no text is renumbered.
// Worked example: known are ant, bee, cow. The folders ant and cow have the labels 0 and 2.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'

/**
 * Class names that the labels of other data must follow, in the order of the labels. An empty list: the labels are numbers without names.
 * Undefined: nothing is known, and data may number their own names.
 */
export type KnownClasses = readonly string[] | undefined

/** Texts of labels, as they are found. */
export interface LabelTexts {
  /** One for each sample. */
  readonly texts: readonly string[]
  /** Names of class folders, those without images too; absent for a list. */
  readonly folders?: readonly string[]
  /** Start of a message about sample i: its place in a list; empty for a folder. */
  readonly placeOf: (i: number) => string
}

export interface Numbered {
  readonly labels: readonly number[]
  readonly classes?: readonly string[]
  readonly note?: string
}

const MOST_NAMES = 20
/** A list of names, shortened. */
export const namesText = (names: readonly string[]): string =>
  names.length <= MOST_NAMES ? names.join(', ') : `${names.slice(0, MOST_NAMES).join(', ')}, … (${names.length})`

const isNumber = (text: string): boolean => text.trim() !== '' && Number.isFinite(Number(text))
const isWhole = (text: string): boolean => isNumber(text) && Number.isSafeInteger(Number(text))

const byName = (texts: readonly string[], classes: readonly string[]): readonly number[] => {
  const numbers = new Map(classes.map((name, i) => [name, i]))
  return texts.map((text) => numbers.get(text)!)
}

const sorted = (names: Iterable<string>): readonly string[] => [...new Set(names)].sort()

/** A number, or one with a decimal comma. */
const isNumeral = (text: string): boolean => isNumber(text) || /^[+-]?\d+,\d+$/.test(text)

/** Words among numbers, or numbers that are not whole: either is a slip, which must not renumber the column. */
const oddLabel = ({ texts, placeOf }: LabelTexts): string | undefined => {
  const numbers = texts.filter(isNumeral).length
  if (numbers === 0) return undefined
  const mostAreNumbers = 2 * numbers >= texts.length
  const odd =
    numbers < texts.length ? texts.findIndex((t) => isNumeral(t) !== mostAreNumbers) : texts.findIndex((t) => !isWhole(t))
  if (odd < 0) return undefined
  const place = `${placeOf(odd)}label '${texts[odd]}'`
  if (numbers === texts.length) return `${place} is not a whole number; allowed: 0 for the first class, 1 for the next, …`
  return mostAreNumbers
    ? `${place} is a name, but other labels are numbers; allowed: only numbers, or only names`
    : `${place} is a number, but other labels are names; allowed: only numbers, or only names`
}

/** The names of the data are numbered in their own order. */
const byOwnNames = (found: LabelTexts, isTold: boolean): Numbered => {
  const classes = found.folders ?? sorted(found.texts)
  const note = `labels of the training data have no names: these data number their classes in the order ${namesText(classes)}`
  return { labels: byName(found.texts, classes), classes, ...(isTold ? { note } : {}) }
}

/** Numbers for labels, or the reason why there are none. */
export const numbered = (found: LabelTexts, known: KnownClasses): Either<string, Numbered> => {
  const { texts, folders, placeOf } = found
  const names = known ?? []
  const isNamed = new Set(names)
  const unknown = sorted(texts.filter((t) => !isNamed.has(t)))
  if (names.length > 0 && unknown.length === 0) return E.right({ labels: byName(texts, names), classes: names })
  const areNumbers = texts.every(isWhole)
  // A name such as '10' makes a number ambiguous.
  const maybeNumbers = !folders && !names.some(isNumber)
  const odd = maybeNumbers ? oddLabel(found) : undefined
  if (odd !== undefined) return E.left(odd)
  if (names.length > 0 && !(maybeNumbers && areNumbers)) {
    const first = texts.findIndex((t) => !isNamed.has(t))
    return E.left(
      `${placeOf(first)}unknown class${unknown.length === 1 ? '' : 'es'} ${namesText(unknown)}; allowed: ${namesText(names)}; these data have ${namesText(folders ?? sorted(texts))}`,
    )
  }
  if (folders) {
    const isOfNumbers = known !== undefined && areNumbers
    return E.right(isOfNumbers ? { labels: texts.map(Number) } : byOwnNames(found, known !== undefined))
  }
  return E.right(
    areNumbers
      ? { labels: texts.map(Number), ...(names.length > 0 ? { classes: names } : {}) }
      : byOwnNames(found, known !== undefined),
  )
}

/** The reason why the names of a source are not those of the weights or of the run. */
export const otherNames = (own: readonly string[], known: KnownClasses = []): string | undefined =>
  known.length === 0 || (own.length <= known.length && own.every((name, i) => name === known[i]))
    ? undefined
    : `the source has the classes ${namesText(own)}, but the weights have ${namesText(known)}: give it their names, in their order, and labels in this order`

/** Names that no sample has. */
export const missingNote = (labels: Iterable<number>, classes: readonly string[] = []): string | undefined => {
  const present = new Set(labels)
  const missing = classes.filter((_, i) => !present.has(i))
  return missing.length === 0 ? undefined : `no sample of class${missing.length === 1 ? '' : 'es'} ${namesText(missing)}`
}
