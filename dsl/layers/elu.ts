// The exponential linear unit. In, out: [B,C,H,W]. Element-wise, in place, FT-compatible in every dimension.
import * as t from 'io-ts'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `elu` creates. @example const activation: Elu = elu() */
export interface Elu<Name extends string = ''> extends Layer<'elu', Name> {
  readonly alpha: number
}

/**
 * Creates the exponential linear unit: positive numbers stay, others become `alpha`·(e^x − 1).
 *
 * @param alpha Limit of the outputs below zero, as a positive number. Default 1.
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('conv1', 64, 3), elu())
 */
export const elu = <N extends string = ''>(alpha = 1, name?: N): Elu<N> => ({ kind: 'elu', name: name ?? ('' as N), alpha })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    elu: S
  }
  interface LayerFt {
    elu: Dim
  }
  interface InPlaceLayers {
    elu: true
  }
}

export const eluRule: LayerRule<Elu<string>> = {
  codec: layerCodec('elu', { alpha: t.number }),
  example: 'elu(0.5)',
  elaborate: (l, x, at) => emit(at, 'elu', { alpha: l.alpha }, [x]),
}
