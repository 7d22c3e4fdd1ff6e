// Options that users choose, of losses and optimizers: numbers within limits, yes or no, or nothing at all. In: an entry's choices. Out: the
// attributes of the operator that they become, their limits, their defaults, and values worth trying.
import type { AnyAttrs, Field, Limit } from './op'

/** Without a default it must be given, or there is none. */
export interface Choice extends Limit {
  readonly default?: number | boolean | 'none'
  /** An option that must not be 0 where this one is chosen. */
  readonly needs?: string
  /** Whole numbers only. */
  readonly whole?: true
  /** Several of them. */
  readonly list?: true
  /** Its flag on the command line, if that is not its name. */
  readonly flag?: string
  /** For users, where the name does not say it all. */
  readonly about?: string
}
export type Choices = Readonly<Record<string, Choice>>
type Loose<C extends Choices> = { readonly [O in keyof C]: C[O] extends { readonly default: 'none' } ? O : never }[keyof C]
export type Chosen<C extends Choices> = {
  readonly [O in Exclude<keyof C, Loose<C>>]: C[O] extends { readonly default: boolean } ? boolean : number
} & { readonly [O in Loose<C>]?: (C[O] extends { readonly list: true } ? readonly number[] : number) | undefined }

export const isFlag = (c: Choice): boolean => typeof c.default === 'boolean'
export const isLoose = (c: Choice): boolean => c.default === 'none'

export type ChoiceValue = number | boolean | readonly number[]

/** The given choices, and the defaults of the others that have one. */
export const withDefaults = (choices: Choices, given: object): Readonly<Record<string, ChoiceValue>> =>
  Object.fromEntries(
    Object.entries(choices).flatMap(([name, c]) => {
      const value = (given as Readonly<Record<string, ChoiceValue>>)[name] ?? c.default!
      return value === 'none' ? [] : [[name, value] as const]
    }),
  )

/** As attributes: a flag is 0 or 1. Lists are attributes of an operator of their own. */
export const attrsOf = (choices: Choices, given: object): AnyAttrs =>
  Object.fromEntries(
    Object.entries(withDefaults(choices, given)).flatMap(([name, v]) => (choices[name]!.list ? [] : [[name, Number(v)]])),
  )

/** The choices that attributes stand for. */
export const chosenBy = (choices: Choices, attrs: AnyAttrs): Readonly<Record<string, number | boolean>> =>
  Object.fromEntries(
    Object.entries(choices)
      .filter(([name]) => attrs[name] !== undefined)
      .map(([name, c]) => [name, isFlag(c) ? attrs[name] === 1 : attrs[name]!]),
  )

export const fieldsOf = (choices: Choices): Readonly<Record<string, Field>> =>
  Object.fromEntries(Object.entries(choices).map(([name, c]) => [name, isFlag(c) ? 'int' : 'float']))

export const limitsOf = (choices: Choices): Readonly<Record<string, Limit>> =>
  Object.fromEntries(Object.entries(choices).map(([name, c]) => [name, isFlag(c) ? { least: 0, most: 1 } : c]))

/** Attributes worth trying: those that are 0 by default, in all ways. */
export const trials = (choices: Choices): readonly AnyAttrs[] =>
  Object.entries(choices).reduce<readonly AnyAttrs[]>(
    (all, [name, c]) => {
      const values = c.default === undefined ? [0.1] : c.default ? [Number(c.default)] : [0, isFlag(c) ? 1 : 0.5]
      return all.flatMap((a) => values.map((v) => ({ ...a, [name]: v })))
    },
    [{}],
  )
