// How a plan predicts: what users choose. In: options as they were given. Out: the same, or what is wrong with them.
import { optionsFor } from '../../staging/core/options'
import type { DeviceOptions } from '../train/device'

/** How a plan predicts. */
export interface PredictOptions extends Omit<DeviceOptions, 'tier'> {
  /** Weights by PyTorch's names (safetensors). @example predict(net, plan, { weights: 'weights.safetensors', data: 'images/' }) */
  readonly weights: string
  /**
   * The images: a .npy file, a folder of them, or a .safetensors file with a tensor `input`.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: 'images.npy' })
   */
  readonly data: string
  /**
   * Where the outputs go: a .npy or .safetensors file for all of them, or a folder for one .npy file each; default: the answer holds them.
   *
   * @example predict(net, plan, { weights: 'weights.safetensors', data: 'images/', out: 'masks/' })
   */
  readonly out?: string | undefined
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
  'data',
  'out',
  'spill',
  'signal',
  'onProgress',
  'onNote',
  'threads',
  'throttle',
  'hostMemory',
)
