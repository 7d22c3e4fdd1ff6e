// Codecs for outside data, on io-ts: numbers in a range, names out of a list, printable words, records that drop unknown fields. In: any JSON value.
// Out: the value, or io-ts's errors, whose first one `faultOf` puts into words. Invariant: a decoded value is the input without unknown fields.
import { chain, type Either, left, mapLeft, right, toError, tryCatch } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'

const codecOf = <A>(name: string, is: (u: unknown) => u is A): t.Type<A, A, unknown> =>
  new t.Type(name, is, (u, c) => (is(u) ? t.success(u) : t.failure(u, c)), t.identity)
const number = (name: string, legal: (n: number) => boolean): t.Type<number, number, unknown> =>
  codecOf(name, (u): u is number => typeof u === 'number' && legal(u))

/** A size, a count, an index. */
export const whole = number('a whole number', (n) => Number.isSafeInteger(n) && n >= 0)
/** A difference. */
export const integer = number('an integer', Number.isSafeInteger)
export const positive = number('a number above 0', (n) => n > 0 && Number.isFinite(n))
export const seconds = number('a time of 0 seconds or more', (n) => n >= 0 && Number.isFinite(n))

/** Byte counts, pages and points of plans stay far below 2^53, so that sums of them are exact. */
const LARGEST = 2 ** 50
export const wholeFrom = (lo: number, hi = LARGEST): t.Type<number, number, unknown> =>
  number(`a whole number from ${lo} to ${hi}`, (n) => Number.isSafeInteger(n) && n >= lo && n <= hi)
export const count = wholeFrom(0)
export const names = <K extends string>(keys: readonly K[]): t.Type<K, K, unknown> =>
  codecOf(keys.map((k) => `"${k}"`).join(' | '), (u): u is K => (keys as readonly unknown[]).includes(u))

const LONGEST = 1000
/** Control and invisible characters could forge terminal output, and end a comment line. */
const UNFIT = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u
/** Words from a file that are shown to people. */
export const words = codecOf(
  `a string of at most ${LONGEST} visible characters`,
  (u): u is string => typeof u === 'string' && u.length <= LONGEST && !UNFIT.test(u),
)

export const list = <A>(of: t.Type<A, A, unknown>): t.Type<readonly A[], readonly A[], unknown> =>
  t.array(of) as unknown as t.Type<readonly A[], readonly A[], unknown>
type Entries<C extends readonly t.Mixed[]> = { readonly [K in keyof C]: t.TypeOf<C[K]> }
/** A list of exactly these; io-ts by itself drops later entries. */
export const tuple = <C extends readonly [t.Mixed, t.Mixed, ...t.Mixed[]]>(...of: C): t.Type<Entries<C>, Entries<C>, unknown> => {
  const open = t.tuple(of as unknown as [t.Mixed, t.Mixed]) as unknown as t.Type<Entries<C>, Entries<C>, unknown>
  const isLong = (u: unknown): boolean => Array.isArray(u) && u.length > of.length
  const validate: typeof open.validate = (u, c) =>
    isLong(u) ? t.failure(u, c, `it has ${(u as unknown[]).length} entries; allowed: ${of.length}`) : open.validate(u, c)
  return new t.Type(open.name, (u): u is Entries<C> => !isLong(u) && open.is(u), validate, t.identity)
}

type Of<P extends t.Props> = { readonly [K in keyof P]: t.TypeOf<P[K]> }
/** Fields that are there, and fields that may be; others are dropped. */
export const record = <P extends t.Props, O extends t.Props = Record<never, never>>(
  fields: P,
  optional?: O,
): t.Type<Of<P> & Partial<Of<O>>, Of<P> & Partial<Of<O>>, unknown> =>
  (optional ? t.exact(t.intersection([t.type(fields), t.partial(optional)])) : t.strict(fields)) as unknown as t.Type<
    Of<P> & Partial<Of<O>>,
    Of<P> & Partial<Of<O>>,
    unknown
  >

/** The result of a codec, or these words. */
export const decodedOr =
  <A>(codec: t.Decoder<unknown, A>, reason: string) =>
  (u: unknown): Either<string, A> =>
    mapLeft(() => reason)(codec.decode(u))

/** Returns true if a codec is one part of an intersection: its name is no part of a path. */
const isIntersection = (d: unknown): boolean => {
  const { _tag, type } = (d ?? {}) as { readonly _tag?: string; readonly type?: unknown }
  return _tag === 'IntersectionType' || (_tag === 'ExactType' && isIntersection(type))
}

/** The path of the first error, from the whole, and its reason. */
export const faultOf = (whole: string, [first]: t.Errors): { readonly at: string; readonly reason: string } => {
  const e = first!
  const at = e.context
    .filter((c, i) => c.key !== '' && !isIntersection(e.context[i - 1]?.type))
    .map((c) => c.key)
    .join('.')
  const value = JSON.stringify(e.value)?.slice(0, 80) ?? 'nothing'
  return { at: at === '' ? whole : at, reason: e.message ?? `${value} is not ${e.context.at(-1)!.type.name}` }
}

// ---------------------------------------------------------------- text before it is parsed

const MOST_CHARACTERS = 2 ** 28
const MOST_BRACKETS = 2 ** 23
const DEEPEST = 64
const [QUOTE, BACKSLASH] = [34, 92]
const [LIST, LIST_END, OBJECT, OBJECT_END] = [91, 93, 123, 125]

/** A JSON text that may be parsed: one too large, too deep or of too many lists would take its reader's memory or stack. */
const parsable = (text: string, mostBrackets: number): Either<string, string> => {
  if (text.length > MOST_CHARACTERS) return left(`it has ${text.length} characters; allowed: at most ${MOST_CHARACTERS}`)
  let [depth, brackets] = [0, 0]
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (quoted) {
      if (c === BACKSLASH) i++
      else if (c === QUOTE) quoted = false
    } else if (c === QUOTE) quoted = true
    else if (c === LIST || c === OBJECT) {
      brackets++
      if (++depth > DEEPEST) return left(`it nests lists and objects deeper than ${DEEPEST}`)
      if (brackets > mostBrackets) return left(`it has more than ${mostBrackets} lists and objects`)
    } else if (c === LIST_END || c === OBJECT_END) depth--
  }
  return right(text)
}

/** The value of a JSON text from outside, or the reason why it is none. */
export const parsedJson = (outside: string, mostBrackets = MOST_BRACKETS): Either<string, unknown> =>
  pipe(
    parsable(outside, mostBrackets),
    chain((text) =>
      tryCatch(
        (): unknown => JSON.parse(text),
        (e) => `it is not JSON: ${toError(e).message}`,
      ),
    ),
  )
