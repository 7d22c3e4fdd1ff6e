// The leaky rectifier: relu's op with a slope. In, out: [B,C,H,W]. Element-wise, in place, FT-compatible in every dimension.
import * as t from 'io-ts'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer of `leakyRelu`. */
export interface LeakyRelu<Slope extends number, Name extends string = ''> extends Layer<'leakyRelu', Name> {
  readonly slope: Slope
}

/** What is above zero as it is, the rest times a slope. @example leakyRelu(0.1) */
export const leakyRelu = <S extends number, N extends string = ''>(slope: S, name?: N): LeakyRelu<S, N> => ({
  kind: 'leakyRelu',
  name: name ?? ('' as N),
  slope,
})

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    leakyRelu: S
  }
  interface LayerFt<L> {
    leakyRelu: Dim
  }
  interface InPlaceLayers {
    leakyRelu: true
  }
}

export const leakyReluRule: LayerRule<LeakyRelu<number, string>> = {
  codec: layerCodec('leakyRelu', { slope: t.number }),
  elaborate: (l, x, at) => emit(at, 'relu', { slope: l.slope }, [x]),
}
