// The use of a graph under construction by rules. In: a site, operands. Out: refs, or the builder's error. Parameters are called '<weights>.<name>'
// as in PyTorch; a prefix that ends with '_' needs no dot.
import { chain, type Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../../staging/core/errors'
import type { AnyAttrs, Ref } from '../../staging/ops/op'
import type { LayerPosition } from './rule'

/** Declares the layer's parameters, as its rule lists them, and hands them on, in order. One without a name has the layer's. */
export const withParams = (at: LayerPosition, use: (refs: readonly Ref[]) => Either<GraphError, Ref>): Either<GraphError, Ref> =>
  use(at.params.map((p) => at.graph[p.role ?? 'param'](nameIn(at.weights, p.name), p.shape, p.init)))

const nameIn = (weights: string, name: string): string =>
  name === '' ? weights : `${weights}${weights.endsWith('_') ? '' : '.'}${name}`

/** Appends an op of one output. */
export const emit = (at: LayerPosition, kind: string, attrs: AnyAttrs, ins: readonly Ref[]): Either<GraphError, Ref> =>
  at.graph.one(kind, attrs, ins, at.layer)

export type Made = Either<GraphError, Ref>
/** Appends an element-wise op behind another one. */
export const emitAfter =
  (at: LayerPosition, kind: string, attrs: AnyAttrs = {}) =>
  (made: Made): Made =>
    pipe(
      made,
      chain((x) => emit(at, kind, attrs, [x])),
    )
