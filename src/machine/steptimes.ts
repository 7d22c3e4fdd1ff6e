// Times of calls from steps. In: a plan, the seconds of each of its calls in the fastest quiet step of a run, and the link of its copies. Out: plans
// whose calls have these times. Invariant: only the seconds of calls change: the choice of a plan depends on them only for calls without their own
// measurement. A call beside a copy takes longer, by the simulator's addition: it is subtracted here, because the simulator will add it again. Worked
// example: runs whose quickest steps gave a call 2, 1 and 3 ms: 2 ms are planned after the first, 1.5 after the second, 2 after the third; had copies
// lasted through the third and slowed it down by half, that would have counted as 2 ms.
import { ROW_EXCHANGES } from '../../staging/graph/bands'
import type { Link } from '../../staging/graph/machine'
import { COLLECTIVES, ranksOf } from '../../staging/graph/ranks'
import { callShapes } from '../../staging/plan/callcosts'
import type { Call, Plan } from '../../staging/plan/plan'
import { simulate } from '../../staging/sim/simulate'
import { timeKey, wayText } from './timing'

/** The number of different calls that are kept; the oldest entries are dropped first. */
export const MOST_STEP_TIMES = 4096
/** A time that moves by less is the same. */
const SAME_WITHIN = 0.03
/** A machine's speed moves, a virtual one's by tens of percent: the next step is most likely like the last few runs, and no single one decides. */
const MOST_RUNS = 5

/** The times of a call in the last few runs, the newest last. */
export type StepTimes = Map<string, readonly number[]>

/** Not the median: a disturbance of a step meets a few of its calls, others each time, and would be missing from the sum of all. */
export const mean = (xs: readonly number[]): number => xs.reduce((n, x) => n + x, 0) / xs.length

const isExchange = ({ kind }: Call): boolean => COLLECTIVES.includes(kind) || ROW_EXCHANGES.includes(kind)
/** Exchanges take the time of the way between this number of ranks, which wait for one another. */
const between = ({ graph, network }: Plan): string => ` among ${ranksOf(graph)}${network ? ` over ${network.name}` : ''}`

const keyOf = (plan: Plan, c: Call): string => {
  const shapes = callShapes(plan.graph, c.ins, c.outs)
  return timeKey(c.kind, c.attrs, shapes) + wayText(c.way ?? 0, shapes) + (isExchange(c) ? between(plan) : '')
}

/** The time of each call without copies beside it. */
const alone = (plan: Plan, seconds: Float64Array, link: Link): Float64Array => {
  if (!link.beside) return seconds
  const out = seconds.slice()
  for (const { call, start, end } of simulate(plan, link).spans) {
    const planned = call === undefined ? 0 : plan.calls[call]!.seconds
    if (call !== undefined && planned > 0) out[call]! *= planned / (end - start)
  }
  return out
}

interface SumsOfSeconds {
  readonly seconds: number
  readonly calls: number
}

/** The sums of equal calls. */
const sums = (plan: Plan, seconds: Float64Array): ReadonlyMap<string, SumsOfSeconds> => {
  const byKey = new Map<string, SumsOfSeconds>()
  plan.calls.forEach((c, i) => {
    const key = keyOf(plan, c)
    const sum = byKey.get(key) ?? { seconds: 0, calls: 0 }
    byKey.set(key, { seconds: sum.seconds + seconds[i]!, calls: sum.calls + 1 })
  })
  return byKey
}

/** Returns true if a new time is worth keeping. */
export const learn = (known: StepTimes, plan: Plan, seconds: Float64Array, link: Link): boolean => {
  if (seconds.length !== plan.calls.length) return false
  let isNew = false
  for (const [key, sum] of sums(plan, alone(plan, seconds, link))) {
    const mine = sum.seconds / sum.calls
    if (!(mine > 0)) continue
    const before = known.get(key) ?? []
    const now = [...before, mine].slice(-MOST_RUNS)
    isNew ||= before.length < MOST_RUNS || Math.abs(mean(now) / mean(before) - 1) > SAME_WITHIN
    known.delete(key)
    known.set(key, now)
  }
  forgetOldest(known)
  return isNew
}

export const forgetOldest = (known: StepTimes): void => {
  for (const key of known.keys()) {
    if (known.size <= MOST_STEP_TIMES) return
    known.delete(key)
  }
}

/** The plan with the times from steps, as far as they are known; on another machine a call takes a factor of them. */
export const asInSteps = (known: StepTimes, plan: Plan, slower: (c: Call) => number = () => 1): Plan => {
  const secondsOf = (c: Call): number => {
    const taken = known.size > 0 ? known.get(keyOf(plan, c)) : undefined
    return taken?.length ? mean(taken) * (isExchange(c) ? 1 : slower(c)) : c.seconds
  }
  return { ...plan, calls: plan.calls.map((c) => ({ ...c, seconds: secondsOf(c) })) }
}
