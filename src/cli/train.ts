// `spillway train MODEL`: stage, or take a plan, and run it. Out: the plan's summary, progress, losses, the result.
// Invariant: the first Ctrl-C ends the run after the current step and saves it; with --no-save and no checkpoints, within a step.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import * as T from 'fp-ts/Task'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import { join } from 'node:path'
import { meansImages, openImages } from '../data/images'
import { trainingSets, validationSet } from '../data/sets'
import type { SpillwayError } from '../errors/errors'
import { PAGE_FILE } from '../files/runs'
import { type Engine, engineFor, startedBy } from '../ranks/engine'
import { summary } from '../report/summary'
import { listen } from '../train/events'
import type { TrainOptions } from '../train/options'
import { checkRanks, type Following, sharedThreads, trainAmong } from '../train/ranks/among'
import type { RunEnd } from '../train/ranks/orders'
import type { TrainResult } from '../train/result'
import { sessionTask } from '../train/session'
import { isEvaluable } from '../train/sets'
import { firstOf } from '../train/signals'
import { reportFile } from '../train/steplog'
import { zooEntry } from '../zoo'
import { withSlides } from './data'
import { interrupts } from './interrupts'
import { looksLikeFile } from './load'
import { damagedText, type Done, note, type Output, quoted, terminalWidth } from './output'
import { plannedAmong } from './planamong'
import { progressFor } from './progress'
import type { StagedModel } from './stage'
import { deviceOf, optionsOf, type TrainCommandOptions } from './trainoptions'
import { prepared, type PreparedRun } from './trainprepared'
import { trainedText } from './traintext'
import { overfitText, shortened } from './trial'

export const shown = ({ staged }: PreparedRun, o: TrainCommandOptions, out: Output): void => {
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
