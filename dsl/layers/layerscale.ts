// Layer scale: a trained factor for each channel, as ConvNeXt and CaiT have it. In, out: [B,C,H,W]. FT-compatible in every
// dimension. Its parameter has the layer's name and the shape [C,1,1], as in torchvision, or [C] or [1].
import { chain, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { atLeast, choice, withValues } from '../../staging/core/values'
import type { Dim, Layer, Shape } from '../net'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit, withParams } from './site'

/**
 * The layer that `layerScale` creates.
 *
 * @example const scale: LayerScale<'layer_scale'> = layerScale('layer_scale')
 */
export interface LayerScale<Name extends string, Of extends FactorShape = 'image', Groups extends number = 0>
  extends Layer<'layerScale', Name> {
  /** The initial value of each factor. */
  readonly start: number
  readonly shape: Of
  /** 0: a factor for each channel. */
  readonly groups: Groups
}

/** The shape of trained factors: [C,1,1], [C], or one number for all channels, [1]. */
export type FactorShape = 'image' | 'channels' | 'one'

/** Options of `layerScale`. @example const options: LayerScaleOptions = { shape: 'one' } */
export interface LayerScaleOptions<Of extends FactorShape = FactorShape, Groups extends number = number> {
  /**
   * Shape of the parameter: 'image' is [C,1,1], as in torchvision; 'channels' is [C], as in timm; 'one' is [1], one
   * factor for all channels. Default 'image'.
   *
   * @example layerScale('act.scale', 1, { shape: 'one' })
   */
  readonly shape?: Of | undefined
  /**
   * Number of groups of channels with one factor each, of shape [groups,1,1]: the temperatures of heads. Default: a
   * factor for each channel.
   *
   * @example layerScale('attn.temperature', 1, { groups: 4 })
   */
  readonly groups?: Groups | undefined
}
const OPTIONS = withValues(optionsFor<LayerScaleOptions>()('layerScale', 'shape', 'groups'), {
  shape: choice(['image', 'channels', 'one']),
  groups: atLeast(1),
})

/**
 * Creates a layer that multiplies each channel by a trained factor, as ConvNeXt does.
 *
 * @param name Name of the layer and of its parameter.
 * @param start Initial value of every factor. Default 1e-6.
 * @param options `shape` of the parameter: one factor for each channel, or one for all.
 * @example residual(seq(conv2d('dw', 96, 7, { groups: 96 }), layerScale('layer_scale', 1e-6)), identity)
 */
export const layerScale = <N extends string, Of extends FactorShape = 'image', Groups extends number = 0, Given = unknown>(
  name: N,
  start = 1e-6,
  options: LayerScaleOptions<Of, Groups> & Strays<Given, typeof OPTIONS> = {} as never,
): LayerScale<N, Of, Groups> => {
  const { shape = 'image', groups = 0 } = known(OPTIONS, options)
  return { kind: 'layerScale', name, start, shape: shape as Of, groups: groups as Groups }
}

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    layerScale: S
  }
  interface LayerFt {
    layerScale: Dim
  }
  interface LayerParameters<L, S extends Shape> {
    layerScale: L extends { readonly shape: 'one' }
      ? Low<1>
      : L extends { readonly groups: infer G extends number }
        ? Low<G extends 0 ? S[1] : G>
        : Low<S[1]>
  }
}

const SHAPES: Readonly<Record<FactorShape, (c: number) => readonly number[]>> = {
  image: (c) => [c, 1, 1],
  channels: (c) => [c],
  one: () => [1],
}

export const layerScaleRule: LayerRule<LayerScale<string, FactorShape, number>> = {
  codec: layerCodec('layerScale', {
    start: t.number,
    shape: t.keyof({ image: null, channels: null, one: null }),
    groups: t.number,
  }),
  example: "layerScale('n', 1, { shape: 'one' })",
  fault: ({ groups, shape }, [, c]) =>
    Number.isInteger(groups) && groups >= 0 && (groups === 0 || (c % groups === 0 && shape === 'image'))
      ? null
      : `groups is ${groups}; allowed: divisors of ${c}, and the shape 'image'`,
  params: (l, [, c]) => [{ name: '', shape: SHAPES[l.shape](l.groups || c), init: { dist: 'constant', a: l.start } }],
  elaborate: (l, x, at) =>
    withParams(at, ([gamma]) =>
      pipe(
        l.shape === 'one' || l.groups > 0
          ? emit(at, 'spread', { times: at.input[1] / (l.groups || 1) }, [gamma!])
          : right(gamma!),
        chain((factors) => emit(at, 'scale', {}, [x, factors])),
      ),
    ),
}
