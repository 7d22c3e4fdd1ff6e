// Values of options from outside, on io-ts. In: any value. Out: true if an option may have it; the name of a codec lists the allowed values.
// Invariant: a codec accepts every value that the option's type allows. Ranges and names that later code refuses in its own words pass here.
import * as t from 'io-ts'
import type { Options } from './options'

export type Legal = t.Type<unknown, unknown, unknown>

export const legal = (name: string, is: (u: unknown) => boolean): Legal =>
  new t.Type<unknown, unknown, unknown>(
    name,
    (u): u is unknown => is(u),
    (u, c) => (is(u) ? t.success(u) : t.failure(u, c)),
    t.identity,
  )

const isText = (u: unknown): u is string => typeof u === 'string' && u !== ''
const isObject = (u: unknown): u is object => typeof u === 'object' && u !== null && !Array.isArray(u)

export const text = legal('a text that is not empty', isText)
export const path = legal('a path', isText)
export const flag = legal('true, false', (u) => typeof u === 'boolean')
export const callable = legal('a function', (u) => typeof u === 'function')
/** One of these values. */
export const choice = (values: readonly unknown[]): Legal => legal(values.join(', '), (u) => values.includes(u))
/** A name; later code refuses an unknown one with the nearest names. */
export const named = (names: readonly string[]): Legal => legal(names.join(', '), isText)
export const atLeast = (least: number): Legal =>
  legal(`whole numbers of at least ${least}`, (u) => Number.isSafeInteger(u) && Number(u) >= least)
export const aboveZero = legal('numbers above 0', (u) => typeof u === 'number' && u > 0 && u < Number.POSITIVE_INFINITY)
/** A number whose range later code checks; `name` states the range. */
export const numeric = (name: string): Legal => legal(name, (u) => typeof u === 'number')
export const bytes = numeric('a whole number of bytes')
/** A text or a list of texts, which later code may refuse if it is empty. */
export const texts = legal('a string or a list of strings', (u) =>
  (Array.isArray(u) ? u : [u]).every((one) => typeof one === 'string'),
)
export const listOf = (name: string, is: (u: unknown) => boolean): Legal => legal(name, (u) => Array.isArray(u) && u.every(is))
/** An object, or one of these names. */
export const made = (name: string, isNamed = false): Legal => legal(name, (u) => isObject(u) || (isNamed && isText(u)))
export const either = (name: string, ...of: readonly Legal[]): Legal => legal(name, (u) => of.some((one) => one.is(u)))
export const signal = legal('an AbortSignal', (u) => isObject(u) && 'aborted' in u && 'addEventListener' in u)

/** Options whose values are checked, too: `values` has a codec for each key, and `prefix` begins each message. */
export interface Valued {
  readonly prefix: string
  readonly values: Readonly<Record<string, Legal>>
  /** Keys that must be given. */
  readonly required: readonly string[]
}

export const withValues = <O extends Options>(
  options: O,
  values: Readonly<Record<O['keys'][number], Legal>>,
  { prefix = '', required = [] }: { readonly prefix?: string; readonly required?: readonly O['keys'][number][] } = {},
): O & Valued => ({ ...options, values, prefix, required })

const LONGEST = 60
/** A value, for a message. */
export const valueText = (u: unknown): string => {
  if (typeof u === 'function') return 'a function'
  if (typeof u === 'string') return `'${u.slice(0, LONGEST)}'`
  if (typeof u !== 'object' || u === null) return String(u)
  try {
    return JSON.stringify(u).slice(0, LONGEST)
  } catch {
    return 'an object'
  }
}

const OMITTED = 'a value, or none for the default'
/** The first value that is not allowed, in words. No option may be null. */
export const oddValue = (
  given: object,
  { prefix, values, required }: Valued,
): { readonly option: string; readonly got: string; readonly legal: string } | undefined => {
  const of = given as Readonly<Record<string, unknown>>
  const isOdd = (key: string): boolean =>
    of[key] === undefined ? required.includes(key) : of[key] === null || values[key]?.is(of[key]) === false
  const odd = [...Object.keys(values), ...Object.keys(of)].find(isOdd)
  return odd === undefined
    ? undefined
    : { option: `${prefix}${odd}`, got: valueText(of[odd]), legal: values[odd]?.name ?? OMITTED }
}
