// What cannot fail, where types say that it might. In: the claim, an Either. Out: its Right. Invariant: a Left is a fault of
// ours, not of the user's: it ends the process with the claim and what spoke against it.
import { type Either, isLeft } from 'fp-ts/Either'

export const certain = (claim: string) => orThrow((spoke: unknown) => `${claim}: ${JSON.stringify(spoke)}`)

/** For the surface that scripts call: what went wrong is an exception there, in words. */
export const orThrow =
  <E>(words: (e: E) => string) =>
  <A>(made: Either<E, A>): A => {
    if (isLeft(made)) throw new Error(words(made.left))
    return made.right
  }
