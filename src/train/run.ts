// `run`: a model or a step and a plan of it, trained. In: the model; `stage`'s result for it, or a plan module; settings. Out: the result. Invariant:
// a pair that does not match, or a plan too large for the device, is refused while typing and again at run time, in the same words; the training
// graph's fingerprint finds differences that types cannot see.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { Device, DeviceFault, PlanHead, Stale, StepFrom, StepOf, Trainable } from '../../dsl'
import { described } from '../../dsl/plan/described'
import { overDevice } from '../../dsl/plan/words'
import { bytesOf } from '../../staging/core/bytes'
import { knownIn } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import { made, withValues } from '../../staging/core/values'
import type { IsStrict, OrFaulty } from '../../staging/core/orwords'
import { type SpillwayError, usage } from '../errors/errors'
import { elaboratedFor } from '../stage/identity'
import type { ModeFault } from '../stage/mode'
import { openModule, type PlanModule, sameStep } from '../stage/planmodule'
import type { TrainResult } from './result'
import type { Staged } from '../stage/staged'
import { type Endless, TRAIN, TRAIN_KEYS, type TrainOptions } from './options'
import { answerOf, trainTask } from './trainer'

/** Options of `run`. @example const options: RunOptions = { steps: 10, device: device('cpu', gib(4)) } */
export interface RunOptions extends TrainOptions {
  /**
   * A device whose memory must hold the peak of the plan. Default: no check.
   *
   * @example run(net, plan, { steps: 10, device: device('cpu', gib(4)) })
   */
  readonly device?: Device | undefined
}
const RUN_KEYS = optionsFor<RunOptions>()('run', ...TRAIN_KEYS.keys, 'device')
const RUN = withValues(RUN_KEYS, { ...TRAIN.values, device: made('the result of device') } as Parameters<typeof withValues>[1])

/** The plan, if it was made for this model; otherwise the change, so that the compiler shows it at the argument. */
export type MatchingPlan<M extends Trainable, P> = OrFaulty<P, IsStrict extends true ? PlanFault<M, P> : null>
type PlanFault<M extends Trainable, P> =
  P extends PlanModule<infer H>
    ? Stale<StepOf<M>, StepFrom<H>>
    : P extends Staged<infer Then>
      ? ModeFault<'train', P> extends infer F extends string
        ? F
        : Stale<StepOf<M>, StepOf<Then>>
      : null

/** The options, when the plan fits their device. */
export type FittingOptions<P, O> = Known<O, typeof RUN_KEYS, Unfitting<P, O>>
type Unfitting<P, O> = O extends { readonly device: infer D }
  ? DeviceFault<PeakOf<P>, D> extends infer S
    ? S extends null
      ? Endless<O>
      : { [K in keyof O]: K extends 'device' ? S : O[K] }
    : never
  : Endless<O>
type PeakOf<P> = P extends PlanModule<infer H extends PlanHead> ? H['peak'] : number

const matching = (model: Trainable, plan: Staged | PlanModule, o: RunOptions): Either<SpillwayError, Staged> => {
  if ('kind' in plan) return openModule(model, plan, o.spill)
  return plan.model === undefined
    ? E.right(plan)
    : pipe(
        elaboratedFor(plan.model, plan.plan),
        E.flatMap(({ step }) => sameStep(model, plan.plan, described(step))),
        E.map(() => plan),
      )
}

/** A `device()` of the call is held to its memory. */
const fitting = ({ plan }: Staged, device: Device | undefined): Either<SpillwayError, void> => {
  const peak = bytesOf(plan.peakPages)
  return device && peak > device.memory
    ? E.left(usage(overDevice(`${peak}`, device.name, `${device.memory}`)))
    : E.right(undefined)
}

/**
 * Trains with a plan or a plan module, or returns the error. `run` throws it instead.
 *
 * @param model The model or step.
 * @param plan The plan, or a module that `spillway plan --emit` wrote.
 * @param options The options of `train`, and a `device`.
 * @example
 * const answer = await tryRun(net, plan, { steps: 10 })
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export const tryRun = <M extends Trainable, P extends Staged | PlanModule, const O extends RunOptions>(
  model: M,
  plan: MatchingPlan<M, P>,
  options: FittingOptions<P, O>,
): Promise<Either<SpillwayError, TrainResult>> => {
  const o: RunOptions = options as O
  const { device, ...training } = o
  return pipe(
    TE.fromEither<SpillwayError, RunOptions>(knownIn(RUN)(o)),
    TE.flatMapEither(() => matching(model, plan as P, o)),
    TE.tap((staged) => TE.fromEither(fitting(staged, device))),
    TE.flatMap((staged) => trainTask(model, staged, training)),
  )()
}

/**
 * Trains with a plan or a plan module, and checks at compile time that it matches the model and fits a device.
 * It rejects with a `SpillwayException`, or with the reason of an aborted signal. `tryRun` returns the error
 * instead.
 *
 * @param model The model or step.
 * @param plan The plan, or a module that `spillway plan --emit` wrote.
 * @param options The options of `train`, and a `device`.
 * @example await run(net, plan, { steps: 10, device: device('cpu', gib(4)) })
 */
export const run = async <M extends Trainable, P extends Staged | PlanModule, const O extends RunOptions>(
  model: M,
  plan: MatchingPlan<M, P>,
  options: FittingOptions<P, O>,
): Promise<TrainResult> => answerOf(options as O)(await tryRun<M, P, O>(model, plan, options))
