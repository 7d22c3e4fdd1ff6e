// Training: a model's plan run for a number of steps. In: a model, its staged plan, data and settings. Out: TrainResult, or
// an error as data. Invariant: after every chunk of steps the checkpoint on disk is whole, so that whatever ends the run
// (an error, a signal, a kill) `resume` goes on from the last one, bit for bit.
import { cpus } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Trainable } from '../../dsl'
import {
  type Checkpoint,
  type Circumstances,
  elsewhere,
  findCheckpoint,
  holdsCheckpoints,
  prepareDirectory,
  restore,
  type RunIdentity,
  sameRun,
  saveCheckpoint,
} from './checkpoint'
import { loadNative, tryLoadNative } from '../device/native'
import { contentOf } from '../files/content'
import { type Lock, lockFolder } from '../files/lock'
import { type DataFiles, openData, sampleCount } from '../files/samples'
import {
  type DataSource,
  type DeviceOptions,
  type DeviceProgress,
  type DeviceSession,
  forgetPlanning,
  openDevice,
  type RunMetrics,
} from './device'
import { type SpillwayError, usage } from '../errors/errors'
import { orThrow, using } from '../errors/exceptions'
import { belonging, identityOf } from '../stage/identity'
import { DEVICES } from '../../staging/devices'
import { PeakMemory } from '../machine/memory'
import { tierOf } from '../machine/tier'
import { finishedResult, type TrainResult, trainResult } from './result'
import { PLAN_FILE, trySavePlan } from '../stage/planfile'
import type { Staged } from '../stage/stage'
import { openStepLog, type StepLine, type StepLog } from './steplog'
import { addRun, NO_STEPS, type Totals } from './totals'
import { type Counted, type LoadedWeights, loadWeights, modelState, type ModelState } from './weights'

/** How a plan is trained. */
export interface TrainOptions extends Omit<DeviceOptions, 'tier'> {
  /** The total of the run, steps before a resume included. @example train(net, plan, { steps: 100 }) */
  readonly steps: number
  /** A folder or file of pairs; without it, seeded synthetic data. @example train(net, plan, { steps: 100, data: 'slides/' }) */
  readonly data?: string
  /** Distinct synthetic samples; default: one batch, seen again and again. @example train(net, plan, { steps: 100, samples: 64 }) */
  readonly samples?: number
  /** Of weights, synthetic data and dropout; default 0. @example train(net, plan, { steps: 100, seed: 7 }) */
  readonly seed?: number
  /** 'ram', or the folder of the spill file. @example train(net, plan, { steps: 100, spill: '/var/tmp' }) */
  readonly spill?: string
  /** Where the training state is kept. @example train(net, plan, { steps: 100, checkpointDir: 'state' }) */
  readonly checkpointDir?: string
  /**
   * Steps between checkpoints; default: a tenth of the run. There is one at the end in any case.
   *
   * @example train(net, plan, { steps: 100, checkpointDir: 'state', checkpointEvery: 25 })
   */
  readonly checkpointEvery?: number
  /** Goes on from the last checkpoint, bit for bit. @example train(net, plan, { steps: 200, checkpointDir: 'state', resume: true }) */
  readonly resume?: boolean
  /** Weights to start from (safetensors). @example train(net, plan, { steps: 100, weights: 'before.safetensors' }) */
  readonly weights?: string
  /** Where the weights go at the end (safetensors). @example train(net, plan, { steps: 100, save: 'weights.safetensors' }) */
  readonly save?: string
  /** A folder that gets a line of JSON for every step. @example train(net, plan, { steps: 100, log: 'runs/first' }) */
  readonly log?: string
  /**
   * What becomes of a run whose loss is not finite; default: it ends, and nothing of it is saved.
   *
   * @example train(net, plan, { steps: 100, onNonfinite: 'continue' })
   */
  readonly onNonfinite?: 'end' | 'continue'
  /**
   * Ends the run within a step; the last checkpoint stays.
   *
   * @example train(net, plan, { steps: 100, signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal
  /**
   * Ends the run after the step at hand, saved in checkpointDir: a time limit, a scheduler's warning.
   *
   * @example train(net, plan, { steps: 100, checkpointDir: 'state', stop: AbortSignal.timeout(3 * 3600_000) })
   */
  readonly stop?: AbortSignal
  /**
   * Told of every tile and every step.
   *
   * @example train(net, plan, { steps: 100, onProgress: (p) => p.kind === 'step' && console.log(p.loss) })
   */
  readonly onProgress?: (p: DeviceProgress) => void
  /**
   * Words for a person: a damaged checkpoint that was passed over, tensors that were not needed.
   *
   * @example train(net, plan, { steps: 100, onNote: console.warn })
   */
  readonly onNote?: (text: string) => void
}

// ---------------------------------------------------------------- before the first step

const LEAST = { steps: 1, seed: 0, samples: 1, checkpointEvery: 1, threads: 1 } as const

/** Options with which a run can begin: what is wrong with them is known before anything is staged. */
export const checkedOptions = (o: TrainOptions): Either<SpillwayError, TrainOptions> => {
  const isLegal = (k: keyof typeof LEAST, n = o[k]): boolean => n === undefined || (Number.isSafeInteger(n) && n >= LEAST[k])
  const odd = (Object.keys(LEAST) as (keyof typeof LEAST)[]).find((k) => !isLegal(k))
  if (odd) return E.left(usage(`${odd} is ${o[odd]}; legal are whole numbers of at least ${LEAST[odd]}`))
  if (o.checkpointDir) return E.right(o)
  if (o.stop) return E.left(usage('stop needs a checkpoint directory to save the run in'))
  if (o.resume) return E.left(usage('resume needs a checkpoint directory to resume from'))
  return o.checkpointEvery === undefined ? E.right(o) : E.left(usage('checkpointEvery needs a checkpoint directory'))
}

const runsHere = ({ machine }: Staged): Either<SpillwayError, void> =>
  machine.simulated
    ? E.left(usage(`a plan for machine '${machine.name}' cannot run here: stage for one of this machine's devices`, DEVICES))
    : E.right(undefined)

interface Data {
  readonly source: DataSource
  /** What the data are, for the run's identity. */
  readonly content: string
  /** The same as checkpoints of version 1 say it: where the data lie. */
  readonly place: string
}

const dataOf = ({ plan: { graph } }: Staged, o: TrainOptions): Either<SpillwayError, Data> => {
  if (o.data !== undefined)
    return pipe(
      openData(o.data, graph),
      E.bindTo('files'),
      // A run that is not kept has no identity to compare.
      E.bind('content', ({ files }) => (o.checkpointDir === undefined ? E.right('') : contentOf(files))),
      E.map(({ files, content }) => ({ source: { kind: 'files', files }, content, place: placeOf(files) })),
    )
  const samples = o.samples ?? graph.values.find((v) => v.role === 'input')!.shape[0]!
  const content = `synthetic, ${samples} samples`
  return E.right({ source: { kind: 'synthetic', samples }, content, place: content })
}

const placeOf = (files: DataFiles): string => {
  const [first = []] = files.values()
  return `${sampleCount(first)} samples of ${first.map((f) => f.path).join(', ')}`
}

/** What the bits of a run depend on beside its identity. */
const circumstancesOf = ({ machine: { device } }: Staged, o: TrainOptions): Either<SpillwayError, Circumstances> =>
  pipe(
    tryLoadNative(),
    E.map((native) => {
      const { threads, oneDnn = 'none' } = native.deviceInfo()
      return { processor: cpus()[0]?.model ?? 'unknown', threads: o.threads ?? threads, libraries: `oneDNN ${oneDnn}` }
    }),
    E.map((here) => {
      if (device.name !== 'cuda') return here
      const { device: processor, driver, libraries } = loadNative().deviceFacts('cuda')
      return { ...here, processor, libraries: `driver ${driver}, ${libraries}` }
    }),
  )

/** A run that is ready for its checkpoint folder. */
interface Ready {
  readonly staged: Staged
  readonly options: TrainOptions
  readonly data: Data
  readonly state: ModelState
  readonly circumstances: Circumstances
}

/** `model` is checked against the plan when it is given. */
const readyOf = (model: Trainable | undefined, staged: Staged, o: TrainOptions): Either<SpillwayError, Ready> =>
  pipe(
    checkedOptions(o),
    E.tap(() => (model ? belonging(model, staged.plan, staged.machine) : E.right(undefined))),
    E.tap(() => runsHere(staged)),
    E.bindTo('options'),
    E.bind('data', () => dataOf(staged, o)),
    E.bind('circumstances', () => circumstancesOf(staged, o)),
    E.map((known) => ({ ...known, staged, state: modelState(staged.plan.graph) })),
  )

/** A run that may begin: its checkpoint folder, if it has one, is its own. */
interface Start extends Ready {
  readonly identity: RunIdentity
  readonly from: Checkpoint | undefined
}

const NO_LOCK: Lock = { release: () => {} }
const lockOf = ({ checkpointDir }: TrainOptions): Either<SpillwayError, Lock> =>
  checkpointDir === undefined
    ? E.right(NO_LOCK)
    : pipe(
        prepareDirectory(checkpointDir),
        E.flatMap(() => lockFolder(checkpointDir)),
      )

/** Where the run starts: the newest whole checkpoint that is of this very run, or the beginning. */
const startOf = (ready: Ready): Either<SpillwayError, Start> => {
  const { staged, options: o, data } = ready
  const asked = identityOf(staged, seedOf(o), data.content, o.weights)
  return pipe(
    o.checkpointDir === undefined ? E.right(undefined) : found(o.checkpointDir, ready, asked),
    // Weights that a run started from matter no more once it has a checkpoint.
    E.map((from) => ({ ...ready, from, identity: { ...asked, weights: from?.identity.weights ?? asked.weights } })),
  )
}

const found = (directory: string, ready: Ready, asked: RunIdentity): Either<SpillwayError, Checkpoint | undefined> => {
  const { options: o, data, circumstances } = ready
  if (!o.resume)
    return holdsCheckpoints(directory)
      ? E.left(usage(`checkpoint directory ${directory} already holds a run: resume it, or name another directory`))
      : E.right(undefined)
  const mismatch = (reason: string): SpillwayError => ({ tag: 'CheckpointMismatch', directory, reason })
  const { checkpoint, refused } = findCheckpoint(directory)
  refused.forEach((r) => o.onNote?.(`${directory}: ${r}`))
  if (!checkpoint) {
    if (refused.length) return E.left(mismatch(`no checkpoint in it is whole: ${refused.join('; ')}`))
    o.onNote?.(`${directory} holds no checkpoint to resume: the run begins anew`)
    return E.right(undefined)
  }
  if (refused.length) o.onNote?.(`${directory}: going on from step ${checkpoint.step}`)
  if (checkpoint.step > o.steps)
    return E.left(usage(`the run in ${directory} has done ${checkpoint.step} steps: ask for at least as many`))
  const differs = checkpoint.circumstances && elsewhere(checkpoint.circumstances, circumstances)
  if (differs) o.onNote?.(`bits may differ from those of the run so far: ${differs}`)
  const wanted = {
    ...asked,
    weights: o.weights === undefined ? checkpoint.identity.weights : asked.weights,
    data: checkpoint.circumstances ? data.content : data.place,
  }
  return pipe(
    sameRun(checkpoint.identity, wanted),
    E.bimap(mismatch, () => checkpoint),
  )
}

// ---------------------------------------------------------------- the run

interface RunningSession extends Start {
  readonly session: DeviceSession
  readonly log: StepLog
  readonly memory: PeakMemory
  /** Of the run, the first step whose loss is not finite. */
  readonly odd: { step?: number }
}

const NOTHING_LOADED: LoadedWeights = { counted: new Map(), extra: [] }
const seedOf = (o: TrainOptions): number => o.seed ?? 0

const begun = ({ options: o, session, state }: RunningSession): Either<SpillwayError, Counted> =>
  pipe(
    session.initialise(seedOf(o)),
    E.flatMap(() => (o.weights === undefined ? E.right(NOTHING_LOADED) : loadWeights(o.weights, state, session))),
    E.map(({ extra, counted }) => {
      const named = `${extra.slice(0, 5).join(', ')}${extra.length > 5 ? ', …' : ''}`
      if (extra.length) o.onNote?.(`${o.weights}: ${extra.length} tensors are not in the model: ${named}`)
      return counted
    }),
  )

/** Fills the device: from the checkpoint, else from the seed and then the weights file. */
const filled = (run: RunningSession): Either<SpillwayError, Counted> =>
  run.from
    ? pipe(
        restore(run.options.checkpointDir!, run.from, run.state, run.session),
        E.map(() => run.from!.counted),
      )
    : begun(run)

const resumeHint = (directory: string): string =>
  holdsCheckpoints(directory)
    ? `the last checkpoint in ${directory} is whole: run the same command with --resume to go on`
    : `no checkpoint was due in ${directory} yet (--checkpoint-every says how often): the same command begins anew`

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
    log.step(p)
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
            steps: chunkFrom(done, o),
            seed: seedOf(o),
            data: data.source,
            finishing: () => o.stop?.aborted === true && o.signal?.aborted !== true && !ends(),
            onProgress: (p) => {
              if (p.kind === 'step') step(p)
              o.onProgress?.(p)
            },
          }),
        TE.mapLeft((e) => (ends() ? diverged() : e.tag === 'Cancelled' ? cancelled(o, seen) : e)),
        TE.filterOrElse(
          () => !ends(),
          () => diverged(),
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

/** A session that signals end. */
const opened = (staged: Staged, o: TrainOptions): Either<SpillwayError, DeviceSession> =>
  pipe(
    openDevice(staged, { ...o, tier: tierOf(o.spill) }),
    E.tap((session) => {
      o.signal?.addEventListener('abort', session.cancel)
      o.stop?.addEventListener('abort', session.finish)
      return E.right(session)
    }),
  )

const onDevice = (start: Start): TaskEither<SpillwayError, TrainResult> => {
  const { staged, options: o, from } = start
  const closed = (session: DeviceSession): void => {
    o.signal?.removeEventListener('abort', session.cancel)
    o.stop?.removeEventListener('abort', session.finish)
    session.dispose()
  }
  return using(
    sampled,
    (memory) => memory.stop(),
    (memory) =>
      using(
        () => opened(staged, o),
        closed,
        (session) =>
          using(
            () => openStepLog(o.log, from?.step ?? 0),
            (log) => log.close(),
            (log) => performed({ ...start, session, log, memory, odd: {} }),
          ),
      ),
  )
}

/** What planning had estimated is measured when a run is over, for this part of the time that its steps took. */
const MEASURING_SHARE = 0.02
const leftToMeasure =
  ({ machine }: Staged) =>
  ({ steps, resumedFrom, secondsPerStep }: TrainResult) =>
  (): void =>
    machine.measureMore(MEASURING_SHARE * (steps - resumedFrom) * secondsPerStep)

/** Another plan may be found when more is measured; with fixed algorithms it is the same again. */
const recordedPlan = ({ staged: { plan }, options: { checkpointDir } }: Start): Either<SpillwayError, unknown> =>
  checkpointDir === undefined || plan.algorithms === 'fixed'
    ? E.right(undefined)
    : trySavePlan(join(checkpointDir, PLAN_FILE), plan)

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
                    TE.tapIO(leftToMeasure(staged)),
                  ),
            ),
          ),
      ),
    ),
  )

/**
 * The same for scripts: rejects with a SpillwayException.
 *
 * @example const { losses } = await train(net, plan, { steps: 10, data: 'slides/' })
 */
export const train = async (model: Trainable, staged: Staged, o: TrainOptions): Promise<TrainResult> =>
  orThrow(await trainTask(model, staged, o)())
