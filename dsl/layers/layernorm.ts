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

/** The layer of `layerNorm`. */
export interface LayerNorm<Name extends string> extends Layer<'layerNorm', Name> {
  readonly eps: number
}

/** Options of `layerNorm`. */
export interface LayerNormOptions {
  /** Added to the variance; 1e-5 unless said otherwise. @example layerNorm('norm', { eps: 1e-6 }) */
  readonly eps?: number | undefined
}
const OPTIONS = optionsFor<LayerNormOptions>()('layerNorm', 'eps')

/** Normalisation of the channels of every pixel. @example layerNorm('norm', { eps: 1e-6 }) */
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
  interface LayerFt<L> {
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
