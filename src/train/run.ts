// `run`: a model and a plan that belong together, trained. In: a model; what `stage` gave for it, or a plan module; settings.
// Out: the result. Invariant: a pair that does not match, or a plan too large for the device, is refused while typing and
// again at run time, in the same words; what types cannot see is found by the training graph's fingerprint.
import { type Either, isLeft, left } from 'fp-ts/Either'
import type { Device, DeviceFault, Model, PlanHead, Stale } from '../../dsl'
import { overDevice } from '../../dsl/plan/words'
import { stale } from '../../dsl/plan/stale'
import { bytesOf } from '../../staging/core/bytes'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import { openModule, type PlanModule } from '../stage/planmodule'
import type { TrainResult } from './result'
import type { Staged } from '../stage/stage'
import { type TrainOptions, trainTask } from './trainer'

export interface RunOptions extends TrainOptions {
  /** What the plan must fit. */
  readonly device?: Device
}

/** The plan, when it was made for this model; else what changed, so that the error stands at the argument. */
export type MatchingPlan<M extends Model, P> = PlanFault<M, P> extends infer S extends string ? S : P
type PlanFault<M extends Model, P> =
  P extends PlanModule<infer H> ? Stale<M, H> : P extends Staged<infer Then> ? Stale<M, Then> : null

/** The options, when the plan fits their device. */
export type FittingOptions<P, O> = O extends { readonly device: infer D }
  ? DeviceFault<PeakOf<P>, D> extends infer S extends string
    ? { [K in keyof O]: K extends 'device' ? S : O[K] }
    : O
  : O
type PeakOf<P> = P extends PlanModule<infer H extends PlanHead> ? H['peak'] : number

const matching = <M extends Model>(model: M, plan: Staged | PlanModule, o: RunOptions): Either<SpillwayError, Staged> => {
  if ('kind' in plan) return openModule(model, plan, o.spill)
  const difference = stale(model, plan.model)
  return difference === null ? { _tag: 'Right', right: plan } : left(usage(difference))
}

export const tryRun = async <M extends Model, P extends Staged | PlanModule, const O extends RunOptions>(
  model: M,
  plan: MatchingPlan<M, P>,
  options: FittingOptions<P, O>,
): Promise<Either<SpillwayError, TrainResult>> => {
  const o: RunOptions = options as O
  const staged = matching(model, plan as P, o)
  if (isLeft(staged)) return staged
  const peak = bytesOf(staged.right.plan.peakPages)
  if (o.device && peak > o.device.memory) return left(usage(overDevice(`${peak}`, o.device.name, `${o.device.memory}`)))
  return trainTask(model, staged.right, o)()
}

/**
 * The same for scripts: rejects with a SpillwayException.
 *
 * @example await run(net, plan, { steps: 10, device: device('cpu', gib(4)) })
 */
export const run = async <M extends Model, P extends Staged | PlanModule, const O extends RunOptions>(
  model: M,
  plan: MatchingPlan<M, P>,
  options: FittingOptions<P, O>,
): Promise<TrainResult> => {
  const result = await tryRun<M, P, O>(model, plan, options)
  if (isLeft(result)) throw new SpillwayException(result.left)
  return result.right
}
