// The run-time interpreter: what is known of a net applied to an input shape. The twin of facts.ts, in the same words.
// In: a net, an input shape. Out: output shape, FT dimensions, sums of bytes and parameters, a report of each layer; or an error.
import { type Either, left, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { DIMS, elementsOf } from '../staging/core/box'
import type { GraphError } from '../staging/core/errors'
import { type Algebra, fold, type Nameless, type NodeNames } from './fold'
import { type Derived, derived } from './layers/derived'
import { ruleFor } from './layers/registry'
import { branchesDiffer, noBranches, noFactor, shapeText, sumsDiffer } from './messages'
import type { ParamSpec } from './layers/rule'
import type { Dim, Layer, Net, Shape } from './net'

export interface LayerReport {
  readonly name: string
  /** Its name in messages, where nameless layers have no number. */
  readonly called: string
  readonly kind: string
  readonly input: Shape
  readonly output: Shape
  readonly ft: readonly Dim[]
  /** The dimensions over which it sums. */
  readonly sums: readonly Dim[]
  /** Whether its name is its own, not its kind's. */
  readonly named: boolean
  /** Bytes of its output, in 32-bit floats. */
  readonly bytes: number
  /** Numbers that it trains. */
  readonly parameters: number
  /** Numbers that it keeps from step to step and does not train. */
  readonly state: number
}

export interface Analysis {
  readonly output: Shape
  readonly ft: readonly Dim[]
  readonly activationBytes: number
  readonly parameters: number
  readonly state: number
  readonly layers: readonly LayerReport[]
}

/** The shape so far; all else is gathered beside it. */
interface Gathered {
  readonly layers: LayerReport[]
  ft: readonly Dim[]
  bytes: number
}

const bytesOf = (s: Shape): number => 4 * elementsOf(s)
const misfit = (at: NodeNames, kind: string, reason: string): GraphError => ({
  tag: 'ShapeInvalid',
  layer: at.called,
  kind,
  reason,
})

const numbersOf = (params: readonly ParamSpec[], state: boolean): number =>
  params.filter((p) => (p.role === 'state') === state).reduce((n, p) => n + p.shape.reduce((m, d) => m * d, 1), 0)

const algebraOf = (g: Gathered): Algebra<Shape> => {
  const report = (l: LayerReport, inPlace = false): Shape => {
    g.layers.push(l)
    g.ft = g.ft.filter((d) => l.ft.includes(d))
    g.bytes += inPlace ? 0 : l.bytes
    return l.output
  }
  const join = (at: NodeNames, kind: string, input: Shape, output: Shape, ft: readonly Dim[]): Shape =>
    report({ ...at, kind, input, output, ft, sums: [], named: false, bytes: bytesOf(output), parameters: 0, state: 0 })
  const layer = (l: Layer, input: Shape, { output, ft, sums, inPlace, params }: Derived, at: NodeNames): Shape => {
    const [parameters, state] = [numbersOf(params, false), numbersOf(params, true)]
    const { kind } = l
    return report(
      { ...at, kind, input, output, ft, sums, named: l.name !== '', bytes: bytesOf(output), parameters, state },
      inPlace,
    )
  }
  return {
    layer: (l, x, at) =>
      pipe(
        derived(l, ruleFor(l), x, at.called),
        map((d) => layer(l, x, d, at)),
      ),
    sum: (body, shortcut, at) =>
      body.every((d, i) => d === shortcut[i])
        ? right(join(at, 'residual', body, body, DIMS))
        : left(misfit(at, 'residual', sumsDiffer(shapeText(body), shapeText(shortcut)))),
    product: (input, factor, at) =>
      factorOver(input, factor) === undefined
        ? left(misfit(at, 'scaled', noFactor(shapeText(factor), shapeText(input))))
        : right(join(at, 'scaled', input, input, DIMS)),
    differ: (branches) => oddBranch(branches) >= 0,
    resize: (made, [, , h, w], at) =>
      right(made[2] === h && made[3] === w ? made : join(at(), 'atInputSize', made, [made[0], made[1], h, w], DIMS)),
    join: (branches, at) => joined(branches, at, (out) => join(at, 'concat', branches[0]!, out, ['B', 'H', 'W'])),
  }
}

/** What a factor has one value for, as `multiply` says it: 0 an element, 1 all pixels of a channel, 2 all channels of a pixel. */
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

const joined = (branches: readonly Shape[], at: NodeNames, report: (out: Shape) => Shape): Either<GraphError, Shape> => {
  const first = branches[0]
  if (!first) return left(misfit(at, 'concat', noBranches()))
  const odd = oddBranch(branches)
  if (odd >= 0) return left(misfit(at, 'concat', branchesDiffer(shapeText(first), `${odd + 1}`, shapeText(branches[odd]!))))
  return right(report([first[0], branches.reduce((n, s) => n + s[1], 0), first[2], first[3]]))
}

export const analyse = (n: Net, input: Shape, nameless?: Nameless): Either<GraphError, Analysis> => {
  const g: Gathered = { layers: [], ft: DIMS, bytes: 0 }
  return pipe(
    fold(algebraOf(g), n, input, nameless),
    map((output) => ({
      output,
      ft: g.ft,
      activationBytes: g.bytes,
      parameters: g.layers.reduce((n, l) => n + l.parameters, 0),
      state: g.layers.reduce((n, l) => n + l.state, 0),
      layers: g.layers,
    })),
  )
}
