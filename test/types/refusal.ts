// The compiler's sentence around a message of ours. In: an error of the compiler. Out: the message, if an option or an argument was refused with one;
// else the error unchanged.
export const refusedPlan = (error: string): string =>
  /^(?:Argument of [^\n]*\n {2})?Type [^\n]* is not assignable to type '"([^\n]*)"'\.$/.exec(error)?.[1] ?? error

/** The order of alternatives depends on the files that were checked before. */
export const sorted = (error: string): string =>
  error.replace(/(["`])[^"`]*\1(?: \| (["`])[^"`]*\2)+/g, (u) => u.split(' | ').sort().join(' | '))
