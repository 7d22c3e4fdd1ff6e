// Limits of each element: y = min(max(x, low), high). In, out: [B,C,H,W]. Element-wise, in place, FT-compatible in every dimension.
import * as t from 'io-ts'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `clamp` creates. @example const activation: Clamp = clamp(-1, 1) */
export interface Clamp<Name extends string = ''> extends Layer<'clamp', Name> {
  readonly low: number
  readonly high: number
}

/**
 * Creates a layer that limits each element to a range, as PyTorch's `Hardtanh` and `clamp` do. Elements at a limit pass no gradient.
 *
 * @param low Smallest output.
 * @param high Largest output.
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('conv1', 1, 3), clamp(0, 1))
 */
export const clamp = <N extends string = ''>(low: number, high: number, name?: N): Clamp<N> => ({
  kind: 'clamp',
  name: name ?? ('' as N),
  low,
  high,
})

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    clamp: S
  }
  interface LayerFt {
    clamp: Dim
  }
  interface InPlaceLayers {
    clamp: true
  }
}

export const clampRule: LayerRule<Clamp<string>> = {
  codec: layerCodec('clamp', { low: t.number, high: t.number }),
  example: 'clamp(-1, 1)',
  elaborate: (l, x, at) => emit(at, 'clamp', { low: l.low, high: l.high }, [x]),
}
