// An evaluation that several ranks share. In: the number of samples, the size of a batch, a rank. Out: its own batches; the results of each, at rank
// 0. Invariant: batches are those of one process, and reach rank 0 in their order, so that numbers are the same for any number of ranks; all ranks
// meet after each round, one batch of each, and a rank that ends ends all there. Worked example, 7 samples, batches of 2, 2 ranks: rank 0 has batches
// 0 and 2, rank 1 has 1 and the rest.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { SpillwayError } from '../errors/errors'
import { usage } from '../errors/errors'
import { deviceFailed } from '../errors/exceptions'
import { exchange, isLeader, withPatience, type Rank } from '../ranks/rank'
import { CANCELLED } from './batches'

/** The results of a batch. */
export interface Unit {
  readonly images: number
  /** The mean over the batch, and by how much it counts. */
  readonly loss: number
  readonly share: number
  /** The rounded results of each image. */
  readonly folds: readonly (readonly unknown[])[]
  readonly arenaPeakBytes: number
}

/** The batches of a rank. */
export interface Own {
  /** Full ones, counted from 0 among all. */
  readonly full: readonly number[]
  /** The number of samples after the last full batch. */
  readonly left: number
  /** For all ranks: one without a batch in the last round brings nothing. */
  readonly rounds: number
}

export const ownBatches = (samples: number, batch: number, { rank, ranks }: Pick<Rank, 'rank' | 'ranks'>): Own => {
  const [full, left] = [Math.floor(samples / batch), samples % batch]
  return {
    full: Array.from({ length: Math.max(0, Math.ceil((full - rank) / ranks)) }, (_, i) => i * ranks + rank),
    left: full % ranks === rank ? left : 0,
    rounds: Math.ceil((full + (left > 0 ? 1 : 0)) / ranks),
  }
}

/** The facts after all batches. */
export interface Counted {
  readonly counts: readonly unknown[]
  readonly worst: readonly unknown[]
}

interface Word {
  readonly unit?: Unit | undefined
  readonly counted?: Counted
  readonly isCancelled?: true
}

export interface Meeting {
  /** A round: the results of this rank's batch, if it had one. */
  readonly round: (unit?: Unit) => Promise<Either<SpillwayError, void>>
  /** After all rounds, rank 0 gets the counts of the others. */
  readonly counted: (own: Counted) => Promise<Either<SpillwayError, readonly Counted[]>>
  /** This rank is to end. */
  readonly leave: () => Promise<Either<SpillwayError, void>>
}

/** `settle`: receives the results of batches, in their order, at rank 0. */
export const meetingOf = (rank: Rank, settle: (unit: Unit) => void): Meeting => {
  let isOver = false
  const sending = async (word: Word): Promise<Either<SpillwayError, readonly Word[]>> => {
    if (isOver) return E.left(CANCELLED)
    try {
      const words = await withPatience(rank, exchange(rank, word))
      isOver = words.some((w) => w.isCancelled)
      return isOver ? E.left(CANCELLED) : E.right(words)
    } catch (e) {
      return E.left(
        e instanceof Error && e.name === 'DataCloneError'
          ? usage(`the state of an own metric cannot be sent to rank 0: ${e.message}; without merge, rank 0 evaluates alone`)
          : deviceFailed(e),
      )
    }
  }
  return {
    round: async (unit) => {
      const words = await sending({ unit })
      if (E.isLeft(words)) return words
      if (isLeader(rank)) for (const { unit: one } of words.right) if (one) settle(one)
      return E.right(undefined)
    },
    counted: async (own) => {
      const words = await sending({ counted: own })
      return E.map((all: readonly Word[]) => (isLeader(rank) ? all.slice(1).flatMap((w) => w.counted ?? []) : []))(words)
    },
    leave: async () => E.map(() => undefined)(await sending({ isCancelled: true })),
  }
}
