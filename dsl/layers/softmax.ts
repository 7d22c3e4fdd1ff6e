// Softmax over the channels of each pixel. In, out: [B,C,H,W]. In place; FT-compatible in B, H and W.
import type { Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `softmax` creates. @example const shares: Softmax = softmax() */
export interface Softmax<Name extends string = ''> extends Layer<'softmax', Name> {}

/**
 * Creates a softmax over the channels of each pixel. Leave it out if the loss is `crossEntropy`, which contains
 * it.
 *
 * @param name Name of the layer. Default: its kind.
 * @example seq(linear('fc', 10), softmax())
 */
export const softmax = <N extends string = ''>(name?: N): Softmax<N> => ({ kind: 'softmax', name: name ?? ('' as N) })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    softmax: S
  }
  interface LayerFt {
    softmax: 'B' | 'H' | 'W'
  }
  interface InPlaceLayers {
    softmax: true
  }
}

export const softmaxRule: LayerRule<Softmax<string>> = {
  codec: layerCodec('softmax', {}),
  elaborate: (_, x, at) => emit(at, 'softmax', {}, [x]),
}
