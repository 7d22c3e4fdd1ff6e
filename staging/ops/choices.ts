// The users' options of losses and optimizers: numbers within limits, flags, or absent. In: an entry's choices. Out: the operator's attributes for
// them, their limits, their defaults, and values for tests.
import type { AnyAttrs, Field, Limit } from './op'

/** An option. Without a default it is required or absent. */
export interface Choice extends Limit {
  readonly default?: number | boolean | 'none'
  /** Another option that must not be 0 if this one is given. */
  readonly needs?: string
  /** Whole numbers only. */
  readonly whole?: true
  /** The option is a list of numbers. */
  readonly list?: true
  /** Its flag on the command line, if that is not its name. */
  readonly flag?: string
  /** Explanation for users, if the name alone is not clear. */
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

/** Returns the given choices with the defaults of the others. */
export const withDefaults = (choices: Choices, given: object): Readonly<Record<string, ChoiceValue>> =>
  Object.fromEntries(
    Object.entries(choices).flatMap(([name, c]) => {
      const value = (given as Readonly<Record<string, ChoiceValue>>)[name] ?? c.default!
      return value === 'none' ? [] : [[name, value] as const]
    }),
  )

/** Returns choices as attributes; a flag is 0 or 1. Lists are left out: they are attributes of another operator. */
export const attrsOf = (choices: Choices, given: object): AnyAttrs =>
  Object.fromEntries(
    Object.entries(withDefaults(choices, given)).flatMap(([name, v]) => (choices[name]!.list ? [] : [[name, Number(v)]])),
  )

/** Returns the choices of given attributes. */
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

/** Returns attributes for tests: each combination of the options whose default is 0. */
export const trials = (choices: Choices): readonly AnyAttrs[] =>
  Object.entries(choices).reduce<readonly AnyAttrs[]>(
    (all, [name, c]) => {
      const values = c.default === undefined ? [0.1] : c.default ? [Number(c.default)] : [0, isFlag(c) ? 1 : 0.5]
      return all.flatMap((a) => values.map((v) => ({ ...a, [name]: v })))
    },
    [{}],
  )
