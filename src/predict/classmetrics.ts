// Measures of predicted classes. In: batches of outputs and labels. Out: accuracy, overlap, precision and recall per class and in the mean, the
// confusion table, and the share of samples whose label is among the highest outputs. Definitions are torchmetrics' and scikit-learn's: a mean over
// classes has those that are present, in one or the other. Worked example, classes 0 1 1 for labels 0 1 0: accuracy 2/3; IoU 1/2 and 1/2; F1 2/3 and 2/3.
import { classesOf, ignoredBy, isOfClasses, type OF_CLASSES, type Task, topOf } from './metricnames'
import type { Part } from './measured'
import type { Compared } from './ownmetric'

interface Sums {
  readonly hits: Float64Array
  readonly given: Float64Array
  readonly labelled: Float64Array
}

/** The results of a class, from its counts of hits, predictions and labels. */
const PER_CLASS: Readonly<Record<string, (hits: number, given: number, labelled: number) => number>> = {
  accuracy: (hits, _, labelled) => hits / labelled,
  iou: (hits, given, labelled) => hits / (given + labelled - hits),
  dice: (hits, given, labelled) => (2 * hits) / (given + labelled),
  f1: (hits, given, labelled) => (2 * hits) / (given + labelled),
  // A class that is only predicted, or only labelled, has 0.
  precision: (hits, given, labelled) => (given === 0 && labelled > 0 ? 0 : hits / given),
  recall: (hits, given, labelled) => (labelled === 0 && given > 0 ? 0 : hits / labelled),
}

const LISTS: Readonly<Record<(typeof OF_CLASSES)[number], string | undefined>> = {
  accuracy: 'accuracy',
  meanIou: 'iou',
  dice: 'dice',
  f1: 'f1',
  precision: 'precision',
  recall: 'recall',
  confusion: undefined,
}

const listOf = (measure: string, { hits, given, labelled }: Sums): readonly number[] =>
  Array.from(hits, (h, c) => PER_CLASS[measure]!(h, given[c]!, labelled[c]!))

/** Classes that are nowhere have no number. */
export const meanOf = (list: readonly number[]): number => {
  const there = list.filter((x) => !Number.isNaN(x))
  return there.reduce((sum, x) => sum + x, 0) / there.length
}

const total = (list: Float64Array): number => list.reduce((sum, x) => sum + x, 0)

/** The first channel that no other exceeds; of one channel, 1 above zero. */
const classAt = (values: ArrayLike<number>, at: number, channels: number): number => {
  if (channels === 1) return values[at]! > 0 ? 1 : 0
  let best = 0
  for (let c = 1; c < channels; c++) if (values[at + c]! > values[at + best]!) best = c
  return best
}

/** A label for each pixel. */
export const labelsIn = ({ entry, channels }: Task, target: ArrayLike<number>): ArrayLike<number> =>
  entry.shares ? Array.from({ length: target.length / channels }, (_, i) => classAt(target, i * channels, channels)) : target

/** The same part, of shares of classes their labels. */
export const withLabels = (task: Task, part: Compared): Compared =>
  task.entry.shares ? { ...part, target: labelsIn(task, part.target) } : part

export const countingClasses = (task: Task, names: readonly (typeof OF_CLASSES)[number][]): Part => {
  const classes = classesOf(task)!
  const ignored = ignoredBy(task.loss)
  const labels = isOfClasses(task)
  const [hits, given, labelled] = [new Float64Array(classes), new Float64Array(classes), new Float64Array(classes)]
  const table = names.includes('confusion') ? new Float64Array(classes * classes) : undefined
  return {
    add: ({ output, target: wanted, channels }) => {
      const target = labelsIn(task, wanted)
      const isClass = output instanceof Int32Array
      for (let i = 0; i < target.length; i++) {
        const label = labels ? target[i]! : target[i]! > 0.5 ? 1 : 0
        if (labels && label === ignored) continue
        const is = isClass ? output[i]! : classAt(output, i * channels, channels)
        labelled[label]!++
        given[is]!++
        if (is === label) hits[label]!++
        if (table) table[label * classes + is]!++
      }
    },
    counts: () => [hits, given, labelled, ...(table ? [table] : [])],
    result: () => {
      const sums = { hits, given, labelled }
      const lists = Object.fromEntries(names.flatMap((n) => (LISTS[n] ? [[LISTS[n], listOf(LISTS[n], sums)]] : [])))
      const number = (n: (typeof OF_CLASSES)[number]): number =>
        n === 'accuracy' ? total(hits) / total(labelled) : meanOf(lists[LISTS[n]!]!)
      return {
        metrics: Object.fromEntries(names.filter((n) => n !== 'confusion').map((n) => [n, number(n)])),
        perClass: lists,
        ...(table
          ? { confusion: Array.from({ length: classes }, (_, c) => [...table.subarray(c * classes, (c + 1) * classes)]) }
          : {}),
      }
    },
  }
}

/** Counts labels among the k largest; of equal values the first counts as the larger. */
export const countingTop = (task: Task, name: string): Part => {
  const k = topOf(name)!
  const ignored = ignoredBy(task.loss)
  const [HITS, LABELS] = [0, 1]
  const counted = new Float64Array(2)
  return {
    add: ({ output, target: wanted, channels }) => {
      const target = labelsIn(task, wanted)
      for (let i = 0; i < target.length; i++) {
        const label = target[i]!
        if (label === ignored) continue
        const [at, own] = [i * channels, output[i * channels + label]!]
        let above = 0
        for (let c = 0; c < channels; c++) if (output[at + c]! > own || (c < label && output[at + c] === own)) above++
        counted[LABELS]!++
        if (above < k) counted[HITS]!++
      }
    },
    counts: () => [counted],
    result: () => ({ metrics: { [name]: counted[HITS]! / counted[LABELS]! } }),
  }
}
