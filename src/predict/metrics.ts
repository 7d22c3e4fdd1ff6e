// Metrics of predictions. In: a model's values for some rows of an image, and the targets, one part after the other. Out: numbers. Invariant: counts
// are whole, and rounded values are summed image by image, so that they are the same for any plan, batch, parts or processes. Definitions are
// torchmetrics' and scikit-learn's: a mean over classes has those that are present, in one or the other. Worked example, classes 0 1 1 for labels 0 1
// 0: accuracy 2/3; IoU 1/2 and 1/2; F1 2/3 and 2/3.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Form } from '../../dsl'
import { known } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { callable, text, withValues } from '../../staging/core/values'
import { type Loss, type LossEntry, lossText, partsOf } from '../../staging/ops/loss'
import { insideOf, withOutside } from './inside'
import { type Ranked, rankingOf, sharesOf } from './ranking'
import { Similarity } from './ssim'
import { aboutTargets, type SpillwayError, unknownName, usage } from '../errors/errors'

// ---------------------------------------------------------------- what is compared

/**
 * Rows of an image for a metric: the output of the net beside the target. A masked net shows the pixels inside of its mask, as one row.
 *
 * @example const sum = ({ output }: Compared) => Array.from(output).reduce((a, b) => a + b, 0)
 */
export interface Compared {
  /** Number of the image in the data, counted from 0. */
  readonly image: number
  readonly rows: number
  readonly width: number
  /** Numbers per pixel of `output`; 1 for classes. */
  readonly channels: number
  /** Values or classes of the net, pixel by pixel. */
  readonly output: ArrayLike<number>
  /** A label per pixel, or as many numbers as `output` has. */
  readonly target: ArrayLike<number>
}

/**
 * Options of `metric`.
 *
 * @example const rows: MetricOptions<number> = { name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum }
 */
export interface MetricOptions<S = unknown> {
  /**
   * Name of the metric in reports.
   *
   * @example metric({ name: 'bias', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly name: string
  /**
   * Returns the state before the first part.
   *
   * @example metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly start: () => S
  /**
   * Returns the state after one more part.
   *
   * @example metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly add: (state: S, part: Compared) => S
  /**
   * Returns the metric from the state.
   *
   * @example metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly value: (state: S) => number
  /**
   * Returns the state of two groups of images together. With it, ranks can share an evaluation.
   *
   * @example
   * metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum, merge: (sum, next) => sum + next })
   */
  readonly merge?: ((known: S, next: S) => S) | undefined
}
/**
 * Your own metric, as `metric` creates it.
 *
 * @example const rows: Metric = metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
 */
export interface Metric {
  readonly kind: 'metric'
  readonly name: string
  readonly begun: () => {
    readonly add: (part: Compared) => void
    /** The new facts since the last request; only for states that merge. */
    readonly image?: () => unknown
    readonly fold?: (state: unknown) => void
    readonly value: () => number
  }
}

const METRIC = withValues(
  optionsFor<MetricOptions>()('metric', 'name', 'start', 'add', 'value', 'merge'),
  { name: text, start: callable, add: callable, value: callable, merge: callable },
  { prefix: 'metric: ', required: ['name', 'start', 'add', 'value'] },
)

/**
 * Creates your own metric. It sees all rows of all images once.
 *
 * @param o Name, start value, update and result.
 * @example
 * const bias = metric({
 *   name: 'bias',
 *   start: () => 0,
 *   add: (sum, { output, target }) => {
 *     for (let i = 0; i < output.length; i++) sum += output[i]! - target[i]!
 *     return sum
 *   },
 *   value: (sum) => sum,
 * })
 */
export const metric = <S>(o: MetricOptions<S>): Metric => {
  const { name, start, add, value, merge } = known(METRIC, o)
  return {
    kind: 'metric',
    name,
    begun: () => {
      let state = start()
      const adding = (part: Compared): void => {
        state = add(state, part)
      }
      if (!merge) return { add: adding, value: () => value(state) }
      let all: { readonly known: S } | undefined
      return {
        add: adding,
        image: () => {
          const seen = state
          state = start()
          return seen
        },
        fold: (next) => {
          all = { known: all ? merge(all.known, next as S) : (next as S) }
        },
        value: () => value(all ? all.known : start()),
      }
    },
  }
}

// ---------------------------------------------------------------- names

const OF_CLASSES = ['accuracy', 'meanIou', 'dice', 'f1', 'precision', 'recall', 'confusion'] as const
const OF_RANKS = ['auroc', 'averagePrecision'] as const
const OF_NUMBERS = ['mae', 'mse', 'psnr', 'ssim'] as const
/** Metrics by name; `top5` and others like it, too. */
export const METRICS = [...OF_CLASSES, 'top5', ...OF_RANKS, ...OF_NUMBERS] as const
/**
 * The name of a metric. `top3` counts a label among the three largest values as correct.
 *
 * @example const metrics: readonly MetricName[] = ['accuracy', 'top3', 'f1']
 */
export type MetricName = (typeof METRICS)[number] | `top${number}`

const TOP = /^top([1-9]\d{0,5})$/
const topOf = (name: string): number | undefined => (TOP.test(name) ? Number(name.slice(3)) : undefined)
const isIn = <N extends string>(list: readonly N[], name: string): name is N => (list as readonly string[]).includes(name)
export const isMetricName = (name: string): name is MetricName => isIn(METRICS, name) || topOf(name) !== undefined

// ---------------------------------------------------------------- what there is to measure

/** The task of an evaluation. */
export interface Task {
  readonly loss: Loss
  readonly entry: LossEntry
  /** The net's result: channels, and pixels of an image. */
  readonly channels: number
  readonly pixels: number
  /** The form of the output. */
  readonly form: Form
  /** True if the plan marks pixels outside of a mask (inside.ts). */
  readonly isMasked?: boolean
}

/** Labels of classes, or shares of them; the largest is the label. */
const isOfClasses = ({ entry }: Task): boolean => entry.labels === true || entry.shares === true

/** Labels of classes; of one channel beside a sigmoid there are two, as labels or as whether the target is above a half. */
export const classesOf = ({ entry, channels }: Task): number | undefined =>
  channels === 1 && (entry.labels || entry.logits) ? 2 : entry.labels || entry.shares ? channels : undefined

/** The option of the first part that has it. */
const optionOf = <T>(loss: Loss, option: string): T | undefined =>
  partsOf(loss).flatMap(([, part]) => (part as unknown as Readonly<Record<string, T>>)[option] ?? [])[0]
export const ignoredBy = (loss: Loss): number | undefined => optionOf(loss, 'ignoreIndex')

/** The default metrics. */
export const usualMetrics = (task: Task): readonly MetricName[] => {
  const classes = classesOf(task)
  if (classes === undefined) return task.entry.logits ? [] : ['mae', 'psnr']
  if (task.pixels > 1) return ['accuracy', 'meanIou']
  return isOfClasses(task) && classes > 5 ? ['accuracy', 'top5'] : ['accuracy']
}

/** More classes would not fit into memory two by two. */
const MOST_CONFUSED = 4096

/** The requested metrics, and those that show a model's errors: each class, and the classes that it is confused with. */
export const detailedMetrics = (
  task: Task,
  asked: readonly (MetricName | Metric)[] = usualMetrics(task),
): readonly (MetricName | Metric)[] => {
  const classes = classesOf(task) ?? 0
  const more: readonly MetricName[] =
    classes === 0
      ? []
      : [
          'accuracy',
          'f1',
          ...(task.pixels > 1 ? (['meanIou'] as const) : []),
          ...(classes <= MOST_CONFUSED ? (['confusion'] as const) : []),
        ]
  return [...asked, ...more.filter((name) => !asked.includes(name))]
}

const needsValues = (name: string): boolean => topOf(name) !== undefined || isIn(OF_NUMBERS, name) || isIn(OF_RANKS, name)

/** The form that metrics need, where they need one. */
export const formFor = (metrics: readonly (MetricName | Metric)[]): Form | undefined =>
  metrics.some((m) => typeof m !== 'string' || needsValues(m)) ? 'values' : undefined

const problemOf = (task: Task, name: string): SpillwayError | undefined => {
  if (!isMetricName(name)) return unknownName('metric', name, METRICS)
  const compared = `a model whose loss is ${lossText(task.loss)}`
  const isTop = topOf(name) !== undefined
  const isRank = isIn(OF_RANKS, name)
  if (isTop ? !isOfClasses(task) : (isRank || isIn(OF_CLASSES, name)) && classesOf(task) === undefined)
    return aboutTargets(usage(`metric '${name}' needs classes, but ${compared} has none; allowed: ${OF_NUMBERS.join(', ')}`))
  if (isRank && task.pixels > 1)
    return usage(
      `metric '${name}' ranks one result per image, but the model has ${task.pixels} pixels; allowed: ${OF_CLASSES.join(', ')}`,
    )
  if (isTop && topOf(name)! > task.channels)
    return usage(`metric '${name}': the model has ${task.channels} classes; allowed: top1 to top${task.channels}`)
  if (isIn(OF_NUMBERS, name) && isOfClasses(task))
    return usage(
      `metric '${name}' compares numbers, but ${compared} gives classes; allowed: ${[...OF_CLASSES, ...OF_RANKS].join(', ')}, top5`,
    )
  return needsValues(name) && task.form !== 'values'
    ? usage(`metric '${name}' needs the values of the net: stage with as: 'values'`)
    : undefined
}

// ---------------------------------------------------------------- results

/** The results of metrics. */
export interface Measured {
  /** Metrics by name. */
  readonly metrics: Readonly<Record<string, number>>
  /** Metrics of each class; NaN for a class without labels and predictions. */
  readonly perClass?: Readonly<Record<string, readonly number[]>>
  /** Confusion matrix: rows are labels, columns are predictions. */
  readonly confusion?: readonly (readonly number[])[]
}
export interface Measuring {
  readonly add: (part: Compared) => void
  /** The rounded results of an image, after all of its parts. */
  readonly image: () => readonly unknown[]
  /** Takes that, in the order of images. */
  readonly fold: (image: readonly unknown[]) => void
  /** The whole counts, and a way to add others'. */
  readonly counts: () => readonly unknown[]
  readonly join: (counts: readonly unknown[]) => void
  readonly result: () => Measured
}

/** One of several; absent fields are not needed. */
interface Part extends Pick<Measuring, 'add' | 'result'> {
  /** True if the places of pixels matter: pixels outside of a mask then have no number. */
  readonly isPlaced?: boolean
  readonly image?: () => unknown
  readonly fold?: (image: unknown) => void
  readonly counts?: () => readonly Float64Array[]
}

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

const listOf = (what: string, { hits, given, labelled }: Sums): readonly number[] =>
  Array.from(hits, (h, c) => PER_CLASS[what]!(h, given[c]!, labelled[c]!))

/** Classes that are nowhere have no number. */
const meanOf = (list: readonly number[]): number => {
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
const labelsIn = ({ entry, channels }: Task, target: ArrayLike<number>): ArrayLike<number> =>
  entry.shares ? Array.from({ length: target.length / channels }, (_, i) => classAt(target, i * channels, channels)) : target

/** The same part, of shares of classes their labels. */
export const withLabels = (task: Task, part: Compared): Compared =>
  task.entry.shares ? { ...part, target: labelsIn(task, part.target) } : part

const countingClasses = (task: Task, names: readonly (typeof OF_CLASSES)[number][]): Part => {
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
const countingTop = (task: Task, name: string): Part => {
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

/** Ranks images by the score of each class; of two classes with one channel, by its value. */
const ranking = (task: Task, names: readonly (typeof OF_RANKS)[number][]): Part => {
  const ignored = ignoredBy(task.loss)
  const isBinary = task.channels === 1
  let image: Ranked | undefined
  const images: Ranked[] = []
  return {
    add: ({ output, target: wanted, channels }) => {
      const label = isOfClasses(task) ? labelsIn(task, wanted)[0]! : wanted[0]! > 0.5 ? 1 : 0
      const values = Array.from({ length: channels }, (_, c) => output[c]!)
      image = label === ignored ? undefined : { label, scores: isBinary ? values : sharesOf(values) }
    },
    image: () => image,
    fold: (next) => {
      if (next !== undefined) images.push(next as Ranked)
    },
    result: () => {
      const classes = Array.from({ length: task.channels }, (_, c) => rankingOf(images, c, (l) => l === (isBinary ? 1 : c)))
      const lists = Object.fromEntries(names.map((n) => [n, classes.map((of) => of[n])]))
      return {
        metrics: Object.fromEntries(names.map((n) => [n, meanOf(lists[n]!)])),
        ...(isBinary ? {} : { perClass: lists }),
      }
    },
  }
}

/** The mean over the images of their structural similarity. */
const comparingStructure = (): Part => {
  let image = new Similarity()
  let [sum, images] = [0, 0]
  return {
    isPlaced: true,
    add: ({ output, target, rows, width, channels }) => image.add(output, target, rows, width, channels),
    image: () => {
      const seen = image.value()
      image = new Similarity()
      return seen
    },
    fold: (next) => {
      sum += next as number
      images++
    },
    result: () => ({ metrics: { ssim: sum / images } }),
  }
}

const summingErrors = (names: readonly Exclude<(typeof OF_NUMBERS)[number], 'ssim'>[]): Part => {
  let [absolute, squared, numbers] = [0, 0, 0]
  let image: [absolute: number, squared: number, numbers: number] = [0, 0, 0]
  const VALUES = {
    mae: () => absolute / numbers,
    mse: () => squared / numbers,
    // For numbers between 0 and 1.
    psnr: () => -10 * Math.log10(squared / numbers),
  }
  return {
    add: ({ output, target }) => {
      let [a, s, n] = image
      for (let i = 0; i < output.length; i++) {
        const e = output[i]! - target[i]!
        a += Math.abs(e)
        s += e * e
      }
      n += output.length
      image = [a, s, n]
    },
    image: () => {
      const seen = image
      image = [0, 0, 0]
      return seen
    },
    fold: (next) => {
      const [a, s, n] = next as typeof image
      absolute += a
      squared += s
      numbers += n
    },
    result: () => ({ metrics: Object.fromEntries(names.map((n) => [n, VALUES[n]()])) }),
  }
}

const own = (m: Metric): Part => {
  const { value, ...how } = m.begun()
  return { ...how, result: () => ({ metrics: { [m.name]: value() } }) }
}

/** The first that one process alone can make: nobody knows how states of several come together. */
export const unmerged = (asked: readonly (MetricName | Metric)[] = []): string | undefined =>
  asked.flatMap((m) => (typeof m === 'string' || m.begun().fold ? [] : [m.name]))[0]

/** Those that are asked for, in their order; or why one of them is not to be had. */
export const measuring = (
  task: Task,
  asked: readonly (MetricName | Metric)[] | undefined,
): Either<SpillwayError, () => Measuring> => {
  const wanted = asked ?? usualMetrics(task)
  const names = wanted.map((m) => (typeof m === 'string' ? m : m.name))
  const twice = names.find((n, i) => names.indexOf(n) !== i)
  if (twice !== undefined) return E.left(usage(`metric '${twice}' is listed twice`))
  if (names.includes('confusion') && (classesOf(task) ?? 0) > MOST_CONFUSED)
    return E.left(usage(`metric 'confusion' is for at most ${MOST_CONFUSED} classes`))
  return pipe(
    wanted,
    E.traverseArray((m) => {
      const problem = typeof m === 'string' ? problemOf(task, m) : undefined
      return problem ? E.left(problem) : E.right(m)
    }),
    E.map(() => () => together(task, names, wanted)),
  )
}

const together = (task: Task, names: readonly string[], wanted: readonly (MetricName | Metric)[]): Measuring => {
  const { isMasked } = task
  const ofClasses = OF_CLASSES.filter((n) => wanted.includes(n))
  const ofRanks = OF_RANKS.filter((n) => wanted.includes(n))
  const ofNumbers = OF_NUMBERS.flatMap((n) => (n !== 'ssim' && wanted.includes(n) ? [n] : []))
  const all: readonly Part[] = [
    ...(ofClasses.length ? [countingClasses(task, ofClasses)] : []),
    ...(ofNumbers.length ? [summingErrors(ofNumbers)] : []),
    ...(ofRanks.length ? [ranking(task, ofRanks)] : []),
    ...(wanted.includes('ssim') ? [comparingStructure()] : []),
    ...wanted.flatMap((m) => (typeof m !== 'string' ? [own(m)] : topOf(m) !== undefined ? [countingTop(task, m)] : [])),
  ]
  return {
    add: (part) => {
      const inside = isMasked ? insideOf(part) : part
      const placed = isMasked ? withOutside(part, Number.NaN) : part
      for (const m of all) if (m.isPlaced || inside.width > 0) m.add(m.isPlaced ? placed : inside)
    },
    image: () => all.map((m) => m.image?.()),
    fold: (image) => all.forEach((m, i) => m.fold?.(image[i])),
    counts: () => all.map((m) => m.counts?.()),
    join: (counts) =>
      all.forEach((m, i) =>
        m.counts?.().forEach((own, k) => {
          const others = (counts[i] as readonly Float64Array[])[k]!
          others.forEach((n, j) => {
            own[j]! += n
          })
        }),
      ),
    result: () => {
      const results = all.map((m) => m.result())
      const metrics = Object.assign({}, ...results.map((r) => r.metrics)) as Record<string, number>
      const perClass = Object.assign({}, ...results.map((r) => r.perClass)) as NonNullable<Measured['perClass']>
      const confusion = results.find((r) => r.confusion)?.confusion
      return {
        metrics: Object.fromEntries(names.filter((n) => n in metrics).map((n) => [n, metrics[n]!])),
        ...(Object.keys(perClass).length ? { perClass } : {}),
        ...(confusion ? { confusion } : {}),
      }
    },
  }
}

// ---------------------------------------------------------------- the loss of several batches

/**
 * The weight of a batch's loss: the weights of its labels that are not ignored, for a mean over labels; its number of images otherwise. A masked net
 * counts pixels inside.
 */
export const shareOf = (
  { loss, isMasked }: Task,
  images: number,
): { readonly add: (part: Compared) => void; readonly value: () => number } => {
  const [ignored, weights] = [ignoredBy(loss), optionOf<readonly number[]>(loss, 'weights')]
  if (ignored === undefined && weights === undefined && !isMasked) return { add: () => undefined, value: () => images }
  let taken = 0
  return {
    add: (part) => {
      const { target } = isMasked ? insideOf(part) : part
      for (let i = 0; i < target.length; i++)
        if (target[i] !== ignored) taken += weights === undefined ? 1 : (weights[target[i]!] ?? 0)
    },
    value: () => taken,
  }
}
