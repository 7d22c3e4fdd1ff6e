// `spillway train MODEL`: stage, or take a plan, and run it. Out: the plan's summary, progress, losses, the result.
// Invariant: the first Ctrl-C ends the run after the current step and saves it; with --no-save and no checkpoints, within a step.
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as T from 'fp-ts/Task'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { type Augment, type AugmentWord, USUAL_JITTER } from '../data/augment'
import type { Data } from '../data/data'
import type { Origin } from '../data/description'
import { meansImages, openImages } from '../data/images'
import { trainingSets, validationSet } from '../data/sets'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { PAGE_FILE, runsPlace } from '../files/runs'
import { shownPeakBytes } from '../machine/memory'
import { DEVICES, type DeviceName, isDevice } from '../../staging/devices'
import { plural, showPercent, showSeconds, showSize } from '../report/format'
import { summary } from '../report/summary'
import type { MetricName } from '../predict/metricnames'
import { validation } from '../predict/validation'
import type { Graph } from '../../staging/graph/graph'
import { type Engine, engineFor, type EngineName, startedBy } from '../ranks/engine'
import type { TrainResult } from '../train/result'
import { filesOf, placesOf, roomFor } from '../train/beforehand'
import { checkedOptions, TRAIN, type TrainOptions } from '../train/options'
import { reportFile } from '../train/steplog'
import { listen } from '../train/events'
import type { RunEnd } from '../train/ranks/orders'
import { sessionTask } from '../train/session'
import { firstOf } from '../train/signals'
import { isEvaluable } from '../train/sets'
import { zooEntry } from '../zoo'
import { type DataFlags, dataNamed, saysHow, withSlides } from './data'
import { interrupts } from './interrupts'
import { looksLikeFile } from './load'
import { readingModel } from './modelreads'
import { flagOf } from './options'
import { damagedText, type Done, note, type Output, quoted, skippedText, terminalWidth } from './output'
import { lossFlags } from './own'
import { lossText, metricsText } from '../train/progress'
import { progressFor } from './progress'
import { trainAmong, type Following, checkRanks, sharedThreads } from '../train/ranks/among'
import { plannedAmong } from './planamong'
import { oneBatch, overfitText, shortened } from './trial'
import { type StagedModel, stageNamed, type StagingOptions } from './stage'

export interface TrainCommandOptions extends StagingOptions, DataFlags, Omit<TrainOptions, 'evaluate' | 'keep' | 'save'> {
  /** False: no weights are kept, and the run has no folder. */
  readonly save?: string | false
  readonly evaluate?: string
  /** True: one step, and one batch of the evaluation. */
  readonly trial?: boolean
  /** Number of steps on one batch. */
  readonly overfit?: number
  /** True if --data chose the data of evaluations: a step then trains without them. */
  readonly evaluatesSets?: boolean
  readonly evaluateEvery?: number
  readonly evaluateImages?: string
  readonly metrics?: readonly MetricName[]
  readonly keepBest?: string
  readonly keepLast?: number
  readonly augment?: readonly AugmentWord[]
  readonly device?: string
  /** Seconds. */
  readonly timeLimit?: number
  /** True if evaluations measure the average of the weights. */
  readonly evaluateAverage?: boolean
  readonly engine?: EngineName
}

const DEFAULT_STEPS = 10

// ---------------------------------------------------------------- stops

const LONGEST_TIMER_MS = 2 ** 31 - 1

/** The options of `train`, among all flags. */
const trainOptions = (o: TrainOptions): TrainOptions =>
  Object.fromEntries(TRAIN.keys.map((key) => [key, o[key]])) as unknown as TrainOptions

/** The end of a run that is to go on later: a time limit, counted from the process's start, and SIGUSR1. */
const stopping = ({ timeLimit, checkpointDir }: TrainCommandOptions): Pick<TrainOptions, 'stop'> => {
  if (checkpointDir === undefined) return {}
  const controller = new AbortController()
  process.once('SIGUSR1', () => controller.abort('SIGUSR1'))
  if (timeLimit !== undefined) {
    const left = Math.min(Math.max(timeLimit * 1000 - performance.now(), 0), LONGEST_TIMER_MS)
    setTimeout(() => controller.abort(`the time limit of ${showSeconds(timeLimit)}`), left).unref()
  }
  return { stop: controller.signal }
}

// ---------------------------------------------------------------- the command

const deviceOf = (o: TrainCommandOptions): Either<SpillwayError, DeviceName> => {
  const device = o.device ?? o.machine ?? 'cpu'
  if (o.device !== undefined && o.machine !== undefined && o.device !== o.machine)
    return E.left(usage('--device and --machine name different machines: use one of them'))
  return isDevice(device) ? E.right(device) : E.left(unknownName('device', device, DEVICES))
}

/** Pages of the device have an address for each stay of theirs. */
const MISLEADING = 1.25
const shownToo = ({ processPeakBytes }: TrainResult): string => {
  const shown = shownPeakBytes()
  return shown < MISLEADING * processPeakBytes ? '' : `, shown by top as ${showSize(shown)} because it counts shared pages twice`
}

/** Shares of a step that wait for data: below the first there is no note; above the second, data limit the speed. */
const WAITING = 0.05
const BOTTLENECK = 0.5
const waitingText = (waited: number, secondsPerStep: number, given: boolean): string => {
  const source = given ? 'data' : 'synthetic data'
  return waited > BOTTLENECK * secondsPerStep
    ? `${source} are the bottleneck: ${showSeconds(waited)} of each ${showSeconds(secondsPerStep)} step`
    : `${showSeconds(waited)} of each ${showSeconds(secondsPerStep)} step wait for ${source}`
}
const dataText = ({ feedSeconds, feedBytes, steps, secondsPerStep }: TrainResult, given: boolean): readonly string[] => {
  const waited = feedSeconds / Math.max(1, steps)
  const ahead = feedBytes > 0 ? [`prefetched batches use ${showSize(feedBytes)} of host memory`] : []
  const slow = waited > WAITING * secondsPerStep ? [waitingText(waited, secondsPerStep, given)] : []
  const words = [...slow, ...ahead]
  return words.length ? [`  data       ${words.join('; ')}`] : []
}

const bestText = ({ best, endedEarly }: TrainResult): readonly string[] =>
  best
    ? [
        `  best       ${best.epoch === 0 ? '' : `epoch ${best.epoch}, `}step ${best.step}: ${metricsText(best.metrics)}${endedEarly ? '; the run ended after no further improvement' : ''}`,
      ]
    : []

/** The reasons for a slow GPU, if there are any. */
const slowText = ({ ownKernels, withoutGraphs }: TrainResult): readonly string[] => [
  ...(ownKernels && ownKernels.calls > 0
    ? [
        `  kernels    ${ownKernels.calls} of ${ownKernels.of} products per step use own kernels, which are much slower: no library has an engine for them`,
      ]
    : []),
  ...(withoutGraphs === undefined ? [] : [`  graphs     off: ${withoutGraphs}`]),
]

const scaleText = ({ lossScale }: TrainResult): readonly string[] =>
  lossScale ? [`  loss scale ${lossScale.scale}; ${plural(lossScale.skipped, 'update')} skipped after an overflow`] : []

const ranksText = ({
  ranks,
  commBytes = 0,
  commSeconds = 0,
  commHiddenShare = 0,
  steps,
  resumedFrom,
}: TrainResult): readonly string[] => {
  const here = Math.max(1, steps - resumedFrom)
  return ranks === undefined
    ? []
    : [
        `  ranks      ${ranks}; each sent ${showSize(commBytes / here)} per step; exchanges took ${showSeconds(commSeconds / here)}, ${showPercent(commHiddenShare)} of it during compute`,
      ]
}

/** A hash, cut if a terminal has no line for it. */
const hashText = (hash: string, width = Number.POSITIVE_INFINITY): string =>
  width < LABELS + hash.length ? `${hash.slice(0, 16)}…` : hash
/** Columns before a hash. */
const LABELS = 21

/** Returns the words of a result for a terminal of this width; `given`: with data of the caller. */
export const trainedText = (r: TrainResult, given: boolean, width?: number): string =>
  [
    `trained ${r.model} with ${r.strategy} for ${plural(r.steps, 'step')}${r.resumedFrom ? `, ${r.resumedFrom} of them before this resume` : ''}`,
    `  losses     ${r.losses.length <= 8 ? r.losses.map(lossText).join(' ') : `${r.losses.slice(0, 4).map(lossText).join(' ')} … ${r.losses.slice(-4).map(lossText).join(' ')}`}`,
    `  time       ${showSeconds(r.secondsPerStep)} per step, predicted ${showSeconds(r.predictedSecondsPerStep)}; recompute ${showSeconds(r.recomputeSeconds)} in total`,
    `  memory     ${showSize(r.arenaPeakBytes)} on the device, budget ${showSize(r.budgetBytes)}; the process ${showSize(r.processPeakBytes)}${shownToo(r)}`,
    ...skippedText(r),
    ...dataText(r, given),
    ...slowText(r),
    ...scaleText(r),
    ...ranksText(r),
    `  swaps      out ${showSize(r.bytesOut)}, in ${showSize(r.bytesIn)}${r.diskBytes ? `; ${showSize(r.diskBytes)} on disk` : ''}`,
    ...bestText(r),
    `  weights    sha256 ${hashText(r.weightsSha256, width)}${r.savedTo === undefined ? '; not saved' : `, in ${r.savedTo}`}`,
    ...(r.runFolder === undefined ? [] : [`  run        ${r.runFolder}`]),
  ].join('\n')

const RUNS_ON_PAGES = `train runs with pages only; 'spillway plan' simulates other allocators`

const resumed = ({ resume, checkpointDir }: TrainCommandOptions): Pick<StagingOptions, 'resumes'> =>
  resume && checkpointDir !== undefined ? { resumes: checkpointDir } : {}

/** The meaning of each word of --augment. */
const MEANT: Required<Augment> = {
  flip: 'horizontal',
  turns: true,
  crop: true,
  elastic: true,
  randAugment: true,
  jitter: true,
  blur: true,
  cutout: true,
  mixup: true,
  cutmix: true,
}

/** Turns hues by at most a tenth of the colour circle. */
const HUE = 0.1

/** The augmentation of all words; `hue` is a part of jitter. */
const meaningOf = (words: readonly AugmentWord[]): Augment => ({
  ...Object.fromEntries(words.flatMap((word) => (word === 'hue' ? [] : [[word, MEANT[word]]]))),
  ...(words.includes('hue') ? { jitter: { ...(words.includes('jitter') ? USUAL_JITTER : {}), hue: HUE } } : {}),
})

/** Images have settings of their own. */
const dataOf = ({ data, augment, ...o }: TrainCommandOptions): Either<SpillwayError, Pick<TrainOptions, 'data'>> => {
  if (!saysHow(o) && augment === undefined) return E.right(data === undefined ? {} : { data })
  if (typeof data !== 'string')
    return E.left(
      usage(
        o.layout
          ? '--layout applies to arrays: add --data'
          : (o.fit ?? o.images ?? augment) === undefined
            ? '--mean, --std and --depth apply to data: add --data'
            : '--fit, --augment and --images apply to images: add --data',
      ),
    )
  const meant = augment && meaningOf(augment)
  return pipe(
    dataNamed(data, o, meant),
    E.map((named) => ({ data: named })),
  )
}

/** The images of --evaluate are in --evaluate-images, or with those of --data. Slides are read as those of --data. */
const evaluationFlags = (o: TrainCommandOptions): DataFlags => {
  const { fit, layout, mean, std, depth, images, evaluate = '', evaluateImages, skipDamaged, damaged, faults } = o
  const { level, microns, tileSize, tissue, blocks, canvas, bags, found } = o
  const folder = evaluateImages ?? (/\.json$/i.test(evaluate) ? images : undefined)
  const slides = { level, microns, tileSize, tissue, blocks, canvas, bags, found }
  return { fit, layout, mean, std, depth, images: folder, skipDamaged, damaged, faults, ...slides }
}

/** The evaluations between steps, and their kept weights. */
const measuring = (
  o: TrainCommandOptions,
): Either<SpillwayError, { readonly evaluate: TrainOptions['evaluate']; readonly keep: TrainOptions['keep'] }> => {
  const { evaluate, evaluateEvery: every, metrics, evaluateAverage, keepBest: best, keepLast: last } = o
  if (evaluate === undefined && (every ?? metrics ?? evaluateAverage) !== undefined)
    return E.left(usage('--evaluate-every, --evaluate-average and --metrics need --evaluate DATA'))
  if (evaluateAverage && o.average === undefined && o.plan === undefined)
    return E.left(usage('--evaluate-average needs --average, e.g. --average 0.999'))
  const named: Either<SpillwayError, string | Data | undefined> =
    evaluate === undefined ? E.right(undefined) : dataNamed(evaluate, evaluationFlags(o))
  return pipe(
    named,
    E.map((data) => ({
      evaluate:
        data === undefined ? undefined : validation({ data, metrics, every, weights: evaluateAverage ? 'average' : 'latest' }),
      keep: best === undefined && last === undefined ? undefined : { best, last },
    })),
  )
}

/** Data, those of evaluations too, and weights are of the model's shapes. */
const fitting =
  ({ evaluate, ...o }: TrainCommandOptions, options: TrainOptions) =>
  (graph: Graph): Either<SpillwayError, void> =>
    pipe(
      filesOf(options)(graph),
      E.flatMap((classes) =>
        evaluate === undefined
          ? E.right(undefined)
          : pipe(
              dataNamed(evaluate, evaluationFlags({ ...o, evaluate })),
              E.flatMap((data) => E.asUnit(filesOf({ data, classes, strictData: o.strictData })(graph))),
            ),
      ),
    )

/** The file of --save; undefined without it, and for --no-save. */
const saveOf = ({ save }: TrainCommandOptions): string | undefined => (save === false ? undefined : save)

/** The options of the run itself, from flags. */
const optionsOf = (o: TrainCommandOptions): Either<SpillwayError, TrainOptions> =>
  pipe(
    dataOf(o),
    E.bindTo('data'),
    E.bind('measuring', () => measuring(o)),
    E.flatMap(({ data, measuring }) =>
      checkedOptions(
        trainOptions({
          ...o,
          ...data,
          ...measuring,
          save: saveOf(o),
          ...((o.steps ?? o.epochs) === undefined ? { steps: DEFAULT_STEPS } : {}),
          ...stopping(o),
        }),
      ),
    ),
  )

/** Names of the model and its loss, for the recipe of the weights. */
const originOf = ({ source }: StagedModel['named'], o: TrainCommandOptions): Origin => {
  const loss = lossFlags(o)
  return {
    ...('family' in source ? { zoo: o.classes === undefined ? {} : { classes: o.classes } } : {}),
    ...(loss ? { loss } : {}),
  }
}

/** The name of a run without --run: that of the model, which may be any file name. */
const runName = (model: string): string => model.replace(/^[.-]+/, '') || 'run'

type PreparedRun = StagedModel & { readonly options: TrainOptions }

/** The data of a trial or of an overfit are one batch. */
const onOneBatch =
  ({ trial, overfit, metrics }: TrainCommandOptions) =>
  (run: PreparedRun): Either<SpillwayError, PreparedRun> => {
    const { staged, options } = run
    const { evaluate, data } = options
    const { graph } = staged.plan
    if (trial && evaluate)
      return pipe(
        oneBatch(graph, evaluate.data),
        E.map((few) => ({
          ...run,
          options: { ...options, evaluate: validation({ data: few, metrics, weights: evaluate.weights }) },
        })),
      )
    return overfit === undefined || data === undefined
      ? E.right(run)
      : pipe(
          oneBatch(graph, data),
          E.map((few) => ({ ...run, options: { ...options, data: few } })),
        )
  }

/** Checks before the first step: the call is right, and there is a plan for this device. */
export const prepared = (model: string, o: TrainCommandOptions): Either<SpillwayError, PreparedRun> =>
  pipe(
    E.Do,
    E.bind('device', () => deviceOf(o)),
    E.filterOrElse(
      () => o.timeLimit === undefined || o.checkpointDir !== undefined,
      () => usage('--time-limit needs --checkpoint-dir, to save the run for --resume'),
    ),
    E.filterOrElse(
      () => o.run === undefined || o.save !== false,
      () => usage('--run names the folder of the run, but --no-save writes no folder: leave one of them out'),
    ),
    E.bind('options', () => optionsOf(o)),
    E.filterOrElse(
      () => o.allocator === undefined || o.allocator === 'pages',
      () => usage(`--allocator ${o.allocator}: ${RUNS_ON_PAGES}`),
    ),
    E.tap(({ options }) => placesOf({ ...o, data: options.data, save: saveOf(o) }, flagOf, readingModel(model))),
    E.tap(() => (o.save === false ? E.right(undefined) : runsPlace())),
    E.bind('found', ({ device, options }) => stageNamed(model, { ...o, machine: device, ...resumed(o) }, fitting(o, options))),
    E.filterOrElse(
      ({ device, found: { staged } }) => staged.machine.name === device,
      ({ device, found: { staged } }) => usage(`the plan is for '${staged.machine.name}', not for --device ${device}`),
    ),
    E.let('own', ({ options, found }) =>
      o.evaluatesSets && !isEvaluable(found.named.model) ? { ...options, evaluate: undefined } : options,
    ),
    E.map(({ own, found }) => ({
      ...found,
      options: o.save === false ? own : { ...own, run: o.run ?? runName(found.named.name) },
      staged: { ...found.staged, origin: originOf(found.named, o) },
    })),
    E.flatMap(onOneBatch(o)),
    E.tap(({ staged, options }) => roomFor(staged, options)),
  )

const shown = ({ staged }: PreparedRun, o: TrainCommandOptions, out: Output): void => {
  out.say(summary(staged.plan, staged.timeline, staged.staging, terminalWidth(out)))
  const report = o.save === false ? reportFile(o) : o.report
  if (report !== undefined) out.say(`report     ${report}`)
}

/** An interrupt saves the run, if it has a place for that. */
const interrupted = (o: TrainOptions, signal: AbortSignal): Pick<TrainOptions, 'signal' | 'stop'> =>
  (o.run ?? o.checkpointDir) === undefined ? { signal } : { stop: firstOf(o.stop, signal) }

/** The weights of an interrupted run with a command that uses them. */
const withUse =
  (asked: string, { model }: StagedModel['named']) =>
  (e: SpillwayError): SpillwayError =>
    (e.tag === 'Cancelled' || e.tag === 'Stopped') && e.weights !== undefined && isEvaluable(model)
      ? { ...e, use: `npx spillway predict ${quoted(asked)} --weights ${quoted(e.weights)} --data FOLDER` }
      : e

/** The run, with its progress. */
const performed = (
  asked: string,
  { named, staged, options }: PreparedRun,
  out: Output,
): TaskEither<SpillwayError, TrainResult> => {
  const progress = progressFor(out, staged.plan)
  const interrupt = interrupts(() => {
    progress.stop()
    out.say('\ninterrupted: stopping after this step; interrupt again to stop at once')
  })
  return pipe(
    sessionTask(
      named.model,
      staged,
      {
        ...options,
        ...interrupted(options, interrupt.signal),
        onProgress: progress.tile,
        onNote: (text) => progress.above(() => note(text)),
      },
      listen((e) => {
        if (e.kind === 'start' && e.runFolder !== undefined && options.report === undefined)
          progress.above(() => out.say(`page       ${join(e.runFolder!, PAGE_FILE)}`))
        progress.event(e)
      }),
    ),
    TE.mapLeft((e): SpillwayError => (e.tag === 'Cancelled' ? { ...e, signal: e.signal ?? interrupt.name() } : e)),
    TE.mapLeft(withUse(asked, named)),
    T.tapIO(() => () => {
      progress.stop()
      interrupt.forget()
    }),
  )
}

const trainAlone = (model: string, o: TrainCommandOptions, out: Output): TaskEither<SpillwayError, TrainResult> =>
  pipe(
    TE.fromIOEither(() => prepared(model, o)),
    TE.tapIO((run) => () => shown(run, o, out)),
    TE.flatMap((run) => performed(model, run, out)),
  )

/** The first rank acts as one process does, after the others have its plan; then all run it. */
const trainAsRank = (
  engine: Engine,
  model: string,
  asked: TrainCommandOptions,
  out: Output,
): TaskEither<SpillwayError, TrainResult | RunEnd> =>
  pipe(
    TE.fromEither(
      pipe(
        deviceOf(asked),
        E.flatMap((device) => checkRanks(engine, device)),
        E.flatMap(() => (asked.threads === undefined ? sharedThreads(engine) : E.right(asked.threads))),
      ),
    ),
    TE.flatMap((threads) => {
      const o: TrainCommandOptions = { ...asked, threads, ranks: engine.ranks }
      const interrupt = interrupts(() => {})
      const following = (): Either<SpillwayError, Following> =>
        E.map((options: TrainOptions) => ({ machine: o, options: { ...options, signal: interrupt.signal, onNote: note } }))(
          optionsOf(o),
        )
      return pipe(
        trainAmong<TrainResult>(engine, threads, following, (rank, handOver, others) =>
          pipe(
            TE.fromIOEither(() => {
              interrupt.forget()
              return E.right(undefined)
            }),
            TE.flatMap(() =>
              plannedAmong({ rank, others, note }, { ...o, machine: o.device ?? o.machine }, (asked) =>
                prepared(model, { ...o, ...asked }),
              ),
            ),
            TE.tapIO((run) => () => shown(run, o, out)),
            TE.map((run) => ({ ...run, staged: { ...run.staged, rank } })),
            TE.tap(({ staged }) => handOver(staged)),
            TE.flatMap((run) => performed(model, run, out)),
          ),
        ),
        T.tapIO(() => interrupt.forget),
      )
    }),
  )

/** A rank that does not lead has nothing to print. */
const isResult = (answer: TrainResult | RunEnd): answer is TrainResult => 'weightsSha256' in answer

const finished = (answer: TrainResult | RunEnd, o: TrainCommandOptions, out: Output): void => {
  if (!isResult(answer)) {
    process.exitCode = answer.code
    return
  }
  const about = o.overfit === undefined ? [] : [overfitText(answer.losses)]
  out.answer(answer, [trainedText(answer, o.data !== undefined, terminalWidth(out)), ...damagedText(o), ...about].join('\n'))
}

/** The number of classes that image folders or a list name, for a classifier of the zoo without --classes. */
const classesOf = (model: string, { classes, plan, data, images }: TrainCommandOptions): number | undefined => {
  const entry = looksLikeFile(model) ? undefined : zooEntry(model)
  if (!entry || classes !== undefined || plan !== undefined || typeof data !== 'string' || !meansImages(data)) return undefined
  const usual = entry.build(entry.defaultInput)
  const isOfPixels = E.isRight(usual) && usual.right.kind !== 'step' && usual.right.output[2] * usual.right.output[3] > 1
  const found = openImages(data, undefined, { images, wanted: isOfPixels ? 'masks' : 'classes' })
  const named = E.isRight(found) ? found.right.classes?.length : undefined
  return named !== undefined && E.isRight(entry.build(entry.defaultInput, 'train', { classes: named })) ? named : undefined
}

export const withClasses = (model: string, o: TrainCommandOptions): TrainCommandOptions => {
  const classes = classesOf(model, o)
  if (classes === undefined) return o
  if ((startedBy(process.env)?.rank ?? 0) === 0) note(`${model} gets ${classes} classes, those of ${String(o.data)}`)
  return { ...o, classes }
}

/** The sets of a parent folder as the data of training and of evaluations. */
export const withSets = (o: TrainCommandOptions): TrainCommandOptions => {
  if (typeof o.data !== 'string') return o
  const { data, validation, note: text } = trainingSets(o.data, o.evaluate !== undefined)
  const evaluation = o.evaluate === undefined ? undefined : validationSet(o.evaluate)
  if ((startedBy(process.env)?.rank ?? 0) === 0) for (const t of [text, evaluation?.note]) if (t !== undefined) note(t)
  const evaluate = validation ?? evaluation?.data
  return { ...o, data, ...(evaluate === undefined ? {} : { evaluate, evaluatesSets: validation !== undefined }) }
}

const trained = (model: string, o: TrainCommandOptions, out: Output): TaskEither<SpillwayError, void> =>
  pipe(
    TE.fromEither(engineFor(o, process.env)),
    TE.flatMap(
      (engine): TaskEither<SpillwayError, TrainResult | RunEnd> =>
        engine ? trainAsRank(engine, model, o, out) : trainAlone(model, o, out),
    ),
    TE.map((answer) => finished(answer, o, out)),
  )

export const trainModel = (model: string, asked: TrainCommandOptions, out: Output): Promise<Done> =>
  pipe(
    TE.fromEither(shortened(withSets(asked))),
    TE.flatMap((o) => withSlides(o, out.say)),
    TE.flatMap((o) => trained(model, withClasses(model, o), out)),
  )()
