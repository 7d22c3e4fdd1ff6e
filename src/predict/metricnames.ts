// Names of measures. In: a loss, the shape of its output. Out: the measures that fit it, the usual ones, and the form of output that each needs.
import type { Form } from '../../dsl'
import { type Loss, type LossEntry, lossText, partsOf } from '../../staging/ops/losses'
import { aboutTargets, type SpillwayError, unknownName, usage } from '../errors/errors'
import type { Metric } from './ownmetric'

export const OF_CLASSES = ['accuracy', 'meanIou', 'dice', 'f1', 'precision', 'recall', 'confusion'] as const

export const OF_RANKS = ['auroc', 'averagePrecision'] as const

export const OF_NUMBERS = ['mae', 'mse', 'psnr', 'ssim'] as const

/** Metrics by name; `top5` and others like it, too. */
export const METRICS = [...OF_CLASSES, 'top5', ...OF_RANKS, ...OF_NUMBERS] as const

/**
 * The name of a metric. `top3` counts a label among the three largest values as correct.
 *
 * @example const metrics: readonly MetricName[] = ['accuracy', 'top3', 'f1']
 */
export type MetricName = (typeof METRICS)[number] | `top${number}`

const TOP = /^top([1-9]\d{0,5})$/

export const topOf = (name: string): number | undefined => (TOP.test(name) ? Number(name.slice(3)) : undefined)

const isIn = <N extends string>(list: readonly N[], name: string): name is N => (list as readonly string[]).includes(name)

export const isMetricName = (name: string): name is MetricName => isIn(METRICS, name) || topOf(name) !== undefined

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
export const isOfClasses = ({ entry }: Task): boolean => entry.labels === true || entry.shares === true

/** Labels of classes; of one channel beside a sigmoid there are two, as labels or as whether the target is above a half. */
export const classesOf = ({ entry, channels }: Task): number | undefined =>
  channels === 1 && (entry.labels || entry.logits) ? 2 : entry.labels || entry.shares ? channels : undefined

/** The option of the first part that has it. */
export const optionOf = <T>(loss: Loss, option: string): T | undefined =>
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
export const MOST_CONFUSED = 4096

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

export const problemOf = (task: Task, name: string): SpillwayError | undefined => {
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
