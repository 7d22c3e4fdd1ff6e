// Where an Either becomes an answer or an exception. In: an Either, and how its Left is put into words. Out: its Right. Invariant:
// exceptions are for what scripts call (`orThrow`), and for what cannot fail though its type says that it might (`certain`): a Left
// there is a fault of ours, not of the user's, and ends the process with the claim and what spoke against it.
import { type Either, isLeft } from 'fp-ts/Either'

export const certain = (claim: string) => orThrow((spoke: unknown) => `${claim}: ${JSON.stringify(spoke)}`)

/** For the surface that scripts call: what went wrong is an exception there, in words. */
export const orThrow =
  <E>(words: (e: E) => string) =>
  <A>(made: Either<E, A>): A => {
    if (isLeft(made)) throw new Error(words(made.left))
    return made.right
  }
