// The users' options of training. In: the given options. Out: the same, or their error.
import { availableParallelism } from 'node:os'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import {
  aboveZero,
  atLeast,
  bytes,
  callable,
  choice,
  either,
  flag,
  made,
  path,
  signal,
  text,
  texts,
  withValues,
} from '../../staging/core/values'
import type { Data } from '../data/data'
import { type EngineName, ENGINES } from '../ranks/engine'
import type { DeviceLimits, DeviceProgress } from './device'
import { type SpillwayError, usage } from '../errors/errors'
import { checkedRunName } from '../files/runs'
import { checkedLoading, type LoadingOptions } from './loading'
import type { Evaluating } from './measured'
import { checkedSchedule, type OwnSchedule, type Schedule } from './schedules'

/** Checkpoints of a run to keep. @example const keep: KeepOptions = { last: 3, best: 'accuracy' } */
export interface KeepOptions {
  /**
   * Number of newest checkpoints to keep. Default 2.
   *
   * @example train(net, plan, { steps: 100, checkpointDir: 'state', keep: { last: 5 } })
   */
  readonly last?: number | undefined
  /**
   * Metric whose best checkpoint is kept, too. For `loss`, `mae` and `mse` smaller is better. Default: none.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', checkpointDir: 'state', keep: { best: 'loss' } })
   */
  readonly best?: string | undefined
}
const KEEP = withValues(optionsFor<KeepOptions>()('keep', 'last', 'best'), { last: atLeast(1), best: text }, { prefix: 'keep.' })

/** Options that training shares with the search for a learning rate: data, weights and the machine. */
export interface FeedingOptions {
  /**
   * The samples: a folder or file, or the result of `folder`, `files` or `source`. Default: synthetic data.
   *
   * @example train(net, plan, { steps: 100, data: 'slides/' })
   */
  readonly data?: string | Data | undefined
  /**
   * If true, refuses data that would be left out: other file types, nested folders, unreadable files. Default
   * false, which prints a note.
   *
   * @example train(net, plan, { steps: 100, data: folder('cats/'), strictData: true })
   */
  readonly strictData?: boolean | undefined
  /**
   * If true, each epoch has a new order, drawn by the seed; if false, samples keep their order. Default true, but
   * for streams and synthetic data.
   *
   * @example train(net, plan, { steps: 100, data: 'slides/', shuffle: false })
   */
  readonly shuffle?: boolean | undefined
  /**
   * If true, each epoch draws each class equally often: samples of rare classes several times, others not in each
   * epoch. The number of samples stays. Default false.
   *
   * @example train(net, plan, { epochs: 30, data: folder('cats/'), balanceClasses: true })
   */
  readonly balanceClasses?: boolean | undefined
  /**
   * Number of batches prepared ahead in TypeScript. Default 2.
   *
   * @example train(net, plan, { steps: 100, data: source({ length, read }), prefetch: 4 })
   */
  readonly prefetch?: number | undefined
  /**
   * Number of threads that decode images; 0 uses the main thread. Default: half the cores, at most 4.
   *
   * @example train(net, plan, { steps: 100, data: folder('cats/'), workers: 8 })
   */
  readonly workers?: number | undefined
  /** Number of distinct synthetic samples. Default: one batch. @example train(net, plan, { steps: 100, samples: 64 }) */
  readonly samples?: number | undefined
  /** Seed of weights, synthetic data and dropout. Default 0. @example train(net, plan, { steps: 100, seed: 7 }) */
  readonly seed?: number | undefined
  /**
   * Place of swapped values: 'ram', or a folder for a spill file. Default: as planned.
   *
   * @example train(net, plan, { steps: 100, spill: '/var/tmp' })
   */
  readonly spill?: string | undefined
  /**
   * Transport between ranks: 'mpi', or 'threads' of this process. Default: 'mpi' under mpirun or srun.
   *
   * @example train(net, stage(net, { ranks: 2 }), { steps: 100, engine: 'threads' })
   */
  readonly engine?: EngineName | undefined
  /**
   * Initial weights: a file of safetensors or PyTorch, or the name of a network with published weights in the
   * cache. Default: random weights.
   *
   * @example train(net, plan, { steps: 100, weights: 'before.safetensors' })
   */
  readonly weights?: string | undefined
  /**
   * Ends the run within a step; the last checkpoint stays, and the promise rejects with the reason.
   *
   * @example train(net, plan, { steps: 100, signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Called with a note for a person, e.g. about a damaged checkpoint. Default: notes go to stderr.
   *
   * @example train(net, plan, { steps: 100, onNote: console.warn })
   */
  readonly onNote?: ((text: string) => void) | undefined
}

/**
 * Options of `train` and `fit`. Give `steps` or `epochs`.
 *
 * @example const options: TrainOptions = { epochs: 30, data: 'slides/', save: 'weights.safetensors' }
 */
export interface TrainOptions extends FeedingOptions, DeviceLimits, LoadingOptions {
  /** Length of the whole run in steps, earlier processes included. @example train(net, plan, { steps: 100 }) */
  readonly steps?: number | undefined
  /**
   * Length of the whole run in epochs, earlier processes included.
   *
   * @example train(net, plan, { epochs: 30, data: 'slides/' })
   */
  readonly epochs?: number | undefined
  /**
   * Schedule of the learning rate, or a function that returns a factor. You may change it when you resume.
   * Default: constant.
   *
   * @example train(net, plan, { steps: 100, schedule: (step, total) => 1 - step / total })
   */
  readonly schedule?: Schedule | OwnSchedule | undefined
  /**
   * Number of steps in which the learning rate rises to its first value. Default 0.
   *
   * @example train(net, plan, { epochs: 30, schedule: cosine(), warmup: 500 })
   */
  readonly warmup?: number | undefined
  /** Folder of the checkpoints. Default: no checkpoints. @example train(net, plan, { steps: 100, checkpointDir: 'state' }) */
  readonly checkpointDir?: string | undefined
  /**
   * Steps between two checkpoints; the last step always has one. Default: a tenth of the run.
   *
   * @example train(net, plan, { steps: 100, checkpointDir: 'state', checkpointEvery: 25 })
   */
  readonly checkpointEvery?: number | undefined
  /**
   * An evaluation after epochs, within the budget of the plan. Default: none.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', evaluate: validation({ data: 'val/', metrics: ['accuracy'] }) })
   */
  readonly evaluate?: Evaluating | undefined
  /**
   * Number of evaluations, or epochs without them, without improvement after which the run stops. Default: no
   * limit.
   *
   * @example train(net, plan, { epochs: 300, data: 'train/', patience: 10 })
   */
  readonly patience?: number | undefined
  /**
   * Checkpoints to keep. Default: the last 2.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', checkpointDir: 'state', keep: { best: 'loss', last: 3 } })
   */
  readonly keep?: KeepOptions | undefined
  /**
   * File for the best weights (safetensors). Default: none.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', saveBest: 'best.safetensors' })
   */
  readonly saveBest?: string | undefined
  /**
   * If true, continues from the last checkpoint, bit for bit. Default false.
   *
   * @example train(net, plan, { steps: 200, checkpointDir: 'state', resume: true })
   */
  readonly resume?: boolean | undefined
  /**
   * If true, the resumed run may have another number of ranks; its bits then differ. Default false.
   *
   * @example train(net, plan, { steps: 200, checkpointDir: 'state', resume: true, resumeRanks: true })
   */
  readonly resumeRanks?: boolean | undefined
  /**
   * Name of the run. Its folder `runs/NAME` gets the weights, the logs, the page and `recipe.json`. Options such as
   * `save` and `log` move single parts. Default: no folder.
   *
   * @example train(net, plan, { epochs: 30, data: 'slides/', run: 'baseline' })
   */
  readonly run?: string | undefined
  /**
   * File for the final weights (safetensors). Default: none.
   *
   * @example train(net, plan, { steps: 100, save: 'weights.safetensors' })
   */
  readonly save?: string | undefined
  /**
   * Folder for a JSON line per step and the page of the run, or a .csv file. Default: none.
   *
   * @example train(net, plan, { steps: 100, log: 'runs/first' })
   */
  readonly log?: string | undefined
  /**
   * Folder for TensorBoard events: loss, seconds and learning rate of each step. Default: none.
   *
   * @example train(net, plan, { steps: 100, tensorboard: 'runs/first' })
   */
  readonly tensorboard?: string | undefined
  /**
   * File for an HTML page of the run, updated during the run. Default: none.
   *
   * @example train(net, plan, { steps: 100, report: 'run.html' })
   */
  readonly report?: string | undefined
  /**
   * File for a trace of the last step, predicted and measured, for Perfetto. Default: none.
   *
   * @example train(net, plan, { steps: 100, trace: 'step.json' })
   */
  readonly trace?: string | undefined
  /**
   * Reaction to a loss that is not finite: 'end' stops and saves nothing, 'continue' goes on. Default 'end'.
   *
   * @example train(net, plan, { steps: 100, onNonfinite: 'continue' })
   */
  readonly onNonfinite?: 'end' | 'continue' | undefined
  /**
   * Ends the run after the current step. The state goes to `checkpointDir`, the weights to the folder of `run`, or
   * to `save`. An evaluation ends early.
   *
   * @example train(net, plan, { steps: 100, checkpointDir: 'state', stop: AbortSignal.timeout(3 * 3600_000) })
   */
  readonly stop?: AbortSignal | undefined
  /**
   * Called after every tile and every step. Without it and `onNote`, `train` and `run` print a line per epoch on
   * stderr.
   *
   * @example train(net, plan, { steps: 100, onProgress: (p) => p.kind === 'step' && console.log(p.loss) })
   */
  readonly onProgress?: ((p: DeviceProgress) => void) | undefined
}

/**
 * The length of a run: a number of steps, or a number of epochs.
 *
 * @example
 * const length: RunLength = { epochs: 30 }
 * await train(net, plan, { ...length, data: 'slides/' })
 */
export type RunLength = { readonly steps: number } | { readonly epochs: number }
/** Options without a length, and the length that they lack; null if they have one, or may have one. */
export type Endless<O> = O extends { readonly steps: number; readonly epochs: number }
  ? { [K in keyof O]: K extends 'epochs' ? StepsAndEpochs : O[K] }
  : O extends RunLength
    ? null
    : number extends O[keyof O & ('steps' | 'epochs')]
      ? null
      : O & RunLength
const STEPS_AND_EPOCHS = 'steps and epochs exclude each other: give one of them'
type StepsAndEpochs = typeof STEPS_AND_EPOCHS

// biome-ignore format: a list
export const TRAIN_KEYS = optionsFor<TrainOptions>()(
  'train', 'steps', 'epochs', 'schedule', 'warmup', 'data', 'strictData', 'shuffle', 'balanceClasses', 'prefetch', 'workers', 'samples', 'seed', 'spill', 'checkpointDir', 'checkpointEvery', 'evaluate', 'patience', 'keep', 'saveBest', 'resume', 'resumeRanks', 'engine', 'weights', 'weightsSkip', 'weightsStrip', 'run', 'save', 'log', 'tensorboard', 'report', 'trace', 'onNonfinite', 'signal', 'stop',
  'onProgress', 'onNote', 'threads', 'throttle', 'hostMemory',
)

/** Values of options that several functions have. */
export const RUN_VALUES = {
  data: made('a path, or the result of folder, files or source', true),
  strictData: flag,
  prefetch: atLeast(1),
  workers: atLeast(0),
  spill: either("'ram' or a folder", text),
  weights: path,
  weightsSkip: texts,
  weightsStrip: texts,
  signal,
  onProgress: callable,
  onNote: callable,
  threads: atLeast(1),
  throttle: aboveZero,
  hostMemory: bytes,
}
export const TRAIN = withValues(TRAIN_KEYS, {
  ...RUN_VALUES,
  steps: atLeast(1),
  epochs: atLeast(1),
  schedule: either('a function, or the result of cosine, stepped and others', callable, made('')),
  warmup: atLeast(0),
  shuffle: flag,
  balanceClasses: flag,
  samples: atLeast(1),
  seed: atLeast(0),
  checkpointDir: path,
  checkpointEvery: atLeast(1),
  evaluate: made('the result of validation({ data })'),
  patience: atLeast(1),
  keep: made('an object such as { last: 3 }'),
  saveBest: path,
  resume: flag,
  resumeRanks: flag,
  engine: choice(ENGINES),
  run: text,
  save: path,
  log: path,
  tensorboard: path,
  report: path,
  trace: path,
  onNonfinite: choice(['end', 'continue']),
  stop: signal,
})

/** Batches ahead, where nothing is said. */
export { PREFETCH } from '../stage/defaults'

/** Threads that decode images, where nothing is said. */
export const usualWorkers = (): number => Math.max(1, Math.min(4, Math.floor(availableParallelism() / 2)))

/** Options of a run's start: their errors are known before staging. */
export const checkedOptions = (o: TrainOptions): Either<SpillwayError, TrainOptions> => {
  const options = knownIn(TRAIN)(o)
  if (E.isLeft(options)) return options
  if (o.steps !== undefined && o.epochs !== undefined) return E.left(usage(STEPS_AND_EPOCHS))
  if (o.steps === undefined && o.epochs === undefined) return E.left(usage('a run needs steps or epochs'))
  const run = o.run === undefined ? E.right(o.run) : checkedRunName(o.run)
  if (E.isLeft(run)) return run
  const loading = checkedLoading(o)
  if (E.isLeft(loading)) return loading
  const schedule = checkedSchedule(o)
  if (E.isLeft(schedule)) return schedule
  if (o.samples !== undefined && o.data !== undefined)
    return E.left(usage('samples is the number of synthetic samples, so it cannot be used with data: leave one of them out'))
  if (o.balanceClasses && o.shuffle === false)
    return E.left(
      usage(
        'balanceClasses draws samples in a new order in each epoch, but shuffle is false (--no-shuffle): leave one of them out',
      ),
    )
  if (o.resumeRanks && !o.resume) return E.left(usage('resumeRanks needs resume'))
  const keep = knownIn(KEEP)(o.keep)
  if (E.isLeft(keep)) return keep
  const { best } = o.keep ?? {}
  if (o.evaluate !== undefined && o.evaluate.kind !== 'evaluation')
    return E.left(usage('evaluate takes the result of validation({ data })'))
  if (o.stop && (o.checkpointDir ?? o.run ?? o.save) === undefined)
    return E.left(usage('stop needs a place to save the run: give checkpointDir, run or save'))
  if (o.checkpointDir) return E.right(o)
  if (o.keep?.last !== undefined || (best !== undefined && o.saveBest === undefined && o.patience === undefined))
    return E.left(usage('keep needs a checkpoint directory'))
  if (o.resume) return E.left(usage('resume needs a checkpoint directory to resume from'))
  return o.checkpointEvery === undefined ? E.right(o) : E.left(usage('checkpointEvery needs a checkpoint directory'))
}

/** The options with a place for notes: stderr, unless the caller takes them. */
export const withNotes = <O extends Pick<TrainOptions, 'onNote'>>(o: O): O =>
  o.onNote === undefined ? { ...o, onNote: (text: string) => void process.stderr.write(`note: ${text}\n`) } : o

export const seedOf = (o: TrainOptions): number => o.seed ?? 0
