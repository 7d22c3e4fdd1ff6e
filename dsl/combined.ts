// Joins of tensors of a step and of named values: side by side, added, multiplied; of named values also attended and contracted. In: their shapes.
// Out: the shape, or an error in words; and the operator, with the dimensions along which it may be tiled.
import { type Either, left, right } from 'fp-ts/Either'
import { DIMS } from '../staging/core/box'
import { MOST_HEAD_CHANNELS } from '../staging/ops/attention'
import { contracted } from '../staging/ops/contract'
import type { AnyAttrs } from '../staging/ops/op'
import type { Attended, Contracted } from './compose'
import { badSize } from './layers/rule'
import {
  branchesDiffer,
  factorMisfits,
  headTooWide,
  keysDoNotFit,
  matricesDoNotFit,
  noBranches,
  shapeText,
  termsDiffer,
} from './messages'
import type { Dim, Shape } from './net'

export type Combining = 'joined' | 'added' | 'multiplied'

export interface Combination {
  readonly op: string
  /** Its kind in reports and messages about named values. */
  readonly called: string
  /** True if it reads all pixels of an image, so that no masked net has it. */
  readonly ofAllPixels?: true
  readonly ft: readonly Dim[]
  readonly shape: (first: Shape, others: readonly Shape[]) => Either<string, Shape>
  readonly attrs: (first: Shape, others: readonly Shape[]) => AnyAttrs
}

/**
 * The repetition of a factor's values, as in `multiply`: 0 one for each element, 1 one for all pixels of a channel, 2 one for all channels of a
 * pixel.
 */
export const factorOver = ([b, c, h, w]: readonly number[], factor: readonly number[]): number | undefined => {
  const at = [
    [b, c, h, w],
    [b, c, 1, 1],
    [b, 1, h, w],
  ].findIndex((s) => s.every((n, i) => n === factor[i]))
  return at < 0 ? undefined : at
}

/** The first branch that disagrees with branch 1 in more than its channels, or -1. */
export const oddBranch = (branches: readonly Shape[]): number =>
  branches.findIndex((s) => s[0] !== branches[0]![0] || s[2] !== branches[0]![2] || s[3] !== branches[0]![3])

export const COMBINATIONS: Readonly<Record<Combining, Combination>> = {
  joined: {
    op: 'concat',
    called: 'concat',
    ft: ['B', 'H', 'W'],
    shape: (first, others) => {
      const all = [first, ...others]
      const odd = oddBranch(all)
      if (odd >= 0) return left(branchesDiffer(shapeText(first), `${odd + 1}`, shapeText(all[odd]!)))
      return right([first[0], all.reduce((n, s) => n + s[1], 0), first[2], first[3]])
    },
    attrs: () => ({}),
  },
  added: {
    op: 'add',
    called: 'sum',
    ft: DIMS,
    shape: (first, others) => {
      const odd = others.find((s) => shapeText(s) !== shapeText(first))
      return odd ? left(termsDiffer(shapeText(first), shapeText(odd))) : right(first)
    },
    attrs: () => ({}),
  },
  multiplied: {
    op: 'multiply',
    called: 'product',
    ft: DIMS,
    shape: (first, [factor = first]) =>
      factorOver(first, factor) === undefined ? left(factorMisfits(shapeText(factor), shapeText(first))) : right(first),
    attrs: (first, [factor = first]) => ({ over: factorOver(first, factor)! }),
  },
}

const attendedFault = (heads: number, q: Shape, kv: Shape): string | null => {
  const bad = badSize(['number of heads', heads, 1])
  if (bad !== null) return bad
  if (kv[0] !== q[0] || kv[1] !== 2 * q[1] || q[1] % heads !== 0) return keysDoNotFit(shapeText(kv), `${heads}`, shapeText(q))
  return q[1] / heads > MOST_HEAD_CHANNELS ? headTooWide(`${q[1] / heads}`) : null
}

/** Attention of the first of two named values to the second. */
export const attention = ({ heads, headFirst = false, scale }: Attended): Combination => ({
  op: 'attend',
  called: 'attention',
  ofAllPixels: true,
  ft: ['B'],
  shape: (first, [keys = first]) => {
    const fault = attendedFault(heads, first, keys)
    return fault === null ? right(first) : left(fault)
  },
  attrs: (first) => ({ heads, headFirst: Number(headFirst), scale: scale ?? 1 / Math.sqrt(first[1] / heads) }),
})

/** The numbers of the axes that are summed, as in the operator. */
export const OVER: Readonly<Record<Contracted['over'], number>> = { channels: 0, pixels: 1, mixed: 2 }

/** The product of two named values as matrices. */
export const contraction = ({ over, groups = 1 }: Contracted): Combination => ({
  op: 'contract',
  called: 'contraction',
  ofAllPixels: true,
  ft: ['B'],
  shape: (first, [second = first]) => {
    const bad = badSize(['number of groups', groups, 1])
    if (bad !== null) return left(bad)
    const made = contracted({ over: OVER[over], groups }, first, second)
    return made === undefined
      ? left(matricesDoNotFit(shapeText(first), shapeText(second), `${groups}`, over))
      : right(made as unknown as Shape)
  },
  attrs: () => ({ over: OVER[over], groups }),
})

export const shapeOf = ({ shape }: Combination, [first, ...others]: readonly Shape[]): Either<string, Shape> =>
  first ? shape(first, others) : left(noBranches())
export const combinedShape = (kind: Combining, shapes: readonly Shape[]): Either<string, Shape> =>
  shapeOf(COMBINATIONS[kind], shapes)
