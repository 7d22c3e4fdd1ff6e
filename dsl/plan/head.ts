// The literals of a plan module about its plan, for the checker. In: the type of a model or a step, the literals. Out: the literals themselves, or
// words in place of the wrong one: a stale model at `model`, an illegal tile in `segments`, a peak over the budget at `peak`. At run time
// src/stage/planmodule.ts derives the same literals from the plan and compares.
import type { IsStrict } from '../../staging/core/orwords'
import type { Add, Compare } from '../numbers/naturals'
import type { Resized, StepOf } from '../trainable'
import type { OptionFault, TileFault, TilesFault, WithFault, WithTile } from './checked'
import type { Chosen, Described, StepFrom, TensorsFrom } from './described'
import type { TileRange } from './prescription'
import type { SitesOfTensors } from './sites'
import type { Stale } from './stalestep'
import type { OverDevice, PeakOverBudget } from './words'

/**
 * One segment of a plan: a range of layers, its tiles, and its phase.
 *
 * @example const backward = (s: PlannedSegment) => s.phase === 'backward'
 */
export interface PlannedSegment extends TileRange {
  readonly phase: 'forward' | 'recompute' | 'backward' | 'update' | 'step'
}
/**
 * The part of a plan that the compiler knows: budget, peak, segments, checkpoints and swaps.
 *
 * @example const share = (head: PlanHead) => head.peak / head.budget
 */
export interface PlanHead extends Described {
  readonly model: string
  readonly machine: string
  readonly strategy: string
  /** Storage of activations and the arithmetic of products. Absent: fp32. */
  readonly precision?: 'bf16' | 'fp16' | 'tf32'
  readonly budget: number
  readonly peak: number
  /** Hash of the training graph. */
  readonly fingerprint: string
  readonly segments: readonly PlannedSegment[]
  /** Layers whose outputs are kept from the forward to the backward pass. */
  readonly checkpoints: readonly string[]
  /** Values that are swapped out, with their bytes. */
  readonly swaps: readonly { readonly value: string; readonly bytes: number }[]
}

/**
 * The head of a plan module if it fits the subject and its device; otherwise a type whose text is the error.
 *
 * @example type Head = CheckedHead<typeof net, PlanHead>
 */
export type CheckedHead<T, P extends PlanHead> = IsStrict extends true ? WithHeadFault<P, HeadFault<T, P>> : P

type WithHeadFault<P extends PlanHead, F> =
  F extends TileFault<infer I, infer Key, infer Reason>
    ? { [K in keyof P]: K extends 'segments' ? WithTile<P[K], ForwardAt<ForwardPlaces<P['segments']>, I>, Key, Reason> : P[K] }
    : WithFault<P, F>

type HeadFault<T, P extends PlanHead> =
  Stale<StepOf<T>, StepFrom<P, T extends Resized<unknown> ? false : true>> extends infer S extends string
    ? OptionFault<'model', S>
    : Compare<P['peak'], P['budget']> extends 'more'
      ? OptionFault<'peak', PeakOverBudget<`${P['peak']}`, `${P['budget']}`>>
      : Forward<P['segments']> extends readonly []
        ? null
        : TilesFault<Forward<P['segments']>, SitesOfTensors<TensorsFrom<P>>, true>

/** A segment of nameless layers only names none. */
type IsForwardTile<S> = S extends { readonly from: '' }
  ? false
  : S extends { readonly phase: 'forward' | 'step' } & ({ readonly B: number } | { readonly H: number } | { readonly W: number })
    ? true
    : false
/** The segments that run forward in tiles: they follow each other as ranges by hand do. */
type Forward<Ss> = Chosen<Ss, ForwardPlaces<Ss>>
type ForwardAt<Places, I extends number> = Places extends readonly string[] ? Places[I] : never
/**
 * Their places among all segments, as text. It takes ten segments at a time, by their places: the compiler would build the rest of a tuple anew
 * each time.
 */
type ForwardPlaces<Ss, Acc extends readonly string[] = [], Ten extends number = 0> =
  TenText<Ten> extends infer P extends string
    ? `${P}0` extends keyof Ss
      ? ForwardPlaces<Ss, WithTen<Ss, P, Acc>, Add<Ten, 1>>
      : Acc
    : never
type TenText<Ten extends number> = Ten extends 0 ? '' : `${Ten}`
type WithTen<Ss, P extends string, Acc extends readonly string[]> = WithFive<
  Ss,
  [`${P}5`, `${P}6`, `${P}7`, `${P}8`, `${P}9`],
  WithFive<Ss, [`${P}0`, `${P}1`, `${P}2`, `${P}3`, `${P}4`], Acc>
>
type WithFive<Ss, Ps extends readonly string[], Acc extends readonly string[]> = WithPlace<
  Ss,
  Ps[4],
  WithPlace<Ss, Ps[3], WithPlace<Ss, Ps[2], WithPlace<Ss, Ps[1], WithPlace<Ss, Ps[0], Acc>>>>
>
type WithPlace<Ss, P, Acc extends readonly string[]> = P extends keyof Ss & string
  ? IsForwardTile<Ss[P]> extends true
    ? [...Acc, P]
    : Acc
  : Acc

// ---------------------------------------------------------------- a plan and a device

/**
 * A device with a name and a memory size, for compile-time checks.
 *
 * @example const card: Device = device('v100', gib(16))
 */
export interface Device<Name extends string = string, Memory extends number = number> {
  readonly name: Name
  readonly memory: Memory
}
/**
 * Creates a device with a memory size. `run` compares the peak of a plan with it at compile time.
 *
 * @param name Name of the device in error messages.
 * @param memory Memory of the device, in bytes.
 * @example await run(net, plan, { steps: 10, device: device('cpu', gib(4)) })
 */
export const device = <N extends string, B extends number>(name: N, memory: B): Device<N, B> => ({ name, memory })

/**
 * The reason, as a type, for a peak that does not fit a device; null if it fits.
 *
 * @example
 * type Fits = DeviceFault<1024, Device<'cpu', 4096>>
 * const none: Fits = null
 */
export type DeviceFault<Peak extends number, D> =
  D extends Device<infer N, infer B>
    ? number extends Peak | B
      ? null
      : Compare<Peak, B> extends 'more'
        ? OverDevice<`${Peak}`, N, `${B}`>
        : null
    : null
