// Training: a plan run for a number of steps, for any caller. In: the start of the run, its listeners. Out: TrainResult, or an error as data.
// Invariant: after every chunk of steps the checkpoint on disk is whole, so that after any end of the run (an error, a signal, a kill) `resume`
// continues from the last one, bit for bit.
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Trainable } from '../../dsl'
import { exitCode, type KeptWeights, type SpillwayError } from '../errors/errors'
import { attempt, using } from '../errors/exceptions'
import type { NativeTimeline } from '../device/native'
import { LAST_FILE } from '../files/runs'
import { writeWholeText } from '../files/whole'
import { PeakMemory } from '../machine/memory'
import { ownKernelsIn } from '../machine/ownkernels'
import { measuredTimeline } from '../report/measured'
import { traceJson } from '../report/trace'
import { optionsIn } from '../stage/identity'
import { recordPlan } from '../stage/recorded'
import type { Staged } from '../stage/stage'
import { type Checkpoint, holdsCheckpoints, KEPT, saveCheckpoint } from './checkpoint'
import { forgetPlanning, type RunMetrics, type StepDone } from './device'
import { asLeaderHas, isShared, judged, ownWeights, sameEvaluations } from './evaluations'
import type { Listener } from './events'
import { epochsAt, lossAt, meanLoss } from './length'
import { type Found, isEnough, metricOf, nextMeasured } from './measured'
import { type Measurement, standing } from './measurement'
import { closed, filled, type Held, lent, opened } from './opened'
import { seedOf, type TrainOptions } from './options'
import { finishedResult, describing, type TrainResult, trainResult, writtenWeights } from './result'
import { cutting, withWhole } from './parts'
import { alike, begins, digestOf, ended, isOrderly, sameState, announce, wholeParts } from './ranks'
import { withRunFolder } from './runfolder'
import { type RunPage, withPage } from './runreport'
import { type Reduction, reductionsOf } from './plateau'
import { rateFactor, ratesOfSteps, scheduleText } from './schedules'
import { lockOf, readyOf, type Start, startOf } from './start'
import { openStepLog, type StepLog } from './steplog'
import { addRun, NO_STEPS, type Totals } from './totals'
import { traced } from './traced'
import { isEnding } from './signals'
import { lossWatch, type LossWatch } from './watch'
import { type Counted, type ModelState, saveWeights, type StateReader } from './weights'

/** The state of a run so far. */
interface Met {
  /** The first step whose loss is not finite. */
  odd?: number
  /** Why the log cannot be written. */
  unlogged?: SpillwayError
  /** Seconds of the last step. */
  seconds?: number
  /** Its instructions, if `trace` is given. */
  timeline?: NativeTimeline
  /** The step of the newest checkpoint. */
  saved?: number
  /** True after another rank ended a step or an evaluation early. */
  isLeft?: true
}

interface RunningSession extends Start {
  readonly held: Held
  readonly log: StepLog
  readonly memory: PeakMemory
  readonly met: Met
  readonly listener: Listener
  readonly page: RunPage
  /** The losses of the reported steps so far. */
  readonly losses: number[]
  readonly measured: Measurement[]
  readonly watch: LossWatch
}

const resumeHint = (directory: string): string =>
  holdsCheckpoints(directory)
    ? `run the same command with --resume to continue from the last checkpoint in ${directory}`
    : `no checkpoint was saved in ${directory} yet (see --checkpoint-every): the same command starts again from step 1`

/** The saved state of a run that cannot write: a full disk, a failing one. */
const withKept =
  ({ checkpointDir }: TrainOptions) =>
  (e: SpillwayError): SpillwayError =>
    e.tag === 'FileRefused' && e.kind === 'output'
      ? {
          ...e,
          kept:
            checkpointDir === undefined
              ? 'the trained weights are lost; --checkpoint-dir (checkpointDir) saves them during a run'
              : resumeHint(checkpointDir),
        }
      : e

const cancelled = (
  { checkpointDir }: TrainOptions,
  stepsDone: number,
  { weights }: KeptWeights = {},
): Extract<SpillwayError, { readonly tag: 'Cancelled' }> => ({
  tag: 'Cancelled',
  stepsDone,
  ...(checkpointDir !== undefined
    ? { resume: resumeHint(checkpointDir) }
    : weights === undefined
      ? { resume: 'nothing is saved: --checkpoint-dir (checkpointDir) saves a run, for --resume' }
      : {}),
})

// ---------------------------------------------------------------- chunks of steps

/** Steps until the next checkpoint is due, or the end; ten checkpoints a run when it is not said how often. */
export const chunkFrom = (done: number, steps: number, o: Pick<TrainOptions, 'checkpointDir' | 'checkpointEvery'>): number => {
  if (o.checkpointDir === undefined) return steps - done
  const every = o.checkpointEvery ?? Math.ceil(steps / 10)
  return Math.min(steps, (Math.floor(done / every) + 1) * every) - done
}

/** The most samples of an order in one message to the device. */
const MOST_SAMPLES = 2 ** 22
/** And the most factors of the rate. */
const MOST_STEPS = 2 ** 16

const stepsAtOnce = ({ options: o, length, batch, listener, page }: RunningSession, done: number): number =>
  Math.min(
    chunkFrom(done, length.steps, o),
    nextMeasured(o, length, done) - done,
    Math.ceil(MOST_SAMPLES / batch),
    MOST_STEPS,
    listener.ahead,
    page.ahead(),
  )

const isDue = ({ options: o, length: { steps } }: RunningSession, done: number): boolean =>
  o.checkpointDir !== undefined && (done === steps || chunkFrom(done - 1, steps, o) === 1)

const notFinite = ({ checkpointDir }: TrainOptions, step: number, what: string): SpillwayError => ({
  tag: 'Diverged',
  step,
  what,
  ...(checkpointDir !== undefined && holdsCheckpoints(checkpointDir)
    ? { resume: `the last checkpoint in ${checkpointDir} is from an earlier step and finite` }
    : {}),
})

/** The epoch that ends with a step, told with the mean over its steps. */
const emitEpoch = ({ length: { epochs }, listener, losses }: RunningSession, step: number): void => {
  const epoch = epochs ? epochsAt(epochs, step) : 0
  if (!epochs || epoch === epochsAt(epochs, step - 1)) return
  listener.emit({ kind: 'epoch', epoch, step, loss: meanLoss(losses, epochs, epoch) })
}

/** Reductions of the learning rate by the metrics so far. */
const reductionsIn = ({ options, measured }: RunningSession): readonly Reduction[] => reductionsOf(options.schedule, measured)

/** The handling of a complete step; the run ends if the step cannot be logged, or its loss is not finite. */
const stepped = (run: RunningSession, p: StepDone): void => {
  const { options: o, held, log, met, listener, losses, length } = run
  met.seconds = p.seconds
  losses.push(p.loss)
  const logged = log.step({ ...p, factor: rateFactor({ ...o, reductions: reductionsIn(run) }, p.step, length.steps) })
  if (E.isLeft(logged)) {
    met.unlogged ??= logged.left
    held.session.cancel()
  }
  listener.emit(p)
  emitEpoch(run, p.step)
  run.watch.stepped(losses)
  if (met.odd !== undefined || Number.isFinite(p.loss)) return
  met.odd = p.step
  if (o.onNonfinite === 'continue') o.onNote?.(`the loss of step ${p.step} is ${p.loss}; the run continues, as requested`)
  else held.session.cancel()
}

/** Returns true if the run is to end after whole steps, and to save them. */
const isToStop = ({ options: o, met }: RunningSession): boolean =>
  o.signal?.aborted !== true && (o.stop?.aborted === true || met.isLeft === true)

/** Decides about steps or an evaluation that ended early. Without a signal here, another rank had one. */
const endsEarly = (run: RunningSession): boolean => {
  if (run.staged.rank && run.options.stop?.aborted !== true) run.met.isLeft = true
  return isToStop(run)
}

/** The steps until the next checkpoint; fewer when they are to stop. */
const stepsFrom = (run: RunningSession, done: number): TaskEither<SpillwayError, RunMetrics> => {
  const { options: o, held, data, met, losses, length } = run
  const ends = (): boolean => met.odd !== undefined && o.onNonfinite !== 'continue'
  const diverged = (): SpillwayError => notFinite(o, met.odd!, 'its loss is not finite')
  const steps = stepsAtOnce(run, done)
  const reductions = reductionsIn(run)
  return o.signal?.aborted
    ? TE.left(cancelled(o, done))
    : pipe(
        TE.fromEither(ratesOfSteps({ ...o, reductions }, done + 1, steps, length.steps)),
        TE.tap(() => announce(run.staged.rank, { what: 'run', firstStep: done + 1, steps, reductions })),
        TE.flatMap(
          (rates) => () =>
            held.session.run({
              firstStep: done + 1,
              steps,
              seed: seedOf(o),
              rates,
              data: data.source,
              last: length.steps,
              isTraced: o.trace !== undefined,
              finishing: () => met.unlogged === undefined && !ends() && endsEarly(run),
              onProgress: (p) => {
                if (p.kind === 'step') stepped(run, p)
                o.onProgress?.(p)
              },
            }),
        ),
        TE.mapLeft((e) => met.unlogged ?? (ends() ? diverged() : e.tag === 'Cancelled' ? cancelled(o, losses.length) : e)),
        TE.filterOrElse(
          () => met.unlogged === undefined && !ends(),
          () => met.unlogged ?? diverged(),
        ),
      )
}

const saved = (run: RunningSession, counted: Counted, totals: Totals): TaskEither<SpillwayError, void> => {
  const { options: o, identity, circumstances, state, held, staged, listener, length, met, measured } = run
  const { strategy, budgetBytes } = staged.plan
  const { losses } = totals
  const { checkpointDir } = o
  const step = losses.length
  if (checkpointDir === undefined || step === (met.saved ?? 0)) return TE.right(undefined)
  const settings = { strategy, budgetBytes, schedule: scheduleText(o, length.steps), options: optionsIn(staged.plan.graph) }
  return pipe(
    wholeParts(staged, held.session),
    TE.flatMapEither((whole) =>
      saveCheckpoint(
        checkpointDir,
        { step, identity, circumstances, settings, losses, measured, counted, totals },
        state,
        withWhole(whole, held.session),
        { last: o.keep?.last ?? KEPT, best: o.keep?.best === undefined ? undefined : standing(measured, o.keep.best).best?.step },
      ),
    ),
    TE.map((file) => {
      met.saved = step
      return listener.emit({ kind: 'checkpoint', step, file: join(checkpointDir, file) })
    }),
    TE.orElse((e) => {
      if (e.tag !== 'Diverged') return TE.left(e)
      if (o.onNonfinite !== 'continue') return TE.left(notFinite(o, e.step, e.what))
      o.onNote?.(`no checkpoint of step ${e.step}: ${e.what}`)
      return TE.right(undefined)
    }),
  )
}

const averagesOf = ({ averages }: ModelState): readonly string[] => [...averages.values()].map((a) => a.name)

/** The metrics of the model after an epoch; undefined if the run is to stop before they are complete. */
const measuredBy = (run: RunningSession, epoch: number, step: number): TaskEither<SpillwayError, Measurement | undefined> => {
  const { evaluation, options: o, length, losses, held, listener, page, state, staged } = run
  const { epochs } = length
  if (!evaluation) return TE.right({ epoch, step, metrics: { loss: lossAt(losses, epochs!, step) } })
  return pipe(
    wholeParts(staged, held.session, o.evaluate?.weights === 'average' ? averagesOf(state) : []),
    TE.flatMap((whole) => {
      const { rank } = staged
      const own = (parked: StateReader): StateReader => judged(o, state, withWhole(whole, parked), step)
      // The device holds the state again after an early end, too.
      const complete = (found: TaskEither<SpillwayError, Found>): TaskEither<SpillwayError, Found | undefined> =>
        TE.orElse((e: SpillwayError) =>
          e.tag === 'Cancelled' && endsEarly(run) ? TE.right<SpillwayError, Found | undefined>(undefined) : TE.left(e),
        )(found)
      if (!rank || !isShared(evaluation))
        return lent<Found | undefined>(held, run)((parked) => complete(evaluation.run(own(parked))))
      const names = ownWeights(o, staged.plan.graph, state)
      return pipe(
        announce(rank, { what: 'evaluate', step, names }),
        TE.flatMap(() =>
          lent<Found | undefined>(
            held,
            run,
          )((parked) => complete(TE.flatMap(evaluation.run)(asLeaderHas(rank, names, own(parked))))),
        ),
      )
    }),
    TE.mapLeft((e) => (e.tag === 'Cancelled' ? cancelled(o, step) : e)),
    TE.map((found) => {
      if (!found) return undefined
      const { loss, metrics, arenaPeakBytes, details } = found
      const measurement = { epoch, step, metrics: { loss, ...metrics } }
      page.looked(details)
      const isBest = standing([...run.measured, measurement], metricOf(o)).best === measurement
      listener.emit({ kind: 'evaluation', ...measurement, isBest, arenaPeakBytes })
      return measurement
    }),
    TE.tap((measurement) => (measurement ? TE.fromEither(run.log.evaluation(measurement)) : TE.right(undefined))),
  )
}

/** Returns true if the model is to be measured after this step, and has not been. */
const owesMeasurement = (
  { options: o, length }: Pick<Start, 'options' | 'length'>,
  measured: readonly Measurement[],
  step: number,
): boolean => step > 0 && nextMeasured(o, length, step - 1) === step && measured.at(-1)?.step !== step

/** Measures the model where that is due; the best weights are kept. */
const measuredAt = (run: RunningSession, counted: Counted, totals: Totals): TaskEither<SpillwayError, void> => {
  const { options: o, length, state, held, measured } = run
  const step = totals.losses.length
  if (!owesMeasurement(run, measured, step)) return TE.right(undefined)
  return pipe(
    measuredBy(run, epochsAt(length.epochs!, step), step),
    TE.flatMap((measurement) => {
      if (!measurement) return TE.right(undefined)
      measured.push(measurement)
      if (standing(measured, metricOf(o)).best !== measurement) return TE.right(undefined)
      const { saveBest } = o
      return pipe(
        saveBest === undefined
          ? TE.right(undefined)
          : pipe(
              wholeParts(run.staged, held.session, averagesOf(state)),
              TE.flatMapEither((whole) =>
                saveWeights(
                  saveBest,
                  state,
                  withWhole(whole, held.session),
                  counted,
                  step,
                  describing(run.staged, run.data.described),
                ),
              ),
              TE.map(() => undefined),
            ),
        TE.flatMap(() => (o.keep?.best === undefined ? TE.right(undefined) : saved(run, counted, totals))),
      )
    }),
  )
}

const chunk = (run: RunningSession, counted: Counted, totals: Totals): TaskEither<SpillwayError, Totals> =>
  pipe(
    stepsFrom(run, totals.losses.length),
    TE.map((metrics) => {
      const now = addRun(totals, metrics, run.memory.bytes())
      run.page.took(now, metrics)
      if (metrics.timeline) run.met.timeline = metrics.timeline
      return now
    }),
    TE.tap((now) => measuredAt(run, counted, now)),
    TE.tap((now) =>
      isDue(run, now.losses.length) || isEnough(run.options, run.measured) ? saved(run, counted, now) : TE.right(undefined),
    ),
  )

/** The file for the weights of a run that ends early. An earlier file of `save` stays if the run has a folder. */
const placeOfKept = ({ folder, options }: RunningSession): string | undefined =>
  folder === undefined ? options.save : join(folder, LAST_FILE)

/** Writes the weights of a run that ends early. */
const keptWeights = (run: RunningSession, counted: Counted, totals: Totals): TaskEither<SpillwayError, KeptWeights> => {
  const { staged, state, held, options } = run
  const place = placeOfKept(run)
  if (place === undefined || totals.losses.length === 0) return TE.right({})
  return pipe(
    wholeParts(staged, held.session, averagesOf(state)),
    TE.flatMapEither((whole) =>
      writtenWeights(place, {
        ...{ staged, state, counted, totals },
        store: withWhole(whole, held.session),
        unsaved: (text) => options.onNote?.(text),
        described: run.data.described,
      }),
    ),
    TE.map((weights) => (weights === undefined ? {} : { weights })),
  )
}

/** The end of a run that stops: signals that end a process cancel it, other reasons are a pause. */
const stopOf = ({ options: o }: RunningSession, stepsDone: number, kept: KeptWeights): SpillwayError => {
  const { stop, checkpointDir: directory } = o
  const why: unknown = stop?.reason
  // Without a signal here, another rank had one.
  if (stop?.aborted !== true || isEnding(why))
    return { ...cancelled(o, stepsDone, kept), ...(isEnding(why) ? { signal: why } : {}), ...kept }
  const text = why instanceof Error ? why.message : String(why)
  return { tag: 'Stopped', stepsDone, why: text, ...(directory === undefined ? {} : { directory }), ...kept }
}

/** A run that is to stop is saved wherever it is. */
const stopped = (run: RunningSession, counted: Counted, totals: Totals): TaskEither<SpillwayError, never> =>
  pipe(
    saved(run, counted, totals),
    TE.flatMap(() => keptWeights(run, counted, totals)),
    TE.flatMap((kept) => TE.left(stopOf(run, totals.losses.length, kept))),
  )

const totalsOf = ({ from }: Start): Totals => (from ? { ...from.totals, losses: from.losses } : NO_STEPS)

const chunks =
  (run: RunningSession, counted: Counted): TaskEither<SpillwayError, Totals> =>
  async () => {
    const { options: o, length, listener, measured } = run
    let totals: Either<SpillwayError, Totals> = E.right(totalsOf(run))
    const isDone = ({ losses }: Totals): boolean =>
      !owesMeasurement(run, measured, losses.length) && (losses.length === length.steps || isEnough(o, measured))
    while (E.isRight(totals) && !isDone(totals.right)) {
      await listener.taken()
      const done: Totals = totals.right
      if (isToStop(run)) return stopped(run, counted, done)()
      // An earlier process ended its last evaluation early.
      totals = owesMeasurement(run, measured, done.losses.length)
        ? await TE.map(() => done)(measuredAt(run, counted, done))()
        : await chunk(run, counted, done)()
    }
    return totals
  }

// ---------------------------------------------------------------- a whole run

/** The report of it at the end. */
const measuredIn = (o: TrainOptions, measured: readonly Measurement[]): Pick<TrainResult, 'measured' | 'best' | 'endedEarly'> => {
  const { best } = standing(measured, metricOf(o))
  return { measured, ...(best ? { best } : {}), endedEarly: isEnough(o, measured) }
}

/** After the steps, all ranks compare their results. */
const parted = ({ staged: { plan, rank }, state, held }: RunningSession, result: TrainResult): TaskEither<SpillwayError, void> =>
  rank
    ? pipe(
        TE.fromEither(digestOf(plan.graph, state, held.session)),
        TE.flatMap((digest) => ended(rank, { code: 0, digest, result })),
      )
    : TE.right(undefined)

/** Losses on the data of evaluations. */
const lossesOf = ({ evaluation, measured }: RunningSession): readonly number[] =>
  evaluation ? measured.flatMap(({ metrics }) => metrics['loss'] ?? []) : []

const performed = (run: RunningSession): TaskEither<SpillwayError, TrainResult> => {
  const kept = new Map<string, Uint8Array>()
  return pipe(
    TE.fromIOEither(() => filled({ ...run, session: cutting(run.held.session, run.staged.plan.graph, kept) })),
    TE.bindTo('begun'),
    TE.tap(() => sameState(run.staged, run.state, run.held.session, kept)),
    TE.tapIO(() => () => kept.clear()),
    TE.bind('totals', ({ begun }) => chunks(run, begun.counted)),
    TE.bind('whole', () => wholeParts(run.staged, run.held.session, run.options.save === undefined ? [] : averagesOf(run.state))),
    TE.flatMapEither(({ begun: { counted, table }, totals, whole }) =>
      trainResult({
        staged: run.staged,
        state: run.state,
        store: withWhole(whole, run.held.session),
        counted,
        totals: { ...totals, processPeakBytes: Math.max(totals.processPeakBytes, run.memory.bytes()) },
        resumedFrom: run.from?.step ?? 0,
        save: run.options.save,
        unsaved: run.options.onNonfinite === 'continue' ? (text) => run.options.onNote?.(text) : undefined,
        measured: measuredIn(run.options, run.measured),
        weights: table,
        described: run.data.described,
        ownKernels: ownKernelsIn(run.staged),
      }),
    ),
    TE.tap((result) => parted(run, result)),
    TE.tapIO(
      ({ losses }) =>
        () =>
          run.watch.ended(losses, { epochs: run.length.epochs, evaluated: lossesOf(run) }),
    ),
  )
}

const sampled = (): Either<never, PeakMemory> => {
  forgetPlanning()
  return E.right(new PeakMemory().start())
}

const watchOf = ({ staged, options: o, data }: Start): LossWatch => {
  const mayStay = o.data === undefined || (o.weights !== undefined && o.weightsSkip === undefined)
  return lossWatch(staged.plan.graph, { mayStay, areLabelsKnown: data.labels !== undefined }, (text) => o.onNote?.(text))
}

/** Writes the trace of the last recorded step. Runs that end early have one, too. */
const withTrace =
  ({ staged, options: { trace } }: Start, met: Met) =>
  <A>(ran: TaskEither<SpillwayError, A>): TaskEither<SpillwayError, A> =>
  async () => {
    const answer = await ran()
    if (trace === undefined || !met.timeline) return answer
    const measured = measuredTimeline(staged.plan, met.timeline.spans, met.timeline.memory)
    const written = writeWholeText(trace, traceJson(staged.plan, staged.timeline, measured))
    return E.isRight(answer) && E.isLeft(written) ? written : answer
  }

const onDevice = (start: Start, listener: Listener, page: RunPage): TaskEither<SpillwayError, TrainResult> => {
  const { staged, options: o, from } = start
  const met: Met = from ? { saved: from.step } : {}
  const losses = [...totalsOf(start).losses]
  const measured = [...(from?.measured ?? [])]
  return pipe(
    using(
      sampled,
      (memory) => memory.stop(),
      (memory) =>
        using(
          () => opened(staged, o),
          closed(o),
          (held) =>
            using(
              () => openStepLog(o, staged, from?.step ?? 0, start.evaluation?.measures),
              (log) => log.close(),
              (log) =>
                performed({
                  ...start,
                  ...{ held, log, memory, met, listener, page, losses, measured },
                  watch: watchOf(start),
                }),
            ),
        ),
    ),
    withTrace(start, met),
    TE.orElse((e) =>
      e.tag === 'Diverged' && o.onNonfinite !== 'continue'
        ? traced(start, e, met.seconds ?? 0, reductionsOf(o.schedule, measured))
        : TE.left(e),
    ),
    // An end that is no rank's failure is told to all of them.
    TE.orElse((e) =>
      staged.rank && isOrderly(e)
        ? pipe(
            ended(staged.rank, { code: exitCode(e) }),
            TE.flatMap(() => TE.left(e)),
          )
        : TE.left(e),
    ),
  )
}

/** After a run, estimated times are measured, for this share of the time of its steps. */
const MEASURING_SHARE = 0.02
const leftToMeasure =
  ({ machine }: Staged) =>
  ({ steps, resumedFrom, secondsPerStep }: TrainResult) =>
  (): void =>
    attempt(() => machine.measureMore(MEASURING_SHARE * (steps - resumedFrom) * secondsPerStep))

const recordedPlan = ({
  staged: { plan, family = [plan] },
  options: { checkpointDir },
}: Start): Either<SpillwayError, unknown> =>
  checkpointDir === undefined ? E.right(undefined) : recordPlan(checkpointDir, family)

const emitStart = ({ from, folder, length: { steps, epochs } }: Start, listener: Listener): void =>
  listener.emit({
    kind: 'start',
    stepsDone: from?.step ?? 0,
    steps,
    ...(epochs ? { stepsPerEpoch: epochs.samples / epochs.batch } : {}),
    ...(folder === undefined ? {} : { runFolder: folder }),
  })

/** A checkpoint with which nothing is left to do. */
const finishedIn = (start: Start): Checkpoint | undefined => {
  const { from, length, options: o } = start
  if (!from || owesMeasurement(start, from.measured, from.step)) return undefined
  return from.step === length.steps || isEnough(o, from.measured) ? from : undefined
}

/** The other ranks hear where the run stands. */
const announced = (start: Start): TaskEither<SpillwayError, unknown> =>
  start.staged.rank ? begins(start.staged.rank, finishedIn(start) ? null : (start.from?.step ?? 0)) : TE.right(undefined)

const resultOf = (start: Start, listener: Listener, page: RunPage): TaskEither<SpillwayError, TrainResult> => {
  const { staged, state, options: o } = start
  const finished = finishedIn(start)
  return finished
    ? pipe(
        TE.fromEither(
          finishedResult(staged, finished, state, {
            save: o.save,
            measured: measuredIn(o, finished.measured),
            described: start.data.described,
          }),
        ),
        TE.tap((result) => (staged.rank ? ended(staged.rank, { code: 0, result }) : TE.right(undefined))),
      )
    : pipe(
        TE.fromEither(recordedPlan(start)),
        TE.flatMap(() => sameEvaluations(start, o)),
        TE.flatMap(() => onDevice(start, listener, page)),
        TE.mapLeft(withKept(o)),
        TE.tapIO(leftToMeasure(staged)),
      )
}

const begun = (start: Start, listener: Listener, page: RunPage): TaskEither<SpillwayError, TrainResult> =>
  pipe(
    TE.fromIO(() => emitStart(start, listener)),
    TE.flatMap(() => resultOf(start, listener, page)),
    TE.map((result) => (start.folder === undefined ? result : { ...result, runFolder: start.folder })),
    TE.tapIO((result) => () => listener.emit({ kind: 'end', result })),
  )

/** A run from its start to its end: `model` is checked against the plan when it is given. */
export const sessionTask = (
  model: Trainable | undefined,
  staged: Staged,
  o: TrainOptions,
  listener: Listener,
): TaskEither<SpillwayError, TrainResult> =>
  pipe(
    TE.fromIOEither(() => readyOf(model, staged, o)),
    TE.tap(alike),
    TE.flatMap((ready) =>
      using(
        () => lockOf(o),
        (lock) => lock.release(),
        () =>
          pipe(
            TE.fromIOEither(() => startOf(ready)),
            TE.tap(announced),
            TE.flatMap((start) =>
              withRunFolder(start, listener, (own, followed) =>
                withPage(own, (page) => begun(own, page.listener(followed), page)),
              ),
            ),
          ),
      ),
    ),
  )
