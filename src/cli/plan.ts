// `spillway plan MODEL`: stage and explain. Out: the summary or the JSON of DESIGN 10, and the files that were asked for.
import { isLeft, left, right } from 'fp-ts/Either'
import { usage } from '../errors'
import { writeWholeText } from '../files'
import { savePlan } from '../planfile'
import { planJson } from '../report/facts'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { traceJson } from '../report/trace'
import type { Done, Output } from './output'
import { stageNamed, type StagingOptions } from './stage'

export interface PlanOptions extends StagingOptions {
  readonly save?: string
  readonly emit?: string
  readonly report?: string
  readonly trace?: string
}

export const planModel = (model: string, o: PlanOptions, out: Output): Done => {
  if (o.emit !== undefined) return left(usage('--emit is not there yet: typed plan modules come later; --save writes the plan as JSON'))
  const found = stageNamed(model, o)
  if (isLeft(found)) return found
  const { plan, timeline, staging } = found.right.staged
  const written: string[] = []
  const write = (what: string, path: string | undefined, text: () => string): void => {
    if (path === undefined) return
    writeWholeText(path, text())
    written.push(`${what} ${path}`)
  }
  if (o.save !== undefined) {
    savePlan(o.save, plan)
    written.push(`plan ${o.save}`)
  }
  write('report', o.report, () => reportHtml(plan, timeline, staging))
  write('trace', o.trace, () => traceJson(plan, timeline))
  out.answer(planJson(plan, timeline, staging), summary(plan, timeline, staging))
  written.forEach(out.say)
  return right(undefined)
}
