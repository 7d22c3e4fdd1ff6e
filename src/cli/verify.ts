// `spillway verify PLAN`: reads an untrusted plan file and re-derives what must hold of it, independently of every planner.
import { isLeft, right } from 'fp-ts/Either'
import { bytesOf } from '../../staging/core/bytes'
import { tryLoadPlan } from '../stage/planfile'
import { showSize } from '../report/format'
import type { Done, Output } from './output'

export const verifyFile = (file: string, out: Output): Done => {
  const plan = tryLoadPlan(file)
  if (isLeft(plan)) return plan
  const { graph, strategy, machine, budgetBytes, peakPages, calls, segments } = plan.right
  const peakBytes = bytesOf(peakPages)
  out.answer(
    {
      verified: true,
      model: graph.name,
      strategy,
      machine,
      budgetBytes,
      peakBytes,
      segments: segments.length,
      calls: calls.length,
    },
    `${file} holds: ${graph.name} with ${strategy} for ${machine}, peak ${showSize(peakBytes)} of ${showSize(budgetBytes)}, ` +
      `${segments.length} segments, ${calls.length} calls`,
  )
  return right(undefined)
}
