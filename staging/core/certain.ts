// Turns an Either into an answer or an exception. In: an Either, and the words of its Left. Out: its Right. Invariant: exceptions are for functions
// that scripts call (`orThrow`), and for results that cannot fail in spite of their type (`certain`): a Left there is a fault of ours, not of the
// user's, and ends the process with the claim and the counterexample.
import { type Either, isLeft } from 'fp-ts/Either'

export const certain = (claim: string) => orThrow((spoke: unknown) => `${claim}: ${JSON.stringify(spoke)}`)

/** For functions that scripts call: throws an exception with the text of the error. */
export const orThrow =
  <E>(words: (e: E) => string) =>
  <A>(made: Either<E, A>): A => {
    if (isLeft(made)) throw new Error(words(made.left))
    return made.right
  }
