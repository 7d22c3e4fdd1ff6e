// How a plan is trained: what users choose. In: options as they were given. Out: the same, or what is wrong with them.
import { availableParallelism } from 'node:os'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import type { Data } from '../data/data'
import type { EngineName } from '../ranks/engine'
import type { DeviceOptions, DeviceProgress } from './device'
import { type SpillwayError, usage } from '../errors/errors'
import { checkedLoading, type LoadingOptions } from './loading'
import type { Evaluating } from './measured'
import { checkedSchedule, type OwnSchedule, type Schedule } from './schedules'

/** Which checkpoints of a run stay. */
export interface KeepOptions {
  /** The newest; default 2. @example train(net, plan, { steps: 100, checkpointDir: 'state', keep: { last: 5 } }) */
  readonly last?: number | undefined
  /**
   * The metric whose best stays, too: `loss`, `mae` and `mse` are best small, all others large. Without `evaluate` there is the loss of epochs.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', checkpointDir: 'state', keep: { best: 'loss' } })
   */
  readonly best?: string | undefined
}
const KEEP = optionsFor<KeepOptions>()('keep', 'last', 'best')

/** How a plan is trained. */
export interface TrainOptions extends Omit<DeviceOptions, 'tier'>, LoadingOptions {
  /** The length of the whole run, steps before a resume included. @example train(net, plan, { steps: 100 }) */
  readonly steps?: number | undefined
  /**
   * The same in epochs: the run ends with the step that holds the last sample of the last of them.
   *
   * @example train(net, plan, { epochs: 30, data: 'slides/', shuffle: true })
   */
  readonly epochs?: number | undefined
  /**
   * How the learning rate moves: `cosine()` and others, or a function of the step and the run's length that gives a factor of the
   * optimizer's rate. A run that is resumed may have another.
   *
   * @example train(net, plan, { steps: 100, schedule: (step, total) => 1 - step / total })
   */
  readonly schedule?: Schedule | OwnSchedule | undefined
  /**
   * Steps in which the learning rate rises to what the schedule begins with; default 0.
   *
   * @example train(net, plan, { epochs: 30, schedule: cosine(), warmup: 500 })
   */
  readonly warmup?: number | undefined
  /**
   * A folder or file of pairs, or what `source`, `files` and their parts give; without it, seeded synthetic data.
   *
   * @example train(net, plan, { steps: 100, data: 'slides/' })
   */
  readonly data?: string | Data | undefined
  /** The data in another order in each epoch, by seed. @example train(net, plan, { steps: 100, data: 'slides/', shuffle: true }) */
  readonly shuffle?: boolean | undefined
  /**
   * Batches that are made ahead of the step at hand, where TypeScript makes them; default 2. The host's memory holds one more.
   *
   * @example train(net, plan, { steps: 100, data: source({ length, read }), prefetch: 4 })
   */
  readonly prefetch?: number | undefined
  /**
   * Threads that decode images; default: half the cores, four at most. With 0 the thread of JavaScript does it. Results are the same.
   *
   * @example train(net, plan, { steps: 100, data: folder('cats/'), workers: 8 })
   */
  readonly workers?: number | undefined
  /** Distinct synthetic samples; default: one batch, seen again and again. @example train(net, plan, { steps: 100, samples: 64 }) */
  readonly samples?: number | undefined
  /** Of weights, synthetic data and dropout; default 0. @example train(net, plan, { steps: 100, seed: 7 }) */
  readonly seed?: number | undefined
  /** 'ram', or the folder of the spill file. @example train(net, plan, { steps: 100, spill: '/var/tmp' }) */
  readonly spill?: string | undefined
  /** Where the training state is kept. @example train(net, plan, { steps: 100, checkpointDir: 'state' }) */
  readonly checkpointDir?: string | undefined
  /**
   * Steps between checkpoints; default: a tenth of the run. There is one at the end in any case.
   *
   * @example train(net, plan, { steps: 100, checkpointDir: 'state', checkpointEvery: 25 })
   */
  readonly checkpointEvery?: number | undefined
  /**
   * Evaluates the model after epochs, in the budget of the plan: the run's state waits in the host's memory, or in the spill folder.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', evaluate: validation({ data: 'val/', metrics: ['accuracy'] }) })
   */
  readonly evaluate?: Evaluating | undefined
  /**
   * Ends the run when this many evaluations, or epochs where there are none, have brought nothing better; by the metric of `keep.best`, or loss.
   *
   * @example train(net, plan, { epochs: 300, data: 'train/', patience: 10 })
   */
  readonly patience?: number | undefined
  /**
   * Which checkpoints stay: the last ones, two unless said otherwise, and the best by a metric.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', checkpointDir: 'state', keep: { best: 'loss', last: 3 } })
   */
  readonly keep?: KeepOptions | undefined
  /**
   * Where the best weights go (safetensors), by the metric of `keep.best`, or loss.
   *
   * @example train(net, plan, { epochs: 30, data: 'train/', saveBest: 'best.safetensors' })
   */
  readonly saveBest?: string | undefined
  /** Goes on from the last checkpoint, bit for bit. @example train(net, plan, { steps: 200, checkpointDir: 'state', resume: true }) */
  readonly resume?: boolean | undefined
  /**
   * A run that is resumed may have been shared by another number of processes.
   *
   * @example train(net, plan, { steps: 200, checkpointDir: 'state', resume: true, resumeRanks: true })
   */
  readonly resumeRanks?: boolean | undefined
  /**
   * How the processes meet that a plan for several `ranks` is of: MPI, found by itself where mpirun or srun has started them, or threads of this
   * process.
   *
   * @example train(net, stage(net, { ranks: 2 }), { steps: 100, engine: 'threads' })
   */
  readonly engine?: EngineName | undefined
  /** Weights to start from (safetensors, or what torch.save writes). @example train(net, plan, { steps: 100, weights: 'before.safetensors' }) */
  readonly weights?: string | undefined
  /** Where the weights go at the end (safetensors). @example train(net, plan, { steps: 100, save: 'weights.safetensors' }) */
  readonly save?: string | undefined
  /**
   * A folder that gets a line of JSON for every step, and the page of the run; or a file whose name ends with .csv, which gets a row.
   *
   * @example train(net, plan, { steps: 100, log: 'runs/first' })
   */
  readonly log?: string | undefined
  /**
   * A folder for TensorBoard: loss, seconds and learning rate of every step, and the plan's summary.
   *
   * @example train(net, plan, { steps: 100, tensorboard: 'runs/first' })
   */
  readonly tensorboard?: string | undefined
  /**
   * An HTML page of the run, kept up to date while it goes on: losses, metrics, rates, time and memory beside what was planned, the samples
   * that went worst, the plan.
   *
   * @example train(net, plan, { steps: 100, report: 'run.html' })
   */
  readonly report?: string | undefined
  /**
   * What becomes of a run whose loss is not finite; default: it ends, and nothing of it is saved.
   *
   * @example train(net, plan, { steps: 100, onNonfinite: 'continue' })
   */
  readonly onNonfinite?: 'end' | 'continue' | undefined
  /**
   * Ends the run within a step; the last checkpoint stays, and the promise is rejected with the signal's reason.
   *
   * @example train(net, plan, { steps: 100, signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Ends the run after the step at hand, saved in checkpointDir: a time limit, a scheduler's warning.
   *
   * @example train(net, plan, { steps: 100, checkpointDir: 'state', stop: AbortSignal.timeout(3 * 3600_000) })
   */
  readonly stop?: AbortSignal | undefined
  /**
   * Told of every tile and every step, at once; `fit` tells of epochs and checkpoints, too.
   *
   * @example train(net, plan, { steps: 100, onProgress: (p) => p.kind === 'step' && console.log(p.loss) })
   */
  readonly onProgress?: ((p: DeviceProgress) => void) | undefined
  /**
   * Words for a person: a damaged checkpoint that was passed over, tensors that were not needed.
   *
   * @example train(net, plan, { steps: 100, onNote: console.warn })
   */
  readonly onNote?: ((text: string) => void) | undefined
}

/** A run has a length, in one of two ways. */
export type RunLength = { readonly steps: number } | { readonly epochs: number }

// biome-ignore format: a list
export const TRAIN = optionsFor<TrainOptions>()(
  'train', 'steps', 'epochs', 'schedule', 'warmup', 'data', 'shuffle', 'prefetch', 'workers', 'samples', 'seed', 'spill', 'checkpointDir', 'checkpointEvery', 'evaluate', 'patience', 'keep', 'saveBest', 'resume', 'resumeRanks', 'engine', 'weights', 'weightsSkip', 'weightsStrip', 'save', 'log', 'tensorboard', 'report', 'onNonfinite', 'signal', 'stop',
  'onProgress', 'onNote', 'threads', 'throttle', 'hostMemory',
)

/** Batches ahead, where nothing is said. */
export const PREFETCH = 2

/** Threads that decode images, where nothing is said. */
export const usualWorkers = (): number => Math.max(1, Math.min(4, Math.floor(availableParallelism() / 2)))

const LEAST = {
  steps: 1,
  epochs: 1,
  warmup: 0,
  seed: 0,
  samples: 1,
  checkpointEvery: 1,
  patience: 1,
  threads: 1,
  prefetch: 1,
  workers: 0,
} as const

/** Options with which a run can begin: what is wrong with them is known before anything is staged. */
export const checkedOptions = (o: TrainOptions): Either<SpillwayError, TrainOptions> => {
  const options = knownIn(TRAIN)(o)
  if (E.isLeft(options)) return options
  const isLegal = (k: keyof typeof LEAST, n = o[k]): boolean => n === undefined || (Number.isSafeInteger(n) && n >= LEAST[k])
  const odd = (Object.keys(LEAST) as (keyof typeof LEAST)[]).find((k) => !isLegal(k))
  if (odd) return E.left(usage(`${odd} is ${o[odd]}; allowed: whole numbers of at least ${LEAST[odd]}`))
  if (o.steps !== undefined && o.epochs !== undefined) return E.left(usage('give steps or epochs, not both'))
  if (o.steps === undefined && o.epochs === undefined) return E.left(usage('a run needs steps or epochs'))
  const loading = checkedLoading(o)
  if (E.isLeft(loading)) return loading
  const schedule = checkedSchedule(o)
  if (E.isLeft(schedule)) return schedule
  if (o.throttle !== undefined && !(o.throttle > 0 && o.throttle < Infinity))
    return E.left(usage(`throttle is ${o.throttle}; allowed: numbers above 0`))
  if (o.resumeRanks && !o.resume) return E.left(usage('resumeRanks needs resume'))
  const keep = knownIn(KEEP)(o.keep)
  if (E.isLeft(keep)) return keep
  const { last = 1, best } = o.keep ?? {}
  if (!(Number.isSafeInteger(last) && last >= 1))
    return E.left(usage(`keep.last is ${last}; allowed: whole numbers of at least 1`))
  if (o.evaluate !== undefined && o.evaluate.kind !== 'evaluation')
    return E.left(usage('evaluate takes the result of validation({ data })'))
  if (o.checkpointDir) return E.right(o)
  if (o.keep?.last !== undefined || (best !== undefined && o.saveBest === undefined && o.patience === undefined))
    return E.left(usage('keep needs a checkpoint directory'))
  if (o.stop) return E.left(usage('stop needs a checkpoint directory to save the run in'))
  if (o.resume) return E.left(usage('resume needs a checkpoint directory to resume from'))
  return o.checkpointEvery === undefined ? E.right(o) : E.left(usage('checkpointEvery needs a checkpoint directory'))
}

export const seedOf = (o: TrainOptions): number => o.seed ?? 0
