// What a pair of objects determines is worked out once. In: a pure function of two objects. Out: the same function, which
// remembers its answers as long as the objects live.
export const onceForPair = <A extends object, B extends object, T>(f: (a: A, b: B) => T): ((a: A, b: B) => T) => {
  const known = new WeakMap<A, WeakMap<B, T>>()
  return (a, b) => {
    const here = known.get(a) ?? new WeakMap<B, T>()
    known.set(a, here)
    const answer = here.has(b) ? here.get(b)! : f(a, b)
    here.set(b, answer)
    return answer
  }
}
