// `spillway plan MODEL`: stage and explain. Out: the summary or the JSON object, and the files that were asked for.
import { dirname, relative, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { bytesOf } from '../../staging/core/bytes'
import { type DeviceName, isDevice } from '../../staging/devices'
import type { Plan } from '../../staging/plan/plan'
import { explained, type Explanation } from '../../staging/search/explain'
import { checkedPlaces, reading, writing } from '../files/places'
import { writeWholeText } from '../files/whole'
import { elaboratedFor } from '../stage/identity'
import { plansText } from '../stage/planfile'
import { text } from '../stage/literal'
import { type ModelSource, moduleText } from '../stage/planmodule'
import { leastSeconds } from '../stage/least'
import { lacksOf } from '../stage/room'
import { explanationText, NOT_EXPLAINED } from '../report/decisions'
import { planJson } from '../report/facts'
import { showSize } from '../report/format'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { traceJson } from '../report/trace'
import { type SpillwayError, usage } from '../errors/errors'
import { startedBy } from '../ranks/engine'
import { checkRanks, planAmong, type Processes, sharedThreads } from '../train/ranks/among'
import type { RunEnd } from '../train/ranks/orders'
import { type DataFlags, withCanvas } from './data'
import type { NamedModel } from './model'
import { readingModel } from './modelreads'
import { flagOf } from './options'
import { type Done, note, type Output, terminalWidth } from './output'
import { plannedAmong } from './planamong'
import { type StagedModel, stageNamed, type StagingOptions } from './stage'

export interface PlanOptions extends StagingOptions, Pick<DataFlags, 'level' | 'microns' | 'blocks' | 'canvas' | 'bags'> {
  /** Slides whose canvas is the size of the model. */
  readonly data?: string
  readonly save?: string
  readonly emit?: string
  readonly report?: string
  readonly trace?: string
  /** True, or the name of a value or a layer. */
  readonly explain?: true | string
}

/** The import of the staged type, for a module at `to`. */
const sourceOf = ({ name, source }: NamedModel, to: string): ModelSource => {
  if ('family' in source)
    return {
      importing: `import type family from 'spillway/models/${source.family}'`,
      type: `(typeof family)[${text(name)}]`,
      resized: false,
    }
  const path = relative(dirname(resolve(to)), source.file).replace(/\.[cm]?[jt]s$/, '')
  const importing = `import type model from ${text(path.startsWith('.') ? path : `./${path}`)}`
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
  if (mode !== 'train') return E.left(usage(`--emit writes only training plans; with --mode ${mode} use --save`))
  return classes === undefined
    ? E.right(undefined)
    : E.left(usage('--emit cannot be used with --classes: write the model to a file and plan that file'))
}

const placesOf = (model: string, o: PlanOptions): Either<SpillwayError, void> =>
  checkedPlaces(
    [...readingModel(model), ...reading('--plan', o.plan)],
    [
      ...writing('--save', 'plan', o.save),
      ...writing('--report', 'report', o.report),
      ...writing('--trace', 'trace', o.trace),
      ...writing('--emit', 'module', o.emit),
    ],
  )

const bandsText = (family: readonly Plan[]): string =>
  `note: peak memory per band: ${family.map((plan) => showSize(bytesOf(plan.peakPages))).join(', ')}`

/** Those that were started with this one and would train together, where they can be asked. */
const startedWith = ({ mode = 'train', machine = 'cpu', ranks }: PlanOptions): Either<SpillwayError, Processes | undefined> => {
  const started = startedBy(process.env)
  if (!started || started.ranks < 2) return E.right(undefined)
  if (mode !== 'train' || !isDevice(machine)) {
    const what = mode === 'train' ? `machine '${machine}' is only simulated` : `only one process can plan with --mode ${mode}`
    return E.left(usage(`${started.by} started ${started.ranks} processes, but ${what}: run plan without ${started.by}`))
  }
  return ranks === undefined || ranks === started.ranks
    ? E.right({ kind: 'mpi', ...started })
    : E.left(
        usage(`--ranks ${ranks} differs from the ${started.ranks} processes that ${started.by} started: run plan without it`),
      )
}

const staged = (model: string, o: PlanOptions): TaskEither<SpillwayError, StagedModel | RunEnd> =>
  pipe(
    TE.fromEither(startedWith(o)),
    TE.flatMap((engine): TaskEither<SpillwayError, StagedModel | RunEnd> => {
      if (!engine) return TE.fromIOEither(() => stageNamed(model, o))
      return pipe(
        TE.fromEither(
          pipe(
            checkRanks(engine, (o.machine ?? 'cpu') as DeviceName),
            E.flatMap(() => (o.threads === undefined ? sharedThreads(engine) : E.right(o.threads))),
          ),
        ),
        TE.flatMap((threads) => {
          const own: PlanOptions = { ...o, threads, ranks: engine.ranks }
          return planAmong(engine, own, threads, (rank, others) =>
            plannedAmong({ rank, others, note }, own, (heard) => stageNamed(model, { ...own, ...heard })),
          )
        }),
      )
    }),
  )

/** The text of --explain. */
const explaining = (explanation: Explanation | null, { explain }: PlanOptions): Either<SpillwayError, string | undefined> =>
  explain === undefined
    ? E.right(undefined)
    : explanation
      ? explanationText(explanation, explain === true ? undefined : explain)
      : E.left(usage(NOT_EXPLAINED))

const written = async (model: StagedModel, o: PlanOptions, out: Output): Promise<Done> => {
  const { named, staged } = model
  const { plan, timeline, family = [plan] } = staged
  const least = await leastSeconds()
  return pipe(
    o.emit === undefined
      ? E.right(() => '')
      : pipe(
          elaboratedFor(named.model, plan),
          E.map((step) => (to: string) => moduleText([plan, ...family.slice(1)], step, sourceOf(named, to))),
        ),
    E.bindTo('emitted'),
    E.let('explanation', () => ((o.explain ?? o.report) === undefined ? null : explained(plan, staged.machine))),
    E.bind('words', ({ explanation }) => explaining(explanation, o)),
    E.flatMap(({ emitted, explanation, words }) => {
      const staging = {
        ...staged.staging,
        bound: least(plan.graph, staged.machine, plan.budgetBytes),
        ...(explanation ? { explanation } : {}),
      }
      return pipe(
        E.traverseArray(write)([
          ['plan', o.save, () => plansText(staged.family ?? [plan])],
          ['report', o.report, () => reportHtml(plan, timeline, staging)],
          ['trace', o.trace, () => traceJson(plan, timeline)],
          ['plan module', o.emit, emitted],
        ]),
        E.map((files) => {
          const lacks = lacksOf(staged)
          out.answer(
            { ...planJson(plan, timeline, staging), lacks, ...(words === undefined ? {} : { explanation }) },
            [summary(plan, timeline, staging, terminalWidth(out)), ...(words === undefined ? [] : [words])].join('\n'),
          )
          if (staged.family) out.say(bandsText(staged.family))
          lacks.forEach((lack) => out.say(`note: this machine cannot run the plan: ${lack}`))
          return files.flat().forEach(out.say)
        }),
      )
    }),
  )
}

/** A rank that does not lead has nothing to print. */
const isStaged = (answer: StagedModel | RunEnd): answer is StagedModel => 'staged' in answer

/** A plan needs the sizes of slides alone. */
const readsSizes = ({ data, level, microns, blocks, canvas, bags }: PlanOptions): Either<SpillwayError, void> => {
  const odd = Object.entries({ data, level, microns, blocks, bags }).find(([, value]) => value !== undefined)
  return canvas === undefined && odd !== undefined
    ? E.left(usage(`${flagOf(odd[0])} is for the canvas of slides: add --canvas auto, or a size`))
    : E.right(undefined)
}

export const planModel = (model: string, asked: PlanOptions, out: Output): Promise<Done> =>
  pipe(
    TE.fromEither(
      pipe(
        emits(asked),
        E.flatMap(() => placesOf(model, asked)),
        E.flatMap(() => readsSizes(asked)),
      ),
    ),
    TE.flatMap(() => withCanvas(asked, out.say, true)),
    TE.bindTo('o'),
    TE.bind('answer', ({ o }) => staged(model, { measure: 'first', ...o })),
    TE.flatMap(({ o, answer }) => {
      if (isStaged(answer)) return () => written(answer, o, out)
      process.exitCode = answer.code
      return TE.right(undefined)
    }),
  )()
