// The costs of each kind of call on the planner's machine. Plan files record them, so that the segments unroll everywhere into the same calls and the
// same scratch cells. Invariant: calls of one operator with the same attributes and shapes cost the same.
import type { Choice, Costs } from '../graph/machine'
import { callKey } from '../ops/callkey'
import type { AnyAttrs, CallShapes } from '../ops/op'
import { callShapes } from './callcosts'
import type { Plan, RecordedCosts } from './plan'

export type { Costs } from '../graph/machine'
export const costsOf = (plan: Plan): RecordedCosts => {
  const costs: Record<string, readonly [number, number, number]> = {}
  for (const c of plan.calls)
    costs[callKey(c.kind, c.attrs, callShapes(plan.graph, c.ins, c.outs))] = [
      c.beside?.seconds ?? c.seconds,
      c.workspace?.bytes ?? 0,
      c.way ?? 0,
    ]
  return costs
}

/** Returns costs that know only the recorded calls. */
export const replayed = (costs: RecordedCosts): Costs => {
  const known = new Map(Object.entries(costs))
  const cost = (kind: string, attrs: AnyAttrs, s: CallShapes): Choice => {
    const recorded = known.get(callKey(kind, attrs, s))
    if (!recorded) throw new Error(`no cost is recorded for ${kind} of ${s.ins.join(' ')} to ${s.outs.join(' ')}`)
    const [seconds, workspace, way] = recorded
    return { seconds, workspace, way }
  }
  return {
    seconds: (kind, attrs, s) => cost(kind, attrs, s).seconds,
    workspace: (kind, attrs, s) => cost(kind, attrs, s).workspace,
    choices: (kind, attrs, s) => [cost(kind, attrs, s)],
  }
}
