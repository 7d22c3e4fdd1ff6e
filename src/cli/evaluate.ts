// `spillway evaluate MODEL`: stages the forward pass and its loss, and measures. Out: the plan's summary, progress, the loss and metrics. Invariant:
// weights, data, metrics, and the place of the result are checked before planning.
import { extname } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { type Model, mse } from '../../dsl'
import { formBeside } from '../../dsl/prediction'
import type { DeviceName } from '../../staging/devices'
import type { Data } from '../data/data'
import { readingData } from '../data/reads'
import { validationSet } from '../data/sets'
import { type SpillwayError, usage } from '../errors/errors'
import { checkedPlaces, reading, writing } from '../files/places'
import { rowText } from '../files/rows'
import { writeWholeText } from '../files/whole'
import type { TierOptions } from '../machine/localmachine'
import { checkedMetrics } from '../predict/evaluable'
import { type Evaluated, evaluateTask } from '../predict/evaluator'
import { formFor, type MetricName } from '../predict/metricnames'
import type { EvaluateOptions } from '../predict/options'
import { engineFor, startedBy } from '../ranks/engine'
import { showSeconds, showSize } from '../report/format'
import { summary } from '../report/summary'
import { textTable } from '../report/texttable'
import { prepareEvaluation } from '../stage/prepare'
import type { Staged } from '../stage/staged'
import type { StageOptions } from '../stage/stageoptions'
import { stagePrepared } from '../stage/stage'
import { sharedThreads } from '../train/ranks/among'
import { filesOf } from '../train/beforehand'
import { type LoadingOptions, loadingOf } from '../train/loading'
import type { RunEnd } from '../train/ranks/orders'
import { type DataFlags, dataNamed, withSlides } from './data'
import { evaluatedAmong } from './evaluateamong'
import { interrupts } from './interrupts'
import { readingModel } from './modelreads'
import { type InputOptions, overrideOf } from './options'
import { type Done, note, type Output, terminalWidth } from './output'
import { openMachine, planShown, readModel } from './phases'
import { countLines } from './progress'
import { type Completed, sizeIn, withRecipe } from './recipe'
import { type LossOptions, lossOf, suggestingLoss } from './own'

export interface EvaluateCommandOptions
  extends InputOptions,
    LossOptions,
    DataFlags,
    Pick<StageOptions, 'budget' | 'strategy' | 'algorithms' | 'precision' | 'measure' | keyof TierOptions>,
    Partial<Pick<EvaluateOptions, 'weights' | 'weightsSkip' | 'weightsStrip' | 'threads' | 'workers' | 'strictData'>> {
  readonly data?: string
  readonly metrics?: readonly MetricName[]
  readonly device?: DeviceName
  readonly out?: string
}

type Given = Pick<EvaluateOptions, 'weights' | 'data' | 'metrics' | 'workers' | 'strictData' | keyof LoadingOptions>

const asked = ({ weights, data, metrics, workers, strictData, ...o }: EvaluateCommandOptions): Either<SpillwayError, Given> => {
  const missing = Object.entries({ weights, data }).flatMap(([k, v]) => (v === undefined ? [`--${k}`] : []))
  return weights === undefined || data === undefined
    ? E.left(usage(`evaluate needs ${missing.join(', ')}. Example: spillway evaluate --weights W.safetensors --data DATA`))
    : E.map((named: string | Data) => ({ weights, ...loadingOf(o), data: named, metrics, workers, strictData }))(
        dataNamed(data, o),
      )
}

// ---------------------------------------------------------------- words

const shown = (x: number): string => (Number.isNaN(x) ? '–' : x.toFixed(4))
/** More would not be read. */
const MOST_CLASSES = 32
const MOST_NAME = 24

/** A narrow terminal loses the last metrics. */
const classText = (
  perClass: NonNullable<Evaluated['perClass']>,
  names: readonly string[] = [],
  width?: number,
): readonly string[] => {
  const lists = Object.entries(perClass)
  const classes = lists[0]![1].length
  if (classes > MOST_CLASSES) return [`  classes    ${classes} (--json has each)`]
  const columns = lists.map(([head], i) => ({ head, right: true as const, drop: lists.length - i }))
  const rows = Array.from({ length: classes }, (_, c) => [
    (names[c] ?? String(c)).slice(0, MOST_NAME),
    ...lists.map(([, list]) => shown(list[c]!)),
  ])
  const { lines, left } = textTable([{ head: 'class', cut: true }, ...columns], rows, width === undefined ? width : width - 2)
  return [...lines, ...(left > 0 ? [`${left} more metrics: use a wider terminal, --out or --json`] : [])].map((l) => `  ${l}`)
}

/** Columns of a confusion table, if the width is unknown. */
const MOST_COLUMNS = 12
/** The least width of a column. */
const CELL = 8
/** The most frequent mistakes, if the table does not fit. */
const MOST_MISTAKES = 10

/** Labels as rows, predictions as columns; with many classes, the most frequent mistakes. */
const confusionText = (
  table: NonNullable<Evaluated['confusion']>,
  names: readonly string[] = [],
  columns?: number,
): readonly string[] => {
  const name = (c: number): string => (names[c] ?? String(c)).slice(0, MOST_NAME)
  const width = Math.max(9, ...table.map((_, c) => name(c).length))
  const cells = table.map((_, c) => Math.max(CELL, name(c).length))
  const tableWidth = cells.reduce((n, cell) => n + cell + 2, 2 + width)
  const isTable = columns === undefined ? table.length <= MOST_COLUMNS : tableWidth <= columns
  if (isTable) {
    const line = (head: string, texts: readonly string[]): string =>
      `  ${head.padEnd(width)}  ${texts.map((text, c) => text.padStart(cells[c]!)).join('  ')}`
    return [
      '  confusion: a row per label, a column per prediction',
      line(
        '',
        table.map((_, c) => name(c)),
      ),
      ...table.map((row, c) => line(name(c), row.map(String))),
    ]
  }
  const mistakes = table
    .flatMap((row, label) => row.map((count, prediction) => ({ label, prediction, count })))
    .filter(({ label, prediction, count }) => label !== prediction && count > 0)
    .sort((a, b) => b.count - a.count)
    .slice(0, MOST_MISTAKES)
  return [
    `  confusion: the most frequent mistakes of ${table.length} classes (--json has all)`,
    ...mistakes.map(
      ({ label, prediction, count }) => `  ${name(label).padEnd(width)}  predicted ${name(prediction)}  ${count} times`,
    ),
  ]
}

/** Returns the words of a result for a terminal of this width. */
export const evaluatedText = (r: Evaluated, width?: number): string =>
  [
    `evaluated ${r.model} on ${r.images} sample${r.images === 1 ? '' : 's'}`,
    `  loss       ${r.loss.toPrecision(6)}`,
    ...Object.entries(r.metrics).map(([name, x]) => `  ${name.padEnd(9)}  ${shown(x)}`),
    ...(r.perClass && Object.keys(r.perClass).length > 0 ? classText(r.perClass, r.classes, width) : []),
    ...(r.confusion ? confusionText(r.confusion, r.classes, width) : []),
    `  time       ${showSeconds(r.secondsPerStep)} per batch, predicted ${showSeconds(r.predictedSecondsPerStep)}`,
    `  memory     ${showSize(r.arenaPeakBytes)} on the device, budget ${showSize(r.budgetBytes)}; the process ${showSize(r.processPeakBytes)}`,
    `  swaps      out ${showSize(r.bytesOut)}, in ${showSize(r.bytesIn)}${r.diskBytes ? `; ${showSize(r.diskBytes)} on disk` : ''}`,
  ].join('\n')

// ---------------------------------------------------------------- files

const isTable = (out: string | undefined): boolean => out !== undefined && extname(out) === '.csv'

/** A row for the loss, for each metric, and for each metric of each class. */
const tableText = ({ loss, metrics, perClass = {}, classes = [] }: Evaluated): string =>
  [
    ['metric', 'class', 'value'],
    ['loss', '', loss],
    ...Object.entries(metrics).map(([name, value]) => [name, '', value]),
    ...Object.entries(perClass).flatMap(([name, list]) => list.map((value, c) => [name, classes[c] ?? String(c), value])),
  ]
    .map(rowText)
    .join('')

const fileText = (out: string, r: Evaluated): string =>
  isTable(out) ? tableText(r) : `${extname(out) === '.jsonl' ? JSON.stringify(r) : JSON.stringify(r, null, 2)}\n`

// ---------------------------------------------------------------- the command

/** Without `--image`, samples have the size of training. */
const sized = (c: Completed<EvaluateCommandOptions>): Completed<EvaluateCommandOptions> => ({
  ...c,
  options: { ...(c.recipe ? sizeIn(c.recipe) : {}), ...c.options },
})

const stagedFor = (
  model: string,
  o: EvaluateCommandOptions,
  options: Given,
): Either<SpillwayError, { readonly model: Model; readonly staged: Staged }> => {
  const { budget, strategy, algorithms, spill } = o
  return pipe(
    checkedPlaces(
      [...readingModel(model), ...reading('--weights', o.weights), ...readingData('--data', options.data)],
      writing('--out', isTable(o.out) ? 'resultTable' : 'result', o.out),
    ),
    E.flatMap(() => readModel(model, { ...overrideOf(o), mode: 'predict' })),
    E.bindTo('named'),
    E.bind('loss', ({ named }) => lossOf(o, named.loss)),
    E.bind('machine', () => openMachine(o.device, o)),
    E.bind('prepared', ({ named, loss, machine }) =>
      prepareEvaluation(named.model, machine, { loss, as: formFor(options.metrics ?? []), name: named.name }),
    ),
    E.tap(({ named, prepared, loss = mse }) => {
      const model = prepared.model as Model
      return pipe(
        checkedMetrics(model, loss, formFor(options.metrics ?? []) ?? formBeside(model, loss), options.metrics),
        E.flatMap(() => filesOf(options)(prepared.graph)),
        suggestingLoss(o, named.loss),
      )
    }),
    E.flatMap(({ named, prepared }) =>
      pipe(
        planShown(named.name, () => stagePrepared(prepared, { budget, strategy, algorithms, spill })),
        E.map((staged) => ({ model: prepared.model as Model, staged })),
      ),
    ),
  )
}

/** A loss that is no number is no result. */
const finite = (r: Evaluated): Either<SpillwayError, Evaluated> =>
  Number.isFinite(r.loss)
    ? E.right(r)
    : E.left({ tag: 'Diverged', step: 1, what: `the mean loss over ${r.images} samples is ${r.loss}` })

/** The options of the run. */
const runOptions = (o: EvaluateCommandOptions, options: Given, out: Output, signal: AbortSignal): EvaluateOptions => ({
  ...options,
  ...(o.threads === undefined ? {} : { threads: o.threads }),
  ...(o.spill === undefined ? {} : { spill: o.spill }),
  ...(o.hostMemory === undefined ? {} : { hostMemory: o.hostMemory }),
  signal,
  onProgress: countLines(out),
  onNote: note,
})

const stagedAndShown = (
  model: string,
  o: EvaluateCommandOptions,
  options: Given,
  out: Output,
): Either<SpillwayError, { readonly model: Model; readonly staged: Staged }> =>
  pipe(
    stagedFor(model, o, options),
    E.tap(({ staged }) => {
      out.say(summary(staged.plan, staged.timeline, staged.staging, terminalWidth(out)))
      return E.right(undefined)
    }),
  )

const evaluated = (
  model: string,
  o: EvaluateCommandOptions,
  options: Given,
  out: Output,
): TaskEither<SpillwayError, Evaluated | RunEnd> => {
  const interrupt = interrupts(() => out.say('\ninterrupted: stopping after this batch; interrupt again to stop at once'))
  const found = engineFor({}, process.env)
  if (E.isLeft(found)) return TE.left(found.left)
  const engine = found.right
  return pipe(
    engine?.kind === 'mpi'
      ? pipe(
          TE.fromEither(o.threads === undefined ? sharedThreads(engine) : E.right(o.threads)),
          TE.flatMap((threads) => {
            const own = { ...o, threads, ranks: engine.ranks }
            return evaluatedAmong(engine, {
              options: runOptions(own, options, out, interrupt.signal),
              machine: own,
              staged: () => stagedAndShown(model, own, options, out),
            })
          }),
        )
      : pipe(
          TE.fromIOEither(() => stagedAndShown(model, o, options, out)),
          TE.flatMap(({ model, staged }) => evaluateTask(model, staged, runOptions(o, options, out, interrupt.signal))),
        ),
    TE.mapLeft((e): SpillwayError => (e.tag === 'Cancelled' ? { ...e, signal: interrupt.name() } : e)),
    TE.tapIO(() => interrupt.forget),
  )
}

/** A rank that does not lead has nothing to print. */
const isResult = (answer: Evaluated | RunEnd): answer is Evaluated => 'loss' in answer

/** The set for evaluations, if the data are a parent folder of sets. */
const withSet = (o: EvaluateCommandOptions): EvaluateCommandOptions => {
  if (o.data === undefined) return o
  const { data, note: text } = validationSet(o.data)
  if (text !== undefined && (startedBy(process.env)?.rank ?? 0) === 0) note(text)
  return { ...o, data }
}

export const evaluateModel = (given: string | undefined, command: EvaluateCommandOptions, out: Output): Promise<Done> => {
  const o = withSet(command)
  return pipe(
    TE.fromEither(asked(o)),
    TE.flatMap(() => withSlides(o, out.say)),
    TE.flatMapEither((found) =>
      pipe(
        withRecipe('evaluate', given, found),
        E.map(sized),
        E.bindTo('completed'),
        E.bind('options', ({ completed }) => asked(completed.options)),
      ),
    ),
    TE.flatMap(({ completed, options }) => evaluated(completed.model, completed.options, options, out)),
    TE.flatMapEither((answer): Either<SpillwayError, Evaluated | undefined> => {
      if (isResult(answer)) return finite(answer)
      process.exitCode = answer.code
      return E.right(undefined)
    }),
    TE.tap((r) =>
      TE.fromEither(
        r === undefined || o.out === undefined ? E.right(undefined) : E.asUnit(writeWholeText(o.out, fileText(o.out, r))),
      ),
    ),
    TE.map((r) => (r === undefined ? undefined : out.answer(r, evaluatedText(r, terminalWidth(out))))),
  )()
}
