// The compiler's sentence around a message of ours. In: an error of the compiler. Out: the message, when what stands in an
// option's place was refused with one; else the error as it is.
export const refusedPlan = (error: string): string => /^Type .* is not assignable to type '"(.*)"'\.$/s.exec(error)?.[1] ?? error
