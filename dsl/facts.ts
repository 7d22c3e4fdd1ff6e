// The type-level interpreter: what the checker knows of a net applied to an input shape, while you type.
// In: the type of a net, an input shape. Out: output shape, FT dimensions, layer names and a tally (activation bytes,
// parameters, state); or a Misfit. It folds over the syntax tree, and the checker caches it per node and shape, so equal
// blocks cost one. The run-time twin is analyse.ts. Sums are Low digit strings (numbers/), turned into numbers at the end.
import type { AtInputSize, Block, Blocks, Concat, Counted, Repeat, Residual, Scaled, Seq } from './compose'
import type { BadSize } from './layers/rule'
import type {
  AtLayer,
  BranchesDiffer,
  DuplicateNameText,
  NoBranches,
  NoFactor,
  NotATuple,
  NotLiteral,
  ShapeText,
  SumsDiffer,
} from './messages'
import type { Dim, InPlaceLayers, LayerFt, LayerParameters, LayerShapes, LayerState, LayerSums, Net, Shape } from './net'
import type { Add, AddLow, FromLow, Low, Mul, MulLow } from './numbers/naturals'

/** What is known of a net at an input shape. */
export interface Facts<Out extends Shape, Ft extends Dim, Sum extends Tally<any, any, any>, Names extends string> {
  out: Out
  ft: Ft
  sum: Sum
  names: Names
}
/** What adds up over layers: bytes of their outputs, numbers that they train, numbers that they keep (running statistics). */
export interface Tally<Bytes extends string, Parameters extends string, State extends string> {
  bytes: Bytes
  parameters: Parameters
  state: State
}
/** What is wrong with it, and where. */
export interface Misfit<At extends string, Kind extends string, Reason extends string> {
  at: At
  kind: Kind
  reason: Reason
}
export interface Duplicate<Name extends string> {
  duplicate: Name
}

export type Analyse<N extends Net, S extends Shape> = N['kind'] extends keyof LayerShapes<any, any>
  ? AnalyseLayer<N, S, LayerShapes<N, S>[N['kind']]>
  : N['kind'] extends keyof Compositions<any, any>
    ? Compositions<N, S>[N['kind']]
    : Misfit<N['kind'], N['kind'], NotATuple>

interface Compositions<N, S extends Shape> {
  seq: N extends Seq<infer Ls> ? Line<Ls, S> : never
  block: N extends Block<infer P, infer B> ? Scoped<P, Analyse<B, S>> : never
  blocks: N extends Blocks<infer P, infer Ls> ? Scoped<P, Line<Numbered<Ls>, S>> : never
  counted: N extends Counted<infer P, infer F, infer Ls> ? CountedLine<P, F, Ls, S> : never
  repeat: N extends Repeat<infer T, any> ? Repeated<T, N, S> : never
  residual: N extends Residual<infer B, infer C> ? Sum<Analyse<B, S>, Analyse<C, S>> : never
  scaled: N extends Scaled<infer B> ? Product<Analyse<B, S>, S> : never
  atInputSize: N extends AtInputSize<infer B> ? Resized<Analyse<B, S>, S> : never
  concat: N extends Concat<infer Bs>
    ? Bs extends readonly [infer H extends Net, ...infer T]
      ? Join<T, S, Analyse<H, S>>
      : Misfit<'concat', 'concat', NoBranches>
    : never
}

// ---------------------------------------------------------------- layers

export type NameOf<N> = N extends { readonly name: infer L extends string; readonly kind: infer K extends string }
  ? L extends ''
    ? K
    : L
  : never
type OwnName<N> = N extends { readonly name: infer L extends string } ? (L extends '' ? never : L) : never

/** Bytes of a value in 32-bit floats. */
export type BytesOf<S extends Shape> = MulLow<MulLow<MulLow<Low<S[2]>, `${S[3]}`>, `${S[1]}`>, `${Mul<S[0], 4>}`>

type AnalyseLayer<N extends Net, S extends Shape, Out> = Out extends Shape
  ? number extends Out[0] | Out[1] | Out[2] | Out[3]
    ? Misfit<NameOf<N>, N['kind'], NotLiteral>
    : Facts<Out, FtOf<N>, LayerTally<N, S, Out>, OwnName<N>>
  : Out extends string
    ? Misfit<NameOf<N>, N['kind'], Out>
    : never

type LayerTally<N extends Net, S extends Shape, Out extends Shape> = Tally<
  N['kind'] extends keyof InPlaceLayers ? '0' : BytesOf<Out>,
  ParametersOf<N, S>,
  N['kind'] extends keyof LayerState<any, any> ? LayerState<N, S>[N['kind']] : '0'
>

// ---------------------------------------------------------------- tallies

type Nothing = Tally<'0', '0', '0'>
type Plus<A extends string, B extends string> = B extends '0' ? A : A extends '0' ? B : AddLow<A, B>
type AddTally<A, B> =
  A extends Tally<infer b, infer p, infer s>
    ? B extends Tally<infer b2, infer p2, infer s2>
      ? Tally<Plus<b, b2>, Plus<p, p2>, Plus<s, s2>>
      : never
    : never
/** Adds what a join of branches writes. */
type AddOutput<A, Out extends Shape> = A extends Tally<infer b, infer p, infer s> ? Tally<Plus<b, BytesOf<Out>>, p, s> : never

export type ParametersOf<N extends Net, S extends Shape> = N['kind'] extends keyof LayerParameters<any, any>
  ? LayerParameters<N, S>[N['kind']]
  : '0'
export type SumsOf<N extends Net> = N['kind'] extends keyof LayerSums<any> ? LayerSums<N>[N['kind']] : never
export type FtOf<N extends Net> = LayerFt<N>[N['kind'] & keyof LayerFt<any>] & Dim

// ---------------------------------------------------------------- one after the other

type Line<
  Ls,
  S extends Shape,
  Ft extends Dim = Dim,
  Sum extends Tally<any, any, any> = Nothing,
  Names extends string = never,
> = Ls extends readonly Net[]
  ? number extends Ls['length']
    ? Misfit<'seq', 'seq', NotATuple>
    : Ls extends readonly [infer H extends Net, ...infer T]
      ? Analyse<H, S> extends infer X
        ? X extends Facts<infer O, infer F, infer A, infer N>
          ? [N & Names] extends [never]
            ? Line<T, O, Ft & F, AddTally<Sum, A>, Names | N>
            : Duplicate<N & Names>
          : X
        : never
      : Facts<S, Ft, Sum, Names>
  : never

// ---------------------------------------------------------------- scopes

type Scoped<P extends string, X> =
  X extends Facts<infer O, infer F, infer A, infer N>
    ? Facts<O, F, A, `${P}.${N}`>
    : X extends Misfit<infer At, infer K, infer R>
      ? Misfit<`${P}.${At}`, K, R>
      : X extends Duplicate<infer N>
        ? Duplicate<`${P}.${N}`>
        : never

export type Copies<T extends number, B, Acc extends readonly B[] = []> = Acc['length'] extends T ? Acc : Copies<T, B, [...Acc, B]>

/** Gives each item its numbered scope, '<stem><number>'; repeats are spread out first. Count is as long as the next number. */
export type Numbered<
  Ls,
  Stem extends string = '',
  Count extends readonly unknown[] = [],
  Acc extends readonly Net[] = [],
> = Ls extends readonly [infer H extends Net, ...infer T]
  ? H extends Repeat<infer N, infer B>
    ? RepeatError<N> extends null
      ? Numbered<[...Copies<N, B>, ...T], Stem, Count, Acc>
      : [H]
    : Numbered<T, Stem, [...Count, 0], [...Acc, Block<`${Stem}${Count['length'] & number}`, H>]>
  : Ls extends readonly []
    ? Acc
    : readonly Net[]

type CountError<F extends number> = number extends F ? NotATuple : BadSize<[['first number', F, 0]]>
type CountedLine<P extends string, F extends number, Ls, S extends Shape> =
  CountError<F> extends infer R extends string ? Misfit<'counted', 'counted', R> : Line<Numbered<Ls, P, Copies<F, 0>>, S>

type RepeatError<T extends number> = number extends T ? NotATuple : BadSize<[['number of copies', T, 1]]>
type Repeated<T extends number, N, S extends Shape> =
  RepeatError<T> extends infer R extends string ? Misfit<'repeat', 'repeat', R> : Line<Numbered<[N]>, S>

// ---------------------------------------------------------------- branches

type Sum<X, Y> =
  X extends Facts<infer O, infer F, infer A, infer N>
    ? Y extends Facts<infer O2, infer F2, infer A2, infer N2>
      ? [N & N2] extends [never]
        ? O extends O2
          ? Facts<O, F & F2, AddOutput<AddTally<A, A2>, O>, N | N2>
          : Misfit<'residual', 'residual', SumsDiffer<ShapeText<O>, ShapeText<O2>>>
        : Duplicate<N & N2>
      : Y
    : X

type Product<X, S extends Shape> =
  X extends Facts<infer O, infer F, infer A, infer N>
    ? O extends S | [S[0], S[1], 1, 1] | [S[0], 1, S[2], S[3]]
      ? Facts<S, F, AddOutput<A, S>, N>
      : Misfit<'scaled', 'scaled', NoFactor<ShapeText<O>, ShapeText<S>>>
    : X

/** Joins the remaining branches to what the first ones gave; X holds their channels so far. */
type Join<Bs, S extends Shape, X, First = X, Count extends unknown[] = [1]> =
  X extends Facts<infer O, infer F, infer A, infer N>
    ? Bs extends readonly [infer H extends Net, ...infer T]
      ? Analyse<H, S> extends infer Y
        ? Y extends Facts<infer O2, infer F2, infer A2, infer N2>
          ? [N & N2] extends [never]
            ? [O[0], O[2], O[3]] extends [O2[0], O2[2], O2[3]]
              ? // A tuple that mentions an alias is kept deferred, and copied with everything that holds it.
                Add<O[1], O2[1]> extends infer C extends number
                ? Join<T, S, Facts<[O[0], C, O[2], O[3]], F & F2, AddTally<A, A2>, N | N2>, First, [...Count, 1]>
                : never
              : First extends Facts<infer O1, any, any, any>
                ? Misfit<'concat', 'concat', BranchesDiffer<ShapeText<O1>, `${[...Count, 1]['length'] & number}`, ShapeText<O2>>>
                : never
            : Duplicate<N & N2>
          : Y
        : never
      : Bs extends readonly []
        ? Facts<O, F & ('B' | 'H' | 'W'), AddOutput<A, O>, N>
        : Misfit<'concat', 'concat', NotATuple>
    : X

type Resized<X, S extends Shape> =
  X extends Facts<infer O, infer F, infer A, infer N>
    ? ResizedShape<O, S> extends infer Z extends Shape
      ? Facts<Z, F, AddOutput<A, Z>, N>
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

// ---------------------------------------------------------------- words

/** The message for a misfit; null for a net that fits. */
export type ComplaintOf<X> =
  X extends Misfit<infer At, infer K, infer R> ? AtLayer<At, K, R> : X extends Duplicate<infer N> ? DuplicateNameText<N> : null

export type BytesNumber<T> = T extends Tally<infer Bytes, any, any> ? FromLow<Bytes> : never
export type ParametersNumber<T> = T extends Tally<any, infer Parameters, any> ? FromLow<Parameters> : never
export type StateNumber<T> = T extends Tally<any, any, infer State> ? FromLow<State> : never

// ---------------------------------------------------------------- one layer, by its full name

/** What is known of one layer: the facts that an editor shows. */
export interface LayerFacts<
  Name extends string = string,
  In extends Shape = Shape,
  Out extends Shape = Shape,
  Ft extends Dim = Dim,
  Bytes extends number = number,
> {
  readonly name: Name
  readonly input: In
  readonly output: Out
  readonly ft: readonly Ft[]
  /** Bytes of its output, in 32-bit floats. */
  readonly bytes: Bytes
}

type Seek<N extends Net, S extends Shape, Path extends string, Full extends string> =
  N extends Seq<infer Ls>
    ? SeekLine<Ls, S, Path, Full>
    : N extends Block<infer P, infer B>
      ? Path extends `${P}.${infer Rest}`
        ? Seek<B, S, Rest, Full>
        : never
      : N extends Blocks<infer P, infer Ls>
        ? Path extends `${P}.${infer Rest}`
          ? SeekLine<Numbered<Ls>, S, Rest, Full>
          : never
        : N extends Counted<infer P, infer F, infer Ls>
          ? SeekLine<Numbered<Ls, P, Copies<F, 0>>, S, Path, Full>
          : N extends Repeat<any, any>
            ? SeekLine<Numbered<[N]>, S, Path, Full>
            : N extends AtInputSize<infer B> | Scaled<infer B>
              ? Seek<B, S, Path, Full>
              : N extends Residual<infer B, infer C>
                ? SeekAny<[B, C], S, Path, Full>
                : N extends Concat<infer Bs>
                  ? SeekAny<Bs, S, Path, Full>
                  : Path extends OwnName<N>
                    ? LayerShapes<N, S>[N['kind'] & keyof LayerShapes<any, any>] extends infer O extends Shape
                      ? LayerFacts<Full, S, O, FtOf<N>, FromLow<BytesOf<O>>>
                      : never
                    : never

type SeekLine<Ls, S extends Shape, Path extends string, Full extends string> = Ls extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? Analyse<H, S> extends Facts<infer O, any, any, infer N>
    ? Path extends N
      ? Seek<H, S, Path, Full>
      : SeekLine<T, O, Path, Full>
    : never
  : never
type SeekAny<Bs, S extends Shape, Path extends string, Full extends string> = Bs extends readonly [
  infer H extends Net,
  ...infer T,
]
  ? Analyse<H, S> extends Facts<any, any, any, infer N>
    ? Path extends N
      ? Seek<H, S, Path, Full>
      : SeekAny<T, S, Path, Full>
    : never
  : never

export type FactsOf<N extends Net, S extends Shape, Name extends string> = Seek<N, S, Name, Name>
