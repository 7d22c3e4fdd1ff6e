// A product with a constant and a sum with another: y = factor·x + shift. In, out: [B,C,H,W]. Element-wise, FT-compatible in every dimension.
import * as t from 'io-ts'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** The layer that `affine` creates. @example const half: Affine = affine(0.5) */
export interface Affine<Name extends string = ''> extends Layer<'affine', Name> {
  readonly factor: number
  readonly shift: number
}

/**
 * Creates a layer that multiplies each element by a constant and adds another. Neither is trained.
 *
 * @param factor Factor of each element.
 * @param shift Number added to the product. Default 0.
 * @param name Name of the layer. Default: its kind.
 * @example
 * // the average of the neighbours minus the pixel
 * residual(avgPool(3, { stride: 1, pad: 1 }), affine(-1))
 */
export const affine = <N extends string = ''>(factor: number, shift = 0, name?: N): Affine<N> => ({
  kind: 'affine',
  name: name ?? ('' as N),
  factor,
  shift,
})

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    affine: S
  }
  interface LayerFt {
    affine: Dim
  }
}

export const affineRule: LayerRule<Affine<string>> = {
  codec: layerCodec('affine', { factor: t.number, shift: t.number }),
  example: 'affine(0.5, 2)',
  elaborate: (l, x, at) => emit(at, 'affine', { factor: l.factor, shift: l.shift }, [x]),
}
