// Local response normalisation across channels, PyTorch's LocalResponseNorm with its defaults. In, out: [B,C,H,W].
// FT-compatible in B, H and W.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { type NotPositive, notPositive } from '../messages'
import type { Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit } from './site'

/**
 * The layer that `localResponseNorm` creates.
 *
 * @example const norm: LocalResponseNorm<5, 2> = localResponseNorm(5, { k: 2 })
 */
export interface LocalResponseNorm<Size extends number, K extends number = 1, Name extends string = ''>
  extends Layer<'localResponseNorm', Name> {
  /** Channels that are summed over. */
  readonly size: Size
  readonly alpha: number
  readonly beta: number
  readonly k: K
}

/**
 * Options of `localResponseNorm`: it divides by (k + alpha / size · Σ x²) to the power beta.
 *
 * @example const options: LocalResponseNormOptions = { alpha: 1e-4, beta: 0.75, k: 2 }
 */
export interface LocalResponseNormOptions<K extends number = number> {
  /** Factor of the sum of squares. Default 1e-4. @example localResponseNorm(5, { alpha: 1e-3 }) */
  readonly alpha?: number | undefined
  /** Exponent of the divisor. Default 0.75. @example localResponseNorm(5, { beta: 0.5 }) */
  readonly beta?: number | undefined
  /** Number added to the sum. Default 1. @example localResponseNorm(5, { k: 2 }) */
  readonly k?: K | undefined
}
const OPTIONS = optionsFor<LocalResponseNormOptions>()('localResponseNorm', 'alpha', 'beta', 'k')

/**
 * Creates local response normalisation over neighbouring channels, as in AlexNet.
 *
 * @param size Number of neighbouring channels in each sum.
 * @param options The constants `alpha`, `beta` and `k`, with PyTorch's defaults.
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('conv1', 96, 11, { stride: 4 }), relu(), localResponseNorm(5, { k: 2 }))
 */
export const localResponseNorm = <S extends number, K extends number = 1, N extends string = '', Given = unknown>(
  size: S,
  options: LocalResponseNormOptions<K> & Strays<Given, typeof OPTIONS> = {} as never,
  name?: N,
): LocalResponseNorm<S, K, N> => {
  const { alpha = 1e-4, beta = 0.75, k = 1 as K } = known(OPTIONS, options)
  return { kind: 'localResponseNorm', name: name ?? ('' as N), size, alpha, beta, k }
}

type LrnShape<L, S extends Shape> =
  L extends LocalResponseNorm<infer Size, infer K, any>
    ? BadSize<[['size', Size, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : `${K}` extends '0' | `-${string}`
          ? NotPositive<'k', `${K}`>
          : S
      : never
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    localResponseNorm: LrnShape<L, S>
  }
  interface LayerFt {
    localResponseNorm: 'B' | 'H' | 'W'
  }
}

export const localResponseNormRule: LayerRule<LocalResponseNorm<number, number, string>> = {
  codec: layerCodec('localResponseNorm', { size: t.number, alpha: t.number, beta: t.number, k: t.number }),
  fault: (l) => badSize(['size', l.size, 1]) ?? (l.k > 0 ? null : notPositive('k', `${l.k}`)),
  elaborate: (l, x, at) => emit(at, 'lrn', { size: l.size, alpha: l.alpha, beta: l.beta, k: l.k }, [x]),
}
