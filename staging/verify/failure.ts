// The error of a refused plan: the broken rule, the place, the reason. In: a rule, words, a place. Out: the VerifyFailed error of core/errors.
// Invariant: one rule name per check of verify.ts.
import type { PlanError } from '../core/errors'

export type VerifyFailed = Extract<PlanError, { readonly tag: 'VerifyFailed' }>

/** The names of the rules. The head of verify.ts explains them. */
export type Rule =
  | 'graph'
  | 'structure'
  | 'times'
  | 'operand'
  | 'halo'
  | 'dense'
  | 'unwritten'
  | 'incomplete'
  | 'coverage'
  | 'twice'
  | 'in-place'
  | 'updated'
  | 'place'
  | 'clobbered'
  | 'resident'
  | 'arriving'
  | 'leaving'
  | 'exchanged'
  | 'lost'
  | 'tier'
  | 'pages'
  | 'budget'
  | 'peak'
  | 'end'
  | 'output'

export interface Where {
  readonly segment?: number
  readonly call?: number
  readonly tile?: number
  readonly value?: string
}

export const broken = (rule: Rule, reason: string, where: Where = {}): VerifyFailed => ({
  tag: 'VerifyFailed',
  rule,
  reason,
  ...where,
})

export type Fault = VerifyFailed | undefined

/** Runs checks in order and returns the first fault. Later checks rely on earlier ones. */
export const firstFault = (checks: readonly (() => Fault)[]): Fault => {
  for (const check of checks) {
    const fault = check()
    if (fault) return fault
  }
  return undefined
}

/** Returns the first fault over the items of a list. */
export const eachFault = <A>(items: readonly A[], check: (a: A, i: number) => Fault): Fault => {
  for (let i = 0; i < items.length; i++) {
    const fault = check(items[i]!, i)
    if (fault) return fault
  }
  return undefined
}
