// The loss scale in a training graph (ops/scaling.ts). In: a builder, the gradients of an objective. Out: the gradients divided by the scale, and the
// number of the update, which is 0 if a gradient is not finite. Invariant: no update runs before all gradients of the objective are complete. Worked
// example, two weights: [dw1, square_sum, dw2, square_sum, adjust_scale, unscale(dw1), sgd_scaled(w1), unscale(dw2), sgd_scaled(w2)].
import type { GraphBuilder } from '../graph/builder'
import type { Ref } from '../ops/op'
import { adjustScale, COUNTS, FIRST_SCALE, GROWTH_INTERVAL, unscale } from '../ops/scaling'
import { emitOp, type ParameterGradient } from './backward'
import { summedSquares, withGradient } from './squares'

/** The state of an objective's scale. */
export interface Scaling {
  readonly scale: Ref
  readonly counts: Ref
}

const SCALE_STATE = 'loss_scale'

export const scalingOf = (b: GraphBuilder, suffix: string): Scaling => ({
  scale: b.state(`${SCALE_STATE}${suffix}`, [1], { dist: 'constant', a: FIRST_SCALE }),
  counts: b.state(`${SCALE_STATE}.counts${suffix}`, [COUNTS.length], { dist: 'constant', a: 0 }),
})

/** Gradients divided by their scale, and the number of their update. */
export interface Unscaled {
  readonly gradients: readonly ParameterGradient[]
  readonly updates: Ref
  /** 0 if these gradients, or those of an earlier objective, are not finite. */
  readonly finite: Ref
}

export const unscaled = (
  b: GraphBuilder,
  gradients: readonly ParameterGradient[],
  { scale, counts }: Scaling,
  every: number,
  before: readonly Ref[],
): Unscaled => {
  const squares = summedSquares(b, gradients)
  const attrs = { every, interval: GROWTH_INTERVAL }
  const last = gradients[gradients.length - 1]!.op
  const ins = [scale, counts, ...squares, ...before]
  const [factor, updates, finite] = emitOp(b, last, adjustScale.kind, attrs, ins, 'update')
  const divided = gradients.map((g) => withGradient(b, g, unscale.kind, {}, [factor!]))
  return { gradients: divided, updates: updates!, finite: finite! }
}
