// Dropout. In, out: [B,C,H,W]. Its mask is drawn by element index, so it is the same under any tiling: FT-compatible in
// every dimension, in place.
import { right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { type NotAProbability, notAProbability } from '../messages'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `dropout` creates. @example const drop: Dropout<0.5> = dropout(0.5) */
export interface Dropout<P extends number, Name extends string = ''> extends Layer<'dropout', Name> {
  readonly p: P
}

/**
 * Creates dropout: in training it sets each element to 0 with probability `p` and multiplies the others by 1 /
 * (1 − p). The mask depends on the seed, the step and the position only, so tiles do not change it. Predictions
 * skip the layer.
 *
 * @param p Probability of 0, at least 0 and below 1.
 * @param name Name of the layer. Default: its kind.
 * @example seq(flatten(), linear('fc1', 4096), relu(), dropout(0.5))
 */
export const dropout = <P extends number, N extends string = ''>(p: P, name?: N): Dropout<P, N> => ({
  kind: 'dropout',
  name: name ?? ('' as N),
  p,
})

/** Literals from 0 to below 1 print as '0' or start with '0.'; tiny ones have an exponent. */
export type ProbabilityShape<P extends number, S extends Shape> = number extends P
  ? S
  : `${P}` extends '0' | `0.${string}` | `${string}e-${string}`
    ? `${P}` extends `-${string}`
      ? NotAProbability<`${P}`>
      : S
    : NotAProbability<`${P}`>

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    dropout: L extends Dropout<infer P, any> ? ProbabilityShape<P, S> : never
  }
  interface LayerFt {
    dropout: Dim
  }
  interface InPlaceLayers {
    dropout: true
  }
}

export const dropoutRule: LayerRule<Dropout<number, string>> = {
  masked: 'keeps',
  codec: layerCodec('dropout', { p: t.number }),
  fault: (l) => (l.p >= 0 && l.p < 1 ? null : notAProbability(`${l.p}`)),
  elaborate: (l, x, at) => (at.mode === 'predict' ? right(x) : emit(at, 'dropout', { p: l.p, key: at.randomKey() }, [x])),
}
