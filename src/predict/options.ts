// How a plan predicts, or is evaluated: what users choose. In: options as they were given. Out: the same, or what is wrong with them.
import { optionsFor } from '../../staging/core/options'
import type { Data } from '../data/data'
import type { DeviceOptions } from '../train/device'
import type { LoadingOptions } from '../train/loading'
import type { Metric, MetricName } from './metrics'
import type { Format } from './outputs'

/** How a plan predicts. */
export interface PredictOptions extends Omit<DeviceOptions, 'tier'>, LoadingOptions {
  /** Weights by PyTorch's names (safetensors, or what torch.save writes). @example predict(net, plan, { weights: 'weights.safetensors', data: 'images/' }) */
  readonly weights: string
  /**
   * The images: image files or a folder of them, each at its own size, or with `folder` and its `fit` at the model's; or a .npy file, a folder
   * of these, a .safetensors file with a tensor `input`; or a source of one's own, of regions, too.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: folder('photos/', { mean: [0.5], std: [0.25] }) })
   */
  readonly data: string | Data
  /**
   * Where the outputs go: a .npy or .safetensors file for all of them, or a folder for one .npy file each; default: the answer holds them.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: 'images/', out: 'masks/' })
   */
  readonly out?: string | undefined
  /**
   * What the files of a folder are: arrays, or, of classes, PNG pictures with a palette; default npy.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: 'photos/', out: 'masks/', format: 'png' })
   */
  readonly format?: Format | undefined
  /** Threads that decode images; default: half the cores, four at most. @example predict(net, plan, { weights: 'w.safetensors', data: 'photos/', workers: 2 }) */
  readonly workers?: number | undefined
  /** 'ram', or the folder of the spill file. @example predict(net, plan, { weights: 'w.safetensors', data: 'a.npy', spill: '/var/tmp' }) */
  readonly spill?: string | undefined
  /**
   * Ends the run within a step; what is written by then stays, and the promise is rejected with the signal's reason.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'images/', out: 'masks/', signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Told when so many of all images are done.
   *
   * @example predict(net, plan, { weights: 'w.safetensors', data: 'a.npy', onProgress: (done, all) => console.log(`${done} of ${all}`) })
   */
  readonly onProgress?: ((done: number, images: number) => void) | undefined
  /** Words for a person: tensors that were not needed. @example predict(net, plan, { weights: 'w.safetensors', data: 'a.npy', onNote: console.warn }) */
  readonly onNote?: ((text: string) => void) | undefined
}

export const PREDICT = optionsFor<PredictOptions>()(
  'predict',
  'weights',
  'weightsSkip',
  'weightsStrip',
  'data',
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

/** How a model is evaluated. */
export interface EvaluateOptions extends Omit<DeviceOptions, 'tier'>, LoadingOptions {
  /** Weights by PyTorch's names (safetensors, or what torch.save writes). @example evaluate(net, plan, { weights: 'weights.safetensors', data: 'validation/' }) */
  readonly weights: string
  /**
   * All that `train` takes, without an order: a folder of images, a list of them, arrays, a source of one's own. Each sample counts once.
   *
   * @example evaluate(net, plan, { weights: 'weights.safetensors', data: folder('validation/') })
   */
  readonly data: string | Data
  /**
   * What is measured beside the loss: names, or metrics of one's own. Default: of classes accuracy and, of images, top5, of pixels, meanIou;
   * of numbers mae and psnr.
   *
   * @example evaluate(net, plan, { weights: 'weights.safetensors', data: 'validation/', metrics: ['accuracy', 'f1', 'confusion'] })
   */
  readonly metrics?: readonly (MetricName | Metric)[] | undefined
  /** Batches that are made ahead, where TypeScript makes them; default 2. @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', prefetch: 4 }) */
  readonly prefetch?: number | undefined
  /** Threads that decode images; default: half the cores, four at most. @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', workers: 2 }) */
  readonly workers?: number | undefined
  /** 'ram', or the folder of the spill file. @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', spill: '/var/tmp' }) */
  readonly spill?: string | undefined
  /**
   * Ends the run within a step, and the promise is rejected with the signal's reason.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', signal: AbortSignal.timeout(60_000) })
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Told when so many of all samples are done; of samples that come one after the other nobody knows how many there are.
   *
   * @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', onProgress: (done, all) => console.log(`${done} of ${all}`) })
   */
  readonly onProgress?: ((done: number, samples: number | undefined) => void) | undefined
  /** Words for a person: tensors that were not needed. @example evaluate(net, plan, { weights: 'w.safetensors', data: 'val/', onNote: console.warn }) */
  readonly onNote?: ((text: string) => void) | undefined
}

// biome-ignore format: a list
export const EVALUATE = optionsFor<EvaluateOptions>()(
  'evaluate', 'weights', 'weightsSkip', 'weightsStrip', 'data', 'metrics', 'prefetch', 'workers', 'spill', 'signal', 'onProgress', 'onNote', 'threads', 'throttle', 'hostMemory',
)
