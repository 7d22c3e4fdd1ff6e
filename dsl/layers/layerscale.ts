// Layer scale: a trained factor for each channel, as ConvNeXt and CaiT have it. In, out: [B,C,H,W]. FT-compatible in every
// dimension. Its parameter has the layer's name and the shape [C,1,1], as in torchvision.
import * as t from 'io-ts'
import type { Dim, Layer, Shape } from '../net'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit, withParams } from './site'

/** The layer of `layerScale`. */
export interface LayerScale<Name extends string> extends Layer<'layerScale', Name> {
  /** What each factor starts as. */
  readonly start: number
}

/** A factor for each channel, which is learnt. @example layerScale('layer_scale', 1e-6) */
export const layerScale = <N extends string>(name: N, start = 1e-6): LayerScale<N> => ({ kind: 'layerScale', name, start })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    layerScale: S
  }
  interface LayerFt<L> {
    layerScale: Dim
  }
  interface LayerParameters<L, S extends Shape> {
    layerScale: Low<S[1]>
  }
}

export const layerScaleRule: LayerRule<LayerScale<string>> = {
  codec: layerCodec('layerScale', { start: t.number }),
  example: "layerScale('n')",
  params: (l, [, c]) => [{ name: '', shape: [c, 1, 1], init: { dist: 'constant', a: l.start } }],
  elaborate: (_, x, at) => withParams(at, (gamma) => emit(at, 'scale', {}, [x, ...gamma])),
}
