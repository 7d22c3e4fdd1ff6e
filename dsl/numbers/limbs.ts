// Sums and products of many numbers, as types: a net has thousands. A number is a chain of Limbs, four digits each, the least significant first; null
// is 0. Digits are looked up and not inferred: each `infer` makes TypeScript 5.9 drop its cache at every level above, which costs more than the sum.
// Worked example: LimbsOf<'54321'> is Limb<'5', '4', '3', '2', Limb<'1', '0', '0', '0', null>>, which is 12345.
import type { Orders, ProductCarries, ProductDigits, SumCarries, SumDigits } from './tables'

/** Four digits, and the limb above them. */
export interface Limb<A extends string, B extends string, C extends string, D extends string, Up> {
  a: A
  b: B
  c: C
  d: D
  up: Up
}
type AnyLimb = Limb<string, string, string, string, unknown>
/** The same, made at once: a type that names others within it is put off, and copied with all that holds it. */
type Four<A extends string, B extends string, C extends string, D extends string, Up> = 0 extends 0 ? Limb<A, B, C, D, Up> : never

/** The limbs of a digit string, the least significant digit first. */
export type LimbsOf<L extends string> = L extends `${infer a}${infer b}${infer c}${infer d}${infer Up}`
  ? Four<a, b, c, d, Up extends '' ? null : LimbsOf<Up>>
  : L extends '' | '0'
    ? null
    : `${L}000` extends `${infer a}${infer b}${infer c}${infer d}${string}`
      ? Four<a, b, c, d, null>
      : null

/** As a digit string with the most significant digit first, and zeros before it. */
export type LimbText<L, Text extends string = ''> = L extends AnyLimb
  ? LimbText<L['up'], `${L['d']}${L['c']}${L['b']}${L['a']}${Text}`>
  : Text

/** How X compares with Y: the highest limbs count first. */
export type CompareLimbs<X, Y> = X extends AnyLimb
  ? Y extends AnyLimb
    ? CompareLimbs<X['up'], Y['up']> extends 'equal'
      ? First<
          [Orders[`${X['d']}${Y['d']}`], Orders[`${X['c']}${Y['c']}`], Orders[`${X['b']}${Y['b']}`], Orders[`${X['a']}${Y['a']}`]]
        >
      : CompareLimbs<X['up'], Y['up']>
    : 'more'
  : Y extends AnyLimb
    ? 'less'
    : 'equal'
type First<Os extends readonly string[]> = Os[0] extends 'equal'
  ? Os[1] extends 'equal'
    ? Os[2] extends 'equal'
      ? Os[3]
      : Os[2]
    : Os[1]
  : Os[0]

/** The carry. */
type Over<C extends string> = C extends '0' ? null : Four<C, '0', '0', '0', null>

// ---------------------------------------------------------------- sums

type SumDigit<C extends string, A extends string, B extends string> = SumDigits[`${C}${A}${B}`]
type SumCarry<C extends string, A extends string, B extends string> = SumCarries[`${C}${A}${B}`]
type SumB<C extends string, X extends AnyLimb, Y extends AnyLimb> = SumCarry<C, X['a'], Y['a']>
type SumC<C extends string, X extends AnyLimb, Y extends AnyLimb> = SumCarry<SumB<C, X, Y>, X['b'], Y['b']>
type SumD<C extends string, X extends AnyLimb, Y extends AnyLimb> = SumCarry<SumC<C, X, Y>, X['c'], Y['c']>
type SumUp<C extends string, X extends AnyLimb, Y extends AnyLimb> = SumCarry<SumD<C, X, Y>, X['d'], Y['d']>
type Zero = Limb<'0', '0', '0', '0', null>

export type AddLimbs<X, Y, C extends string = '0'> = X extends AnyLimb
  ? Y extends AnyLimb
    ? Four<
        SumDigit<C, X['a'], Y['a']>,
        SumDigit<SumB<C, X, Y>, X['b'], Y['b']>,
        SumDigit<SumC<C, X, Y>, X['c'], Y['c']>,
        SumDigit<SumD<C, X, Y>, X['d'], Y['d']>,
        AddLimbs<X['up'], Y['up'], SumUp<C, X, Y>>
      >
    : C extends '0'
      ? X
      : AddLimbs<X, Zero, C>
  : Y extends AnyLimb
    ? C extends '0'
      ? Y
      : AddLimbs<Zero, Y, C>
    : Over<C>

// ---------------------------------------------------------------- products

type Digit<C extends string, A extends string, B extends string> = ProductDigits[`${C}${A}${B}`]
type Carry<C extends string, A extends string, B extends string> = ProductCarries[`${C}${A}${B}`]
type CarryB<C extends string, X extends AnyLimb, Y extends string> = Carry<C, X['a'], Y>
type CarryC<C extends string, X extends AnyLimb, Y extends string> = Carry<CarryB<C, X, Y>, X['b'], Y>
type CarryD<C extends string, X extends AnyLimb, Y extends string> = Carry<CarryC<C, X, Y>, X['c'], Y>
type CarryUp<C extends string, X extends AnyLimb, Y extends string> = Carry<CarryD<C, X, Y>, X['d'], Y>

type TimesDigit<X, Y extends string, C extends string = '0'> = X extends AnyLimb
  ? Four<
      Digit<C, X['a'], Y>,
      Digit<CarryB<C, X, Y>, X['b'], Y>,
      Digit<CarryC<C, X, Y>, X['c'], Y>,
      Digit<CarryD<C, X, Y>, X['d'], Y>,
      TimesDigit<X['up'], Y, CarryUp<C, X, Y>>
    >
  : Over<C>
type TimesTen<X, C extends string = '0'> = X extends AnyLimb
  ? Four<C, X['a'], X['b'], X['c'], TimesTen<X['up'], X['d']>>
  : Over<C>

/** Limbs times a digit string that has the most significant digit first. */
export type MulLimbs<X, Y extends string, Acc = null> = Y extends `${infer y}${infer Rest}`
  ? MulLimbs<X, Rest, y extends '0' ? TimesTen<Acc> : AddLimbs<TimesTen<Acc>, y extends '1' ? X : TimesDigit<X, y>>>
  : Acc
