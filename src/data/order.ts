// Which sample stands where. In: how many samples there are, the parts of them that are meant, a seed if they are shuffled. Out: the
// sample at each position of an endless sequence of epochs. Invariant: an epoch has each sample once, or each class equally often; the order is a
// function of seed and epoch alone, so that a run may go on anywhere. Worked example: 5 samples in turn, batches of 2: 0 1, 2 3, 4 0, 1 2, …
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { randomOf, shuffled } from './random'

/** Some of the samples: a share of them drawn by a seed, one of several shards, or a list. */
export type Part =
  | { readonly kind: 'share'; readonly from: number; readonly to: number; readonly seed: number }
  | { readonly kind: 'shard'; readonly index: number; readonly of: number }
  | { readonly kind: 'list'; readonly samples: readonly number[] }

/** The purposes of a generator's words: no two uses of one seed share their numbers. */
const SPLIT = 1
const EPOCH = 2
const BALANCE = 8

const share = (all: Uint32Array, from: number, to: number, seed: number): Uint32Array => {
  const at = (s: number): number => Math.round(s * all.length)
  return shuffled(all, randomOf(SPLIT, seed)).slice(at(from), at(to)).sort()
}

const partOf = (all: Uint32Array, part: Part): Either<string, Uint32Array> => {
  if (part.kind === 'share') return E.right(share(all, part.from, part.to, part.seed))
  if (part.kind === 'shard') return E.right(all.filter((_, i) => i % part.of === part.index))
  const odd = part.samples.find((i) => !(Number.isInteger(i) && i >= 0 && i < all.length))
  return odd === undefined
    ? E.right(Uint32Array.from(part.samples, (i) => all[i]!))
    : E.left(`the list contains sample ${odd}, but there are ${all.length} samples (counted from 0)`)
}

/** The parts in turn, each from the rest of the one before. */
export const chosen = (length: number, parts: readonly Part[]): Either<string, Uint32Array> =>
  parts.reduce<Either<string, Uint32Array>>(
    (all, part) => E.flatMap((a: Uint32Array) => partOf(a, part))(all),
    E.right(Uint32Array.from({ length }, (_, i) => i)),
  )

/** The place of a sample in a run. */
export interface Place {
  readonly epoch: number
  /** In the whole set, for any part of it. */
  readonly index: number
}

export interface Order {
  /** Samples of an epoch. */
  readonly length: number
  readonly at: (position: number) => Place
}

/** The samples of each class, in the order of the labels. `labels` has the label of each sample of the whole set. */
export const byClass = (samples: Uint32Array, labels: ArrayLike<number>): ReadonlyMap<number, Uint32Array> => {
  const classes = new Map<number, number[]>()
  for (const i of samples) {
    const list = classes.get(labels[i]!)
    if (list) list.push(i)
    else classes.set(labels[i]!, [i])
  }
  return new Map([...classes].sort(([a], [b]) => a - b).map(([label, list]) => [label, Uint32Array.from(list)]))
}

/**
 * Draws each class equally often, up to one. Worked example: class 0 has 8 samples, class 1 has 2. An epoch of 10 has 5 different samples of class
 * 0, and each sample of class 1 two or three times.
 */
const balanced = (classes: ReadonlyMap<number, Uint32Array>, length: number, seed: number, epoch: number): Uint32Array => {
  const labels = shuffled(Uint32Array.from(classes.keys()), randomOf(BALANCE, seed, epoch))
  const out = new Uint32Array(length)
  let at = 0
  labels.forEach((label, k) => {
    const own = classes.get(label)!
    const draws = Math.floor(length / labels.length) + (k < length % labels.length ? 1 : 0)
    // Whole rounds, and a random part of the next.
    const last = shuffled(own, randomOf(BALANCE, seed, epoch, label + 1))
    for (let i = 0; i < draws; i++) out[at++] = last[i % own.length]!
  })
  return shuffled(out, randomOf(EPOCH, seed, epoch))
}

/** As they are, or shuffled anew in each epoch; with labels, each class equally often. */
export const orderOf = (samples: Uint32Array, seed: number | undefined, labels?: ArrayLike<number>): Order => {
  let held: { readonly epoch: number; readonly order: Uint32Array } | undefined
  const classes = labels && byClass(samples, labels)
  const anew = (epoch: number): Uint32Array =>
    classes ? balanced(classes, samples.length, seed!, epoch) : shuffled(samples, randomOf(EPOCH, seed!, epoch))
  const orderIn = (epoch: number): Uint32Array => {
    if (seed === undefined) return samples
    if (held?.epoch !== epoch) held = { epoch, order: anew(epoch) }
    return held.order
  }
  return {
    length: samples.length,
    at: (position) => {
      const epoch = Math.floor(position / samples.length)
      return { epoch, index: orderIn(epoch)[position % samples.length]! }
    },
  }
}

/** Which part of each batch is meant, where several share it. */
export interface Share {
  readonly rank: number
  readonly of: number
}
export const ALL: Share = { rank: 0, of: 1 }

/** Sample b of step s, from 1, stands at (s-1)·B + b; of a share of b samples, behind those of the ranks before it. */
export const positionOf = (step: number, batch: number, b: number, { rank, of }: Share = ALL): number =>
  ((step - 1) * of + rank) * batch + b

/** All samples of consecutive steps. */
export const orderOfSteps = (order: Order, firstStep: number, steps: number, batch: number, share: Share = ALL): Uint32Array =>
  Uint32Array.from(
    { length: steps * batch },
    (_, i) => order.at(positionOf(firstStep + Math.floor(i / batch), batch, i % batch, share)).index,
  )
