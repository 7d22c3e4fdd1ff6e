// The type-level interpreter: facts of a net for an input shape, while you type. In: the type of a net, an input shape. Out: output shape, FT
// dimensions, layer names and a tally (activation bytes, parameters, state); or a Misfit. It folds over the syntax tree, and the checker caches it
// per node and shape, so equal blocks cost one. The run-time twin is analyse.ts. Sums are Low numbers (numbers/), turned into numbers at the end.
import type {
  AtInputSize,
  Block,
  Blocks,
  Concat,
  Counted,
  Masked,
  Reads,
  Repeat,
  Residual,
  Scaled,
  Seq,
  Value,
  Values,
} from './compose'
import type { Divides } from './layers/conv2d'
import type { BadSize } from './layers/rule'
import type {
  AtLayer,
  BranchesDiffer,
  BytesNotFirst,
  DuplicateNameText,
  FactorMisfits,
  HeadTooWide,
  KeysDoNotFit,
  MatricesDoNotFit,
  NoBranches,
  NoFactor,
  NoValues,
  NotATuple,
  NotValues,
  MostInARow,
  MostLevels,
  NamesUnknown,
  NotLiteral,
  ShapeText,
  SumsDiffer,
  TermsDiffer,
  TooDeepANest,
  TooManyInARow,
  ValueAlone,
  ValueTwice,
  ValueUnknown,
  ValueUnread,
} from './messages'
import type {
  Dim,
  InPlaceLayers,
  LayerFt,
  LayerFtOf,
  LayerParameters,
  LayerShapes,
  LayerState,
  LayerSums,
  Net,
  Shape,
} from './net'
import type { AddLimbs, LimbText, MulLimbs } from './numbers/limbs'
import type { Add, Compare, Div, FromLow, Low, Mul, NextDigit, Trim } from './numbers/naturals'

/** Facts of a net at an input shape. */
export interface Facts<Out extends Shape, Ft extends Dim, Sum extends AnyTally, Names extends string> {
  out: Out
  ft: Ft
  sum: Sum
  names: Names
}
/** Its fields are read by their names: each `infer` makes TypeScript 5.9 drop its cache at every level above. */
export type AnyFacts = Facts<Shape, Dim, AnyTally, string>
/** Facts made at once: a type that names others within it is put off, and copied with all that holds it. */
type Known<Out extends Shape, Ft extends Dim, Sum extends AnyTally, Names extends string> = 0 extends 0
  ? Facts<Out, Ft, Sum, Names>
  : never
/**
 * Sums over layers: bytes of their outputs, trained numbers, kept numbers (running statistics). Layers of one size stand together, so at first only
 * the channels of their outputs are added up: Area holds the bytes of one of them.
 */
export interface Tally<Bytes, Area, Channels, Parameters, State> {
  bytes: Bytes
  area: Area
  channels: Channels
  parameters: Parameters
  state: State
}
/** The same of a tally. */
type Tallied<Bytes, Area, Channels, Parameters, State> = 0 extends 0 ? Tally<Bytes, Area, Channels, Parameters, State> : never
export type AnyTally = Tally<unknown, unknown, unknown, unknown, unknown>
/** An error and its place. */
export interface Misfit<At extends string, Kind extends string, Reason extends string> {
  at: At
  kind: Kind
  reason: Reason
}
export interface Duplicate<Name> {
  duplicate: Name
}

/** The same of a whole net, in words where it nests deeper than types follow. */
export type AnalyseWhole<N extends Net, S extends Shape> =
  NestOf<N> extends 'deep'
    ? Misfit<N['kind'], N['kind'], TooDeepANest>
    : NestOf<N> extends 'bytes'
      ? StrayBytes<N> extends infer At extends string
        ? Misfit<At, 'fromBytes', BytesNotFirst>
        : Analyse<N, S>
      : Analyse<N, S>

/**
 * Level by level, so that it is told without going deep: those of all nets that stand as deep. Layers that take bytes stand with them, so
 * that where there is none nobody looks where it stands.
 */
type NestOf<Level, Count extends readonly unknown[] = [], Has = 'plain'> = [Level] extends [never]
  ? Has
  : Count['length'] extends MostLevels
    ? 'deep'
    : NestOf<Inner<Level>, [...Count, 0], KindsSeen<Level['kind' & keyof Level], Has>>
/** Unknown kinds add nothing. */
type KindsSeen<Kind, Has> = string extends Kind ? Has : 'fromBytes' extends Kind ? 'bytes' : Has
/** The compositions in compositions; scopes with numbers take as long as two. */
type Inner<N> = N extends { readonly kind: 'blocks' | 'counted'; readonly layers: infer Ls extends readonly unknown[] }
  ? { readonly kind: 'scope'; readonly body: Ls[number] }
  : N extends { readonly layers: infer Ls extends readonly unknown[] }
    ? ComposedOf<Ls[number]>
    : N extends { readonly branches: infer Bs extends readonly unknown[] }
      ? Composed<Bs[number]>
      : N extends { readonly body: infer B; readonly shortcut: infer C }
        ? Composed<B | C>
        : N extends { readonly body: infer B }
          ? Composed<B>
          : never
/** Compares the few kinds first: a chain has hundreds of layers. */
type ComposedOf<N> = [N] extends [Net]
  ? [N['kind'] & (keyof Compositions<any, any> | 'fromBytes')] extends [never]
    ? never
    : Composed<N>
  : Composed<N>
type Composed<N> = N extends
  | { readonly layers: unknown }
  | { readonly branches: unknown }
  | { readonly body: unknown }
  | { readonly kind: 'fromBytes' }
  ? N
  : never

/** The full name of the first layer that takes bytes and is not the first layer of the net; null if there is none. */
type StrayBytes<N, P extends string = '', Head extends boolean = true> =
  N extends Seq<infer Ls>
    ? StrayInLine<Ls, P, Head>
    : N extends Block<infer L, infer B>
      ? StrayBytes<B, `${P}${L}.`, Head>
      : N extends Blocks<infer L, infer Ls>
        ? StrayInLine<Numbered<Ls, `${P}${L}.`>, '', Head>
        : N extends Counted<infer L, infer F, infer Ls>
          ? StrayInLine<Numbered<Ls, `${P}${L}`, F>, '', Head>
          : N extends Repeat<any, any>
            ? StrayInLine<Numbered<[N], P>, '', Head>
            : N extends Masked<any, infer B>
              ? StrayBytes<B, P, Head>
              : N extends AtInputSize<infer B> | Scaled<infer B> | Value<any, any, infer B>
                ? StrayBytes<B, P, false>
                : N extends Residual<infer B, infer C>
                  ? StrayInLine<[B, C], P, false>
                  : N extends Concat<infer Bs> | Values<infer Bs>
                    ? StrayInLine<Bs, P, false>
                    : N extends { readonly kind: 'fromBytes' }
                      ? Head extends true
                        ? null
                        : `${P}${NameOf<N>}`
                      : null
type StrayInLine<Ls, P extends string, Head extends boolean> = Ls extends readonly [infer H, ...infer T]
  ? StrayBytes<H, P, Head> extends infer At extends string
    ? At
    : StrayInLine<T, P, false>
  : null

export type Analyse<N extends Net, S extends Shape> = N['kind'] extends keyof LayerShapes<any, any>
  ? AnalyseLayer<N, S, LayerShapes<N, S>[N['kind']]>
  : N['kind'] extends keyof Compositions<any, any>
    ? Compositions<N, S>[N['kind']]
    : Misfit<N['kind'], N['kind'], NotATuple>

interface Compositions<N, S extends Shape> {
  seq: N extends Seq<infer Ls>
    ? Ls extends { readonly [K in `${MostInARow}`]: unknown }
      ? Misfit<'seq', 'seq', TooManyInARow>
      : Line<Ls, S>
    : never
  block: N extends Block<infer P, infer B> ? Scoped<P, Analyse<B, S>> : never
  blocks: N extends Blocks<infer P, infer Ls> ? Scoped<P, Line<Numbered<Ls>, S>> : never
  counted: N extends Counted<infer P, infer F, infer Ls> ? CountedLine<P, F, Ls, S> : never
  repeat: N extends Repeat<infer T, any> ? Repeated<T, N, S> : never
  residual: N extends Residual<infer B, infer C> ? Sum<Analyse<B, S>, Analyse<C, S>, C> : never
  scaled: N extends Scaled<infer B> ? Product<Analyse<B, S>, S> : never
  atInputSize: N extends AtInputSize<infer B> ? Resized<Analyse<B, S>, S> : never
  masked: N extends Masked<infer Side, infer B>
    ? BadSize<[['side of a block', Side, 1]]> extends infer Bad extends string
      ? Misfit<'masked', 'masked', Bad>
      : Analyse<B, S>
    : never
  concat: N extends Concat<infer Bs>
    ? Bs extends readonly [infer H extends Net, ...infer T]
      ? Join<T, S, Analyse<H, S>>
      : Misfit<'concat', 'concat', NoBranches>
    : never
  values: N extends Values<infer Vs>
    ? Vs extends readonly []
      ? Misfit<'values', 'values', NoValues>
      : [KindsOf<Vs>] extends ['value']
        ? AllRead<Vs, ReadsIn<Vs>, Valued<Vs, { input: S }, Known<S, Dim, Nothing, never>>>
        : Misfit<'values', 'values', string extends KindsOf<Vs> ? NotATuple : NotValues>
    : never
  value: N extends Value<infer L, any, any> ? Misfit<L, 'value', ValueAlone> : never
}

// ---------------------------------------------------------------- layers

export type NameOf<N> = N extends { readonly name: infer L extends string; readonly kind: infer K extends string }
  ? L extends ''
    ? K
    : L
  : never
export type OwnName<N> = N extends { readonly name: string } ? (N['name'] extends '' ? never : N['name']) : never

/** Bytes of a value in 32-bit floats. */
export type BytesOf<S extends Shape> = MulLimbs<AreaOf<S[0], S[2], S[3]>, `${S[1]}`>
type AreaOf<B extends number, H extends number, W extends number> = MulLimbs<MulLimbs<Low<H>, `${W}`>, `${Mul<B, 4>}`>

type AnalyseLayer<N extends Net, S extends Shape, Out> = Out extends Shape
  ? number extends Out[0] | Out[1] | Out[2] | Out[3]
    ? Misfit<NameOf<N>, N['kind'], NotLiteral>
    : Known<Out, FtOf<N>, LayerTally<N, S, Out>, OwnName<N>>
  : Out extends string
    ? Misfit<NameOf<N>, N['kind'], Out>
    : never

type LayerTally<N extends Net, S extends Shape, Out extends Shape> = Tallied<
  null,
  AreaOf<Out[0], Out[2], Out[3]>,
  KeptChannels<N['kind'], Low<Out[1]>>,
  ParametersOf<N, S>,
  N['kind'] extends keyof LayerState<any, any> ? LayerState<N, S>[N['kind']] : null
>

/** The channels are an argument: the compiler keeps no result of a branch. */
type KeptChannels<Kind, Channels> = Kind extends keyof InPlaceLayers ? null : Channels

// ---------------------------------------------------------------- tallies

type Nothing = Tally<null, null, null, null, null>
type AddTally<A extends AnyTally, B extends AnyTally> = Tallied<
  B['channels'] extends null
    ? AddLimbs<A['bytes'], B['bytes']>
    : B['area'] extends A['area']
      ? AddLimbs<A['bytes'], B['bytes']>
      : AddLimbs<AddLimbs<A['bytes'], B['bytes']>, OutputsOf<A>>,
  B['channels'] extends null ? A['area'] : B['area'],
  B['area'] extends A['area']
    ? AddLimbs<A['channels'], B['channels']>
    : B['channels'] extends null
      ? A['channels']
      : B['channels'],
  AddLimbs<A['parameters'], B['parameters']>,
  AddLimbs<A['state'], B['state']>
>
/** Bytes of the channels that stand together. */
type OutputsOf<T extends AnyTally> = T['channels'] extends null ? null : MulLimbs<T['area'], Trim<LimbText<T['channels']>>>
/** Adds the output of a join of branches. */
type AddOutput<A extends AnyTally, Out extends Shape> = AddTally<
  A,
  Tallied<null, AreaOf<Out[0], Out[2], Out[3]>, Low<Out[1]>, null, null>
>

export type ParametersOf<N extends Net, S extends Shape> = N['kind'] extends keyof LayerParameters<any, any>
  ? LayerParameters<N, S>[N['kind']]
  : null
export type SumsOf<N extends Net> = N['kind'] extends keyof LayerSums<any> ? LayerSums<N>[N['kind']] : never
export type FtOf<N extends Net> = N['kind'] extends keyof LayerFt
  ? LayerFt[N['kind']] & Dim
  : LayerFtOf<N>[N['kind'] & keyof LayerFtOf<any>] & Dim

// ---------------------------------------------------------------- one after the other

type Line<Ls, S extends Shape> = Ls extends readonly Net[]
  ? number extends Ls['length']
    ? Misfit<'seq', 'seq', NotATuple>
    : Ls extends { readonly '9': unknown }
      ? Tens<Ls, keyof Ls, Known<S, Dim, Nothing, never>> extends infer X extends AnyFacts
        ? X
        : Behind<Ls, Known<S, Dim, Nothing, never>>
      : Behind<Ls, Known<S, Dim, Nothing, never>>
  : never

/**
 * Takes ten layers at a time, by their places: the compiler would build the rest of a tuple anew each time, with a symbol for each layer.
 * Names of ten layers are joined first: a union of all names is built ten times less often. A fault is null; `Behind` finds its words.
 */
type Tens<
  Ls extends readonly Net[],
  Places extends keyof Ls,
  X,
  Hundreds extends keyof NextDigit = '',
  Ten extends keyof NextDigit = '',
> = X extends AnyFacts
  ? `${Hundreds}${Ten}0` extends Places
    ? Tens<
        Ls,
        Places,
        Joined<X, Ones<Ls, Places, `${Hundreds}${Ten}`, Fresh<X>>>,
        Ten extends '9' ? NextDigit[Hundreds] : Hundreds,
        NextDigit[Ten]
      >
    : X
  : null
type Ones<
  Ls extends readonly Net[],
  Places extends keyof Ls,
  P extends string,
  X,
  One extends keyof NextDigit = '0',
> = `${P}${One}` extends Places
  ? One extends '9'
    ? Next<At<Ls, Places, `${P}9`>, X>
    : Ones<Ls, Places, P, Next<At<Ls, Places, `${P}${One}`>, X>, NextDigit[One]>
  : X
type At<Ls extends readonly Net[], Places extends keyof Ls, P extends string> = P extends Places ? NetOf<Ls[P]> : never
type NetOf<N> = N extends Net ? N : never
/** An empty chain at the output of X. Chains that differ only in names share all sums. */
type Fresh<X extends AnyFacts> = Known<X['out'], Dim, Nothing, never>
/** The facts Y of layers behind those of X, under the names of both; null for a fault. */
type Joined<X extends AnyFacts, Y> = Y extends AnyFacts
  ? [Y['names'] & X['names']] extends [never]
    ? Known<Y['out'], X['ft'] & Y['ft'], AddTally<X['sum'], Y['sum']>, X['names'] | Y['names']>
    : null
  : null

/** The same one by one, eight at once, up to the first fault. */
type Behind<Ls extends readonly Net[], X> = Ls extends readonly [
  any,
  any,
  any,
  any,
  any,
  any,
  any,
  any,
  ...infer T extends readonly Net[],
]
  ? Behind<T, Next<Ls[7], Next<Ls[6], Next<Ls[5], Next<Ls[4], Next<Ls[3], Next<Ls[2], Next<Ls[1], Next<Ls[0], X>>>>>>>>>
  : Ls extends readonly [infer H extends Net, ...infer T extends readonly Net[]]
    ? Behind<T, Next<H, X>>
    : X
/** Adds a layer to the facts of the layers before it, X, which may be a fault. */
type Next<H extends Net, X> = X extends AnyFacts ? Added<H, X, Analyse<H, X['out']>> : X
type Added<H extends Net, X extends AnyFacts, Y> = Y extends AnyFacts
  ? [Y['names'] & X['names']] extends [never]
    ? Known<Y['out'], X['ft'] & Y['ft'], AddTally<X['sum'], Y['sum']>, X['names'] | Y['names']>
    : Duplicate<FirstNamed<[H], Y['names'] & X['names']>>
  : Y

// ---------------------------------------------------------------- names twice

/** The first of these nets with a name that another layer has already, and the name: as run time finds it. */
type FirstNamed<Ls, Twice extends string, P extends string = ''> = Ls extends readonly [infer H, ...infer T]
  ? NamedIn<H, Twice, P> extends infer F extends string
    ? F
    : FirstNamed<T, Twice, P>
  : null
type NamedIn<N, Twice extends string, P extends string> =
  N extends Seq<infer Ls>
    ? FirstNamed<Ls, Twice, P>
    : N extends Block<infer L, infer B>
      ? NamedIn<B, Twice, `${P}${L}.`>
      : N extends Blocks<infer L, infer Ls>
        ? FirstNamed<Numbered<Ls>, Twice, `${P}${L}.`>
        : N extends Counted<infer L, infer F, infer Ls>
          ? FirstNamed<Numbered<Ls, L, F>, Twice, P>
          : N extends Repeat<any, any>
            ? FirstNamed<Numbered<[N]>, Twice, P>
            : N extends AtInputSize<infer B> | Masked<any, infer B> | Scaled<infer B> | Value<any, any, infer B>
              ? NamedIn<B, Twice, P>
              : N extends Residual<infer B, infer C>
                ? FirstNamed<[B, C], Twice, P>
                : N extends Concat<infer Bs> | Values<infer Bs>
                  ? FirstNamed<Bs, Twice, P>
                  : `${P}${OwnName<N>}` extends infer Name extends string
                    ? [Name] extends [never]
                      ? null
                      : [Name & Twice] extends [never]
                        ? null
                        : Name
                    : null

// ---------------------------------------------------------------- scopes

type Scoped<P extends string, X> = X extends AnyFacts
  ? Known<X['out'], X['ft'], X['sum'], `${P}.${X['names']}`>
  : X extends Misfit<infer At, infer K, infer R>
    ? Misfit<`${P}.${At}`, K, R>
    : X extends Duplicate<infer N extends string>
      ? Duplicate<`${P}.${N}`>
      : never

/** T copies of a list. It takes digit by digit, since the compiler keeps each intermediate tuple. */
type Copies<T extends number, Xs extends readonly unknown[]> = CopiesOf<`${T}`, Xs>
type CopiesOf<
  Digits extends string,
  Xs extends readonly unknown[],
  Acc extends readonly unknown[] = [],
> = Digits extends `${infer D extends keyof Few<Xs> & string}${infer Rest}`
  ? CopiesOf<Rest, Xs, [...Acc, ...Acc, ...Acc, ...Acc, ...Acc, ...Acc, ...Acc, ...Acc, ...Acc, ...Acc, ...Few<Xs>[D]]>
  : Acc
interface Few<X extends readonly unknown[]> {
  '0': []
  '1': [...X]
  '2': [...X, ...X]
  '3': [...X, ...X, ...X]
  '4': [...X, ...X, ...X, ...X]
  '5': [...X, ...X, ...X, ...X, ...X]
  '6': [...X, ...X, ...X, ...X, ...X, ...X]
  '7': [...X, ...X, ...X, ...X, ...X, ...X, ...X]
  '8': [...X, ...X, ...X, ...X, ...X, ...X, ...X, ...X]
  '9': [...X, ...X, ...X, ...X, ...X, ...X, ...X, ...X, ...X]
}

/** Spreads repeats out and gives each item its numbered scope, '<stem><number>', starting at From. */
export type Numbered<Ls, Stem extends string = '', From extends number = 0> =
  Spread<Ls> extends infer Flat ? (Flat extends readonly Net[] ? InScopes<Flat, Stem, From> : [Flat]) : never
type InScopes<Ls extends readonly Net[], Stem extends string, From extends number> = {
  [I in keyof Ls]: Block<`${Stem}${Counting<I, From>}`, Ls[I]>
}
type Counting<I, From extends number> = From extends 0
  ? I & string
  : I extends `${infer N extends number}`
    ? Add<N, From>
    : number

/** The list with the copies of each repeat, or the first wrong repeat. */
type Spread<Ls, Acc extends readonly Net[] = []> = Ls extends readonly [infer H extends Net, ...infer T]
  ? H extends Repeat<infer N, infer B>
    ? RepeatError<N> extends null
      ? Spread<[B]> extends infer Once
        ? Once extends readonly Net[]
          ? Copies<N, Once> extends infer Many extends readonly Net[]
            ? Spread<T, [...Acc, ...Many]>
            : never
          : Once
        : never
      : H
    : Spread<T, [...Acc, H]>
  : Ls extends readonly []
    ? Acc
    : readonly Net[]

type CountError<F extends number> = number extends F ? NotATuple : BadSize<[['first number', F, 0]]>
type CountedLine<P extends string, F extends number, Ls, S extends Shape> =
  CountError<F> extends infer R extends string ? Misfit<'counted', 'counted', R> : Line<Numbered<Ls, P, F>, S>

type RepeatError<T extends number> = number extends T
  ? NotATuple
  : BadSize<[['number of copies', T, 1]]> extends infer Bad extends string
    ? Bad
    : Compare<T, MostInARow> extends 'more'
      ? TooManyInARow
      : null
type Repeated<T extends number, N, S extends Shape> =
  RepeatError<T> extends infer R extends string ? Misfit<'repeat', 'repeat', R> : Line<Numbered<[N]>, S>

// ---------------------------------------------------------------- branches

type Sum<X, Y, C> = X extends AnyFacts
  ? Y extends AnyFacts
    ? [X['names'] & Y['names']] extends [never]
      ? X['out'] extends Y['out']
        ? Known<X['out'], X['ft'] & Y['ft'], AddOutput<AddTally<X['sum'], Y['sum']>, X['out']>, X['names'] | Y['names']>
        : Misfit<'residual', 'residual', SumsDiffer<ShapeText<X['out']>, ShapeText<Y['out']>>>
      : Duplicate<FirstNamed<[C], X['names'] & Y['names']>>
    : Y
  : X

type Product<X, S extends Shape> = X extends AnyFacts
  ? X['out'] extends S | [S[0], S[1], 1, 1] | [S[0], 1, S[2], S[3]]
    ? Known<S, X['ft'], AddOutput<X['sum'], S>, X['names']>
    : Misfit<'scaled', 'scaled', NoFactor<ShapeText<X['out']>, ShapeText<S>>>
  : X

/** Joins the remaining branches to the result of the first ones; X holds their channels so far. */
type Join<Bs, S extends Shape, X, First = X, Count extends unknown[] = [1]> = X extends AnyFacts
  ? Bs extends readonly [infer H extends Net, ...infer T]
    ? Analyse<H, S> extends infer Y
      ? Y extends AnyFacts
        ? [X['names'] & Y['names']] extends [never]
          ? [X['out'][0], X['out'][2], X['out'][3]] extends [Y['out'][0], Y['out'][2], Y['out'][3]]
            ? // A tuple that mentions an alias is kept deferred, and copied with everything that holds it.
              Add<X['out'][1], Y['out'][1]> extends infer C extends number
              ? Join<
                  T,
                  S,
                  Known<
                    [X['out'][0], C, X['out'][2], X['out'][3]],
                    X['ft'] & Y['ft'],
                    AddTally<X['sum'], Y['sum']>,
                    X['names'] | Y['names']
                  >,
                  First,
                  [...Count, 1]
                >
              : never
            : First extends AnyFacts
              ? Misfit<
                  'concat',
                  'concat',
                  BranchesDiffer<ShapeText<First['out']>, `${[...Count, 1]['length'] & number}`, ShapeText<Y['out']>>
                >
              : never
          : Duplicate<FirstNamed<[H], X['names'] & Y['names']>>
        : Y
      : never
    : Bs extends readonly []
      ? Known<X['out'], X['ft'] & ('B' | 'H' | 'W'), AddOutput<X['sum'], X['out']>, X['names']>
      : Misfit<'concat', 'concat', NotATuple>
  : X

type Resized<X, S extends Shape> = X extends AnyFacts
  ? ResizedShape<X['out'], S> extends infer Z extends Shape
    ? Known<Z, X['ft'], AddOutput<X['sum'], Z>, X['names']>
    : X
  : X

/** O at the height and width of S; null when it has them. */
export type ResizedShape<O extends Shape, S extends Shape> = O extends readonly [
  infer B extends number,
  infer C extends number,
  infer H,
  infer W,
]
  ? S extends readonly [any, any, infer H2 extends number, infer W2 extends number]
    ? [H, W] extends [H2, W2]
      ? null
      : [B, C, H2, W2]
    : never
  : never

// ---------------------------------------------------------------- named values

export type AnyValue = Value<string, Reads, Net>

/** The facts X of the values so far, and those of the other values Vs. Env: the shape of each value by its name. */
type Valued<Vs, Env, X> = X extends AnyFacts
  ? Vs extends readonly [infer V extends AnyValue, ...infer T]
    ? ValueFacts<V, Env, X, ReadBy<V, Env>> extends infer Y
      ? Valued<T, Env & Record<V['name'], OutOf<Y>>, Y>
      : never
    : Vs extends readonly []
      ? X
      : Misfit<'values', 'values', NotATuple>
  : X
/** The facts X of the values Vs, if a later one reads each but the last. */
type AllRead<Vs, Names, X> = X extends AnyFacts ? FirstUnread<Vs, Names, X> : X
type FirstUnread<Vs, Names, X> = Vs extends readonly [infer V extends AnyValue, infer Next, ...infer T]
  ? V['name'] extends Names
    ? FirstUnread<[Next, ...T], Names, X>
    : Misfit<V['name'], 'value', ValueUnread>
  : X
/** All names that values read. */
type ReadsIn<Vs> = Vs extends readonly AnyValue[] ? NamesRead<Vs[number]['reads']> : never
type NamesRead<R> = R extends string ? R : R extends Reads ? ElementsOf<R[keyof R]> : never
type ElementsOf<Ns> = Ns extends readonly (infer N)[] ? N : never
type KindsOf<Vs> = Vs extends readonly Net[] ? Vs[number]['kind'] : string
type OutOf<Y> = Y extends AnyFacts ? Y['out'] : never

/** In: the facts of the values that V reads, combined. */
type ValueFacts<V extends AnyValue, Env, X extends AnyFacts, In> = string extends V['name']
  ? Misfit<'values', 'values', NotATuple>
  : V['name'] extends keyof Env
    ? Misfit<V['name'], 'value', ValueTwice>
    : In extends AnyFacts
      ? Added<V['body'], Read<X, In>, Analyse<V['body'], In['out']>>
      : In
/** The facts X behind which the combined values In stand. */
type Read<X extends AnyFacts, In extends AnyFacts> = Known<
  In['out'],
  X['ft'] & In['ft'],
  AddTally<X['sum'], In['sum']>,
  X['names']
>

/** The facts of the values that V reads, as one: their shape, and bytes if it is a new value; or a misfit. */
export type ReadBy<V extends AnyValue, Env> = V['reads'] extends string
  ? V['reads'] extends keyof Env
    ? Known<ShapeAt<Env, V['reads']>, Dim, Nothing, never>
    : Misfit<V['name'], 'value', ValueUnknown<V['reads']>>
  : Named<V['reads']> extends infer Ns
    ? Exclude<Ns[keyof Ns & `${number}`], keyof Env> extends never
      ? CombinedFacts<V['reads'], ShapesAt<Ns, Env>>
      : Misfit<V['name'], 'value', ValueUnknown<FirstUnknown<Ns, Env>>>
    : never
type Named<R> = R extends { readonly attended: infer Ns } ? Ns : R extends { readonly contracted: infer Ns } ? Ns : R[keyof R]
type ShapeAt<Env, Name> = Env[Name & keyof Env] extends infer S extends Shape ? S : never
type ShapesAt<Ns, Env> = { [I in keyof Ns]: ShapeAt<Env, Ns[I]> }
type FirstUnknown<Ns, Env> = Ns extends readonly [infer N extends string, ...infer T]
  ? N extends keyof Env
    ? FirstUnknown<T, Env>
    : N
  : string

type CombinedFacts<R, Shapes> = Shapes extends readonly [infer A extends Shape, ...infer Others]
  ? R extends { readonly added: unknown }
    ? NotEqual<A, Others> extends infer B extends Shape
      ? Misfit<'sum', 'sum', TermsDiffer<ShapeText<A>, ShapeText<B>>>
      : NewValue<A, Dim>
    : R extends { readonly joined: unknown }
      ? JoinedFacts<A, Others, A[1]>
      : Others extends readonly [infer F extends Shape]
        ? R extends { readonly attended: unknown; readonly heads: infer N extends number }
          ? AttendedFacts<N, A, F>
          : R extends { readonly contracted: unknown; readonly over: infer Over extends string }
            ? ContractedFacts<R extends { readonly groups: infer G extends number } ? G : 1, Over, A, F>
            : F extends A | [A[0], A[1], 1, 1] | [A[0], 1, A[2], A[3]]
              ? NewValue<A, Dim>
              : Misfit<'product', 'product', FactorMisfits<ShapeText<F>, ShapeText<A>>>
        : never
  : Misfit<'values', 'values', NotATuple>
type NewValue<Out extends Shape, Ft extends Dim> = Known<Out, Ft, AddOutput<Nothing, Out>, never>

/** Attention of queries Q to keys and values K. */
type AttendedFacts<N extends number, Q extends Shape, K extends Shape> =
  BadSize<[['number of heads', N, 1]]> extends infer Bad
    ? Bad extends string
      ? Misfit<'attention', 'attention', Bad>
      : [K[0], K[1], Divides<Q[1], N>] extends [Q[0], Mul<2, Q[1]>, true]
        ? HeadIsTooWide<Q[1], N> extends true
          ? Misfit<'attention', 'attention', HeadTooWide<`${Div<Q[1], N>}`>>
          : NewValue<Q, 'B'>
        : Misfit<'attention', 'attention', KeysDoNotFit<ShapeText<K>, `${N}`, ShapeText<Q>>>
    : never
type HeadIsTooWide<C extends number, N extends number> = number extends C | N
  ? false
  : Compare<Div<C, N>, 256> extends 'more'
    ? true
    : false

/** The product of A and B as matrices of G groups. */
type ContractedFacts<G extends number, Over extends string, A extends Shape, B extends Shape> =
  BadSize<[['number of groups', G, 1]]> extends infer Bad
    ? Bad extends string
      ? Misfit<'contraction', 'contraction', Bad>
      : [A[0], Divides<A[1], G>, Divides<B[1], G>] extends [B[0], true, true]
        ? MatrixProduct<G, Over, A, B, Mul<A[2], A[3]>> extends infer Out
          ? Out extends Shape
            ? NewValue<Out, 'B'>
            : Misfit<'contraction', 'contraction', MatricesDoNotFit<ShapeText<A>, ShapeText<B>, `${G}`, Over>>
          : never
        : Misfit<'contraction', 'contraction', MatricesDoNotFit<ShapeText<A>, ShapeText<B>, `${G}`, Over>>
    : never
/** The shape of a product; null if the summed axes differ. P: the pixels of A. */
type MatrixProduct<
  G extends number,
  Over extends string,
  A extends Shape,
  B extends Shape,
  P extends number,
> = Over extends 'channels'
  ? A[1] extends B[1]
    ? [A[0], Mul<G, P>, B[2], B[3]]
    : null
  : Over extends 'pixels'
    ? P extends Mul<B[2], B[3]>
      ? [A[0], A[1], 1, Div<B[1], G>]
      : null
    : B[1] extends Mul<G, P>
      ? [A[0], A[1], B[2], B[3]]
      : null

/** The first shape that is not A. */
type NotEqual<A extends Shape, Others> = Others extends readonly [infer B extends Shape, ...infer T]
  ? ShapeText<B> extends ShapeText<A>
    ? NotEqual<A, T>
    : B
  : null

/** C: the channels so far. */
type JoinedFacts<A extends Shape, Others, C extends number, Count extends unknown[] = [1]> = Others extends readonly [
  infer B extends Shape,
  ...infer T,
]
  ? [B[0], B[2], B[3]] extends [A[0], A[2], A[3]]
    ? Add<C, B[1]> extends infer Sum extends number
      ? JoinedFacts<A, T, Sum, [...Count, 1]>
      : never
    : Misfit<'concat', 'concat', BranchesDiffer<ShapeText<A>, `${[...Count, 1]['length'] & number}`, ShapeText<B>>>
  : NewValue<[A[0], C, A[2], A[3]], 'B' | 'H' | 'W'>

// ---------------------------------------------------------------- words

/** The message for a misfit; null for a net that fits. */
export type ComplaintOf<X> =
  X extends Misfit<infer At, infer K, infer R>
    ? AtLayer<At, K, R>
    : X extends Duplicate<infer N extends string>
      ? Record<never, 0> extends Record<N, 0>
        ? NamesUnknown<N>
        : DuplicateNameText<N>
      : null

export type BytesNumber<T extends AnyTally> = FromLow<AddLimbs<T['bytes'], OutputsOf<T>>>
export type ParametersNumber<T extends AnyTally> = FromLow<T['parameters']>
export type StateNumber<T extends AnyTally> = FromLow<T['state']>
