// A measured step as a timeline. In: a plan and the spans that the runtime recorded, by instruction of the tape. Out: the same type as the
// simulator's, so that both are drawn and compared alike. Invariant: the tape's instructions are those of the plan, in order; others are dropped.
import { instructions } from '../../staging/plan/instructions'
import { pagesLabel } from '../../staging/plan/naming'
import type { Plan } from '../../staging/plan/plan'
import type { MemorySample, Span, Stalls, Timeline } from '../../staging/sim/timeline'
import { stallsOf } from './lanes'

export interface MeasuredSpan extends Pick<Span, 'stream' | 'start' | 'end'> {
  readonly instruction: number
}

export const measuredTimeline = (plan: Plan, spans: readonly MeasuredSpan[], memory: readonly MemorySample[]): Timeline => {
  const list = instructions(plan)
  const named = spans
    .flatMap(({ stream, instruction, start, end }): readonly Span[] => {
      const i = list[instruction]
      if (i?.tag === 'call' || i?.tag === 'exchange') {
        const call = plan.calls[i.call]!
        return [{ stream, start, end, call: i.call, label: plan.graph.ops[call.op]?.layer ?? call.kind }]
      }
      if (i?.tag !== 'swapOut' && i?.tag !== 'swapIn') return []
      const r = plan.residencies[i.residency]!
      return [{ stream, start, end, residency: i.residency, label: pagesLabel(plan, r.storage, r.from, r.to) }]
    })
    .sort((a, b) => a.start - b.start)
  const timeline: Timeline = {
    makespanSeconds: named.reduce((latest, s) => Math.max(latest, s.end), 0),
    computeSeconds: named.reduce((n, s) => n + (s.stream === 'compute' ? s.end - s.start : 0), 0),
    stallSeconds: { memory: 0, data: 0 },
    spans: named,
    memory,
  }
  const stalled = (cause: keyof Stalls): number =>
    stallsOf(plan, timeline).reduce((n, s) => n + (s.cause === cause ? s.end - s.start : 0), 0)
  return {
    ...timeline,
    stallSeconds: {
      memory: stalled('memory'),
      data: stalled('data'),
      ...(plan.calls.some((c) => c.beside) ? { ranks: stalled('ranks') } : {}),
    },
  }
}
