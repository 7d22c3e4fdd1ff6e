// The users' options of predictions and evaluations. In: the given options. Out: the same, or their error.
import { optionsFor } from '../../staging/core/options'
import type { Data } from '../data/data'
import { either, listOf, made, named, path, withValues } from '../../staging/core/values'
import type { DeviceLimits } from '../train/device'
import type { LoadingOptions } from '../train/loading'
import type { Metric } from './ownmetric'
import type { MetricName } from './metricnames'
import { RUN_VALUES } from '../train/options'
import { type Format, FORMATS } from './outputs'

const metricLike = made('an object')

/** Options of predictions that outlive a call, too. */
export interface WeightedOptions {
  /**
   * The weights: a file of safetensors or PyTorch, or the name of a network with published weights in the cache.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: 'images/' })
   */
  readonly weights: string
  /**
   * Place of swapped values: 'ram', or a folder for a spill file. Default: as planned.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'a.npy', spill: '/var/tmp' })
   */
  readonly spill?: string | undefined
  /**
   * Called with a note for a person, e.g. about unused tensors. Default: notes go to stderr.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'a.npy', onNote: console.warn })
   */
  readonly onNote?: ((text: string) => void) | undefined
}

/**
 * Options of `predict`.
 *
 * @example const options: PredictOptions = { weights: 'weights.safetensors', data: 'images/', out: 'masks/' }
 */
export interface PredictOptions extends WeightedOptions, DeviceLimits, LoadingOptions {
  /**
   * The images: files or folders at their own size, `folder(…)` at the model's size, .npy, .safetensors, or a
   * source.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: folder('photos/', { mean: [0.5], std: [0.25] }) })
   */
  readonly data: string | Data
  /**
   * If true, refuses data that would be left out: other file types, nested folders, unreadable files. Default
   * false, which prints a note.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'photos/', strictData: true })
   */
  readonly strictData?: boolean | undefined
  /**
   * Place of the outputs: a .npy, .safetensors, .json, .jsonl or .csv file, or a folder with one file per image.
   * Default: the result holds them.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: 'images/', out: 'masks/' })
   */
  readonly out?: string | undefined
  /**
   * Format of the files in a folder: 'npy' arrays, 'png' masks of classes, or 'overlay': image files tinted by
   * their classes. Default 'npy'.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: 'photos/', out: 'masks/', format: 'png' })
   */
  readonly format?: Format | undefined
  /**
   * Number of threads that decode images. Default: half the cores, at most 4.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'photos/', workers: 2 })
   */
  readonly workers?: number | undefined
  /**
   * Ends the prediction within a step; files already written stay, and the promise rejects with the reason.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'images/', out: 'masks/', signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Called with the number of finished images and of all images.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'a.npy', onProgress: (done, all) => console.log(`${done} of ${all}`) })
   */
  readonly onProgress?: ((done: number, images: number) => void) | undefined
}

export const PREDICT_KEYS = optionsFor<PredictOptions>()(
  'predict',
  'weights',
  'weightsSkip',
  'weightsStrip',
  'data',
  'strictData',
  'out',
  'format',
  'workers',
  'spill',
  'signal',
  'onProgress',
  'onNote',
  'threads',
  'throttle',
  'hostMemory',
)

export const PREDICT = withValues(
  PREDICT_KEYS,
  { ...RUN_VALUES, out: path, format: named(FORMATS) },
  { required: ['weights', 'data'] },
)

/**
 * Options of `evaluate`.
 *
 * @example const options: EvaluateOptions = { weights: 'weights.safetensors', data: 'validation/', metrics: ['accuracy'] }
 */
export interface EvaluateOptions extends DeviceLimits, LoadingOptions {
  /**
   * The weights: a file of safetensors or PyTorch, or the name of a network with published weights in the cache.
   *
   * @example evaluate(net, plan, { weights: 'weights.safetensors', data: 'validation/' })
   */
  readonly weights: string
  /**
   * The samples: all forms that `train` accepts. Each sample counts once.
   *
   * @example evaluate(net, plan, { weights: 'weights.safetensors', data: folder('validation/') })
   */
  readonly data: string | Data
  /**
   * If true, refuses data that would be left out: other file types, nested folders, unreadable files. Default
   * false, which prints a note.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'photos/', strictData: true })
   */
  readonly strictData?: boolean | undefined
  /**
   * Metrics beside the loss. Default for classes: accuracy, with top5 for images and meanIou for pixels; for
   * numbers: mae and psnr.
   *
   * @example evaluate(net, plan, { weights: 'weights.safetensors', data: 'validation/', metrics: ['accuracy', 'f1', 'confusion'] })
   */
  readonly metrics?: readonly (MetricName | Metric)[] | undefined
  /**
   * Number of batches prepared ahead in TypeScript. Default 2.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', prefetch: 4 })
   */
  readonly prefetch?: number | undefined
  /**
   * Number of threads that decode images. Default: half the cores, at most 4.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', workers: 2 })
   */
  readonly workers?: number | undefined
  /**
   * Place of swapped values: 'ram', or a folder for a spill file. Default: as planned.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', spill: '/var/tmp' })
   */
  readonly spill?: string | undefined
  /**
   * Ends the evaluation within a step; the promise rejects with the reason.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Called with the number of finished samples and of all samples; the latter is undefined for a stream.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', onProgress: (done, all) => console.log(`${done} of ${all}`) })
   */
  readonly onProgress?: ((done: number, samples: number | undefined) => void) | undefined
  /**
   * Called with a note for a person, e.g. about unused tensors. Default: notes go to stderr.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', onNote: console.warn })
   */
  readonly onNote?: ((text: string) => void) | undefined
}

// biome-ignore format: a list
export const EVALUATE_KEYS = optionsFor<EvaluateOptions>()(
  'evaluate', 'weights', 'weightsSkip', 'weightsStrip', 'data', 'strictData', 'metrics', 'prefetch', 'workers', 'spill', 'signal', 'onProgress', 'onNote', 'threads', 'throttle', 'hostMemory',
)
/** Metrics; unknown names are refused with the nearest. */
export const METRIC_LIST = listOf(
  'a list of names of metrics or results of metric',
  (u) => typeof u === 'string' || metricLike.is(u),
)
/** The weights of a validation are those of its run. */
export const EVALUATE = withValues(EVALUATE_KEYS, {
  ...RUN_VALUES,
  weights: either('a path', path, metricLike),
  metrics: METRIC_LIST,
})
