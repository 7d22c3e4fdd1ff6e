// Every schedule of a chain, for brute force beside the programme. In: the number of options of each stage, and the legal ones. Out: the actions of
// each tree of decisions.
import type { Action, ChainRules } from '../../staging/schedule/chaindp'

/** The actions of every way to process stages a..b. */
export const everySchedule = (
  stages: readonly { readonly options: readonly unknown[] }[],
  a: number,
  b: number,
  rules: ChainRules,
): readonly (readonly Action[])[] => {
  if (a > b) return [[]]
  const out: (readonly Action[])[] = []
  const options = rules.options ? stages[a]!.options.length : 1
  for (let option = 0; option < options; option++)
    for (const inner of everySchedule(stages, a + 1, b, rules))
      out.push([{ tag: 'forward', stage: a, option }, ...inner, { tag: 'backward', stage: a, option }])
  if (rules.nested || b === stages.length - 1)
    for (let j = a + 1; j <= b; j++) {
      const passes = Array.from({ length: j - a }, (_, i): Action => ({ tag: 'pass', stage: a + i }))
      for (const right of everySchedule(stages, j, b, rules))
        for (const left of everySchedule(stages, a, j - 1, rules)) out.push([...passes, ...right, ...left])
    }
  return out
}
