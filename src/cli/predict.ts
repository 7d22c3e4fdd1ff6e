// `spillway predict MODEL`: stages the forward pass for the images' size and runs it. Out: the plan's summary, progress, the written files.
// Invariant: weights, data and their size, and the places of outputs are checked before planning.
import { extname } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model } from '../../dsl'
import type { DeviceName } from '../../staging/devices'
import type { Taking } from '../data/augment'
import type { Data } from '../data/data'
import type { DataDescription } from '../data/description'
import { checkedWhole, holdsPictures, leftOutAt } from '../data/images'
import { sizeOfOwn } from '../data/readers'
import { looked } from '../data/sizes'
import { type SpillwayError, usage } from '../errors/errors'
import { imageSize } from '../files/samples'
import { writeWholeText } from '../files/whole'
import type { TierOptions } from '../machine/localmachine'
import { type Predicted, predictTask } from '../predict/predictor'
import { placesOf } from '../predict/ready'
import { pictureSize } from '../predict/subjects'
import type { PredictOptions } from '../predict/options'
import { predictionMemory } from '../predict/process'
import { hasPyramid, isOneFile } from '../predict/outputs'
import { isPerImage, paddedBy } from '../predict/padding'
import { type Engine, engineFor } from '../ranks/engine'
import { showSeconds, showShape, showSize } from '../report/format'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { textTable } from '../report/texttable'
import { preparePrediction } from '../stage/prepare'
import type { Staged } from '../stage/staged'
import type { StageOptions } from '../stage/stageoptions'
import { stagePrepared } from '../stage/stage'
import { sharedThreads } from '../train/ranks/among'
import { beforehand, filesOf } from '../train/beforehand'
import { type LoadingOptions, loadingOf } from '../train/loading'
import type { RunEnd } from '../train/ranks/orders'
import { zooEntry } from '../zoo'
import { type DataFlags, dataNamed, withSlides } from './data'
import { interrupts } from './interrupts'
import { looksLikeFile } from './load'
import { modelNamed } from './model'
import { readingModel } from './modelreads'
import { flagOf, type InputOptions, overrideOf } from './options'
import { damagedText, type Done, note, type Output, skippedText, terminalWidth } from './output'
import { predictedAmong } from './predictamong'
import { openMachine, planShown, readModel } from './phases'
import { countLines } from './progress'
import { type Completed, sizeIn, withRecipe } from './recipe'

export interface PredictCommandOptions
  extends InputOptions,
    DataFlags,
    Pick<StageOptions, 'budget' | 'strategy' | 'algorithms' | 'precision' | 'measure' | keyof TierOptions>,
    Partial<
      Pick<PredictOptions, 'weights' | 'weightsSkip' | 'weightsStrip' | 'out' | 'threads' | 'format' | 'workers' | 'strictData'>
    > {
  readonly data?: string
  readonly as?: Form
  readonly device?: DeviceName
  readonly report?: string
}

type Given = Pick<PredictOptions, 'weights' | 'data' | 'out' | 'format' | 'workers' | 'strictData' | keyof LoadingOptions>

/** The fit of resized pictures: `--image` alone resizes as in training. */
const fitOf = ({ fit, image, data }: PredictCommandOptions, recipe: DataDescription | undefined): Taking | undefined =>
  fit ?? (image && data !== undefined && holdsPictures(data) ? (recipe?.fit ?? 'cover') : undefined)

const given = (o: PredictCommandOptions, recipe?: DataDescription): Either<SpillwayError, Given> => {
  const { weights, data, out, format, workers, strictData, as } = o
  if (format !== undefined && format !== 'npy' && !hasPyramid(format) && as !== 'classes')
    return E.left(usage(`--format ${format} needs --as classes`))
  const missing = Object.entries({ weights, data }).flatMap(([k, v]) => (v === undefined ? [`--${k}`] : []))
  return weights === undefined || data === undefined
    ? E.left(usage(`predict needs ${missing.join(', ')}. Example: spillway predict --weights W.safetensors --data IMAGES`))
    : E.map((named: string | Data) => ({ weights, ...loadingOf(o), data: named, out, format, workers, strictData }))(
        dataNamed(data, { ...o, fit: fitOf(o, recipe) }),
      )
}

/** Returns true for image files; slides are read by regions. */
const arePictures = (path: string, data: string | Data): boolean =>
  (typeof data === 'string' || data.set.kind !== 'own') && holdsPictures(path)

const areArrays = (path: string, data: string | Data): boolean =>
  typeof data === 'string' ? !holdsPictures(path) : data.set.kind === 'files'

const firstSize = (
  path: string,
  data: string | Data,
  { layout, damaged }: PredictCommandOptions,
): TaskEither<SpillwayError, readonly [height: number, width: number]> => {
  if (typeof data !== 'string' && data.set.kind === 'own') {
    const { set } = data
    return pipe(
      looked(() => sizeOfOwn(set, 0)),
      TE.map(({ height, width }) => [height, width] as const),
    )
  }
  return holdsPictures(path) ? pictureSize(path, damaged) : TE.fromEither(imageSize(path, layout === 'nhwc' ? 'NHWC' : 'NCHW'))
}

/** The size of the plan: `--image`, the size of training for resized images, or the size of the first image or slide. */
const inputFor = (
  o: PredictCommandOptions,
  path: string,
  data: string | Data,
  model: Model,
  recipe: DataDescription | undefined,
): TaskEither<SpillwayError, InputOptions> =>
  o.image
    ? TE.right(o)
    : (o.fit && o.fit !== 'own') || (arePictures(path, data) && isPerImage(model))
      ? TE.right({ ...o, ...(recipe ? sizeIn(recipe) : {}) })
      : pipe(
          firstSize(path, data, o),
          TE.map(([height, width]) => {
            const padded = paddedBy(model)({ height, width })
            return { ...o, image: [padded.height, padded.width] as const }
          }),
        )

const MOST_CLASSES = 12
/** The number of images of each class, most first. */
const labelsText = ({ labels = [] }: Predicted): readonly string[] => {
  const counts = new Map<string, number>()
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1)
  const sorted = [...counts].sort((a, b) => b[1] - a[1])
  const shown = sorted.slice(0, MOST_CLASSES).map(([name, n]) => `${n} ${name}`)
  return shown.length === 0
    ? []
    : [`  classes    ${shown.join(', ')}${sorted.length > MOST_CLASSES ? ', …' : ''} (--json has each)`]
}

/** Rows of the table in a terminal. */
const MOST_ROWS = 40
const RANKED = [{ head: '', cut: true }, { head: '' }, { head: '', cut: true }] as const
/** A narrow terminal cuts long names of files and classes. */
const rankedText = ({ ranked = [] }: Predicted, width?: number): readonly string[] => {
  const rows = ranked.slice(0, MOST_ROWS).map(({ file, x, y, class: name, confidence }) => {
    const place = x === undefined ? file : `${file} at ${x}, ${y}`
    return [place, confidence.toFixed(3), name]
  })
  const [, ...lines] = textTable(RANKED, rows, width === undefined ? width : width - 2).lines
  return [
    ...lines.map((line) => `  ${line}`),
    ...(ranked.length > MOST_ROWS ? [`  … ${ranked.length - MOST_ROWS} more: --out results.csv writes all`] : []),
  ]
}

const MOST_MAPS = 4
/** The maps of tiles, beside a table. */
const mapsText = ({ files = [] }: Predicted): readonly string[] => {
  const maps = files.length > 1 && isOneFile(files[0]!) ? files.filter((file) => file.endsWith('.png')) : []
  const shown = maps.slice(0, MOST_MAPS).join(', ')
  return maps.length === 0 ? [] : [`  maps       ${shown}${maps.length > MOST_MAPS ? `, … (${maps.length} in all)` : ''}`]
}

/** Returns the words of a result for a terminal of this width. */
export const predictedText = (r: Predicted, out: string | undefined, width?: number): string =>
  [
    `predicted ${r.images} image${r.images === 1 ? '' : 's'} with ${r.model}: ${showShape(r.shape)} each${out === undefined ? '' : `, in ${out}`}`,
    ...(out === undefined ? rankedText(r, width) : []),
    ...labelsText(r),
    ...mapsText(r),
    `  time       ${showSeconds(r.secondsPerStep)} per batch, predicted ${showSeconds(r.predictedSecondsPerStep)}`,
    `  memory     ${showSize(r.arenaPeakBytes)} on the device, budget ${showSize(r.budgetBytes)}; the process ${showSize(r.processPeakBytes)}`,
    ...skippedText(r),
    `  swaps      out ${showSize(r.bytesOut)}, in ${showSize(r.bytesIn)}${r.diskBytes ? `; ${showSize(r.diskBytes)} on disk` : ''}`,
  ].join('\n')

/** The model at its own size. */
const ownSized = (model: string, o: PredictCommandOptions): Either<SpillwayError, Model> =>
  pipe(
    modelNamed(model, { ...overrideOf({ classes: o.classes }), batch: 1, mode: 'predict' }),
    E.filterOrElse(
      ({ model }) => model.kind !== 'step',
      () => usage('predict needs a model with one input and one output, not a step'),
    ),
    E.map(({ model }) => model as Model),
  )

/** Endings of tables of classes. */
const RANKING = ['.csv', '.json', '.jsonl']

/** Without --as, a classifier gives the best classes with their confidence in the terminal and in tables. */
const formFor = (own: Model, model: string, { as, out }: PredictCommandOptions, recipe: DataDescription | undefined): Form => {
  if (as !== undefined) return as
  const classifies = (recipe?.classes?.length ?? 0) > 0 || (!looksLikeFile(model) && zooEntry(model)?.loss === 'cross-entropy')
  return isPerImage(own) && classifies && (out === undefined || RANKING.includes(extname(out))) ? 'probabilities' : 'values'
}

const stagedFor = (
  { model, options: o, recipe }: Completed<PredictCommandOptions>,
  options: Given,
): TaskEither<SpillwayError, { readonly model: Model; readonly staged: Staged }> =>
  pipe(
    TE.fromIOEither(() => placesOf({ ...options, report: o.report }, flagOf, readingModel(model))),
    TE.flatMapEither(() => ownSized(model, o)),
    TE.bindTo('own'),
    TE.let('as', ({ own }) => formFor(own, model, o, recipe)),
    TE.filterOrElse(
      ({ own, as }) => o.out !== undefined || (isPerImage(own) && as !== 'values'),
      () => usage('predict needs --out for outputs other than the class of each image, e.g. --out masks'),
    ),
    TE.bind('input', ({ own }) => TE.mapLeft(beforehand)(inputFor(o, o.data!, options.data, own, recipe))),
    TE.flatMapEither(({ input, as }) => stagedAt(input, model, { ...o, as }, options)),
  )

/** Data that would be left out are refused before planning. */
const wholeBeforehand = ({ data, strictData, damaged }: PredictCommandOptions): Either<SpillwayError, unknown> =>
  pipe(
    leftOutAt(data!, damaged),
    E.flatMap((leftOut) => checkedWhole(data!, leftOut, strictData ?? false)),
    E.mapLeft(beforehand),
  )

const stagedAt = (
  input: InputOptions,
  model: string,
  o: PredictCommandOptions,
  options: Given,
): Either<SpillwayError, { readonly model: Model; readonly staged: Staged }> =>
  pipe(
    E.Do,
    E.flatMap(() => readModel(model, { batch: 1, ...overrideOf(input), mode: 'predict' })),
    E.bindTo('named'),
    E.bind('machine', () => openMachine(o.device, o)),
    E.flatMap(({ named, machine }) => preparePrediction(named.model, machine, { as: o.as, name: named.name })),
    E.tap(() => (arePictures(o.data!, options.data) ? wholeBeforehand(o) : E.right([]))),
    // The readers of images and slides check them.
    E.tap(({ graph }) =>
      filesOf(areArrays(o.data!, options.data) ? options : { weights: options.weights, ...loadingOf(options) })(graph),
    ),
    E.flatMap((prepared) =>
      pipe(
        planShown(prepared.graph.name, () => stagePrepared(prepared, o)),
        E.map((staged) => ({ model: prepared.model as Model, staged })),
      ),
    ),
  )

/** Several processes have one file each at a time, not one together. */
const outOf = (engine: Engine | undefined, out: string | undefined): Either<SpillwayError, void> =>
  engine && out !== undefined && isOneFile(out)
    ? E.left(usage(`--out ${out} is one file, but ${engine.ranks} processes write their own files: use a folder`))
    : E.right(undefined)

const shown = ({ staged }: { readonly staged: Staged }, o: PredictCommandOptions, options: Given, out: Output) => {
  const { plan, timeline } = staged
  const staging = { ...staged.staging, process: predictionMemory(staged, options) }
  out.say(summary(plan, timeline, staging, terminalWidth(out)))
  return TE.fromEither(
    o.report === undefined ? E.right(undefined) : E.asUnit(writeWholeText(o.report, reportHtml(plan, timeline, staging))),
  )
}

/** The options of the run. */
const runOptions = (o: PredictCommandOptions, options: Given, out: Output, signal: AbortSignal): PredictOptions => ({
  ...options,
  ...(o.threads === undefined ? {} : { threads: o.threads }),
  ...(o.spill === undefined ? {} : { spill: o.spill }),
  ...(o.hostMemory === undefined ? {} : { hostMemory: o.hostMemory }),
  signal,
  onProgress: countLines(out),
  onNote: note,
})

const performed = (
  completed: Completed<PredictCommandOptions>,
  options: Given,
  engine: Engine | undefined,
  out: Output,
): TaskEither<SpillwayError, Predicted | RunEnd> => {
  const { options: o } = completed
  const staged = (own: PredictCommandOptions) =>
    pipe(
      stagedFor({ ...completed, options: own }, options),
      TE.tap((found) => shown(found, own, options, out)),
    )
  const interrupt = interrupts(() => out.say('\ninterrupted: stopping after this batch; interrupt again to stop at once'))
  return pipe(
    engine?.kind === 'mpi'
      ? pipe(
          TE.fromEither(o.threads === undefined ? sharedThreads(engine) : E.right(o.threads)),
          TE.flatMap((threads) => {
            const own = { ...o, threads, ranks: engine.ranks }
            return predictedAmong(engine, {
              options: runOptions(own, options, out, interrupt.signal),
              machine: own,
              staged: () => staged(own),
            })
          }),
        )
      : pipe(
          staged(o),
          TE.flatMap((found) => predictTask(found.model, found.staged, runOptions(o, options, out, interrupt.signal))),
        ),
    TE.mapLeft((e): SpillwayError => (e.tag === 'Cancelled' ? { ...e, signal: interrupt.name() } : e)),
    TE.tapIO(() => interrupt.forget),
  )
}

/** A rank that does not lead has nothing to print. */
const isResult = (answer: Predicted | RunEnd): answer is Predicted => 'images' in answer

const finished = (answer: Predicted | RunEnd, o: PredictCommandOptions, out: Output): void => {
  if (isResult(answer)) {
    const { outputs: _, ...rest } = answer
    out.answer(rest, [predictedText(answer, o.out, terminalWidth(out)), ...damagedText(o)].join('\n'))
  } else process.exitCode = answer.code
}

export const predictModel = (model: string | undefined, o: PredictCommandOptions, out: Output): Promise<Done> =>
  pipe(
    TE.fromEither(given(o)),
    TE.flatMap(() => withSlides(o, out.say, false)),
    TE.flatMapEither((asked) =>
      pipe(
        engineFor({}, process.env),
        E.bindTo('engine'),
        E.bind('completed', () => withRecipe('predict', model, asked)),
        E.bind('options', ({ completed }) => given(completed.options, completed.recipe)),
        E.tap(({ engine, options }) => outOf(engine, options.out)),
      ),
    ),
    TE.flatMap(({ engine, completed, options }) =>
      pipe(
        performed(completed, options, engine, out),
        TE.map((answer) => finished(answer, completed.options, out)),
      ),
    ),
  )()
