// How the learning rate moves along a run. In: a schedule, steps of warm-up, the run's length. Out: of each step the factor of the
// optimizer's rate. Invariant: a factor is a function of the step and the length, and for plateau of the metrics so far. So a run
// resumes anywhere. With the same numbers it is PyTorch's, whose count of steps begins at 0.
// Worked example, cosine over 4 steps after a warm-up of 2: 0.5, 1, then 1, 0.854, 0.5, 0.146: in all 6.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { known, knownIn } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import { isWithin, type Limit, limitText } from '../../staging/ops/op'
import { type SpillwayError, SpillwayException, unknownName, usage } from '../errors/errors'
import { type Plateau, reducedAt, type Reduction } from './plateau'

// ---------------------------------------------------------------- as users have them

/** Options of `stepped`. @example const options: SteppedOptions = { every: 3000, factor: 0.1 } */
export interface SteppedOptions {
  /** Steps between two changes. Default: a third of the run. @example stepped({ every: 3000 }) */
  readonly every?: number | undefined
  /** Factor of each change. Default 0.1. @example stepped({ every: 3000, factor: 0.5 }) */
  readonly factor?: number | undefined
}
/** Options of `cosine`. @example const options: CosineOptions = { floor: 0.01 } */
export interface CosineOptions {
  /** Last learning rate as a share of the first. Default 0. @example cosine({ floor: 0.01 }) */
  readonly floor?: number | undefined
  /** Number of cycles; each begins at the learning rate again. Default 1. @example cosine({ cycles: 4 }) */
  readonly cycles?: number | undefined
  /** Length of a cycle as a multiple of the one before. Default 1. @example cosine({ cycles: 3, growth: 2 }) */
  readonly growth?: number | undefined
}
/** Options of `polynomial`. @example const options: PolynomialOptions = { power: 0.9 } */
export interface PolynomialOptions {
  /** Exponent of the remaining share. Default 1, a straight line. @example polynomial({ power: 0.9 }) */
  readonly power?: number | undefined
}
/**
 * Options of `oneCycle`.
 *
 * @example const options: OneCycleOptions = { rise: 0.2, start: 0.1, end: 1e-3 }
 */
export interface OneCycleOptions {
  /** Share of the run with a rising learning rate. Default 0.3. @example oneCycle({ rise: 0.2 }) */
  readonly rise?: number | undefined
  /** First learning rate as a share of the largest. Default 0.04. @example oneCycle({ start: 0.1 }) */
  readonly start?: number | undefined
  /** Last learning rate as a share of the largest. Default 0.000004. @example oneCycle({ end: 1e-3 }) */
  readonly end?: number | undefined
}

/**
 * Options of `plateau`.
 *
 * @example const options: PlateauOptions = { metric: 'accuracy', factor: 0.5, patience: 3 }
 */
export interface PlateauOptions {
  /** Factor of each change. Default 0.1. @example plateau({ factor: 0.5 }) */
  readonly factor?: number | undefined
  /** Number of evaluations without improvement before a change. Default 10. @example plateau({ patience: 3 }) */
  readonly patience?: number | undefined
  /** Smallest improvement that counts, as a share of the best value. Default 0.0001. @example plateau({ threshold: 0.01 }) */
  readonly threshold?: number | undefined
  /** Number of evaluations after a change that do not count. Default 0. @example plateau({ cooldown: 2 }) */
  readonly cooldown?: number | undefined
  /** Least learning rate as a share of the first. Default 0. @example plateau({ floor: 0.001 }) */
  readonly floor?: number | undefined
  /**
   * Metric to watch. For `loss`, `mae` and `mse` smaller is better. Default 'loss': that of evaluations, or without
   * them the mean loss of the epoch.
   *
   * @example plateau({ metric: 'accuracy' })
   */
  readonly metric?: string | undefined
}

/**
 * A schedule of the learning rate, as `cosine` and others create it. Plain data.
 *
 * @example const schedule: Schedule = cosine({ floor: 0.01 })
 */
export type Schedule =
  | { readonly kind: 'constant' }
  | { readonly kind: 'step'; readonly every?: number | undefined; readonly factor: number }
  | {
      readonly kind: 'cosine'
      readonly floor: number
      readonly cycles?: number | undefined
      readonly growth?: number | undefined
    }
  | { readonly kind: 'poly'; readonly power: number }
  | { readonly kind: 'one-cycle'; readonly rise: number; readonly start: number; readonly end: number }
  | Plateau
export type ScheduleName = Schedule['kind']

/**
 * Your own schedule: returns a factor of the learning rate for a step, counted from 1, of a run of `total`
 * steps.
 *
 * @example
 * const falling: OwnSchedule = (step, total) => 1 - step / total
 * await train(net, plan, { steps: 100, schedule: falling })
 */
export type OwnSchedule = (step: number, total: number) => number

const STEPPED = optionsFor<SteppedOptions>()('stepped', 'every', 'factor')
const COSINE = optionsFor<CosineOptions>()('cosine', 'floor', 'cycles', 'growth')
const POLYNOMIAL = optionsFor<PolynomialOptions>()('polynomial', 'power')
const ONE_CYCLE = optionsFor<OneCycleOptions>()('oneCycle', 'rise', 'start', 'end')
// biome-ignore format: a list
const PLATEAU = optionsFor<PlateauOptions>()('plateau', 'factor', 'patience', 'threshold', 'cooldown', 'floor', 'metric')

/** A number within limits, or a name. */
type Choice = (Limit & { readonly default?: number; readonly whole?: true }) | { readonly name: string; readonly default: string }

/** The options of each, their limits, and their defaults. */
const CHOICES: Readonly<Record<ScheduleName, Readonly<Record<string, Choice>>>> = {
  constant: {},
  step: { every: { least: 1, whole: true }, factor: { least: 0, default: 0.1 } },
  cosine: { floor: { least: 0, most: 1, default: 0 }, cycles: { least: 1, whole: true }, growth: { least: 1 } },
  poly: { power: { above: 0, default: 1 } },
  'one-cycle': {
    rise: { least: 0, most: 1, default: 0.3 },
    start: { least: 0, most: 1, default: 1 / 25 },
    end: { least: 0, most: 1, default: 1 / 25e4 },
  },
  plateau: {
    factor: { least: 0, below: 1, default: 0.1 },
    patience: { least: 0, whole: true, default: 10 },
    threshold: { least: 0, below: 1, default: 1e-4 },
    cooldown: { least: 0, whole: true, default: 0 },
    floor: { least: 0, most: 1, default: 0 },
    metric: { name: 'the name of a metric', default: 'loss' },
  },
}
export const scheduleNames = Object.keys(CHOICES) as readonly ScheduleName[]

/** The error of a plain-data schedule; undefined if there is none. */
const problemOf = (given: Schedule): SpillwayError | undefined => {
  const choices = CHOICES[given.kind] as (typeof CHOICES)[ScheduleName] | undefined
  if (!choices) return unknownName('schedule', String(given.kind), scheduleNames)
  const keys = knownIn({ of: `schedule '${given.kind}'`, keys: ['kind', ...Object.keys(choices)] })(given)
  if (E.isLeft(keys)) return keys.left
  for (const [name, choice] of Object.entries(choices)) {
    const value = (given as unknown as Readonly<Record<string, unknown>>)[name]
    if (value === undefined && choice.default === undefined) continue
    if (!isLegal(choice, value))
      return usage(`schedule '${given.kind}': ${name} is ${String(value)}; allowed: ${legalText(choice)}`)
  }
  return undefined
}

const isLegal = (choice: Choice, value: unknown): boolean =>
  'name' in choice
    ? typeof value === 'string' && value !== ''
    : typeof value === 'number' && isWithin(choice, value) && (!choice.whole || Number.isSafeInteger(value))
const legalText = (choice: Choice): string =>
  'name' in choice ? choice.name : `${choice.whole ? 'whole numbers, ' : ''}${limitText(choice)}`

/** With defaults for absent options. */
const withUsual = (kind: ScheduleName, given: object): Either<SpillwayError, Schedule> => {
  const of = given as Readonly<Record<string, number | string | undefined>>
  const chosen = Object.entries(CHOICES[kind]).flatMap(([name, c]) => {
    const value = of[name] ?? c.default
    return value === undefined ? [] : [[name, value] as const]
  })
  const made = { ...given, kind, ...Object.fromEntries(chosen) } as unknown as Schedule
  const problem = problemOf(made)
  return problem ? E.left(problem) : E.right(made)
}
const scheduleWith = (kind: ScheduleName, given: object): Schedule => {
  const made = withUsual(kind, given)
  if (E.isLeft(made)) throw new SpillwayException(made.left)
  return made.right
}

/**
 * Creates a constant learning rate, the default.
 *
 * @example train(net, plan, { steps: 100, schedule: constant() })
 */
export const constant = (): Schedule => ({ kind: 'constant' })
/**
 * Creates a schedule that multiplies the learning rate by a factor at regular steps.
 *
 * @param o Steps between two changes, and the factor.
 * @example train(net, plan, { epochs: 90, schedule: stepped({ every: 3000, factor: 0.1 }) })
 */
export function stepped(): Schedule
/**
 * Creates a schedule that multiplies the learning rate by a factor at regular steps.
 *
 * @param o Steps between two changes, and the factor.
 * @example train(net, plan, { epochs: 90, schedule: stepped({ every: 3000, factor: 0.1 }) })
 */
export function stepped<const O extends (SteppedOptions & object) | undefined>(o: Known<O, typeof STEPPED>): Schedule
export function stepped(o: SteppedOptions = {}): Schedule {
  return scheduleWith('step', known(STEPPED, o))
}
/**
 * Creates a schedule that falls along half a cosine from the learning rate to `floor` times it, once or in several
 * cycles (warm restarts).
 *
 * @param o The `floor`, the `cycles` and their `growth`.
 * @example train(net, plan, { epochs: 90, schedule: cosine({ floor: 0.01 }), warmup: 500 })
 */
export function cosine(): Schedule
/**
 * Creates a schedule that falls along half a cosine from the learning rate to `floor` times it, once or in several
 * cycles (warm restarts).
 *
 * @param o The `floor`, the `cycles` and their `growth`.
 * @example train(net, plan, { epochs: 90, schedule: cosine({ floor: 0.01 }), warmup: 500 })
 */
export function cosine<const O extends (CosineOptions & object) | undefined>(o: Known<O, typeof COSINE>): Schedule
export function cosine(o: CosineOptions = {}): Schedule {
  return scheduleWith('cosine', known(COSINE, o))
}
/**
 * Creates a schedule that falls to 0 as a power of the remaining share of the run.
 *
 * @param o The `power`. Default 1.
 * @example train(net, plan, { steps: 40_000, schedule: polynomial({ power: 0.9 }) })
 */
export function polynomial(): Schedule
/**
 * Creates a schedule that falls to 0 as a power of the remaining share of the run.
 *
 * @param o The `power`. Default 1.
 * @example train(net, plan, { steps: 40_000, schedule: polynomial({ power: 0.9 }) })
 */
export function polynomial<const O extends (PolynomialOptions & object) | undefined>(o: Known<O, typeof POLYNOMIAL>): Schedule
export function polynomial(o: PolynomialOptions = {}): Schedule {
  return scheduleWith('poly', known(POLYNOMIAL, o))
}
/**
 * Creates a schedule that rises to the learning rate along half a cosine and falls along another.
 *
 * @param o Length of the rise, first and last share.
 * @example train(net, plan, { epochs: 30, schedule: oneCycle({ rise: 0.2 }) })
 */
export function oneCycle(): Schedule
/**
 * Creates a schedule that rises to the learning rate along half a cosine and falls along another.
 *
 * @param o Length of the rise, first and last share.
 * @example train(net, plan, { epochs: 30, schedule: oneCycle({ rise: 0.2 }) })
 */
export function oneCycle<const O extends (OneCycleOptions & object) | undefined>(o: Known<O, typeof ONE_CYCLE>): Schedule
export function oneCycle(o: OneCycleOptions = {}): Schedule {
  return scheduleWith('one-cycle', known(ONE_CYCLE, o))
}

/**
 * Creates a schedule that lowers the learning rate when a metric of the evaluations stops improving.
 *
 * @param o The metric, the `factor`, the `patience`, and limits.
 * @example train(net, plan, { epochs: 90, data: 'train/', evaluate: validation({ data: 'val/' }), schedule: plateau() })
 */
export function plateau(): Schedule
/**
 * Creates a schedule that lowers the learning rate when a metric of the evaluations stops improving.
 *
 * @param o The metric, the `factor`, the `patience`, and limits.
 * @example train(net, plan, { epochs: 90, data: 'train/', schedule: plateau({ factor: 0.5, patience: 3 }) })
 */
export function plateau<const O extends (PlateauOptions & object) | undefined>(o: Known<O, typeof PLATEAU>): Schedule
export function plateau(o: PlateauOptions = {}): Schedule {
  return scheduleWith('plateau', known(PLATEAU, o))
}

/** The value of an option of the command line: a number, or a name. */
const valueIn = (kind: ScheduleName, name: string, text: string): number | string | undefined => {
  const choice = CHOICES[kind][name]
  if (choice && 'name' in choice) return text
  return /^[0-9.eE+-]+$/.test(text) ? Number(text) : undefined
}

/** `cosine`, or `cosine:floor=0.01`, as the command line has them. */
export const scheduleNamed = (text: string): Either<SpillwayError, Schedule> => {
  const [name = '', ...rest] = text.split(':')
  if (!(scheduleNames as readonly string[]).includes(name)) return E.left(unknownName('schedule', name, scheduleNames))
  const parts = rest.length ? rest.join(':').split(',') : []
  const kind = name as ScheduleName
  const given = parts.map((part) => {
    const [, option = '', value = ''] = /^([A-Za-z]+)=(\S+)$/.exec(part.trim()) ?? []
    return [option, valueIn(kind, option, value)] as const
  })
  return given.some(([, value]) => value === undefined)
    ? E.left(usage(`schedule '${text}': write options as ${name}:name=number,name=number`))
    : withUsual(kind, Object.fromEntries(given))
}

// ---------------------------------------------------------------- factors

/** From one number to another by half a cosine. */
const halfCosine = (from: number, to: number, share: number): number => to + ((from - to) / 2) * (1 + Math.cos(Math.PI * share))

/**
 * The share of the present cycle that is over at this share of the run. Worked example, three cycles of growth 2: the second one is from 1/7 to 3/7 of
 * the run, so that a third of it is over at 5/21.
 */
const shareOfCycle = (share: number, cycles: number, growth: number): number => {
  // In lengths of the first cycle.
  let at = share * Array.from({ length: cycles }, (_, k) => growth ** k).reduce((n, x) => n + x, 0)
  let length = 1
  // Shares are quotients of whole numbers: one that is a rounding below the end of a cycle is at its end.
  for (let k = 1; k < cycles && at >= length - 1e-9; k++) {
    at = Math.max(0, at - length)
    length *= growth
  }
  return at / length
}

/** The factor of step t, from 0, in a run of this length. */
const factorOf = (s: Schedule, t: number, total: number): number => {
  switch (s.kind) {
    case 'constant':
      return 1
    case 'step':
      return s.factor ** Math.floor(t / (s.every ?? Math.ceil(total / 3)))
    case 'cosine':
      return halfCosine(1, s.floor, shareOfCycle(t / total, s.cycles ?? 1, s.growth ?? 1))
    case 'poly':
      return (1 - t / total) ** s.power
    case 'one-cycle': {
      const top = s.rise * total - 1
      if (top > 0 && t <= top) return halfCosine(s.start, 1, t / top)
      return top < total - 1 ? halfCosine(1, s.end, (t - top) / (total - 1 - top)) : 1
    }
    case 'plateau':
      return 1
  }
}

/** The schedules of a run. */
export interface Scheduling {
  readonly schedule?: Schedule | OwnSchedule | undefined
  readonly warmup?: number | undefined
  /** Reductions of `plateau` so far. */
  readonly reductions?: readonly Reduction[] | undefined
}

/** The factor of a step, counted from 1; in the warm-up it rises in a line to the schedule's first. */
export const rateFactor = (
  { schedule = constant(), warmup = 0, reductions = [] }: Scheduling,
  step: number,
  steps: number,
): number => {
  const total = Math.max(1, steps - warmup)
  const own = (at: number): number => (typeof schedule === 'function' ? schedule(at, total) : factorOf(schedule, at - 1, total))
  return reducedAt(reductions, step) * (step <= warmup ? (step / warmup) * own(1) : own(step - warmup))
}

export const isScheduled = ({ schedule, warmup = 0 }: Scheduling): boolean =>
  warmup > 0 || (schedule !== undefined && (typeof schedule === 'function' || schedule.kind !== 'constant'))

/** The factors of some steps that follow each other; none where each has the optimizer's own rate. */
export const ratesOfSteps = (
  s: Scheduling,
  first: number,
  count: number,
  steps: number,
): Either<SpillwayError, Float64Array | undefined> => {
  if (!isScheduled(s)) return E.right(undefined)
  const rates = Float64Array.from({ length: count }, (_, i) => rateFactor(s, first + i, steps))
  const odd = rates.findIndex((f) => !(f >= 0 && f < Infinity))
  return odd < 0
    ? E.right(rates)
    : E.left(usage(`schedule: the factor of step ${first + odd} is ${rates[odd]}; allowed: numbers of at least 0`))
}

/** The error of a schedule, known before staging. */
export const checkedSchedule = <S extends Scheduling>(s: S): Either<SpillwayError, S> =>
  pipe(s.schedule === undefined || typeof s.schedule === 'function' ? undefined : problemOf(s.schedule), (problem) =>
    problem ? E.left(problem) : E.right(s),
  )

/** In words, with the run's length where it counts. */
export const scheduleText = (s: Scheduling, steps: number): string => {
  const { schedule = constant(), warmup = 0 } = s
  if (!isScheduled(s)) return 'constant'
  const { kind, ...options } = typeof schedule === 'function' ? { kind: 'a function of its own' } : schedule
  const chosen = Object.entries(options).map(([name, value]) => ` ${name} ${value}`)
  // Metrics decide, not the length.
  if (kind === 'plateau') return `${kind}${chosen.join(',')}${warmup ? ` after ${warmup} steps of warm-up` : ''}`
  return `${kind}${chosen.join(',')} over ${steps} steps${warmup ? `, ${warmup} of them warm-up` : ''}`
}
