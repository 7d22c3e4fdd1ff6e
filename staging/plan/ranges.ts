// The slices of many tiles in a short form. In: ranges along a dimension, one for each tile. Out: if there are many, the differences of each from the
// one before it, with repetitions written once (core/repeats.ts). So a file grows less than its loops with the size of the image. Worked example:
// [0,5] [3,11] [9,17] [15,23] is 0 5 3 6 6 6 6 6, with the repetition written as [1,2].
import { either, isRight } from 'fp-ts/Either'
import * as t from 'io-ts'
import type { Range } from '../core/box'
import { count, list, record, tuple } from '../core/codecs'
import { type Repeats, repeats, repeatsCodec, spelledOut } from '../core/repeats'

/** Fewer ranges are listed one by one, so that people can read them. */
const LEAST_FOLDED = 32
/** A limit above the tiles along a dimension of any loop. */
const MOST = 2 ** 22

const pairs = list(tuple(count, count))
const foldedCodec = record({ differences: repeatsCodec })

/** Returns the ranges in the form of a file. */
export const foldedRanges = (ranges: readonly Range[]): readonly Range[] | { readonly differences: Repeats } => {
  if (ranges.length < LEAST_FOLDED) return ranges
  const before = (i: number): Range => ranges[i - 1] ?? [0, 0]
  return { differences: repeats(ranges.flatMap(([lo, hi], i) => [lo - before(i)[0], hi - before(i)[1]])) }
}

const unfolded = (differences: readonly number[]): readonly Range[] => {
  const out: Range[] = []
  let [lo, hi] = [0, 0]
  for (let i = 0; i < differences.length; i += 2) {
    lo += differences[i]!
    hi += differences[i + 1]!
    out.push([lo, hi])
  }
  return out
}

/** Decodes ranges that are listed one by one, or folded. */
export const rangesCodec: t.Type<readonly Range[], readonly Range[], unknown> = new t.Type(
  'slices',
  pairs.is,
  (u, c) =>
    Array.isArray(u)
      ? pairs.validate(u, c)
      : either.chain(foldedCodec.validate(u, c), ({ differences }) => {
          const numbers = spelledOut(differences, 2 * MOST)
          if (!isRight(numbers)) return t.failure(u, c, numbers.left)
          return numbers.right.length % 2 === 0
            ? pairs.validate(unfolded(numbers.right), c)
            : t.failure(u, c, 'a range has no end')
        }),
  t.identity,
)
