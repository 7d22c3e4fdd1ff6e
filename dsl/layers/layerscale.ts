// Layer scale: a trained factor for each channel, as ConvNeXt and CaiT have it. In, out: [B,C,H,W]. FT-compatible in every
// dimension. Its parameter has the layer's name and the shape [C,1,1], as in torchvision.
import * as t from 'io-ts'
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
export interface LayerScale<Name extends string> extends Layer<'layerScale', Name> {
  /** The initial value of each factor. */
  readonly start: number
}

/**
 * Creates a layer that multiplies each channel by a trained factor, as ConvNeXt does.
 *
 * @param name Name of the layer and of its parameter.
 * @param start Initial value of every factor. Default 1e-6.
 * @example residual(seq(conv2d('dw', 96, 7, { groups: 96 }), layerScale('layer_scale', 1e-6)), identity)
 */
export const layerScale = <N extends string>(name: N, start = 1e-6): LayerScale<N> => ({ kind: 'layerScale', name, start })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    layerScale: S
  }
  interface LayerFt {
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
