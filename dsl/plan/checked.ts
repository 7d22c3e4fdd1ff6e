// The options of `stage`, checked while typing. In: the type of a model or a step, the options' type. Out: the options themselves, or, in place of
// the wrong one, the reason, so that the compiler's error is there. The run-time twins are prescription.ts and src/stage/stage.ts; the words are
// words.ts's, and both sides look for faults in the same order.
import type { Known, OptionRefused, Options, UnknownKeys } from '../../staging/core/options'
import type { IsStrict } from '../../staging/core/orwords'
import type { FaultyGroups, Updates } from '../../staging/ops/updates'
import type { BadSize } from '../layers/rule'
import type { Model } from '../model'
import type { Dim, Shape } from '../net'
import type { Compare } from '../numbers/naturals'
import type { StepOf, Trainable } from '../trainable'
import type { Loss, Optimizer } from '../training'
import type { LeastBytes } from './bytes'
import type { TensorsOf } from './order'
import type { TILE_RANGE, TileRange } from './prescription'
import type { AnySite, FirstOf, Linked, Nested, RestOf, Reversed, SitesOfTensors } from './sites'
import type {
  BudgetTooSmall,
  CannotTile,
  RangeBackwards,
  RangesOverlap,
  StepsOwn,
  StrategyAndPlan,
  SumsInside,
  TooFine,
} from './words'

/**
 * The options of `stage` if they are valid; otherwise a type whose text is the error.
 *
 * @example type Options = CheckedOptions<typeof net, { budget: 4096 }>
 */
export type CheckedOptions<M extends Trainable, O, Legal extends Options = Options> = Known<
  O,
  Legal,
  IsStrict extends true ? Faulty<M, O> : null
>
/** The options with words in the place of a fault, for each member of a union; null if there is none, or none for a model or a step alone. */
type Faulty<M extends Trainable, O> = O extends unknown
  ? FaultOf<M, O> extends infer F
    ? null extends F
      ? FaultyGroups<O>
      : WithFault<O, F>
    : never
  : never

interface Fault<Index, Key extends string, Reason extends string> {
  index: Index
  key: Key
  reason: Reason
}
export type OptionFault<Key extends string, Reason extends string> = Fault<null, Key, Reason>
export type TileFault<Index extends number, Key extends string, Reason extends string> = Fault<Index, Key, Reason>

export type WithFault<O, F> = F extends null
  ? O
  : F extends OptionFault<infer Key, infer Reason>
    ? { [K in keyof O]: K extends Key ? Reason : O[K] }
    : F extends TileFault<infer I, infer Key, infer Reason>
      ? { [K in keyof O]: K extends 'tiles' ? WithTile<O[K], `${I}`, Key, Reason> : O[K] }
      : O
export type WithTile<Ts, I, Key extends string, Reason extends string> = {
  [J in keyof Ts]: J extends I
    ? { [K in keyof Ts[J] | Key]: K extends Key ? Reason : K extends keyof Ts[J] ? Ts[J][K] : never }
    : Ts[J]
}

/** In run time's order of checks. */
type FaultOf<M extends Trainable, O> = First<
  [RangeKeyFault<O>, OwnFault<M, O>, StrategyFault<O>, TilesIn<M, O>, BudgetFault<M, O>]
>
type First<Faults> = Faults extends [infer F, ...infer Rest] ? (F extends null ? First<Rest> : F) : null

type RangeKeyFault<O> = O extends { readonly tiles: infer Ts } ? RangeKeysFault<Ts> : null
type RangeKeysFault<Ts, I extends readonly unknown[] = []> = Ts extends readonly [infer T, ...infer Rest]
  ? UnknownKeys<T, typeof TILE_RANGE> extends infer Key extends string
    ? [Key] extends [never]
      ? RangeKeysFault<Rest, [...I, 0]>
      : TileFault<I['length'] & number, Key, OptionRefused<Key, typeof TILE_RANGE>>
    : never
  : null

type OwnFault<M extends Trainable, O> = M extends Model
  ? null
  : O extends { readonly loss: Loss }
    ? OptionFault<'loss', StepsOwn<'loss'>>
    : O extends { readonly optimizer: Optimizer }
      ? OptionFault<'optimizer', StepsOwn<'optimizer'>>
      : UpdatesFault<{ [K in keyof O & keyof Updates]-?: undefined extends O[K] ? never : K }[keyof O & keyof Updates]>
/** One by one, where there are several. */
type UpdatesFault<K extends string> = [K] extends [never] ? null : K extends string ? OptionFault<K, StepsOwn<K>> : never

type TilesIn<M extends Trainable, O> = O extends { readonly tiles: infer Ts }
  ? TensorsOf<StepOf<M>> extends infer Made extends readonly unknown[]
    ? number extends Made['length']
      ? null
      : TilesFault<Ts, SitesOfTensors<Made>>
    : never
  : null

type StrategyFault<O> = O extends { readonly strategy: string }
  ? O extends { readonly tiles: readonly unknown[] } | { readonly checkpoints: readonly unknown[] }
    ? OptionFault<'strategy', StrategyAndPlan>
    : null
  : null

// ---------------------------------------------------------------- the budget

/** Without training, and with some frozen parameters, types know no least budget. */
type BudgetFault<M extends Trainable, O> = O extends { readonly budget: infer B extends number }
  ? number extends B
    ? null
    : O extends { readonly mode: 'predict' | 'evaluate' } | { readonly freeze: unknown } | { readonly groups: unknown }
      ? null
      : LeastBytes<StepOf<M>> extends infer L extends number
        ? Compare<B, L> extends 'less'
          ? OptionFault<'budget', BudgetTooSmall<`${B}`, `${L}`>>
          : null
        : null
  : null

// ---------------------------------------------------------------- ranges of tiles

type AnyRange = Pick<TileRange, 'from' | 'to'>
type CountOf<T, D extends string> = T extends { readonly [K in D]: infer N extends number } ? N : 1
/** The dimensions along which a range has tiles; counts that are not literals are not checked. */
type TiledDims<T> =
  | (CountIs<T, 'B'> extends true ? 'B' : never)
  | (CountIs<T, 'H'> extends true ? 'H' : never)
  | (CountIs<T, 'W'> extends true ? 'W' : never)
type CountIs<T, D extends string> = number extends CountOf<T, D> ? false : CountOf<T, D> extends 1 ? false : true
type SumsIn<X extends AnySite, T> = [X['sums'] & TiledDims<T>] extends [never] ? false : true

/**
 * The first fault of the ranges from number I on, whose layers must stand in Sites: those after PreviousTo. Parts: a range of one layer may be
 * its sums, or the use of them.
 */
export type TilesFault<
  Ts,
  Sites,
  Parts extends boolean = false,
  PreviousTo extends string = '',
  I extends readonly unknown[] = [],
> = Ts extends readonly [infer T extends AnyRange, ...infer Rest]
  ? CountsFault<T> extends infer C extends string
    ? TileFault<I['length'] & number, CountKey<T>, C>
    : StartAt<Sites, T['from']> extends infer Here
      ? [Here] extends [never]
        ? TileFault<I['length'] & number, 'from', RangesOverlap<T['from'], PreviousTo>>
        : TakeTo<Here, T> extends infer Taken
          ? Taken extends { range: infer R; rest: infer After }
            ? RangeFault<R, T, Parts> extends { key: infer Key extends string; reason: infer Reason extends string }
              ? TileFault<I['length'] & number, Key, Reason>
              : TilesFault<Rest, After, Parts, T['to'], [...I, 0]>
            : TileFault<I['length'] & number, 'to', RangeBackwards<T['from'], T['to']>>
          : never
      : never
  : null

type CountsFault<T> = BadSize<
  [
    ['number of tiles along B', CountOf<T, 'B'>, 1],
    ['number of tiles along H', CountOf<T, 'H'>, 1],
    ['number of tiles along W', CountOf<T, 'W'>, 1],
  ]
>
type CountKey<T> = CountsFault<T> extends `its number of tiles along ${infer D} must ${string}` ? D : never

type StartAt<Sites, From extends string> = Sites extends null
  ? never
  : FirstOf<Sites> extends infer X extends AnySite
    ? IsCalled<X, From> extends true
      ? Sites
      : StartAt<RestOf<Sites>, From>
    : Nested<StartAt<RestOf<Sites>, From>>
type IsCalled<X extends AnySite, Name> = [X['called'], X['named']] extends [Name, true] ? true : false

/** The range up to its last layer, with the nameless ones after it; the possible start of the next range. */
type TakeTo<Sites, T extends AnyRange, Before = null> = Sites extends null
  ? 'backwards'
  : FirstOf<Sites> extends infer X extends AnySite
    ? IsCalled<X, T['to']> extends true
      ? SumsIn<X, T> extends true
        ? { range: Reversed<Linked<X, Before>>; rest: Sites }
        : TakeNameless<RestOf<Sites>, T, Linked<X, Before>>
      : TakeTo<RestOf<Sites>, T, Linked<X, Before>>
    : Nested<TakeTo<RestOf<Sites>, T, Before>>
type TakeNameless<Sites, T, Before> = Sites extends null
  ? { range: Reversed<Before>; rest: Sites }
  : FirstOf<Sites> extends infer X extends AnySite
    ? X['named'] extends true
      ? { range: Reversed<Before>; rest: Sites }
      : [TiledDims<T>] extends [X['ft']]
        ? TakeNameless<RestOf<Sites>, T, Linked<X, Before>>
        : { range: Reversed<Before>; rest: Sites }
    : Nested<TakeNameless<RestOf<Sites>, T, Before>>

type RangeFault<R, T, Parts extends boolean> =
  DimFault<R, T, 'B', Parts> extends infer F
    ? F extends string
      ? { key: 'B'; reason: F }
      : DimFault<R, T, 'H', Parts> extends infer F2
        ? F2 extends string
          ? { key: 'H'; reason: F2 }
          : DimFault<R, T, 'W', Parts> extends infer F3 extends string
            ? { key: 'W'; reason: F3 }
            : null
        : never
    : never
type DimFault<R, T, D extends 'B' | 'H' | 'W', Parts extends boolean> =
  D extends TiledDims<T> ? LayersFault<R, D, CountOf<T, D>, Parts> : null

/** Parts: the first layer may be an end, although it is the last one. */
type LayersFault<R, D extends Dim, N extends number, Parts extends boolean, First extends boolean = true> = R extends null
  ? null
  : FirstOf<R> extends infer X extends AnySite
    ? LayerFault<X, D, N, IsEnd<First, RestOf<R>, Parts>> extends infer F extends string
      ? F
      : LayersFault<RestOf<R>, D, N, Parts, false>
    : Nested<LayersFault<RestOf<R>, D, N, Parts, First>>
/** A range of one whole layer has no end at which it could sum. */
type IsEnd<First extends boolean, Rest, Parts extends boolean> = First extends true
  ? Rest extends null
    ? Parts
    : true
  : Rest extends null
    ? true
    : false

type LayerFault<X extends AnySite, D extends Dim, N extends number, End extends boolean> = D extends X['sums']
  ? End extends true
    ? FinenessFault<X, D, N>
    : SumsInside<X['called'], X['kind'], D>
  : D extends X['ft']
    ? FinenessFault<X, D, N>
    : CannotTile<X['called'], X['kind'], D, LegalText<X['ft']>>

interface PlaceOf {
  B: 0
  C: 1
  H: 2
  W: 3
}
type ExtentOf<X extends AnySite, D extends Dim> = ([X['sums']] extends [never] ? X['out'] : X['in']) extends infer S extends Shape
  ? S[PlaceOf[D]]
  : never
type FinenessFault<X extends AnySite, D extends Dim, N extends number> =
  Compare<N, ExtentOf<X, D>> extends 'more' ? TooFine<X['called'], X['kind'], `${N}`, D, `${ExtentOf<X, D>}`> : null

type ListDims<Ft extends Dim, Ds, Text extends string = ''> = Ds extends readonly [infer D extends string, ...infer Rest]
  ? D extends Ft
    ? ListDims<Ft, Rest, Text extends '' ? D : `${Text}, ${D}`>
    : ListDims<Ft, Rest, Text>
  : Text
type LegalText<Ft extends Dim> =
  ListDims<Ft, ['B', 'H', 'W']> extends infer L extends string ? (L extends '' ? 'none of B, H, W' : L) : never
