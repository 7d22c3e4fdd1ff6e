// The mode of a plan. In: a plan, the mode that a call needs. Out: the plan, or an error in the same words while typing and at run time.
// Invariant: a plan of a mode unknown to the compiler (`PlanMode`) is checked at run time alone.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { PlanMode } from '../../dsl'
import { type OtherMode, otherMode } from '../../dsl/plan/words'
import type { IsStrict, OrFaulty } from '../../staging/core/orwords'
import { type Graph, trains } from '../../staging/graph/graph'
import { type SpillwayError, usage } from '../errors/errors'

/**
 * The mode of options of `stage`; all modes if the compiler does not know it.
 *
 * @example const mode: ModeOf<{ mode: 'predict' }> = 'predict'
 */
export type ModeOf<O> = O extends { readonly mode?: infer K } ? (K extends PlanMode ? K : 'train') : 'train'

/**
 * A plan, if it has this mode; otherwise the error, so that the compiler shows it at the argument.
 *
 * @example const predicted = <P extends Staged>(plan: PlanFor<'predict', P>) => plan
 */
export type PlanFor<Wanted extends PlanMode, P> = OrFaulty<P, IsStrict extends true ? ModeFault<Wanted, P> : null>
export type ModeFault<Wanted extends PlanMode, P> = P extends { readonly mode: infer K extends PlanMode }
  ? Wanted extends K
    ? null
    : OtherMode<K, Wanted>
  : null

/** The mode of a plan's graph. */
export const modeOf = (graph: Graph): PlanMode =>
  trains(graph) ? 'train' : graph.values.some((v) => v.role === 'loss') ? 'evaluate' : 'predict'

/** Refuses a plan of another mode. */
export const checkedMode = (
  { plan: { graph } }: { readonly plan: { readonly graph: Graph } },
  wanted: PlanMode,
): Either<SpillwayError, void> => {
  const mode = modeOf(graph)
  return mode === wanted ? E.right(undefined) : E.left(usage(otherMode(mode, wanted)))
}
