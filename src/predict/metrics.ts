// The measures of an evaluation. In: a model's values for some rows of an image, and the targets, one part after the other. Out: numbers. Invariant:
// counts are whole, and rounded values are summed image by image, so that they are the same for any plan, batch, parts or processes.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import { countingClasses, countingTop } from './classmetrics'
import { insideOf, withOutside } from './inside'
import type { Measured, Measuring, Part } from './measured'
import {
  classesOf,
  ignoredBy,
  type MetricName,
  MOST_CONFUSED,
  OF_CLASSES,
  OF_NUMBERS,
  OF_RANKS,
  optionOf,
  problemOf,
  type Task,
  topOf,
  usualMetrics,
} from './metricnames'
import type { Compared, Metric } from './ownmetric'
import { comparingStructure, ranking, summingErrors } from './valuemetrics'

const own = (m: Metric): Part => {
  const { value, ...how } = m.begun()
  return { ...how, result: () => ({ metrics: { [m.name]: value() } }) }
}

/** The first metric that only one process can compute, because states of several cannot be joined. */
export const unmerged = (asked: readonly (MetricName | Metric)[] = []): string | undefined =>
  asked.flatMap((m) => (typeof m === 'string' || m.begun().fold ? [] : [m.name]))[0]

/** Computes the named metrics, in their order; or says why one of them does not fit. */
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
