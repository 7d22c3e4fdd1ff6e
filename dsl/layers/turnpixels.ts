// Channels and pixels exchanged. In: [B,C,H,W]. Out: [B,H·W,1,C]. FT-compatible in B.
import type { Layer, Shape } from '../net'
import type { Mul } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `turnPixels` creates. @example const turned: TurnPixels = turnPixels() */
export interface TurnPixels<Name extends string = ''> extends Layer<'turnPixels', Name> {}

/**
 * Creates a layer that exchanges channels and pixels: pixels become channels, channels become columns. Between two of
 * them, a convolution over columns runs over channels, as in ECA. Two in a row give all pixels as one row.
 *
 * @param name Name of the layer. Default: its kind.
 * @example scaled(globalAvgPool(), turnPixels(), conv2d('eca.conv', 1, [1, 3], { bias: false }), turnPixels(), sigmoid())
 */
export const turnPixels = <N extends string = ''>(name?: N): TurnPixels<N> => ({ kind: 'turnPixels', name: name ?? ('' as N) })

type Area<S extends Shape> = number extends S[2] | S[3] ? number : Mul<S[2], S[3]>

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    turnPixels: [S[0], Area<S>, 1, S[1]]
  }
  interface LayerFt {
    turnPixels: 'B'
  }
}

export const turnPixelsRule: LayerRule<TurnPixels<string>> = {
  codec: layerCodec('turnPixels', {}),
  example: 'turnPixels()',
  elaborate: (_, x, at) => emit(at, 'turn_pixels', {}, [x]),
}
