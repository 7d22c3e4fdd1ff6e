// Dropout. In, out: [B,C,H,W]. Its mask is drawn by element index, so it is the same under any tiling: FT-compatible in
// every dimension, in place.
import { left } from 'fp-ts/Either'
import * as t from 'io-ts'
import { type NotAProbability, notAProbability } from '../messages'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import { type LayerRule, unchanged } from './rule'
import { emit } from './site'

export interface Dropout<P extends number, Name extends string = ''> extends Layer<'dropout', Name> {
  readonly p: P
}

/** Sets elements to zero with probability `p` and scales the others by 1 / (1 - p). */
export const dropout = <P extends number, N extends string = ''>(p: P, name?: N): Dropout<P, N> => ({
  kind: 'dropout',
  name: name ?? ('' as N),
  p,
})

/** Literals from 0 to below 1 print as '0' or start with '0.'; tiny ones have an exponent. */
type DropoutShape<L, S extends Shape> =
  L extends Dropout<infer P, any>
    ? number extends P
      ? S
      : `${P}` extends '0' | `0.${string}` | `${string}e-${string}`
        ? `${P}` extends `-${string}`
          ? NotAProbability<`${P}`>
          : S
        : NotAProbability<`${P}`>
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    dropout: DropoutShape<L, S>
  }
  interface LayerFt<L> {
    dropout: Dim
  }
  interface InPlaceLayers {
    dropout: true
  }
}

export const dropoutRule: LayerRule<Dropout<number, string>> = {
  codec: layerCodec('dropout', { p: t.number }),
  shape: (l, input) => (l.p >= 0 && l.p < 1 ? unchanged(input) : left(notAProbability(`${l.p}`))),
  ft: () => ['B', 'C', 'H', 'W'],
  inPlace: true,
  elaborate: (l, x, at) => emit(at, 'dropout', { p: l.p, key: at.randomKey() }, [x]),
}
