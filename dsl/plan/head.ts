// What a plan module says of its plan, in literals that the checker reads. In: the type of a model or a step, the literals. Out:
// the literals themselves, or words in the place of what is wrong: a stale model at `model`, an illegal tile in `segments`, a
// peak over the budget at `peak`. At run time src/stage/planmodule.ts derives the same literals from the plan and compares.
import type { Compare } from '../numbers/naturals'
import type { Resized, StepOf } from '../trainable'
import type { OptionFault, TileFault, TilesFault, WithFault, WithTile } from './checked'
import type { Described, StepFrom, TensorsFrom } from './described'
import type { TileRange } from './prescription'
import type { SitesOfTensors } from './sites'
import type { Stale } from './stalestep'
import type { OverDevice, PeakOverBudget } from './words'

/** A segment as types know it. */
export interface PlannedSegment extends TileRange {
  readonly phase: 'forward' | 'recompute' | 'backward' | 'update' | 'step'
}
/** What types know of a plan. */
export interface PlanHead extends Described {
  readonly model: string
  readonly machine: string
  readonly strategy: string
  /** How activations are stored and multiplied; fp32 unless given. */
  readonly precision?: 'bf16' | 'tf32'
  readonly budget: number
  readonly peak: number
  /** Of the training graph. */
  readonly fingerprint: string
  readonly segments: readonly PlannedSegment[]
  /** Layers whose outputs stay whole from the forward to the backward pass. */
  readonly checkpoints: readonly string[]
  /** What leaves the device for a while, and its bytes there. */
  readonly swaps: readonly { readonly value: string; readonly bytes: number }[]
}

/** A plan's head, when it fits a device; else the reason. */
export type CheckedHead<T, P extends PlanHead> = WithHeadFault<P, HeadFault<T, P>>

type WithHeadFault<P extends PlanHead, F> =
  F extends TileFault<infer I, infer Key, infer Reason>
    ? { [K in keyof P]: K extends 'segments' ? WithTile<P[K], ForwardAt<P['segments'], I>, Key, Reason> : P[K] }
    : WithFault<P, F>

type HeadFault<T, P extends PlanHead> =
  Stale<StepOf<T>, StepFrom<P, T extends Resized<unknown> ? false : true>> extends infer S extends string
    ? OptionFault<'model', S>
    : Compare<P['peak'], P['budget']> extends 'more'
      ? OptionFault<'peak', PeakOverBudget<`${P['peak']}`, `${P['budget']}`>>
      : Forward<P['segments']> extends readonly []
        ? null
        : TilesFault<Forward<P['segments']>, SitesOfTensors<TensorsFrom<P>>>

/** A segment of nameless layers only names none. */
type IsForwardTile<S> = S extends { readonly from: '' }
  ? false
  : S extends { readonly phase: 'forward' | 'step' } & ({ readonly B: number } | { readonly H: number } | { readonly W: number })
    ? true
    : false
/** The segments that run forward in tiles: they follow each other as ranges by hand do. */
type Forward<Ss, Acc extends readonly unknown[] = []> = Ss extends readonly [infer S, ...infer Rest]
  ? Forward<Rest, IsForwardTile<S> extends true ? [...Acc, S] : Acc>
  : Acc
/** Where the forward tile of this number stands among all segments. */
type ForwardAt<
  Ss,
  I extends number,
  Seen extends readonly unknown[] = [],
  At extends readonly unknown[] = [],
> = Ss extends readonly [infer S, ...infer Rest]
  ? IsForwardTile<S> extends true
    ? Seen['length'] extends I
      ? `${At['length'] & number}`
      : ForwardAt<Rest, I, [...Seen, 0], [...At, 0]>
    : ForwardAt<Rest, I, Seen, [...At, 0]>
  : never

// ---------------------------------------------------------------- a plan and a device

/** A device of a kind: its name and the bytes of its memory. */
export interface Device<Name extends string = string, Memory extends number = number> {
  readonly name: Name
  readonly memory: Memory
}
/** A device that a plan must fit, to be told while typing. @example device('cpu', gib(4)) */
export const device = <N extends string, B extends number>(name: N, memory: B): Device<N, B> => ({ name, memory })

/** Why a plan of this peak does not fit a device, or null. */
export type DeviceFault<Peak extends number, D> =
  D extends Device<infer N, infer B>
    ? number extends Peak | B
      ? null
      : Compare<Peak, B> extends 'more'
        ? OverDevice<`${Peak}`, N, `${B}`>
        : null
    : null
