// Words in place of an error, while typing. In a generic function, where the error is unknown yet, nothing: its result is checked at run time. In: a
// type that is a string for an error. Out: those words, or the wanted type. Worked example: of `(input: OrWords<Complaint<N>, In>, net: N)` a call
// with a wrong net is refused in the words of Complaint<N>; in `<C extends number>(c: C) => f(input, conv2d('c', c, 3))` Complaint<...> waits for C,
// and the constraint of a waiting type is Fits.
export interface Answers<Words, Fits> {
  readonly fits: Fits
  readonly [other: number]: Words
}
/** False if `strictNullChecks` is off: then `null`, which stands for the absence of a fault, is assignable to everything. */
export type IsStrict = undefined extends string ? false : true

/** Words if they are a string, else Fits. TypeScript leaves out a branch of a waiting choice that is `any`: Fits is left. */
export type OrWords<Words, Fits = unknown> = Answers<
  Words,
  Fits
  // biome-ignore lint/suspicious/noExplicitAny: the branch that TypeScript leaves out
>[IsStrict extends true ? ([Words] extends [string] ? any : 'fits') : 'fits']

/** To be joined by `|` to the type of a parameter: In is inferred from it, and no more is legal than before. */
export type InferredFrom<In> = keyof In extends never ? In : never

/**
 * The type of a parameter that In is inferred from. It is In if Faulty is null; else Faulty, which has words in place of each fault. If In is a
 * union, `null` in Faulty stands for its members without a fault. The choice of `symbol` serves inference: no In has that key.
 */
export type OrFaulty<In, Faulty, Fits = In> = symbol extends keyof NonNullable<In>
  ? In
  : // biome-ignore lint/suspicious/noExplicitAny: the branch that TypeScript leaves out
    Answers<Exclude<Faulty, null>, Fits>[[Faulty] extends [null] ? 'fits' : any]
