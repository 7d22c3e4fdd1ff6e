// Lists that are all of one kind to V8. In: a list and a function. Out: the function's result for each item, in order. V8 compiles `map` in place
// once a function is hot, and then makes lists of another kind, those that may have holes. A reader of both kinds is compiled twice, and planning is
// mostly over before that is done. So lists that planners read millions of times are made here. Invariant: as `map` does, without the list itself.
export const mapped = <T, R>(list: readonly T[], of: (item: T, i: number) => R): R[] => {
  const out: R[] = []
  for (let i = 0; i < list.length; i++) out.push(of(list[i]!, i))
  // A grown list has spare capacity: a copy has none.
  return out.slice()
}
