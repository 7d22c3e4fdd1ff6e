// Flatten, before a linear layer. In: [B,C,H,W]. Out: [B,C*H*W,1,1], in PyTorch's order. FT-compatible in B only. A flat input passes unchanged,
// without an op.
import { right } from 'fp-ts/Either'
import type { Layer, Shape } from '../net'
import type { Mul } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `flatten` creates. @example const flat: Flatten = flatten() */
export interface Flatten<Name extends string = ''> extends Layer<'flatten', Name> {}

/**
 * Creates a layer that turns all values of an image into channels of one pixel. `linear` needs this shape.
 *
 * @param name Name of the layer. Default: its kind.
 * @example seq(maxPool('pool5', 2), flatten(), linear('fc', 10))
 */
export const flatten = <N extends string = ''>(name?: N): Flatten<N> => ({ kind: 'flatten', name: name ?? ('' as N) })

type FlattenShape<S extends Shape> = number extends S[1] | S[2] | S[3]
  ? [S[0], number, 1, 1]
  : Mul<S[1], Mul<S[2], S[3]>> extends infer C extends number
    ? [S[0], C, 1, 1]
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    flatten: FlattenShape<S>
  }
  interface LayerFt {
    flatten: 'B'
  }
}

export const flattenRule: LayerRule<Flatten<string>> = {
  codec: layerCodec('flatten', {}),
  elaborate: (_, x, at) => (at.input[2] === 1 && at.input[3] === 1 ? right(x) : emit(at, 'flatten', {}, [x])),
}
