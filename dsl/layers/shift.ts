// Trained values that are added: one for each channel, or one for each element of an image. In, out: [B,C,H,W]. In place, FT-compatible in every
// dimension. The parameter has the layer's name.
import type { Dim, Layer, Shape } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit, withParams } from './site'

/** The layer that `bias` creates. @example const shift: Bias<'beta'> = bias('beta') */
export interface Bias<Name extends string> extends Layer<'bias', Name> {}
/** The layer that `position` creates. @example const places: Position<'pos_embed'> = position('pos_embed') */
export interface Position<Name extends string> extends Layer<'position', Name> {}

/**
 * Creates a layer that adds a trained value to each channel.
 *
 * @param name Name of the layer and of its parameter.
 * @example seq(conv2d('conv1', 64, 3, { bias: false }), layerScale('gamma', 1), bias('beta'))
 */
export const bias = <N extends string>(name: N): Bias<N> => ({ kind: 'bias', name })

/**
 * Creates a layer that adds a trained value to each element of an image: a position embedding. It fits images of one
 * size only.
 *
 * @param name Name of the layer and of its parameter.
 * @example seq(conv2d('patches', 192, 16, { stride: 16, pad: 0 }), position('pos_embed'))
 */
export const position = <N extends string>(name: N): Position<N> => ({ kind: 'position', name })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    bias: S
    position: S
  }
  interface LayerFt {
    bias: Dim
    position: Dim
  }
  interface InPlaceLayers {
    bias: true
    position: true
  }
  interface LayerParameters<L, S extends Shape> {
    bias: Low<S[1]>
    position: MulLimbs<MulLimbs<Low<S[1]>, `${S[2]}`>, `${S[3]}`>
  }
}

export const biasRule: LayerRule<Bias<string>> = {
  codec: layerCodec('bias', {}),
  example: "bias('n')",
  params: (_, [, c]) => [{ name: '', shape: [c], init: { dist: 'constant', a: 0 } }],
  elaborate: (_, x, at) => withParams(at, (p) => emit(at, 'shift', { elements: 0 }, [x, ...p])),
}

export const positionRule: LayerRule<Position<string>> = {
  codec: layerCodec('position', {}),
  example: "position('n')",
  params: (_, [, c, h, w]) => [{ name: '', shape: [c, h, w], init: { dist: 'normal', a: 0.02 } }],
  elaborate: (_, x, at) => withParams(at, (p) => emit(at, 'shift', { elements: 1 }, [x, ...p])),
}
