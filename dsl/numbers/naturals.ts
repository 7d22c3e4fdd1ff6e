// Exact arithmetic on number literals, as types: sums, products, quotients and comparisons up to 2^53.
// In: number literal types. Out: number literal types, 'negative' for a difference below zero.
// Numbers travel as digit strings, the most significant digit first, and, where many are added up, as `Low` ones (limbs.ts).
// Worked example: 57 + 68 by limbs: SumDigits['078'] = '5', SumCarries['078'] = '1'; SumDigits['156'] = '2', SumCarries['156'] = '1': 125.
import type { AddLimbs, LimbsOf, LimbText, MulLimbs } from './limbs'
import type { Differences, Orders, Quotients } from './tables'

// ---------------------------------------------------------------- digit strings

export type Reverse<S extends string, Acc extends string = ''> = S extends `${infer h}${infer t}` ? Reverse<t, `${h}${Acc}`> : Acc
export type Trim<S extends string> = S extends '0' ? S : S extends `0${infer R}` ? Trim<R> : S
export type ToNumber<S extends string> = S extends `${infer N extends number}` ? N : never

// ---------------------------------------------------------------- on limbs

export type Low<N extends number> = LimbsOf<Reverse<`${N}`>>
export type FromLow<L> = L extends null ? 0 : ToNumber<Trim<LimbText<L>>>

// ---------------------------------------------------------------- on strings that have the least significant digit first

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

export type Add<A extends number, B extends number> = A extends 0 ? B : B extends 0 ? A : FromLow<AddLimbs<Low<A>, Low<B>>>
export type Sub<A extends number, B extends number> = B extends 0
  ? A
  : SubLow<Reverse<`${A}`>, Reverse<`${B}`>> extends infer R extends string
    ? R extends 'negative'
      ? R
      : ToNumber<Trim<Reverse<R>>>
    : never
export type Mul<A extends number, B extends number> = A extends 0 | 1
  ? A extends 0
    ? 0
    : B
  : B extends 0 | 1
    ? B extends 0
      ? 0
      : A
    : FromLow<MulLimbs<Low<A>, `${B}`>>
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

/** The digit after a digit, from none to 0 again: counts the places of a tuple without a tuple for each. */
export interface NextDigit {
  '': '1'
  '0': '1'
  '1': '2'
  '2': '3'
  '3': '4'
  '4': '5'
  '5': '6'
  '6': '7'
  '7': '8'
  '8': '9'
  '9': '0'
}

/** True if N, a literal, is a whole number; `number` passes, for it may be one. */
export type IsWhole<N extends number> = number extends N
  ? true
  : `${N}` extends `-${string}` | `${string}.${string}` | `${string}e${string}`
    ? false
    : true
export type IsOdd<N extends number> = `${N}` extends `${string}${'1' | '3' | '5' | '7' | '9'}` ? true : false
/** A result that is kept: the compiler keeps none of a branch that is itself a conditional type, but does of an argument. */
export type Kept<X> = X extends null ? null : X
