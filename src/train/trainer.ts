// Training: a model's plan run for a number of steps. In: a model, its staged plan, data and settings. Out: TrainResult, or
// an error as data. Invariant: after every chunk of steps the checkpoint on disk is whole, so that whatever ends the run
// (an error, a signal, a kill) `resume` goes on from the last one, bit for bit.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Trainable } from '../../dsl'
import {
  type Checkpoint,
  findCheckpoint,
  holdsCheckpoints,
  prepareDirectory,
  restore,
  type RunIdentity,
  sameRun,
  saveCheckpoint,
} from './checkpoint'
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
import type { Staged } from '../stage/stage'
import { openStepLog, type StepLog } from './steplog'
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
   * Ends the run within a step; the last checkpoint stays.
   *
   * @example train(net, plan, { steps: 100, signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal
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
  if (o.resume) return E.left(usage('resume needs a checkpoint directory to resume from'))
  return o.checkpointEvery === undefined ? E.right(o) : E.left(usage('checkpointEvery needs a checkpoint directory'))
}

const runsHere = ({ machine }: Staged): Either<SpillwayError, void> =>
  machine.simulated
    ? E.left(usage(`a plan for machine '${machine.name}' cannot run here: stage for one of this machine's devices`, DEVICES))
    : E.right(undefined)

interface Data {
  readonly source: DataSource
  readonly words: string
}

const dataOf = ({ plan: { graph } }: Staged, o: TrainOptions): Either<SpillwayError, Data> => {
  if (o.data !== undefined)
    return pipe(
      openData(o.data, graph),
      E.map((files) => ({ source: { kind: 'files', files }, words: dataWords(files) })),
    )
  const samples = o.samples ?? graph.values.find((v) => v.role === 'input')!.shape[0]!
  return E.right({ source: { kind: 'synthetic', samples }, words: `synthetic, ${samples} samples` })
}

const dataWords = (files: DataFiles): string => {
  const [first = []] = files.values()
  return `${sampleCount(first)} samples of ${first.map((f) => f.path).join(', ')}`
}

/** Where the run starts: the newest whole checkpoint that is of this very run, or the beginning. */
const startingPoint = (o: TrainOptions, identity: RunIdentity): Either<SpillwayError, Checkpoint | undefined> => {
  const directory = o.checkpointDir
  if (directory === undefined) return E.right(undefined)
  if (!o.resume && holdsCheckpoints(directory))
    return E.left(usage(`checkpoint directory ${directory} already holds a run: resume it, or name another directory`))
  return pipe(
    prepareDirectory(directory),
    E.flatMap(() => newest(directory, o, identity)),
  )
}

const newest = (directory: string, o: TrainOptions, identity: RunIdentity): Either<SpillwayError, Checkpoint | undefined> => {
  const mismatch = (reason: string): SpillwayError => ({ tag: 'CheckpointMismatch', directory, reason })
  const { checkpoint, refused } = findCheckpoint(directory)
  refused.forEach((r) => o.onNote?.(`${directory}: ${r}`))
  if (!checkpoint)
    return refused.length ? E.left(mismatch(`no checkpoint in it is whole: ${refused.join('; ')}`)) : E.right(undefined)
  if (checkpoint.step > o.steps)
    return E.left(usage(`the run in ${directory} has done ${checkpoint.step} steps: ask for at least as many`))
  // Weights that a run started from matter no more once it has a checkpoint.
  const { weights } = o.weights === undefined ? checkpoint.identity : identity
  return pipe(
    sameRun(checkpoint.identity, { ...identity, weights }),
    E.bimap(mismatch, () => checkpoint),
  )
}

/** A run that may begin. */
interface Start {
  readonly staged: Staged
  readonly options: TrainOptions
  readonly data: Data
  readonly state: ModelState
  readonly identity: RunIdentity
  readonly from: Checkpoint | undefined
}

/** `model` is checked against the plan when it is given. */
const startOf = (model: Trainable | undefined, staged: Staged, options: TrainOptions): Either<SpillwayError, Start> =>
  pipe(
    checkedOptions(options),
    E.tap(() => (model ? belonging(model, staged.plan, staged.machine) : E.right(undefined))),
    E.tap(() => runsHere(staged)),
    E.flatMap(() => dataOf(staged, options)),
    E.bindTo('data'),
    E.let('asked', ({ data }) => identityOf(staged, seedOf(options), data.words, options.weights)),
    E.bind('from', ({ asked }) => startingPoint(options, asked)),
    E.map(({ data, asked, from }) => ({
      staged,
      options,
      data,
      state: modelState(staged.plan.graph),
      identity: from?.identity ?? asked,
      from,
    })),
  )

// ---------------------------------------------------------------- the run

interface RunningSession extends Start {
  readonly session: DeviceSession
  readonly log: StepLog
  readonly memory: PeakMemory
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

/** The steps until the next checkpoint. */
const stepsFrom = (run: RunningSession, done: number): TaskEither<SpillwayError, RunMetrics> => {
  const { options: o, session, data, log } = run
  let stepsSeen = done
  return o.signal?.aborted
    ? TE.left(cancelled(o, done))
    : pipe(
        () =>
          session.run({
            firstStep: done + 1,
            steps: chunkFrom(done, o),
            seed: seedOf(o),
            data: data.source,
            onProgress: (p) => {
              if (p.kind === 'step') {
                stepsSeen = p.step
                log.step(p)
              }
              o.onProgress?.(p)
            },
          }),
        TE.mapLeft((e) => (e.tag === 'Cancelled' ? cancelled(o, stepsSeen) : e)),
      )
}

const saved = (run: RunningSession, counted: Counted, totals: Totals): Either<SpillwayError, void> => {
  const { options: o, identity, state, session, staged } = run
  const { strategy, budgetBytes } = staged.plan
  const { losses } = totals
  return o.checkpointDir === undefined
    ? E.right(undefined)
    : saveCheckpoint(
        o.checkpointDir,
        { step: losses.length, identity, settings: { strategy, budgetBytes }, losses, counted, totals },
        state,
        session,
      )
}

const chunk = (run: RunningSession, counted: Counted, totals: Totals): TaskEither<SpillwayError, Totals> =>
  pipe(
    stepsFrom(run, totals.losses.length),
    TE.map((metrics) => addRun(totals, metrics, run.memory.bytes())),
    TE.tap((now) => TE.fromEither(saved(run, counted, now))),
  )

const chunks =
  (run: RunningSession, counted: Counted): TaskEither<SpillwayError, Totals> =>
  async () => {
    let totals: Either<SpillwayError, Totals> = E.right(run.from ? { ...run.from.totals, losses: run.from.losses } : NO_STEPS)
    while (E.isRight(totals) && totals.right.losses.length < run.options.steps) totals = await chunk(run, counted, totals.right)()
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

/** A session that a signal cancels. */
const opened = (staged: Staged, o: TrainOptions): Either<SpillwayError, DeviceSession> =>
  pipe(
    openDevice(staged, { ...o, tier: tierOf(o.spill) }),
    E.tap((session) => E.right(o.signal?.addEventListener('abort', session.cancel))),
  )

const onDevice = (start: Start): TaskEither<SpillwayError, TrainResult> => {
  const { staged, options: o, from } = start
  const closed = (session: DeviceSession): void => {
    o.signal?.removeEventListener('abort', session.cancel)
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
            (log) => performed({ ...start, session, log, memory }),
          ),
      ),
  )
}

/** `model` is checked against the plan when it is given. @example const answer = await trainTask(net, plan, { steps: 10 })() */
export const trainTask = (
  model: Trainable | undefined,
  staged: Staged,
  o: TrainOptions,
): TaskEither<SpillwayError, TrainResult> =>
  pipe(
    TE.fromIOEither(() => startOf(model, staged, o)),
    TE.flatMap((start) =>
      start.from?.step === o.steps ? TE.fromEither(finishedResult(staged, start.from, start.state, o.save)) : onDevice(start),
    ),
  )

/**
 * The same for scripts: rejects with a SpillwayException.
 *
 * @example const { losses } = await train(net, plan, { steps: 10, data: 'slides/' })
 */
export const train = async (model: Trainable, staged: Staged, o: TrainOptions): Promise<TrainResult> =>
  orThrow(await trainTask(model, staged, o)())
