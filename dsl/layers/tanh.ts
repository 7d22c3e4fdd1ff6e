// The hyperbolic tangent. In, out: [B,C,H,W]. Element-wise, in place, FT-compatible in every dimension.
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import { type LayerRule, unchanged } from './rule'
import { emit } from './site'

export interface Tanh<Name extends string = ''> extends Layer<'tanh', Name> {}

export const tanh = <N extends string = ''>(name?: N): Tanh<N> => ({ kind: 'tanh', name: name ?? ('' as N) })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    tanh: S
  }
  interface LayerFt<L> {
    tanh: Dim
  }
  interface InPlaceLayers {
    tanh: true
  }
}

export const tanhRule: LayerRule<Tanh<string>> = {
  codec: layerCodec('tanh', {}),
  shape: (_, input) => unchanged(input),
  ft: () => ['B', 'C', 'H', 'W'],
  inPlace: true,
  elaborate: (_, x, at) => emit(at, 'tanh', {}, [x]),
}
