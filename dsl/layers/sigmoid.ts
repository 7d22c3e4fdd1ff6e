// The logistic function. In, out: [B,C,H,W]. Element-wise, in place, FT-compatible in every dimension.
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import { type LayerRule, unchanged } from './rule'
import { emit } from './site'

export interface Sigmoid<Name extends string = ''> extends Layer<'sigmoid', Name> {}

export const sigmoid = <N extends string = ''>(name?: N): Sigmoid<N> => ({ kind: 'sigmoid', name: name ?? ('' as N) })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    sigmoid: S
  }
  interface LayerFt<L> {
    sigmoid: Dim
  }
  interface InPlaceLayers {
    sigmoid: true
  }
}

export const sigmoidRule: LayerRule<Sigmoid<string>> = {
  codec: layerCodec('sigmoid', {}),
  shape: (_, input) => unchanged(input),
  ft: () => ['B', 'C', 'H', 'W'],
  inPlace: true,
  elaborate: (_, x, at) => emit(at, 'sigmoid', {}, [x]),
}
