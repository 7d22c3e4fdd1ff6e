// `spillway plan MODEL`: stage and explain. Out: the summary or the JSON of DESIGN 10, and the files that were asked for.
import { dirname, relative, resolve } from 'node:path'
import { isLeft, left, right } from 'fp-ts/Either'
import { writeWholeText } from '../files/whole'
import { savePlan } from '../stage/planfile'
import { type ModelSource, moduleText } from '../stage/planmodule'
import { planJson } from '../report/facts'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { traceJson } from '../report/trace'
import { usage } from '../errors/errors'
import type { NamedModel } from './model'
import type { Done, Output } from './output'
import { stageNamed, type StagingOptions } from './stage'

export interface PlanOptions extends StagingOptions {
  readonly save?: string
  readonly emit?: string
  readonly report?: string
  readonly trace?: string
}

/** How a module at `to` imports the model's type. */
const sourceOf = ({ name, source }: NamedModel, to: string): ModelSource => {
  if ('family' in source)
    return { importing: `import type family from 'spillway/models/${source.family}'`, type: `(typeof family)['${name}']['net']` }
  const path = relative(dirname(resolve(to)), source.file).replace(/\.[cm]?[jt]s$/, '')
  return {
    importing: `import type model from '${path.startsWith('.') ? path : `./${path}`}'`,
    type: source.resized ? "(typeof model)['net']" : 'typeof model',
  }
}

export const planModel = (model: string, o: PlanOptions, out: Output): Done => {
  const found = stageNamed(model, o)
  if (isLeft(found)) return found
  const { named, staged } = found.right
  const own = named.model
  if (o.emit !== undefined && own.kind === 'step')
    return left(usage('--emit writes plan modules of models, and this is a step: --save writes its plan as JSON'))
  const { plan, timeline, staging } = staged
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
  const emitted = o.emit
  if (own.kind === 'model') write('plan module', emitted, () => moduleText(plan, own, sourceOf(named, emitted!)))
  out.answer(planJson(plan, timeline, staging), summary(plan, timeline, staging))
  written.forEach(out.say)
  return right(undefined)
}
