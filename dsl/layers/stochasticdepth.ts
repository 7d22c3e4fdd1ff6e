// Stochastic depth: drops whole images of a residual branch in training, torchvision's StochasticDepth of mode 'row'. In, out:
// [B,C,H,W]. In place, FT-compatible in every dimension. With probability 0 it is nothing.
import { right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { notAProbability } from '../messages'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { ProbabilityShape } from './dropout'
import type { LayerRule } from './rule'
import { emit } from './site'

/**
 * The layer that `stochasticDepth` creates.
 *
 * @example const drop: StochasticDepth<0.2> = stochasticDepth(0.2)
 */
export interface StochasticDepth<P extends number, Name extends string = ''> extends Layer<'stochasticDepth', Name> {
  readonly p: P
}

/**
 * Creates stochastic depth: in training it sets a whole image to 0 with probability `p` and multiplies the
 * others by 1 / (1 − p). Put it at the end of a residual branch. Predictions skip the layer.
 *
 * @param p Probability of 0, at least 0 and below 1.
 * @param name Name of the layer. Default: its kind.
 * @example residual(seq(conv2d('conv1', 64, 3), stochasticDepth(0.2)), identity)
 */
export const stochasticDepth = <P extends number, N extends string = ''>(p: P, name?: N): StochasticDepth<P, N> => ({
  kind: 'stochasticDepth',
  name: name ?? ('' as N),
  p,
})

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    stochasticDepth: L extends StochasticDepth<infer P, any> ? ProbabilityShape<P, S> : never
  }
  interface LayerFt {
    stochasticDepth: Dim
  }
  interface InPlaceLayers {
    stochasticDepth: true
  }
}

export const stochasticDepthRule: LayerRule<StochasticDepth<number, string>> = {
  codec: layerCodec('stochasticDepth', { p: t.number }),
  example: 'stochasticDepth(0.25)',
  fault: (l) => (l.p >= 0 && l.p < 1 ? null : notAProbability(`${l.p}`)),
  isNothing: (l) => l.p === 0,
  elaborate: (l, x, at) =>
    l.p === 0 || at.mode === 'predict' ? right(x) : emit(at, 'drop_images', { p: l.p, key: at.randomKey() }, [x]),
}
