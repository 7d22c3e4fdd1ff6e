// What steps have told of their calls. In: a plan, and what each of its calls took in the quickest quiet step. Out: plans whose calls take
// what they took. Invariant: only the seconds of calls change: which plan is chosen, and its memory, never depend on the steps
// that this machine has run. A call beside which something is copied takes longer: what plans that move pages tell only counts where it
// is less than was planned.
import { callShapes } from '../../staging/plan/expand'
import type { Call, Plan } from '../../staging/plan/plan'
import { type Measurements, timeKey, wayText } from './timing'

/** Networks of this many different calls are remembered; what was told longest ago goes first. */
export const MOST_STEP_TIMES = 4096
/** A time that moves by less is the same. */
const SAME_WITHIN = 0.03
/** What took longer than before was most likely disturbed (a virtual machine's speed moves by tens of percent): it counts for little. */
const SLOWER_COUNTS = 0.05

const keyOf = (plan: Plan, c: Call): string => {
  const shapes = callShapes(plan.graph, c.ins, c.outs)
  return timeKey(c.kind, c.attrs, shapes) + wayText(c.algorithm ?? 'direct', shapes)
}

interface Told { readonly seconds: number; readonly planned: number; readonly calls: number }

/** Of equal calls, all that they took. */
const sums = (plan: Plan, seconds: Float64Array): ReadonlyMap<string, Told> => {
  const told = new Map<string, Told>()
  plan.calls.forEach((c, i) => {
    const key = keyOf(plan, c)
    const sum = told.get(key) ?? { seconds: 0, planned: 0, calls: 0 }
    told.set(key, { seconds: sum.seconds + seconds[i]!, planned: sum.planned + c.seconds, calls: sum.calls + 1 })
  })
  return told
}

/** Whether something was learnt that is worth keeping. */
export const learn = (known: Measurements, plan: Plan, seconds: Float64Array): boolean => {
  if (seconds.length !== plan.calls.length) return false
  let isNew = false
  for (const [key, sum] of sums(plan, seconds)) {
    const told = sum.seconds / sum.calls
    const before = known.get(key)
    if (!(told > 0) || (plan.tierBytes > 0 && told >= (before ?? sum.planned / sum.calls))) continue
    const now = before === undefined || told < before ? told : before + SLOWER_COUNTS * (told - before)
    isNew ||= before === undefined || Math.abs(now / before - 1) > SAME_WITHIN
    known.delete(key)
    known.set(key, now)
  }
  forgetOldest(known)
  return isNew
}

export const forgetOldest = (known: Measurements): void => {
  for (const key of known.keys()) {
    if (known.size <= MOST_STEP_TIMES) return
    known.delete(key)
  }
}

/** The plan with the times that steps have told, where they have. */
export const asInSteps = (known: Measurements, plan: Plan): Plan =>
  known.size === 0 ? plan : { ...plan, calls: plan.calls.map((c) => ({ ...c, seconds: known.get(keyOf(plan, c)) ?? c.seconds })) }
