// Results of an evaluation's measures, and the parts that compute them.
import type { Compared } from './ownmetric'

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
  /** Adds the results of an image, in the order of images. */
  readonly fold: (image: readonly unknown[]) => void
  /** The whole counts, and a way to add those of other processes. */
  readonly counts: () => readonly unknown[]
  readonly join: (counts: readonly unknown[]) => void
  readonly result: () => Measured
}

/** One of several measures. Absent fields are not needed. */
export interface Part extends Pick<Measuring, 'add' | 'result'> {
  /** True if the places of pixels matter: pixels outside of a mask then have no number. */
  readonly isPlaced?: boolean
  readonly image?: () => unknown
  readonly fold?: (image: unknown) => void
  readonly counts?: () => readonly Float64Array[]
}
