// Training: a plan run for a number of steps, for any caller. In: the start of the run, its listeners. Out: TrainResult, or an error as data.
// Invariant: after every chunk of steps the checkpoint on disk is whole, so that after any end of the run (an error, a signal, a kill) `resume`
// continues from the last one, bit for bit.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import type { Trainable } from '../../dsl'
import { exitCode, type SpillwayError } from '../errors/errors'
import { attempt, using } from '../errors/exceptions'
import { writeWholeText } from '../files/whole'
import { PeakMemory } from '../machine/memory'
import { ownKernelsIn } from '../machine/ownkernels'
import { measuredTimeline } from '../report/measured'
import { traceJson } from '../report/trace'
import { recordPlan } from '../stage/recorded'
import type { Staged } from '../stage/staged'
import type { Checkpoint } from './checkpoint'
import { forgetPlanning } from './device'
import { isToStop, stopError, withSavedState } from './endings'
import { evaluateIfDue } from './evaluating'
import { shareEvaluation } from './ranks/evaluations'
import type { Listener } from './events'
import { isEnough, metricOf } from './measured'
import { type Measurement, standing } from './measurement'
import { closeHeld, fillState, openHeld } from './opened'
import type { TrainOptions } from './options'
import { cuttingStore, withWhole } from './ranks/parts'
import { reductionsOf } from './plateau'
import { checkSameRun, shareStart, digestOf, giveEnd, isOrderly, shareState, gatherParts } from './ranks/orders'
import { finishedResult, type TrainResult, trainResult } from './result'
import { withRunFolder } from './runfolder'
import { averagesOf, isEvaluationDue, type RunningSession, type RunStatus, totalsOf } from './running'
import { type RunPage, withPage } from './runreport'
import { saveEndWeights, saveState } from './saves'
import { lockOf, readyOf, type Start, startOf } from './start'
import { openStepLog } from './steplog'
import { isDue, runSteps } from './steps'
import { addRun, type Totals } from './totals'
import { withCause } from './traced'
import { lossWatch, type LossWatch } from './watch'
import type { Origin } from './weights'

const runChunk = (run: RunningSession, origin: Origin, totals: Totals): TaskEither<SpillwayError, Totals> =>
  pipe(
    runSteps(run, totals.losses.length),
    TE.map((metrics) => {
      const now = addRun(totals, metrics, run.memory.bytes())
      run.page.took(now, metrics)
      if (metrics.timeline) run.status.timeline = metrics.timeline
      return now
    }),
    TE.tap((now) => evaluateIfDue(run, origin, now)),
    TE.tap((now) =>
      isDue(run, now.losses.length) || isEnough(run.options, run.measured) ? saveState(run, origin, now) : TE.right(undefined),
    ),
  )

/** A run that is to stop is saved wherever it is. */
const saveAndStop = (run: RunningSession, origin: Origin, totals: Totals): TaskEither<SpillwayError, never> =>
  pipe(
    saveState(run, origin, totals),
    TE.flatMap(() => saveEndWeights(run, origin, totals)),
    TE.flatMap((kept) => TE.left(stopError(run, totals.losses.length, kept))),
  )

const runChunks =
  (run: RunningSession, origin: Origin): TaskEither<SpillwayError, Totals> =>
  async () => {
    const { options: o, length, listener, measured } = run
    let totals: Either<SpillwayError, Totals> = E.right(totalsOf(run))
    const isDone = ({ losses }: Totals): boolean =>
      !isEvaluationDue(run, measured, losses.length) && (losses.length === length.steps || isEnough(o, measured))
    while (E.isRight(totals) && !isDone(totals.right)) {
      await listener.taken()
      const done: Totals = totals.right
      if (isToStop(run)) return saveAndStop(run, origin, done)()
      // An earlier process ended its last evaluation early.
      totals = isEvaluationDue(run, measured, done.losses.length)
        ? await TE.map(() => done)(evaluateIfDue(run, origin, done))()
        : await runChunk(run, origin, done)()
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
const compareResults = (
  { staged: { plan, rank }, state, held }: RunningSession,
  result: TrainResult,
): TaskEither<SpillwayError, void> =>
  rank
    ? pipe(
        TE.fromEither(digestOf(plan.graph, state, held.session)),
        TE.flatMap((digest) => giveEnd(rank, { code: 0, digest, result })),
      )
    : TE.right(undefined)

/** Losses on the data of evaluations. */
const lossesOf = ({ evaluation, measured }: RunningSession): readonly number[] =>
  evaluation ? measured.flatMap(({ metrics }) => metrics['loss'] ?? []) : []

const runToEnd = (run: RunningSession): TaskEither<SpillwayError, TrainResult> => {
  const kept = new Map<string, Uint8Array>()
  return pipe(
    TE.fromIOEither(() => fillState({ ...run, session: cuttingStore(run.held.session, run.staged.plan.graph, kept) })),
    TE.bindTo('started'),
    TE.tap(() => shareState(run.staged, run.state, run.held.session, kept)),
    TE.tapIO(() => () => kept.clear()),
    TE.bind('totals', ({ started }) => runChunks(run, started.origin)),
    TE.bind('whole', () =>
      gatherParts(run.staged, run.held.session, run.options.save === undefined ? [] : averagesOf(run.state)),
    ),
    TE.flatMapEither(({ started: { origin, table }, totals, whole }) =>
      trainResult({
        staged: run.staged,
        state: run.state,
        store: withWhole(whole, run.held.session),
        origin,
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
    TE.tap((result) => compareResults(run, result)),
    TE.tapIO(
      ({ losses }) =>
        () =>
          run.watch.ended(losses, { epochs: run.length.epochs, evaluated: lossesOf(run) }),
    ),
  )
}

const samplePeakMemory = (): Either<never, PeakMemory> => {
  forgetPlanning()
  return E.right(new PeakMemory().start())
}

const watchOf = ({ staged, options: o, data }: Start): LossWatch => {
  const mayStay = o.data === undefined || (o.weights !== undefined && o.weightsSkip === undefined)
  return lossWatch(staged.plan.graph, { mayStay, areLabelsKnown: data.labels !== undefined }, (text) => o.onNote?.(text))
}

/** Writes the trace of the last recorded step. Runs that end early have one, too. */
const withTrace =
  ({ staged, options: { trace } }: Start, status: RunStatus) =>
  <A>(ran: TaskEither<SpillwayError, A>): TaskEither<SpillwayError, A> =>
  async () => {
    const answer = await ran()
    if (trace === undefined || !status.timeline) return answer
    const measured = measuredTimeline(staged.plan, status.timeline.spans, status.timeline.memory)
    const written = writeWholeText(trace, traceJson(staged.plan, staged.timeline, measured))
    return E.isRight(answer) && E.isLeft(written) ? written : answer
  }

const runOnDevice = (start: Start, listener: Listener, page: RunPage): TaskEither<SpillwayError, TrainResult> => {
  const { staged, options: o, from } = start
  const status: RunStatus = from ? { saved: from.step } : {}
  const losses = [...totalsOf(start).losses]
  const measured = [...(from?.measured ?? [])]
  return pipe(
    using(
      samplePeakMemory,
      (memory) => memory.stop(),
      (memory) =>
        using(
          () => openHeld(staged, o),
          closeHeld(o),
          (held) =>
            using(
              () => openStepLog(o, staged, from?.step ?? 0, start.evaluation?.measures),
              (log) => log.close(),
              (log) =>
                runToEnd({
                  ...start,
                  ...{ held, log, memory, status, listener, page, losses, measured },
                  watch: watchOf(start),
                }),
            ),
        ),
    ),
    withTrace(start, status),
    TE.orElse((e) =>
      e.tag === 'Diverged' && o.onNonfinite !== 'continue'
        ? withCause(start, e, status.seconds ?? 0, reductionsOf(o.schedule, measured))
        : TE.left(e),
    ),
    // An end that is no rank's failure is told to all of them.
    TE.orElse((e) =>
      staged.rank && isOrderly(e)
        ? pipe(
            giveEnd(staged.rank, { code: exitCode(e) }),
            TE.flatMap(() => TE.left(e)),
          )
        : TE.left(e),
    ),
  )
}

/** After a run, estimated times are measured, for this share of the time of its steps. */
const MEASURING_SHARE = 0.02
const measureMore =
  ({ machine }: Staged) =>
  ({ steps, resumedFrom, secondsPerStep }: TrainResult) =>
  (): void =>
    attempt(() => machine.measureMore(MEASURING_SHARE * (steps - resumedFrom) * secondsPerStep))

const recordPlans = ({ staged: { plan, family = [plan] }, options: { checkpointDir } }: Start): Either<SpillwayError, unknown> =>
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
  if (!from || isEvaluationDue(start, from.measured, from.step)) return undefined
  return from.step === length.steps || isEnough(o, from.measured) ? from : undefined
}

/** The other ranks hear where the run stands. */
const announceStart = (start: Start): TaskEither<SpillwayError, unknown> =>
  start.staged.rank ? shareStart(start.staged.rank, finishedIn(start) ? null : (start.from?.step ?? 0)) : TE.right(undefined)

const finishOrRun = (start: Start, listener: Listener, page: RunPage): TaskEither<SpillwayError, TrainResult> => {
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
        TE.tap((result) => (staged.rank ? giveEnd(staged.rank, { code: 0, result }) : TE.right(undefined))),
      )
    : pipe(
        TE.fromEither(recordPlans(start)),
        TE.flatMap(() => shareEvaluation(start, o)),
        TE.flatMap(() => runOnDevice(start, listener, page)),
        TE.mapLeft(withSavedState(o)),
        TE.tapIO(measureMore(staged)),
      )
}

const runAndReport = (start: Start, listener: Listener, page: RunPage): TaskEither<SpillwayError, TrainResult> =>
  pipe(
    TE.fromIO(() => emitStart(start, listener)),
    TE.flatMap(() => finishOrRun(start, listener, page)),
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
    TE.tap(checkSameRun),
    TE.flatMap((ready) =>
      using(
        () => lockOf(o),
        (lock) => lock.release(),
        () =>
          pipe(
            TE.fromIOEither(() => startOf(ready)),
            TE.tap(announceStart),
            TE.flatMap((start) =>
              withRunFolder(start, listener, (own, followed) =>
                withPage(own, (page) => runAndReport(own, page.listener(followed), page)),
              ),
            ),
          ),
      ),
    ),
  )
