// Codecs of numbers and names that several files of ours hold. In: unknown data. Out: io-ts types.
import { type Either, mapLeft } from 'fp-ts/Either'
import * as t from 'io-ts'

const number = (name: string, legal: (n: number) => boolean): t.Type<number, number, unknown> => {
  const is = (u: unknown): u is number => typeof u === 'number' && legal(u)
  return new t.Type(name, is, (u, c) => (is(u) ? t.success(u) : t.failure(u, c)), t.identity)
}

/** A size, a count, an index. */
export const whole = number('a whole number', (n) => Number.isSafeInteger(n) && n >= 0)
export const positive = number('a number above 0', (n) => n > 0 && Number.isFinite(n))

/** What a codec makes of data, or these words. */
export const decodedOr =
  <A>(codec: t.Decoder<unknown, A>, reason: string) =>
  (u: unknown): Either<string, A> =>
    mapLeft(() => reason)(codec.decode(u))
