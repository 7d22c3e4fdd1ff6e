// Training: a model's plan run for a number of steps. In: a model, its staged plan, data and settings. Out: TrainResult, or
// an error as data. Invariant: after every chunk of steps the checkpoint on disk is whole, so that whatever ends the run
// (an error, a signal, a kill) `resume` goes on from the last one, bit for bit.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Trainable } from '../../dsl'
import type { Known } from '../../staging/core/options'
import { holdsCheckpoints, saveCheckpoint } from './checkpoint'
import { type DeviceSession, forgetPlanning, type RunMetrics } from './device'
import { errorText, type SpillwayError } from '../errors/errors'
import { attempt, orThrow, using } from '../errors/exceptions'
import { PeakMemory } from '../machine/memory'
import { recordPlan } from '../stage/recorded'
import type { Staged } from '../stage/stage'
import { closed, filled, opened } from './opened'
import { seedOf, type TRAIN, type TrainOptions } from './options'
import { finishedResult, type TrainResult, trainResult } from './result'
import { lockOf, readyOf, type Start, startOf } from './start'
import { openStepLog, type StepLine, type StepLog } from './steplog'
import { addRun, NO_STEPS, type Totals } from './totals'
import { traced } from './traced'
import type { Counted } from './weights'

interface Odd {
  /** Of the run, the first step whose loss is not finite. */
  step?: number
  /** Why the log cannot be written. */
  unlogged?: SpillwayError
  /** What the last step took. */
  seconds?: number
}

interface RunningSession extends Start {
  readonly session: DeviceSession
  readonly log: StepLog
  readonly memory: PeakMemory
  readonly odd: Odd
}

const resumeHint = (directory: string): string =>
  holdsCheckpoints(directory)
    ? `the last checkpoint in ${directory} is whole: run the same command with --resume to go on`
    : `no checkpoint was due in ${directory} yet (--checkpoint-every says how often): the same command begins anew`

/** What a run leaves behind that cannot write: a full disk, one that fails. */
const withKept =
  ({ checkpointDir }: TrainOptions) =>
  (e: SpillwayError): SpillwayError =>
    e.tag === 'FileRefused' && e.kind === 'output'
      ? {
          ...e,
          kept:
            checkpointDir === undefined ? 'what was trained is lost: a checkpoint directory keeps it' : resumeHint(checkpointDir),
        }
      : e

const cancelled = ({ checkpointDir }: TrainOptions, stepsDone: number): SpillwayError => ({
  tag: 'Cancelled',
  stepsDone,
  ...(checkpointDir === undefined ? {} : { resume: resumeHint(checkpointDir) }),
})

/** Steps until the next checkpoint is due, or the end; ten checkpoints a run when it is not said how often. */
export const chunkFrom = (done: number, o: Pick<TrainOptions, 'steps' | 'checkpointDir' | 'checkpointEvery'>): number => {
  if (o.checkpointDir === undefined) return o.steps - done
  const every = o.checkpointEvery ?? Math.ceil(o.steps / 10)
  return Math.min(o.steps, (Math.floor(done / every) + 1) * every) - done
}

/** An order is told to the device for so many samples at once. */
const MOST_SAMPLES = 2 ** 22
const batchOf = ({ plan: { graph } }: Staged): number => graph.values.find((v) => v.role === 'input')!.shape[0]!

const notFinite = ({ checkpointDir }: TrainOptions, step: number, what: string): SpillwayError => ({
  tag: 'Diverged',
  step,
  what,
  ...(checkpointDir !== undefined && holdsCheckpoints(checkpointDir)
    ? { resume: `the last checkpoint in ${checkpointDir} is of before that, and finite` }
    : {}),
})

/** The steps until the next checkpoint; fewer when they are to stop. */
const stepsFrom = (run: RunningSession, done: number): TaskEither<SpillwayError, RunMetrics> => {
  const { options: o, session, data, log } = run
  const { odd } = run
  let seen = done
  const step = (p: StepLine): void => {
    seen = p.step
    odd.seconds = p.seconds
    const logged = log.step(p)
    if (E.isLeft(logged)) {
      odd.unlogged ??= logged.left
      session.cancel()
    }
    if (odd.step !== undefined || Number.isFinite(p.loss)) return
    odd.step = p.step
    if (o.onNonfinite === 'continue') o.onNote?.(`the loss of step ${p.step} is ${p.loss}: the run goes on as it was asked to`)
    else session.cancel()
  }
  const ends = (): boolean => odd.step !== undefined && o.onNonfinite !== 'continue'
  const diverged = (): SpillwayError => notFinite(o, odd.step!, 'its loss is not finite')
  return o.signal?.aborted
    ? TE.left(cancelled(o, done))
    : pipe(
        () =>
          session.run({
            firstStep: done + 1,
            steps: Math.min(chunkFrom(done, o), Math.ceil(MOST_SAMPLES / batchOf(run.staged))),
            seed: seedOf(o),
            data: data.source,
            last: o.steps,
            finishing: () => o.stop?.aborted === true && o.signal?.aborted !== true && !ends(),
            onProgress: (p) => {
              if (p.kind === 'step') step(p)
              o.onProgress?.(p)
            },
          }),
        TE.mapLeft((e) => odd.unlogged ?? (ends() ? diverged() : e.tag === 'Cancelled' ? cancelled(o, seen) : e)),
        TE.filterOrElse(
          () => odd.unlogged === undefined && !ends(),
          () => odd.unlogged ?? diverged(),
        ),
      )
}

const saved = (run: RunningSession, counted: Counted, totals: Totals): Either<SpillwayError, void> => {
  const { options: o, identity, circumstances, state, session, staged } = run
  const { strategy, budgetBytes } = staged.plan
  const { losses } = totals
  if (o.checkpointDir === undefined) return E.right(undefined)
  const settings = { strategy, budgetBytes }
  return pipe(
    saveCheckpoint(
      o.checkpointDir,
      { step: losses.length, identity, circumstances, settings, losses, counted, totals },
      state,
      session,
    ),
    E.orElse((e) => {
      if (e.tag !== 'Diverged') return E.left(e)
      if (o.onNonfinite !== 'continue') return E.left(notFinite(o, e.step, e.what))
      o.onNote?.(`no checkpoint of step ${e.step}: ${e.what}`)
      return E.right(undefined)
    }),
  )
}

const chunk = (run: RunningSession, counted: Counted, totals: Totals): TaskEither<SpillwayError, Totals> =>
  pipe(
    stepsFrom(run, totals.losses.length),
    TE.map((metrics) => addRun(totals, metrics, run.memory.bytes())),
    TE.tap((now) => TE.fromEither(saved(run, counted, now))),
  )

const stopped = ({ stop, checkpointDir }: TrainOptions, stepsDone: number): SpillwayError => {
  const why: unknown = stop?.reason
  return { tag: 'Stopped', stepsDone, why: why instanceof Error ? why.message : String(why), directory: checkpointDir ?? '' }
}

const chunks =
  (run: RunningSession, counted: Counted): TaskEither<SpillwayError, Totals> =>
  async () => {
    const { options: o, from } = run
    let totals: Either<SpillwayError, Totals> = E.right(from ? { ...from.totals, losses: from.losses } : NO_STEPS)
    while (E.isRight(totals) && totals.right.losses.length < o.steps) {
      if (o.stop?.aborted) return E.left(stopped(o, totals.right.losses.length))
      totals = await chunk(run, counted, totals.right)()
    }
    return totals
  }

const performed = (run: RunningSession): TaskEither<SpillwayError, TrainResult> =>
  pipe(
    TE.fromIOEither(() => filled(run)),
    TE.bindTo('counted'),
    TE.bind('totals', ({ counted }) => chunks(run, counted)),
    TE.flatMapEither(({ counted, totals }) =>
      trainResult({
        staged: run.staged,
        state: run.state,
        store: run.session,
        counted,
        totals: { ...totals, processPeakBytes: Math.max(totals.processPeakBytes, run.memory.bytes()) },
        resumedFrom: run.from?.step ?? 0,
        save: run.options.save,
      }),
    ),
  )

const sampled = (): Either<never, PeakMemory> => {
  forgetPlanning()
  return E.right(new PeakMemory().start())
}

const onDevice = (start: Start): TaskEither<SpillwayError, TrainResult> => {
  const { staged, options: o, from } = start
  const odd: Odd = {}
  return pipe(
    using(
      sampled,
      (memory) => memory.stop(),
      (memory) =>
        using(
          () => opened(staged, o),
          closed(o),
          (session) =>
            using(
              () => openStepLog(o, staged, from?.step ?? 0),
              (log) => log.close(),
              (log) => performed({ ...start, session, log, memory, odd }),
            ),
        ),
    ),
    TE.orElse((e) => (e.tag === 'Diverged' && o.onNonfinite !== 'continue' ? traced(start, e, odd.seconds ?? 0) : TE.left(e))),
  )
}

/** What planning had estimated is measured when a run is over, for this part of the time that its steps took. */
const MEASURING_SHARE = 0.02
const leftToMeasure =
  ({ machine }: Staged) =>
  ({ steps, resumedFrom, secondsPerStep }: TrainResult) =>
  (): void =>
    attempt(() => machine.measureMore(MEASURING_SHARE * (steps - resumedFrom) * secondsPerStep))

const recordedPlan = ({ staged: { plan }, options: { checkpointDir } }: Start): Either<SpillwayError, unknown> =>
  checkpointDir === undefined ? E.right(undefined) : recordPlan(checkpointDir, plan)

/** `model` is checked against the plan when it is given. @example const answer = await trainTask(net, plan, { steps: 10 })() */
export const trainTask = (
  model: Trainable | undefined,
  staged: Staged,
  o: TrainOptions,
): TaskEither<SpillwayError, TrainResult> =>
  pipe(
    TE.fromIOEither(() => readyOf(model, staged, o)),
    TE.flatMap((ready) =>
      using(
        () => lockOf(o),
        (lock) => lock.release(),
        () =>
          pipe(
            TE.fromIOEither(() => startOf(ready)),
            TE.flatMap((start) =>
              start.from?.step === o.steps
                ? TE.fromEither(finishedResult(staged, start.from, start.state, o.save))
                : pipe(
                    TE.fromEither(recordedPlan(start)),
                    TE.flatMap(() => onDevice(start)),
                    TE.mapLeft(withKept(o)),
                    TE.tapIO(leftToMeasure(staged)),
                  ),
            ),
          ),
      ),
    ),
  )

/** As the platform does it: what an aborted signal ends is rejected with the signal's reason; where the run stands becomes a note. */
export const answerOf =
  (o: Pick<TrainOptions, 'signal' | 'onNote'>) =>
  <A>(answer: Either<SpillwayError, A>): A => {
    if (E.isRight(answer) || answer.left.tag !== 'Cancelled' || !o.signal?.aborted) return orThrow(answer)
    o.onNote?.(errorText(answer.left))
    throw o.signal.reason
  }

/**
 * The same for scripts: rejects with a SpillwayException, or with the reason of a signal that was aborted.
 *
 * @example const { losses } = await train(net, plan, { steps: 10, data: 'slides/' })
 */
export const train = async <const O extends TrainOptions>(
  model: Trainable,
  staged: Staged,
  o: Known<O, typeof TRAIN>,
): Promise<TrainResult> => answerOf(o as O)(await trainTask(model, staged, o as O)())
