// Exact arithmetic on number literals, as types: sums, products, quotients and comparisons up to 2^53.
// In: number literal types. Out: number literal types, 'negative' for a difference below zero.
// Numbers travel as digit strings: `Low` strings have the least significant digit first, plain ones the most significant.
// Worked example: 57 + 68: Low strings '75' and '86'; Sums['078'] = '51', Sums['156'] = '21'; then carry 1: '521' = 125.
import type { Differences, Orders, Products, Quotients, Sums } from './tables'

// ---------------------------------------------------------------- digit strings

export type Reverse<S extends string, Acc extends string = ''> = S extends `${infer h}${infer t}` ? Reverse<t, `${h}${Acc}`> : Acc
export type Low<N extends number> = Reverse<`${N}`>
export type Trim<S extends string> = S extends '0' ? S : S extends `0${infer R}` ? Trim<R> : S
export type FromLow<S extends string> = ToNumber<Trim<Reverse<S>>>
export type ToNumber<S extends string> = S extends `${infer N extends number}` ? N : never

// ---------------------------------------------------------------- on Low strings

export type AddLow<
  A extends string,
  B extends string,
  Carry extends string = '0',
  R extends string = '',
> = A extends `${infer a}${infer At}`
  ? B extends `${infer b}${infer Bt}`
    ? Sums[`${Carry}${a}${b}`] extends `${infer d}${infer c}`
      ? AddLow<At, Bt, c, `${R}${d}`>
      : never
    : AddCarry<A, Carry, R>
  : AddCarry<B, Carry, R>
type AddCarry<A extends string, Carry extends string, R extends string> = Carry extends '0'
  ? `${R}${A}`
  : A extends `${infer a}${infer At}`
    ? Sums[`1${a}0`] extends `${infer d}${infer c}`
      ? AddCarry<At, c, `${R}${d}`>
      : never
    : `${R}1`

type SubLow<
  A extends string,
  B extends string,
  Borrow extends string = '0',
  R extends string = '',
> = A extends `${infer a}${infer At}`
  ? B extends `${infer b}${infer Bt}`
    ? Differences[`${Borrow}${a}${b}`] extends `${infer d}${infer c}`
      ? SubLow<At, Bt, c, `${R}${d}`>
      : never
    : Borrow extends '0'
      ? `${R}${A}`
      : Differences[`1${a}0`] extends `${infer d}${infer c}`
        ? SubLow<At, '', c, `${R}${d}`>
        : never
  : B extends ''
    ? Borrow extends '0'
      ? R
      : 'negative'
    : 'negative'

type TimesDigit<
  X extends string,
  d extends string,
  Carry extends string = '0',
  R extends string = '',
> = X extends `${infer x}${infer Xt}`
  ? Products[`${Carry}${d}${x}`] extends `${infer e}${infer c}`
    ? TimesDigit<Xt, d, c, `${R}${e}`>
    : never
  : Carry extends '0'
    ? R
    : `${R}${Carry}`
type TimesTen<X extends string> = X extends '' ? '' : `0${X}`

/** X is a Low string, Y a plain one; the product is a Low string. */
export type MulLow<X extends string, Y extends string, Acc extends string = ''> = Y extends `${infer y}${infer Yt}`
  ? y extends '0'
    ? MulLow<X, Yt, TimesTen<Acc>>
    : y extends '1'
      ? MulLow<X, Yt, AddLow<TimesTen<Acc>, X>>
      : MulLow<X, Yt, AddLow<TimesTen<Acc>, TimesDigit<X, y>>>
  : Acc extends ''
    ? '0'
    : Acc

// ---------------------------------------------------------------- on plain strings

export type CompareDigits<A extends string, B extends string, R extends string = 'equal'> = A extends `${infer a}${infer At}`
  ? B extends `${infer b}${infer Bt}`
    ? CompareDigits<At, Bt, R extends 'equal' ? Orders[`${a}${b}`] : R>
    : 'more'
  : B extends ''
    ? R
    : 'less'

type DivideBySmall<
  A extends string,
  T extends { [k: string]: string },
  r extends string = '0',
  Q extends string = '',
> = A extends `${infer a}${infer At}`
  ? T[`${r}${a}`] extends `${infer q}${infer r2}`
    ? DivideBySmall<At, T, r2, `${Q}${q}`>
    : never
  : [Trim<Q>, r]

interface Next {
  [k: string]: string
  '0': '1'
  '1': '2'
  '2': '3'
  '3': '4'
  '4': '5'
  '5': '6'
  '6': '7'
  '7': '8'
  '8': '9'
}
type DivideStep<R extends string, D extends string, q extends string = '0'> =
  CompareDigits<R, D> extends 'less' ? [q, R] : DivideStep<Trim<Reverse<SubLow<Reverse<R>, Reverse<D>>>>, D, Next[q]>
type DivideLong<
  A extends string,
  D extends string,
  R extends string = '0',
  Q extends string = '',
> = A extends `${infer a}${infer At}`
  ? DivideStep<Trim<`${R}${a}`>, D> extends [infer q extends string, infer r extends string]
    ? DivideLong<At, D, r, `${Q}${q}`>
    : never
  : [Trim<Q>, R]

// ---------------------------------------------------------------- on numbers

/** Quotient and remainder, as digit strings. */
export type DivMod<A extends number, D extends number> = D extends 1
  ? [`${A}`, '0']
  : `${D}` extends keyof Quotients
    ? DivideBySmall<`${A}`, Quotients[`${D}`]>
    : DivideLong<`${A}`, `${D}`>

export type Add<A extends number, B extends number> = A extends 0 ? B : B extends 0 ? A : FromLow<AddLow<Low<A>, Low<B>>>
export type Sub<A extends number, B extends number> = B extends 0
  ? A
  : SubLow<Low<A>, Low<B>> extends infer R extends string
    ? R extends 'negative'
      ? R
      : FromLow<R>
    : never
export type Mul<A extends number, B extends number> = A extends 0 | 1
  ? A extends 0
    ? 0
    : B
  : B extends 0 | 1
    ? B extends 0
      ? 0
      : A
    : FromLow<MulLow<Low<A>, `${B}`>>
export type Div<A extends number, D extends number> = D extends 1
  ? A
  : DivMod<A, D> extends [infer Q extends string, string]
    ? ToNumber<Q>
    : never
export type Mod<A extends number, D extends number> = DivMod<A, D> extends [string, infer R extends string] ? ToNumber<R> : never
export type CeilDiv<A extends number, D extends number> = D extends 1
  ? A
  : DivMod<A, D> extends [infer Q extends string, infer R]
    ? R extends '0'
      ? ToNumber<Q>
      : Add<ToNumber<Q>, 1>
    : never
export type Compare<A extends number, B extends number> = CompareDigits<`${A}`, `${B}`>

/** Whether N, a literal, is a whole number; `number` passes, for it may be one. */
export type IsWhole<N extends number> = number extends N
  ? true
  : `${N}` extends `-${string}` | `${string}.${string}` | `${string}e${string}`
    ? false
    : true
export type IsOdd<N extends number> = `${N}` extends `${string}${'1' | '3' | '5' | '7' | '9'}` ? true : false
