// Refuses unknown options, in the same words while typing and at run time. In: the owner of the options, their legal keys, the given options. Out:
// the first unknown key, and the nearest legal one. Invariant: a legal key is near if it differs in case alone, then by one edit, then if one of the
// two begins with the other; the types and the functions here follow each other line by line. Worked example: for sgd, `momentun` is one edit from
// `momentum`; for a tile range, `height` begins with `h`, which is `H` in another case.
import type { Answers, OrFaulty } from './orwords'

/** The owner of options, as messages name it, and its keys in the order of messages. */
export interface Options<Of extends string = string, Keys extends readonly string[] = readonly string[], All = object> {
  readonly of: Of
  readonly keys: Keys
  /** The interface of the options, for their texts; no value has it. */
  readonly all?: All
}

/** All keys of O, and no others. */
export const optionsFor =
  <O>() =>
  <const Of extends string, const Keys extends readonly (keyof O & string)[]>(
    of: Of,
    ...keys: [keyof O] extends [Keys[number]] ? Keys : readonly Exclude<keyof O, Keys[number]>[]
  ): Options<Of, Keys, O> => ({ of, keys: keys as unknown as Keys })

// ---------------------------------------------------------------- words

export const unknownOption = <Key extends string, Of extends string, Near extends string>(key: Key, of: Of, near: Near) =>
  `\`${key}\` is not an option of ${of}; did you mean \`${near}\`?` as const
type UnknownOption<Key extends string, Of extends string, Near extends string> = ReturnType<typeof unknownOption<Key, Of, Near>>

export const noSuchOption = <Key extends string, Of extends string, Legal extends string>(key: Key, of: Of, legal: Legal) =>
  `\`${key}\` is not an option of ${of}; allowed: ${legal}` as const
type NoSuchOption<Key extends string, Of extends string, Legal extends string> = ReturnType<typeof noSuchOption<Key, Of, Legal>>

// ---------------------------------------------------------------- while typing

/** The options as they are given, with words in the place of unknown keys. Faulty has words in the place of another fault, or is null. */
export type Known<O, Legal extends Options, Faulty = null> = OrFaulty<
  O,
  [UnknownKeys<O, Legal>] extends [never]
    ? Faulty
    : { [K in keyof O]: K extends Legal['keys'][number] ? O[K] : OptionRefused<K & string, Legal> },
  Shown<O, Legal>
>
/**
 * The options with their texts, which an editor shows where an option is given. It shows the text of a property with one declaration. So a literal,
 * whose type has been checked, has the properties of the interface alone. A type with optional properties is none of a literal. The choice of `any`
 * leaves options of a type parameter as they are.
 */
type Shown<O, Legal> = Answers<
  InterfaceOf<Legal>,
  O & (TextsOf<Legal> | undefined)
  // biome-ignore lint/suspicious/noExplicitAny: the branch that TypeScript leaves out
>[[OptionalIn<O> | Extract<O, undefined>] extends [never] ? any : 'fits']
type OptionalIn<O> = { [K in keyof O]-?: object extends Pick<O, K> ? K : never }[keyof O]
type InterfaceOf<Legal> = Legal extends { readonly all?: infer All } ? NonNullable<All> : unknown
/** The texts without types: they restrict nothing. */
type TextsOf<Legal> = { readonly [K in keyof InterfaceOf<Legal>]?: unknown }
/** A list of options, each of them as `Known` has it. */
export type KnownItems<Items, Legal extends Options> = { readonly [I in keyof Items]: Known<Items[I], Legal> }
/**
 * Joins the type of options with several inferred types: nothing, or words in place of unknown keys. O has only the keys of the given options; other
 * faults are reported by the type itself.
 */
export type Strays<O, Legal extends Options> = [UnknownKeys<O, Legal>] extends [never]
  ? unknown
  : { readonly [K in keyof O]: K extends Legal['keys'][number] ? unknown : OptionRefused<K & string, Legal> }
/** The keys that are none; of a union, those of each. */
export type UnknownKeys<O, Legal extends Options> = O extends unknown ? Exclude<keyof O, Legal['keys'][number]> : never

export type OptionRefused<Key extends string, Legal extends Options> =
  // One by one, where there are several.
  Key extends string
    ? NearestIn<Key, Legal['keys']> extends infer Near extends string
      ? UnknownOption<Key, Legal['of'], Near>
      : NoSuchOption<Key, Legal['of'], Listing<Legal['keys']>>
    : never

type Listing<Keys, Text extends string = ''> = Keys extends readonly [infer K extends string, ...infer Rest]
  ? Listing<Rest, Text extends '' ? `\`${K}\`` : `${Text}, \`${K}\``>
  : Text

type NearestIn<Key extends string, Keys> =
  FirstAlike<Lowercase<Key>, Keys> extends infer A extends string
    ? A
    : FirstEdited<Lowercase<Key>, Keys> extends infer E extends string
      ? E
      : FirstBegun<Lowercase<Key>, Keys>
type FirstAlike<A extends string, Keys> = Keys extends readonly [infer K extends string, ...infer Rest]
  ? A extends Lowercase<K>
    ? K
    : FirstAlike<A, Rest>
  : null
type FirstEdited<A extends string, Keys> = Keys extends readonly [infer K extends string, ...infer Rest]
  ? IsEdit<A, Lowercase<K>> extends true
    ? K
    : FirstEdited<A, Rest>
  : null
type FirstBegun<A extends string, Keys> = A extends ''
  ? null
  : Keys extends readonly [infer K extends string, ...infer Rest]
    ? A extends `${Lowercase<K>}${string}`
      ? K
      : Lowercase<K> extends `${A}${string}`
        ? K
        : FirstBegun<A, Rest>
    : null

/** One letter more, less or other, or two neighbours exchanged; names of one letter have nothing in common. */
type IsEdit<A extends string, B extends string> = A extends ''
  ? false
  : Unlike<A, B> extends readonly [infer P extends string, infer Q extends string]
    ? P extends `${infer C}${infer PRest}`
      ? PRest extends Q
        ? true
        : Q extends `${infer D}${infer QRest}`
          ? QRest extends P
            ? true
            : PRest extends QRest
              ? PRest extends ''
                ? A extends P
                  ? false
                  : true
                : true
              : PRest extends `${D}${infer Rest}`
                ? QRest extends `${C}${Rest}`
                  ? true
                  : false
                : false
          : false
      : Q extends `${string}${infer QRest}`
        ? QRest extends ''
          ? true
          : false
        : false
    : false
/** The rests of two names after their common beginning. */
type Unlike<A extends string, B extends string> = A extends `${infer C}${infer ARest}`
  ? B extends `${C}${infer BRest}`
    ? Unlike<ARest, BRest>
    : readonly [A, B]
  : readonly [A, B]

// ---------------------------------------------------------------- at run time

const isEdit = (a: string, b: string): boolean => {
  let same = 0
  while (same < a.length && a[same] === b[same]) same++
  const [p, q] = [a.slice(same), b.slice(same)]
  if (a === '') return false
  if (p.slice(1) === q || p === q.slice(1)) return p !== q
  if (p.slice(1) === q.slice(1)) return p.length > 1 || same > 0
  return p[0] === q[1] && p[1] === q[0] && p.slice(2) === q.slice(2)
}

/** The legal key nearest to a wrong one, if one is near enough. */
export const nearestKey = (key: string, keys: readonly string[]): string | undefined => {
  const a = key.toLowerCase()
  const lower = keys.map((k) => [k, k.toLowerCase()] as const)
  const found =
    lower.find(([, b]) => a === b) ??
    lower.find(([, b]) => isEdit(a, b)) ??
    lower.find(([, b]) => a !== '' && (a.startsWith(b) || b.startsWith(a)))
  return found?.[0]
}

const LONGEST = 60
/** A key from outside, escaped for a message. */
const shown = (key: string): string => {
  const text = /^[\w$ .-]*$/.test(key)
    ? key
    : JSON.stringify(key)
        .slice(1, -1)
        .replace(/[^ -~]/g, '?')
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}...` : text
}

/** A key that is no option, in words. */
export const optionRefused = (key: string, { of, keys }: Options): string => {
  const near = nearestKey(key, keys)
  return near === undefined
    ? noSuchOption(shown(key), of, keys.map((k) => `\`${k}\``).join(', '))
    : unknownOption(shown(key), of, near)
}

/** The first unknown key; null if all are known. Absent options have none. */
export const unknownKey = (given: object | undefined, { keys }: Options): string | null =>
  Object.keys(given ?? {}).find((k) => !keys.includes(k)) ?? null
