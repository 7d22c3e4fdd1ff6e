// Training: a model's plan run for a number of steps. In: a model, its staged plan, data and settings. Out: TrainResult, or
// an error as data. Invariant: after every chunk of steps the checkpoint on disk is whole, so that whatever ends the run
// (an error, a signal, a kill) `resume` goes on from the last one, bit for bit.
import { existsSync, readdirSync } from 'node:fs'
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Trainable } from '../../dsl'
import { DEVICES } from '../../staging/devices'
import {
  type Checkpoint,
  differenceOf,
  findCheckpoint,
  prepareDirectory,
  restore,
  type RunIdentity,
  saveCheckpoint,
} from './checkpoint'
import { type DataFiles, openData, sampleCount } from '../files/samples'
import { type DataSource, type DeviceProgress, type DeviceSession, forgetPlanning, openDevice } from '../device/device'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import { identityOf, modelMismatch } from '../stage/identity'
import { PeakMemory } from '../machine/memory'
import { finishedResult, type TrainResult, trainResult } from './result'
import type { StagedPlan } from '../stage/stage'
import { openStepLog, type StepLog } from './steplog'
import { addRun, NO_STEPS, type Totals } from './totals'
import { type Counted, loadWeights, modelState, type ModelState, saveWeights, weightsSha256 } from './weights'

export interface TrainOptions {
  /** The total of the run, steps before a resume included. */
  readonly steps: number
  /** A folder or file of pairs; without it, seeded synthetic data. */
  readonly data?: string
  /** Distinct synthetic samples; default: one batch, seen again and again. */
  readonly samples?: number
  readonly seed?: number
  /** 'ram', or the folder of the spill file. */
  readonly spill?: string
  readonly threads?: number
  readonly throttle?: number
  /** Bytes of the lower tier that may be pinned memory before the spill folder takes the rest, on cuda; default: all. */
  readonly hostMemory?: number
  readonly checkpointDir?: string
  /** Steps between checkpoints; default: a tenth of the run. There is one at the end in any case. */
  readonly checkpointEvery?: number
  readonly resume?: boolean
  readonly weights?: string
  readonly save?: string
  readonly log?: string
  readonly signal?: AbortSignal
  readonly onProgress?: (p: DeviceProgress) => void
  /** Words for a person: a damaged checkpoint that was passed over, tensors that were not needed. */
  readonly onNote?: (text: string) => void
}

// ---------------------------------------------------------------- before the first step

/** What is wrong with options, known before anything is staged. */
export const optionsFault = (o: TrainOptions): SpillwayError | undefined => {
  const whole = (name: string, n: number | undefined, least: number): SpillwayError | undefined =>
    n === undefined || (Number.isSafeInteger(n) && n >= least)
      ? undefined
      : usage(`${name} is ${n}; legal are whole numbers of at least ${least}`)
  return (
    whole('steps', o.steps, 1) ??
    whole('seed', o.seed, 0) ??
    whole('samples', o.samples, 1) ??
    whole('checkpointEvery', o.checkpointEvery, 1) ??
    whole('threads', o.threads, 1) ??
    (o.resume && !o.checkpointDir ? usage('resume needs a checkpoint directory to resume from') : undefined) ??
    (o.checkpointEvery !== undefined && !o.checkpointDir ? usage('checkpointEvery needs a checkpoint directory') : undefined)
  )
}

const sourceOf = (
  staged: StagedPlan,
  o: TrainOptions,
): Either<SpillwayError, { readonly source: DataSource; readonly words: string }> => {
  if (o.data === undefined) {
    const batch = staged.plan.graph.values.find((v) => v.role === 'input')!.shape[0]!
    const samples = o.samples ?? batch
    return right({ source: { kind: 'synthetic', samples }, words: `synthetic, ${samples} samples` })
  }
  const files = openData(o.data, staged.plan.graph)
  if (isLeft(files)) return files
  return right({ source: { kind: 'files', files: files.right }, words: dataWords(files.right) })
}

const dataWords = (files: DataFiles): string => {
  const [first = []] = files.values()
  return `${sampleCount(first)} samples of ${first.map((f) => f.path).join(', ')}`
}

const holdsCheckpoints = (directory: string): boolean =>
  existsSync(directory) && readdirSync(directory).some((n) => /^step-\d+\.json$/.test(n))

/** Where the run starts: the newest whole checkpoint that is of this very run, or the beginning. */
const startingPoint = (o: TrainOptions, identity: RunIdentity): Either<SpillwayError, Checkpoint | undefined> => {
  const directory = o.checkpointDir
  if (directory === undefined) return right(undefined)
  if (!o.resume && holdsCheckpoints(directory))
    return left(usage(`checkpoint directory ${directory} already holds a run: resume it, or name another directory`))
  prepareDirectory(directory)
  const { checkpoint, refused } = findCheckpoint(directory)
  refused.forEach((r) => o.onNote?.(`${directory}: ${r}`))
  if (!checkpoint && refused.length)
    return left({ tag: 'CheckpointMismatch', directory, reason: `no checkpoint in it is whole: ${refused.join('; ')}` })
  // Weights that a run started from matter no more once it has a checkpoint.
  const difference =
    checkpoint &&
    differenceOf(checkpoint.identity, o.weights === undefined ? { ...identity, weights: checkpoint.identity.weights } : identity)
  return difference ? left({ tag: 'CheckpointMismatch', directory, reason: difference }) : right(checkpoint)
}

// ---------------------------------------------------------------- the run

interface Run {
  readonly staged: StagedPlan
  readonly options: TrainOptions
  readonly identity: RunIdentity
  readonly state: ModelState
  readonly session: DeviceSession
  readonly source: DataSource
  readonly log: StepLog
  readonly memory: PeakMemory
}

type Trained = Promise<Either<SpillwayError, TrainResult>>

const seedOf = (o: TrainOptions): number => o.seed ?? 0

/** Fills the device: from the checkpoint, else from the seed and then the weights file. */
const begin = (run: Run, from: Checkpoint | undefined): Either<SpillwayError, Counted> => {
  const { options: o, session, state } = run
  if (from) {
    const restored = restore(o.checkpointDir!, from, state, session)
    return isLeft(restored) ? restored : right(from.counted)
  }
  session.initialise(seedOf(o))
  if (o.weights === undefined) return right(new Map())
  const loaded = loadWeights(o.weights, state, session)
  if (isLeft(loaded)) return loaded
  const { extra, counted } = loaded.right
  if (extra.length)
    o.onNote?.(
      `${o.weights}: ${extra.length} tensors are not in the model: ${extra.slice(0, 5).join(', ')}${extra.length > 5 ? ', …' : ''}`,
    )
  return right(counted)
}

const resumeHint = ({ checkpointDir }: TrainOptions): string | undefined => {
  if (checkpointDir === undefined) return undefined
  return holdsCheckpoints(checkpointDir)
    ? `the last checkpoint in ${checkpointDir} is whole: run the same command with --resume to go on`
    : `no checkpoint was due in ${checkpointDir} yet (--checkpoint-every says how often): the same command begins anew`
}

const cancelled = (run: Run, stepsDone: number): SpillwayError => {
  const resume = resumeHint(run.options)
  return { tag: 'Cancelled', stepsDone, ...(resume ? { resume } : {}) }
}

/** Steps until the next checkpoint is due, or the end; ten checkpoints a run when it is not said how often. */
export const chunkFrom = (done: number, o: Pick<TrainOptions, 'steps' | 'checkpointDir' | 'checkpointEvery'>): number => {
  if (o.checkpointDir === undefined) return o.steps - done
  const every = o.checkpointEvery ?? Math.ceil(o.steps / 10)
  return Math.min(o.steps, (Math.floor(done / every) + 1) * every) - done
}

const runChunks = async (run: Run, counted: Counted, from: Totals): Promise<Either<SpillwayError, Totals>> => {
  const { options: o, session } = run
  let totals = from
  while (totals.losses.length < o.steps) {
    const done = totals.losses.length
    if (o.signal?.aborted) return left(cancelled(run, done))
    let stepsSeen = done
    const metrics = await session.run({
      firstStep: done + 1,
      steps: chunkFrom(done, o),
      seed: seedOf(o),
      data: run.source,
      onProgress: (p) => {
        if (p.kind === 'step') {
          stepsSeen = p.step
          run.log.step(p)
        }
        o.onProgress?.(p)
      },
    })
    if (isLeft(metrics)) return metrics.left.tag === 'Cancelled' ? left(cancelled(run, stepsSeen)) : metrics
    totals = addRun(totals, metrics.right, run.memory.bytes())
    if (o.checkpointDir !== undefined) {
      const settings = { strategy: run.staged.plan.strategy, budgetBytes: run.staged.plan.budgetBytes }
      const { losses } = totals
      saveCheckpoint(
        o.checkpointDir,
        { step: losses.length, identity: run.identity, settings, losses, counted, totals },
        run.state,
        session,
      )
    }
  }
  return right(totals)
}

const perform = async (run: Run, from: Checkpoint | undefined): Trained => {
  const counted = begin(run, from)
  if (isLeft(counted)) return counted
  const totals = await runChunks(run, counted.right, from ? { ...from.totals, losses: from.losses } : NO_STEPS)
  if (isLeft(totals)) return totals
  const { options: o, state, session } = run
  if (o.save !== undefined) saveWeights(o.save, state, session, counted.right, o.steps)
  return right(trainResult(run.staged, totals.right, weightsSha256(state, session), run.memory.bytes(), from?.step ?? 0))
}

const onDevice = async (
  staged: StagedPlan,
  o: TrainOptions,
  identity: RunIdentity,
  source: DataSource,
  from: Checkpoint | undefined,
): Trained => {
  forgetPlanning()
  const memory = new PeakMemory().start()
  const session = openDevice(staged, {
    spill: o.spill ?? 'ram',
    threads: o.threads,
    throttle: o.throttle,
    hostMemory: o.hostMemory,
  })
  if (isLeft(session)) {
    memory.stop()
    return session
  }
  const cancel = (): void => session.right.cancel()
  o.signal?.addEventListener('abort', cancel)
  const log = openStepLog(o.log, from?.step ?? 0)
  try {
    const state = modelState(staged.plan.graph)
    return await perform({ staged, options: o, identity, state, session: session.right, source, log, memory }, from)
  } finally {
    log.close()
    o.signal?.removeEventListener('abort', cancel)
    session.right.dispose()
    memory.stop()
  }
}

const trained = async (model: Trainable | undefined, staged: StagedPlan, o: TrainOptions): Trained => {
  const fault = optionsFault(o) ?? (model && modelMismatch(model, staged.plan))
  if (fault) return left(fault)
  if (staged.machine.simulated)
    return left(
      usage(`a plan for machine '${staged.machine.name}' cannot run here: stage for one of this machine's devices`, DEVICES),
    )
  const source = sourceOf(staged, o)
  if (isLeft(source)) return source
  const identity = identityOf(staged, seedOf(o), source.right.words, o.weights)
  const from = startingPoint(o, identity)
  if (isLeft(from)) return from
  if (from.right && from.right.step > o.steps)
    return left(usage(`the run in ${o.checkpointDir} has done ${from.right.step} steps: ask for at least as many`))
  if (from.right?.step === o.steps) return finishedResult(staged, from.right, modelState(staged.plan.graph), o.save)
  return onDevice(staged, o, from.right?.identity ?? identity, source.right.source, from.right)
}

/** What the file system says (a full disk, a folder that may not be written), or a device between steps, as data. */
const systemError = (e: unknown): SpillwayError => {
  if (e instanceof SpillwayException) return e.error
  const { code, path, message } = e as NodeJS.ErrnoException
  if (typeof code !== 'string') throw e
  return { tag: 'FileRefused', kind: 'output', file: path ?? '(unnamed)', reason: message }
}

/** `model` is checked against the plan when it is given. */
export const trainTask =
  (model: Trainable | undefined, staged: StagedPlan, o: TrainOptions): TaskEither<SpillwayError, TrainResult> =>
  () =>
    trained(model, staged, o).catch((e: unknown): Either<SpillwayError, TrainResult> => left(systemError(e)))

/**
 * The same for scripts: rejects with a SpillwayException.
 *
 * @example const { losses } = await train(net, plan, { steps: 10, data: 'slides/' })
 */
export const train = async (model: Trainable, staged: StagedPlan, o: TrainOptions): Promise<TrainResult> => {
  const result = await trainTask(model, staged, o)()
  if (isLeft(result)) throw new SpillwayException(result.left)
  return result.right
}
