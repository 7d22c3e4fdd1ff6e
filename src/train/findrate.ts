// A search for the learning rate. In: a model, a plan of it, a range of rates. Out: the loss at each rate, and a suggestion. Invariant: no file is
// written, and the plan stays as it is: the rates are factors of its rate.
// Worked example: 3 rates from 1e-3 to 1e-1 are 1e-3, 1e-2 and 1e-1, one step each; the search ends where the smoothed loss is four times its least.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Trainable } from '../../dsl'
import { knownIn } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import { aboveZero, atLeast, callable, withValues } from '../../staging/core/values'
import type { Graph } from '../../staging/graph/graph'
import { type SpillwayError, usage } from '../errors/errors'
import { optimizersIn } from '../stage/identity'
import type { PlanFor } from '../stage/mode'
import type { Staged } from '../stage/staged'
import { scriptTask } from './ranks/script'
import { listen } from './events'
import type { DeviceLimits } from './device'
import type { LoadingOptions } from './loading'
import { type FeedingOptions, TRAIN, type TrainOptions } from './options'
import { firstOf } from './signals'
import { answerOf } from './trainer'

/** Options of training that a search has, too: data, weights and the machine. */
// biome-ignore format: a list
const SHARED = [
  'data', 'strictData', 'shuffle', 'balanceClasses', 'prefetch', 'workers', 'samples', 'seed', 'spill', 'engine', 'weights', 'weightsSkip', 'weightsStrip', 'threads', 'throttle', 'hostMemory', 'signal', 'onNote',
] as const
type Shared = (typeof SHARED)[number]

/** Options of `findRate`. @example const options: FindRateOptions = { data: 'slides/', rates: 200, to: 1 } */
export interface FindRateOptions extends FeedingOptions, DeviceLimits, LoadingOptions {
  /** Number of rates, one step each. Default 100. @example findRate(net, plan, { data: 'slides/', rates: 200 }) */
  readonly rates?: number | undefined
  /** First learning rate. Default 1e-7. @example findRate(net, plan, { data: 'slides/', from: 1e-5 }) */
  readonly from?: number | undefined
  /** Last learning rate. Default 10. @example findRate(net, plan, { data: 'slides/', to: 1 }) */
  readonly to?: number | undefined
  /** Called after every step. @example findRate(net, plan, { onRate: ({ lr, loss }) => console.log(lr, loss) }) */
  readonly onRate?: ((tried: TriedRate) => void) | undefined
}

const FIND_KEYS = optionsFor<FindRateOptions>()('findRate', ...SHARED, 'rates', 'from', 'to', 'onRate')
const FIND = withValues(FIND_KEYS, {
  ...(Object.fromEntries(SHARED.map((key) => [key, TRAIN.values[key]])) as Pick<typeof TRAIN.values, Shared>),
  rates: atLeast(2),
  from: aboveZero,
  to: aboveZero,
  onRate: callable,
})

/** A rate of a search. @example const line = ({ lr, loss }: TriedRate) => `${lr},${loss}` */
export interface TriedRate {
  readonly step: number
  readonly lr: number
  readonly loss: number
  /** Exponential average of the losses so far. */
  readonly smoothed: number
}

/** The result of `findRate`. @example const text = ({ suggested }: FoundRate) => `${suggested ?? 'none'}` */
export interface FoundRate {
  /** Rate at the steepest fall of the smoothed loss; absent if it does not fall. */
  readonly suggested?: number
  /** The rates in their order. */
  readonly tried: readonly TriedRate[]
  /** True if the loss exceeded four times its least value, or was not finite: later rates were not tried. */
  readonly diverged: boolean
}

const RATES = 100
const [FROM, TO] = [1e-7, 10]
/** Share of the average that stays at each step, as in the search of fast.ai. */
const KEPT = 0.98
/** A smoothed loss above this multiple of its least diverges. */
const DIVERGES = 4
/** Share of the rates at the beginning that no suggestion takes: their average has few losses. */
const BEGINNING = 0.1

/** The losses, smoothed as they come. */
class Tried {
  readonly all: TriedRate[] = []
  private average = 0
  private least = Infinity
  diverged = false

  add(step: number, lr: number, loss: number): TriedRate {
    this.average = KEPT * this.average + (1 - KEPT) * loss
    const smoothed = this.average / (1 - KEPT ** step)
    const tried = { step, lr, loss, smoothed }
    this.all.push(tried)
    this.least = Math.min(this.least, smoothed)
    this.diverged = !Number.isFinite(loss) || smoothed > DIVERGES * this.least
    return tried
  }
}

/** Returns the rate at the steepest fall of the smoothed loss over the logarithm of the rate. */
export const suggestedRate = (tried: readonly TriedRate[], rates: number): number | undefined => {
  let best: { readonly slope: number; readonly lr: number } | undefined
  for (let i = Math.max(1, Math.ceil(BEGINNING * rates)); i < tried.length; i++) {
    const [before, now] = [tried[i - 1]!, tried[i]!]
    const slope = (now.smoothed - before.smoothed) / Math.log(now.lr / before.lr)
    if (slope < (best?.slope ?? 0)) best = { slope, lr: now.lr }
  }
  return best?.lr
}

/** The learning rate of the optimizer of a plan. */
const rateOf = (graph: Graph): Either<SpillwayError, number> => {
  const [first, ...others] = optimizersIn(graph)
  if (!first || others.length > 0) return E.left(usage('the search needs one optimizer, but this step has several'))
  return first.lr > 0
    ? E.right(first.lr)
    : E.left(usage(`the learning rate of the plan is ${first.lr}; allowed: more than 0 (--lr, lr)`))
}

/** Raises the rate from step to step until the loss diverges. */
export const findRateWith = async (
  model: Trainable | undefined,
  staged: Staged,
  options: FindRateOptions,
): Promise<Either<SpillwayError, FoundRate>> => {
  const checked = knownIn(FIND)(options)
  if (E.isLeft(checked)) return checked
  const { rates = RATES, from = FROM, to = TO, onRate, signal, ...o } = checked.right as FindRateOptions
  if (to <= from) return E.left(usage(`the search has no rates from ${from} to ${to}; allowed: to above from`))
  const planned = rateOf(staged.plan.graph)
  if (E.isLeft(planned)) return planned
  const rateAt = (step: number): number => from * (to / from) ** ((step - 1) / (rates - 1))
  const tried = new Tried()
  const enough = new AbortController()
  const listener = listen((e) => {
    if (e.kind !== 'step' || tried.diverged) return
    const now = tried.add(e.step, rateAt(e.step), e.loss)
    onRate?.(now)
    if (tried.diverged) enough.abort()
  })
  const run: TrainOptions = {
    ...{ onNote: () => {}, ...o },
    steps: rates,
    schedule: (step) => rateAt(step) / planned.right,
    onNonfinite: 'continue',
    signal: firstOf(signal, enough.signal),
  }
  const answer = await scriptTask(model, staged, run, listener)()
  if (E.isLeft(answer) && !tried.diverged) return answer
  const suggested = suggestedRate(tried.all, rates)
  return E.right({ ...(suggested === undefined ? {} : { suggested }), tried: tried.all, diverged: tried.diverged })
}

/**
 * Searches for a learning rate: raises it geometrically, one step per rate, until the loss diverges. It starts from
 * the weights of a training, and writes no file.
 *
 * @param model The model.
 * @param staged The plan, as `stage` returns it.
 * @param o Data, weights, and the range of rates.
 * @example
 * const { suggested, tried } = await findRate(net, plan, { data: 'slides/' })
 * console.log(suggested, tried.length)
 */
export const findRate = async <P extends Staged, const O extends FindRateOptions>(
  model: Trainable,
  staged: PlanFor<'train', P>,
  o: Known<O, typeof FIND_KEYS>,
): Promise<FoundRate> => answerOf(o as FindRateOptions)(await findRateWith(model, staged as P, o as FindRateOptions))
