// Balanced classes. In: image lists or array files. Out: the label of each sample, for a balanced order, and a note with the numbers. Invariant: data
// without one class per sample are refused.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import type { DataFiles } from '../files/samples'
import { namesText } from './classes'
import type { Data } from './data'
import { labelsInFiles as labelsIn } from './filelabels'
import type { ImageList } from './found'
import { byClass, chosen } from './order'
import { elementsOf, type FedValue } from './places'

/** The allowed data, for refusals. */
export const BALANCE_NEEDS =
  'it needs one class per sample: a folder of class folders, a list with labels, or arrays with one label per sample; or leave --balance-classes out'

/** The number of draws and of samples of each class of a balanced order. */
export const balanceNotes = (
  { parts }: Data,
  length: number,
  labels: ArrayLike<number> | undefined,
  names: readonly string[] = [],
): Either<SpillwayError, readonly string[]> =>
  pipe(
    chosen(length, parts),
    E.mapLeft((reason): SpillwayError => usage(reason)),
    E.map((samples) => {
      if (!labels) return []
      const classes = [...byClass(samples, labels)]
      const draws = Math.floor(samples.length / classes.length)
      const often = samples.length % classes.length === 0 ? String(draws) : `${draws} or ${draws + 1}`
      const counts = namesText(classes.map(([label, own]) => `${names[label] ?? label} ${own.length}`))
      return [`balanced classes: each is drawn ${often} times per epoch of ${samples.length}; samples: ${counts}`]
    }),
  )

/** The label of each image. */
export const labelsOfImages = ({ samples }: ImageList): Either<SpillwayError, readonly number[]> =>
  samples[0]!.label === undefined
    ? E.left(
        usage(
          `balanceClasses: these images have ${samples[0]!.labels ? 'several classes' : 'masks'}, not one class each; ${BALANCE_NEEDS}`,
        ),
      )
    : E.right(samples.map(({ label }) => label!))

/** The label of each sample of array files. */
export const labelsInFiles = (found: DataFiles, values: readonly FedValue[]): Either<SpillwayError, ArrayLike<number>> => {
  const ofLabels = values.filter((v) => v.labels && elementsOf(v) === 1)
  return ofLabels.length === 1
    ? labelsIn(found.get(ofLabels[0]!.name)!)
    : E.left(usage(`balanceClasses: these arrays have ${ofLabels.length} labels per sample, not one; ${BALANCE_NEEDS}`))
}
