// What cannot fail, where types say that it might. In: the claim, an Either. Out: its Right. Invariant: a Left is a fault of
// ours, not of the user's: it ends the process with the claim and what spoke against it.
import { type Either, isLeft } from 'fp-ts/Either'

export const certain =
  (claim: string) =>
  <E, A>(made: Either<E, A>): A => {
    if (isLeft(made)) throw new Error(`${claim}: ${JSON.stringify(made.left)}`)
    return made.right
  }
