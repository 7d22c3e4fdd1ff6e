// Computes a result once. In: a function of two objects, or of a key that may fail. Out: its results, kept as long as the objects, or the map with
// the keys, exist.
import { type Either, right, tap } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'

/** The known result for a key, or that of `make`, which is then known. */
export const once = <K, E, A>(known: Map<K, A>, key: K, make: (key: K) => Either<E, A>): Either<E, A> =>
  known.has(key)
    ? right(known.get(key)!)
    : pipe(
        make(key),
        tap((made) => right(known.set(key, made))),
      )

export const onceFor = <A extends object, T>(f: (a: A) => T): ((a: A) => T) => {
  const known = new WeakMap<A, { readonly answer: T }>()
  return (a) => {
    const there = known.get(a)
    if (there) return there.answer
    const answer = f(a)
    known.set(a, { answer })
    return answer
  }
}

export const onceForPair = <A extends object, B extends object, T>(f: (a: A, b: B) => T): ((a: A, b: B) => T) => {
  const known = new WeakMap<A, WeakMap<B, { readonly answer: T }>>()
  return (a, b) => {
    const there = known.get(a)?.get(b)
    if (there) return there.answer
    const answer = f(a, b)
    const here = known.get(a) ?? new WeakMap<B, { readonly answer: T }>()
    known.set(a, here)
    here.set(b, { answer })
    return answer
  }
}
