// How long a run is, and where its epochs end. In: steps or epochs, the samples of an epoch, the batch. Out: the steps of the whole run,
// and the step that ends an epoch. Invariant: samples stand in an endless row of epochs, and an epoch ends with the step that holds its
// last sample, which may hold the first of the next one, too.
// Worked example, 5 samples in batches of 2: epochs end with the steps 3, 5, 8 and 10.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'

/** Samples of an epoch; batch of a step. */
export interface Epochs {
  readonly samples: number
  readonly batch: number
}

export interface Length {
  /** Steps of the whole run, those before a resume included. */
  readonly steps: number
  /** Undefined where nobody knows how many samples there are. */
  readonly epochs: Epochs | undefined
}

/** The step that holds the last sample of an epoch, both counted from 1. */
export const epochEnd = ({ samples, batch }: Epochs, epoch: number): number => Math.ceil((epoch * samples) / batch)

/** How many epochs have ended with a step. */
export const epochsAt = ({ samples, batch }: Epochs, step: number): number => Math.floor((step * batch) / samples)

/** Over the steps since those of the epoch before. */
export const meanLoss = (losses: readonly number[], epochs: Epochs, epoch: number): number => {
  const own = losses.slice(epochEnd(epochs, epoch - 1), epochEnd(epochs, epoch))
  return own.reduce((n, l) => n + l, 0) / own.length
}

/** The mean over the steps of the epoch that ends with a step, or that the run has not finished. */
export const lossAt = (losses: readonly number[], epochs: Epochs, step: number): number => {
  const epoch = epochsAt(epochs, step)
  return meanLoss(losses, epochs, epochEnd(epochs, epoch) === step ? epoch : epoch + 1)
}

interface Asked {
  readonly steps?: number | undefined
  readonly epochs?: number | undefined
}

/** `samples`: of an epoch, where it is known. */
export const lengthOf = (o: Asked, samples: number | undefined, batch: number): Either<SpillwayError, Length> => {
  const epochs = samples === undefined ? undefined : { samples, batch }
  if (o.epochs === undefined) return E.right({ steps: o.steps!, epochs })
  if (!epochs) return E.left(usage('epochs needs the number of samples, which a stream does not have: use steps'))
  const steps = epochEnd(epochs, o.epochs)
  return Number.isSafeInteger(steps)
    ? E.right({ steps, epochs })
    : E.left(usage(`${o.epochs} epochs of ${samples} samples are too many`))
}
