// Layer normalisation over the channels of each pixel, PyTorch's LayerNorm of channels-last values (torchvision's LayerNorm2d).
// In, out: [B,C,H,W]. FT-compatible in B, H and W.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import type { Layer, Shape } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit, withParams } from './site'

/** The layer that `layerNorm` creates. @example const norm: LayerNorm<'norm'> = layerNorm('norm') */
export interface LayerNorm<Name extends string> extends Layer<'layerNorm', Name> {
  readonly eps: number
}

/** Options of `layerNorm`. @example const options: LayerNormOptions = { eps: 1e-6 } */
export interface LayerNormOptions {
  /** Number added to the variance. Default 1e-5. @example layerNorm('norm', { eps: 1e-6 }) */
  readonly eps?: number | undefined
}
const OPTIONS = optionsFor<LayerNormOptions>()('layerNorm', 'eps')

/**
 * Creates layer normalisation over the channels of each pixel, as torchvision's `LayerNorm2d`.
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param options `eps` is added to the variance. Default 1e-5.
 * @example seq(conv2d('stem', 96, 4, { stride: 4, pad: 0 }), layerNorm('norm', { eps: 1e-6 }))
 */
export const layerNorm = <N extends string, Given = unknown>(
  name: N,
  options: LayerNormOptions & Strays<Given, typeof OPTIONS> = {} as never,
): LayerNorm<N> => ({
  kind: 'layerNorm',
  name,
  eps: known(OPTIONS, options).eps ?? 1e-5,
})

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    layerNorm: S
  }
  interface LayerFt {
    layerNorm: 'B' | 'H' | 'W'
  }
  interface LayerParameters<L, S extends Shape> {
    layerNorm: MulLimbs<Low<S[1]>, '2'>
  }
}

export const layerNormRule: LayerRule<LayerNorm<string>> = {
  codec: layerCodec('layerNorm', { eps: t.number }),
  example: "layerNorm('n')",
  params: (_, [, c]) => [
    { name: 'weight', shape: [c], init: { dist: 'constant', a: 1 } },
    { name: 'bias', shape: [c], init: { dist: 'constant', a: 0 } },
  ],
  elaborate: (l, x, at) => withParams(at, (weights) => emit(at, 'layer_norm', { eps: l.eps }, [x, ...weights])),
}
