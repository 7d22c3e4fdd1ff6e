// The source of a run's fed bytes, with its order and identity. In: opened data. Out: the order of samples, words for the identity of a run, and for
// the place of a sample.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import { type DataFiles, type FileTensor, sampleCount } from '../files/samples'
import type { KnownClasses } from './classes'
import type { LabelCounts } from './counts'
import type { Data, Numbers } from './data'
import type { Described } from './description'
import type { Feed } from './feed'
import { chosen, type Order, orderOf, positionOf, type Share } from './order'

/** The source of the bytes of fed values. */
export type DataSource =
  | { readonly kind: 'synthetic'; readonly samples: number }
  | {
      readonly kind: 'files'
      readonly files: DataFiles
      readonly numbers: Numbers
      /** Absent: samples in file order. */
      readonly order?: Order
    }
  | {
      readonly kind: 'fed'
      readonly open: () => Feed
      /** Batches of whole samples; absent if `open` has them or samples are only read in bands. */
      readonly openWhole?: () => Feed
      readonly nameOf: (position: number) => string
    }

export interface OpenedData {
  readonly source: DataSource
  /** Samples of an epoch; undefined if unknown. */
  readonly samples: number | undefined
  /** The identity of the data, for that of the run. */
  readonly content: string
  /** The same as checkpoints of version 1 say it: where the data lie. */
  readonly place: string
  /** The description of the data in trained weights. */
  readonly described: Described
  /** Notes about labels, and data that are left out. */
  readonly notes: readonly string[]
  /** A note about the order, for training. */
  readonly orderNote?: string
  /** For samples with one label each, if their labels have been read. */
  readonly labels?: LabelCounts
}

/** Order, threads and strictness of reading. */
export interface ReadSettings {
  readonly samples?: number | undefined
  /** Seed of the order. */
  readonly seed: number
  readonly shuffle: boolean
  /** Shuffles where samples have an order of their own: no stream, no synthetic data. Replaces `shuffle`. */
  readonly shufflesIfPossible?: boolean
  /** Batches that are made ahead. */
  readonly prefetch: number
  /** Threads that decode images. */
  readonly workers: number
  /** True if the identity of the data must be known. */
  readonly isKept: boolean
  /** The read part of each batch; default: all. */
  readonly share?: Share | undefined
  /** Class names that labels must follow. */
  readonly classes?: KnownClasses
  /** Refuses data that would be left out. */
  readonly strict?: boolean
  /** Draws each class equally often. */
  readonly balance?: boolean
}

/** The part of a run's identity; nothing if data are used unchanged. */
export const orderText = ({ parts, set: { mean, std } }: Data, { shuffle, balance }: ReadSettings): string =>
  [
    ...(parts.length ? [`, parts ${JSON.stringify(parts)}`] : []),
    ...(mean || std ? [`, numbers ${JSON.stringify({ mean, std })}`] : []),
    ...(shuffle ? [', shuffled'] : []),
    ...(balance ? [', balanced'] : []),
  ].join('')

/** `labels`: for a balanced order. */
export const orderFor = (
  length: number,
  { parts }: Data,
  { shuffle, seed, balance }: ReadSettings,
  labels?: ArrayLike<number>,
): Either<SpillwayError, Order> =>
  pipe(
    chosen(length, parts),
    E.mapLeft((reason) => usage(reason)),
    E.filterOrElse(
      (samples) => samples.length > 0,
      () => usage(`no sample of ${length} is left: this part of the data is empty`),
    ),
    E.map((samples) => orderOf(samples, shuffle || balance ? seed : undefined, balance ? labels : undefined)),
  )

/** The file that a sample of the data set is in, and its number there. */
const inFiles = (list: readonly FileTensor[], sample: number): string => {
  let [at, i] = [sample, 0]
  while (at >= list[i]!.samples) at -= list[i++]!.samples
  return list[i]!.samples === 1 ? list[i]!.path : `sample ${at} of ${list[i]!.path}`
}

/** Sample b of a step, for people: where it comes from. */
export const sampleText = (data: DataSource, value: string, batch: number, step: number, b: number): string => {
  const position = positionOf(step, batch, b)
  if (data.kind === 'synthetic') return `'${value}'`
  if (data.kind === 'fed') return `'${value}' of ${data.nameOf(position)}`
  const list = data.files.get(value)!
  const sample = data.order ? data.order.at(position).index : position % sampleCount(list)
  return `'${value}' of ${inFiles(list, sample)}`
}
