// The run-time interpreter: facts of a net for an input shape. The twin of facts.ts, in the same words. In: a net, an input shape. Out: output shape,
// FT dimensions, sums of bytes and parameters, a report of each layer; or an error.
import { bimap, chain, type Either, left, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { DIMS, elementsOf } from '../staging/core/box'
import type { GraphError } from '../staging/core/errors'
import { COMBINATIONS, combinedShape, factorOver, oddBranch, shapeOf } from './combined'
import { strayBytes } from './fedbytes'
import { type Algebra, fold, type Nameless, type NodeNames } from './fold'
import { type Derived, derived } from './layers/derived'
import { ruleFor } from './layers/registry'
import type { Mode, ParamSpec } from './layers/rule'
import { allPixels, bytesNotFirst, maskedTwice, noFactor, shapeText, sumsDiffer } from './messages'
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
  /** True if the name is its own, not its kind's. */
  readonly named: boolean
  /** Bytes of its output, in 32-bit floats. */
  readonly bytes: number
  /** Numbers that it trains. */
  readonly parameters: number
  /** Numbers that it keeps from step to step and does not train. */
  readonly state: number
}

/**
 * Facts of a whole model, as an editor shows them.
 *
 * @example const sizes = (m: Model<Summary>) => [m.parameters, m.activationBytes]
 */
export interface Summary {
  readonly input: Shape
  readonly output: Shape
  readonly ft: Dim
  readonly parameters: number
  readonly activationBytes: number
}

export interface Analysis<M extends Summary = Summary> {
  readonly output: M['output']
  /** The dimensions along which the whole network is FT-compatible. */
  readonly ft: readonly M['ft'][]
  /** How many numbers it trains. */
  readonly parameters: M['parameters']
  /** Bytes of all layers' outputs, in 32-bit floats; layers that write over their input have none. */
  readonly activationBytes: M['activationBytes']
  /** Every layer, in execution order. */
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

const algebraOf = (g: Gathered, mode: Mode, isMasked = false): Algebra<Shape> => {
  const report = (l: LayerReport, inPlace = false): Shape => {
    g.layers.push(l)
    g.ft = g.ft.filter((d) => l.ft.includes(d))
    g.bytes += inPlace ? 0 : l.bytes
    return l.output
  }
  const join = ({ name, called }: NodeNames, kind: string, input: Shape, output: Shape, ft: readonly Dim[]): Shape =>
    report({ name, called, kind, input, output, ft, sums: [], named: false, bytes: bytesOf(output), parameters: 0, state: 0 })
  const layer = (l: Layer, input: Shape, { output, ft, sums, inPlace, params }: Derived, { name, called }: NodeNames): Shape => {
    const [parameters, state] = [numbersOf(params, false), numbersOf(params, true)]
    const { kind } = l
    return report(
      { name, called, kind, input, output, ft, sums, named: l.name !== '', bytes: bytesOf(output), parameters, state },
      inPlace,
    )
  }
  return {
    masked: (_, __, at) => (isMasked ? left(misfit(at(), 'masked', maskedTwice())) : right(algebraOf(g, mode, true))),
    layer: (l, x, at) =>
      pipe(
        isMasked && ruleFor(l).masked === 'refused' ? left(misfit(at, l.kind, allPixels())) : right(l),
        chain(() => derived(l, ruleFor(l), x, at.called, mode)),
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
    combine: (by, parts, at) =>
      pipe(
        isMasked && by.ofAllPixels ? left(allPixels()) : shapeOf(by, parts),
        bimap(
          (reason) => misfit(at, by.called, reason),
          (out) => join(at, by.called, parts[0]!, out, by.ft),
        ),
      ),
    join: (branches, at) =>
      pipe(
        combinedShape('joined', branches),
        bimap(
          (reason) => misfit(at, 'concat', reason),
          (out) => join(at, 'concat', branches[0]!, out, COMBINATIONS.joined.ft),
        ),
      ),
  }
}

export const analyse = (n: Net, input: Shape, nameless?: Nameless, mode: Mode = 'train'): Either<GraphError, Analysis> => {
  const g: Gathered = { layers: [], ft: DIMS, bytes: 0 }
  const stray = strayBytes(n)
  if (stray !== null) return left({ tag: 'ShapeInvalid', layer: stray, kind: 'fromBytes', reason: bytesNotFirst() })
  return pipe(
    fold(algebraOf(g, mode), n, input, nameless),
    map((output) => ({
      output,
      ft: g.ft,
      activationBytes: g.bytes,
      parameters: g.layers.reduce((n, l) => n + l.parameters, 0),
      layers: g.layers,
    })),
  )
}
