// ReLU and leaky ReLU: one op with a slope. In, out: [B,C,H,W]. Element-wise, in place, FT-compatible in every dimension.
import * as t from 'io-ts'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import { type LayerRule, unchanged } from './rule'
import { emit } from './site'

export interface Relu<Name extends string = ''> extends Layer<'relu', Name> {}
export interface LeakyRelu<Slope extends number, Name extends string = ''> extends Layer<'leakyRelu', Name> {
  readonly slope: Slope
}

export const relu = <N extends string = ''>(name?: N): Relu<N> => ({ kind: 'relu', name: name ?? ('' as N) })

/** @example leakyRelu(0.1) */
export const leakyRelu = <S extends number, N extends string = ''>(slope: S, name?: N): LeakyRelu<S, N> => ({
  kind: 'leakyRelu',
  name: name ?? ('' as N),
  slope,
})

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    relu: S
    leakyRelu: S
  }
  interface LayerFt<L> {
    relu: Dim
    leakyRelu: Dim
  }
  interface InPlaceLayers {
    relu: true
    leakyRelu: true
  }
}

export const reluRule: LayerRule<Relu<string>> = {
  codec: layerCodec('relu', {}),
  shape: (_, input) => unchanged(input),
  ft: () => ['B', 'C', 'H', 'W'],
  inPlace: true,
  elaborate: (_, x, at) => emit(at, 'relu', { slope: 0 }, [x]),
}

export const leakyReluRule: LayerRule<LeakyRelu<number, string>> = {
  codec: layerCodec('leakyRelu', { slope: t.number }),
  shape: (_, input) => unchanged(input),
  ft: () => ['B', 'C', 'H', 'W'],
  inPlace: true,
  elaborate: (l, x, at) => emit(at, 'relu', { slope: l.slope }, [x]),
}
