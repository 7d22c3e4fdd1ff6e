// `spillway plan MODEL`: stage and explain. Out: the summary or the JSON of DESIGN 10, and the files that were asked for.
import { dirname, relative, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { bytesOf } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import { filePlace } from '../files/places'
import { writeWholeText } from '../files/whole'
import { elaboratedFor } from '../stage/identity'
import { plansText } from '../stage/planfile'
import { type ModelSource, moduleText } from '../stage/planmodule'
import { leastSeconds } from '../stage/least'
import { lacksOf } from '../stage/room'
import { planJson } from '../report/facts'
import { showSize } from '../report/format'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { traceJson } from '../report/trace'
import { type SpillwayError, usage } from '../errors/errors'
import type { NamedModel } from './model'
import type { Done, Output } from './output'
import { stageNamed, type StagingOptions } from './stage'

export interface PlanOptions extends StagingOptions {
  readonly save?: string
  readonly emit?: string
  readonly report?: string
  readonly trace?: string
}

/** How a module at `to` imports the type of what was staged. */
const sourceOf = ({ name, source }: NamedModel, to: string): ModelSource => {
  if ('family' in source)
    return {
      importing: `import type family from 'spillway/models/${source.family}'`,
      type: `(typeof family)['${name}']`,
      resized: false,
    }
  const path = relative(dirname(resolve(to)), source.file).replace(/\.[cm]?[jt]s$/, '')
  const importing = `import type model from '${path.startsWith('.') ? path : `./${path}`}'`
  return { importing, type: 'typeof model', resized: source.resized }
}

type Asked = readonly [what: string, path: string | undefined, text: (path: string) => string]

const write = ([what, path, text]: Asked): Either<SpillwayError, readonly string[]> =>
  path === undefined
    ? E.right([])
    : pipe(
        writeWholeText(path, text(path)),
        E.map(() => [`${what} ${path}`]),
      )

const emits = ({ mode = 'train', emit, classes }: PlanOptions): Either<SpillwayError, void> => {
  if (emit === undefined) return E.right(undefined)
  if (mode !== 'train')
    return E.left(usage(`--emit is for plans that train, and --mode ${mode} asks for another: --save keeps it`))
  return classes === undefined
    ? E.right(undefined)
    : E.left(usage('--emit and --classes: a plan module imports its model: write one in a file, and plan that'))
}

const bandsText = (family: readonly Plan[]): string =>
  `note: the bands hold ${family.map((plan) => showSize(bytesOf(plan.peakPages))).join(', ')}`

export const planModel = async (model: string, o: PlanOptions, out: Output): Promise<Done> => {
  const least = await leastSeconds()
  return pipe(
    pipe(
      [filePlace('plan', o.save), filePlace('report', o.report), filePlace('trace', o.trace), filePlace('plan module', o.emit)],
      E.sequenceArray,
      E.flatMap(() => emits(o)),
      E.flatMap(() => stageNamed(model, { measure: 'first', ...o })),
    ),
    E.bind('emitted', ({ named, staged: { plan, family = [plan] } }) =>
      o.emit === undefined
        ? E.right(() => '')
        : pipe(
            elaboratedFor(named.model, plan),
            E.map((step) => (to: string) => moduleText([plan, ...family.slice(1)], step, sourceOf(named, to))),
          ),
    ),
    E.flatMap(({ emitted, staged }) => {
      const { plan, timeline } = staged
      const staging = { ...staged.staging, leastSeconds: least?.(plan.graph, staged.machine, plan.budgetBytes) }
      return pipe(
        E.traverseArray(write)([
          ['plan', o.save, () => plansText(staged.family ?? [plan])],
          ['report', o.report, () => reportHtml(plan, timeline, staging)],
          ['trace', o.trace, () => traceJson(plan, timeline)],
          ['plan module', o.emit, emitted],
        ]),
        E.map((written) => {
          const lacks = lacksOf(staged)
          out.answer({ ...planJson(plan, timeline, staging), lacks }, summary(plan, timeline, staging))
          if (staged.family) out.say(bandsText(staged.family))
          lacks.forEach((lack) => out.say(`note: it will not run here: ${lack}`))
          return written.flat().forEach(out.say)
        }),
      )
    }),
  )
}
