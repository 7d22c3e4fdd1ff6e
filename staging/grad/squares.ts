// Ops on the gradients of parameters before their updates. In: a builder, gradients. Out: changed gradients, or the sum of the squares of all.
// Invariant: each gradient adds its squares as soon as it is complete, and may then be swapped out.
import type { GraphBuilder } from '../graph/builder'
import { squareSum } from '../ops/clip'
import type { AnyAttrs, Ref } from '../ops/op'
import { emitOp, type ParameterGradient } from './backward'

/** Appends an operator of the update phase, and returns the gradient after it. */
export const withGradient = (
  b: GraphBuilder,
  g: ParameterGradient,
  kind: string,
  attrs: AnyAttrs,
  others: readonly Ref[],
): ParameterGradient => {
  const gradient = emitOp(b, g.op, kind, attrs, [g.gradient, ...others], 'update')[0]!
  b.markGradient(gradient, g.param, b.value(g.gradient).name)
  return { ...g, gradient }
}

/** Appends the sum of squares: one value, or none if there are no gradients. */
export const summedSquares = (b: GraphBuilder, gradients: readonly ParameterGradient[]): readonly Ref[] => {
  let squares: readonly Ref[] = []
  for (const { op, gradient } of gradients) squares = emitOp(b, op, squareSum.kind, {}, [gradient, ...squares], 'update')
  return squares
}
