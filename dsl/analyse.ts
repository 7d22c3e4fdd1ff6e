// The run-time interpreter: what is known of a net applied to an input shape. The twin of facts.ts, in the same words.
// In: a net, an input shape. Out: output shape, FT dimensions, activation bytes and a report of each layer; or an error.
import { type Either, isLeft, left, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { DIMS, elementsOf } from '../staging/core/box'
import type { GraphError } from '../staging/core/errors'
import { type Algebra, fold, type Place } from './fold'
import { ruleFor } from './layers/registry'
import { branchesDiffer, noBranches, shapeText, sumsDiffer } from './messages'
import type { Dim, Net, Shape } from './net'

export interface LayerReport {
  readonly name: string
  readonly kind: string
  readonly input: Shape
  readonly output: Shape
  readonly ft: readonly Dim[]
  /** Bytes of its output, in 32-bit floats. */
  readonly bytes: number
}

export interface Analysis {
  readonly output: Shape
  readonly ft: readonly Dim[]
  readonly activationBytes: number
  readonly layers: readonly LayerReport[]
}

/** The shape so far; all else is gathered beside it. */
interface Gathered {
  readonly layers: LayerReport[]
  ft: readonly Dim[]
  bytes: number
}

const bytesOf = (s: Shape): number => 4 * elementsOf(s)
const misfit = (at: Place, kind: string, reason: string): GraphError => ({ tag: 'ShapeInvalid', layer: at.called, kind, reason })

const algebraOf = (g: Gathered): Algebra<Shape> => {
  const report = (at: Place, kind: string, input: Shape, output: Shape, ft: readonly Dim[], inPlace: boolean): Shape => {
    g.layers.push({ name: at.name, kind, input, output, ft, bytes: bytesOf(output) })
    g.ft = g.ft.filter((d) => ft.includes(d))
    g.bytes += inPlace ? 0 : bytesOf(output)
    return output
  }
  return {
    layer: (l, x, at) => {
      const rule = ruleFor(l)
      const out = rule.shape(l, x)
      return isLeft(out) ? left(misfit(at, l.kind, out.left)) : right(report(at, l.kind, x, out.right, rule.ft(l), rule.inPlace))
    },
    sum: (body, shortcut, at) =>
      body.every((d, i) => d === shortcut[i])
        ? right(report(at, 'residual', body, body, DIMS, false))
        : left(misfit(at, 'residual', sumsDiffer(shapeText(body), shapeText(shortcut)))),
    differ: (branches) => oddBranch(branches) >= 0,
    join: (branches, at) => joined(branches, at, (out) => report(at, 'concat', branches[0]!, out, ['B', 'H', 'W'], false)),
  }
}

/** The first branch that disagrees with branch 1 in more than its channels, or -1. */
const oddBranch = (branches: readonly Shape[]): number =>
  branches.findIndex((s) => s[0] !== branches[0]![0] || s[2] !== branches[0]![2] || s[3] !== branches[0]![3])

const joined = (branches: readonly Shape[], at: Place, report: (out: Shape) => Shape): Either<GraphError, Shape> => {
  const first = branches[0]
  if (!first) return left(misfit(at, 'concat', noBranches()))
  const odd = oddBranch(branches)
  if (odd >= 0) return left(misfit(at, 'concat', branchesDiffer(shapeText(first), `${odd + 1}`, shapeText(branches[odd]!))))
  return right(report([first[0], branches.reduce((n, s) => n + s[1], 0), first[2], first[3]]))
}

export const analyse = (n: Net, input: Shape): Either<GraphError, Analysis> => {
  const g: Gathered = { layers: [], ft: DIMS, bytes: 0 }
  return pipe(
    fold(algebraOf(g), n, input),
    map((output) => ({ output, ft: g.ft, activationBytes: g.bytes, layers: g.layers })),
  )
}
