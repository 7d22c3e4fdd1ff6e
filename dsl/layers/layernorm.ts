// Layer normalisation over the channels of each pixel, PyTorch's LayerNorm of channels-last values (torchvision's LayerNorm2d), and RMS normalisation
// without a mean: a sequence of operators. In, out: [B,C,H,W]. FT-compatible in B, H and W.
import { chain } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import type { Layer, Shape } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { Ref } from '../../staging/ops/op'
import type { LayerPosition, LayerRule } from './rule'
import { emit, emitAfter, withParams } from './site'

/** The layer that `layerNorm` creates. @example const norm: LayerNorm<'norm'> = layerNorm('norm') */
export interface LayerNorm<Name extends string, Bias extends boolean = true> extends Layer<'layerNorm', Name> {
  readonly eps: number
  readonly bias: Bias
}

/** Options of `layerNorm`. @example const options: LayerNormOptions = { eps: 1e-6 } */
export interface LayerNormOptions<B extends boolean = boolean> {
  /** Number added to the variance. Default 1e-5. @example layerNorm('norm', { eps: 1e-6 }) */
  readonly eps?: number | undefined
  /** If true, the layer has a trained shift for each channel. Default true. @example layerNorm('norm', { bias: false }) */
  readonly bias?: B | undefined
}
const OPTIONS = optionsFor<LayerNormOptions>()('layerNorm', 'eps', 'bias')

/**
 * Creates layer normalisation over the channels of each pixel, as torchvision's `LayerNorm2d`.
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param options `eps` is added to the variance (default 1e-5); `bias` adds a shift (default true).
 * @example seq(conv2d('stem', 96, 4, { stride: 4, pad: 0 }), layerNorm('norm', { eps: 1e-6 }))
 */
export const layerNorm = <N extends string, B extends boolean = true, Given = unknown>(
  name: N,
  options: LayerNormOptions<B> & Strays<Given, typeof OPTIONS> = {} as never,
): LayerNorm<N, B> => {
  const { eps = 1e-5, bias = true } = known(OPTIONS, options)
  return { kind: 'layerNorm', name, eps, bias: bias as B }
}

/** The layer that `rmsNorm` creates. @example const norm: RmsNorm<'norm'> = rmsNorm('norm') */
export interface RmsNorm<Name extends string> extends Layer<'rmsNorm', Name> {
  readonly eps: number
}

/** Options of `rmsNorm`. @example const options: RmsNormOptions = { eps: 1e-6 } */
export interface RmsNormOptions {
  /** Number added to the mean of the squares. Default 1e-6. @example rmsNorm('norm', { eps: 1e-5 }) */
  readonly eps?: number | undefined
}
const RMS_OPTIONS = optionsFor<RmsNormOptions>()('rmsNorm', 'eps')

/**
 * Creates RMS normalisation: the channels of each pixel are divided by the root of the mean of their squares, then
 * multiplied by a trained factor for each channel. Unlike `layerNorm`, it subtracts no mean.
 *
 * @param name Name of the layer; the parameter is `<name>.weight`.
 * @param options `eps` is added to the mean of the squares. Default 1e-6.
 * @example seq(conv2d('stem', 96, 4, { stride: 4, pad: 0 }), rmsNorm('norm', { eps: 1e-5 }))
 */
export const rmsNorm = <N extends string, Given = unknown>(
  name: N,
  options: RmsNormOptions & Strays<Given, typeof RMS_OPTIONS> = {} as never,
): RmsNorm<N> => ({ kind: 'rmsNorm', name, eps: known(RMS_OPTIONS, options).eps ?? 1e-6 })

/** The layer that `unitNorm` creates. @example const norm: UnitNorm = unitNorm() */
export interface UnitNorm<Name extends string = ''> extends Layer<'unitNorm', Name> {}

/**
 * Creates a layer that divides the channels of each pixel by the root of the sum of their squares, PyTorch's
 * `normalize`. A product of two such values has the cosines of their channels.
 *
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('q', 64, 1), unitNorm())
 */
export const unitNorm = <N extends string = ''>(name?: N): UnitNorm<N> => ({ kind: 'unitNorm', name: name ?? ('' as N) })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    layerNorm: S
    rmsNorm: S
    unitNorm: S
  }
  interface LayerFt {
    layerNorm: 'B' | 'H' | 'W'
    rmsNorm: 'B' | 'H' | 'W'
    unitNorm: 'B' | 'H' | 'W'
  }
  interface LayerParameters<L, S extends Shape> {
    layerNorm: L extends { readonly bias: false } ? Low<S[1]> : MulLimbs<Low<S[1]>, '2'>
    rmsNorm: Low<S[1]>
  }
}

export const layerNormRule: LayerRule<LayerNorm<string, boolean>> = {
  codec: layerCodec('layerNorm', { eps: t.number, bias: t.boolean }),
  example: "layerNorm('n')",
  params: (l, [, c]) => [
    { name: 'weight', shape: [c], init: { dist: 'constant', a: 1 } },
    ...(l.bias ? [{ name: 'bias', shape: [c], init: { dist: 'constant', a: 0 } } as const] : []),
  ],
  elaborate: (l, x, at) => withParams(at, (weights) => emit(at, 'layer_norm', { eps: l.eps }, [x, ...weights])),
}

/** The channels of each pixel, divided by the root of factor · the sum of their squares + eps. */
const divided = (x: Ref, at: LayerPosition, factor: number, eps: number) =>
  pipe(
    emit(at, 'multiply_bwd_channels', {}, [x, x]),
    emitAfter(at, 'affine', { factor, shift: eps }),
    emitAfter(at, 'sqrt'),
    emitAfter(at, 'reciprocal'),
    chain((scale) => emit(at, 'multiply', { over: 2 }, [x, scale])),
  )

/** PyTorch divides by at least this length. */
export const LEAST_LENGTH = 1e-12

export const unitNormRule: LayerRule<UnitNorm<string>> = {
  codec: layerCodec('unitNorm', {}),
  example: 'unitNorm()',
  elaborate: (_, x, at) => divided(x, at, 1, LEAST_LENGTH ** 2),
}

export const rmsNormRule: LayerRule<RmsNorm<string>> = {
  codec: layerCodec('rmsNorm', { eps: t.number }),
  example: "rmsNorm('n')",
  params: (_, [, c]) => [{ name: 'weight', shape: [c], init: { dist: 'constant', a: 1 } }],
  elaborate: (l, x, at) =>
    pipe(
      divided(x, at, 1 / at.input[1], l.eps),
      chain((normal) => withParams(at, (weights) => emit(at, 'scale', {}, [normal, ...weights]))),
    ),
}
