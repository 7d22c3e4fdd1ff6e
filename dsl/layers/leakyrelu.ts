// The leaky rectifier: relu's op with a slope. In, out: [B,C,H,W]. Element-wise, in place, FT-compatible in every dimension.
import * as t from 'io-ts'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `leakyRelu` creates. @example const activation: LeakyRelu<0.1> = leakyRelu(0.1) */
export interface LeakyRelu<Slope extends number, Name extends string = ''> extends Layer<'leakyRelu', Name> {
  readonly slope: Slope
}

/**
 * Creates the leaky rectifier: positive numbers stay, negative numbers are multiplied by `slope`.
 *
 * @param slope Factor of negative numbers, at least 0.
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('conv1', 64, 3), leakyRelu(0.1))
 */
export const leakyRelu = <S extends number, N extends string = ''>(slope: S, name?: N): LeakyRelu<S, N> => ({
  kind: 'leakyRelu',
  name: name ?? ('' as N),
  slope,
})

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    leakyRelu: S
  }
  interface LayerFt {
    leakyRelu: Dim
  }
  interface InPlaceLayers {
    leakyRelu: true
  }
}

export const leakyReluRule: LayerRule<LeakyRelu<number, string>> = {
  masked: 'keeps',
  codec: layerCodec('leakyRelu', { slope: t.number }),
  elaborate: (l, x, at) => emit(at, 'relu', { slope: l.slope }, [x]),
}
