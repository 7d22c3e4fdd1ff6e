// How tensors of a step become one: side by side, added, multiplied. In: their shapes. Out: the shape, or what is wrong in words; and
// the operator, with the dimensions along which it may be tiled.
import { type Either, left, right } from 'fp-ts/Either'
import type { AnyAttrs } from '../staging/ops/op'
import { factorOver, oddBranch } from './analyse'
import { branchesDiffer, factorMisfits, noBranches, shapeText, termsDiffer } from './messages'
import type { Dim, Shape } from './net'

export type Combining = 'joined' | 'added' | 'multiplied'

interface Combination {
  readonly op: string
  readonly ft: readonly Dim[]
  readonly shape: (first: Shape, others: readonly Shape[]) => Either<string, Shape>
  readonly attrs: (first: Shape, others: readonly Shape[]) => AnyAttrs
}

const ALL: readonly Dim[] = ['B', 'C', 'H', 'W']

export const COMBINATIONS: Readonly<Record<Combining, Combination>> = {
  joined: {
    op: 'concat',
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
    ft: ALL,
    shape: (first, others) => {
      const odd = others.find((s) => shapeText(s) !== shapeText(first))
      return odd ? left(termsDiffer(shapeText(first), shapeText(odd))) : right(first)
    },
    attrs: () => ({}),
  },
  multiplied: {
    op: 'multiply',
    ft: ALL,
    shape: (first, [factor = first]) =>
      factorOver(first, factor) === undefined ? left(factorMisfits(shapeText(factor), shapeText(first))) : right(first),
    attrs: (first, [factor = first]) => ({ over: factorOver(first, factor)! }),
  },
}

export const combinedShape = (kind: Combining, [first, ...others]: readonly Shape[]): Either<string, Shape> =>
  first ? COMBINATIONS[kind].shape(first, others) : left(noBranches())
