// The rule of a layer without fields that is one element-wise op. In, out: [B,C,H,W]. FT-compatible in every dimension.
import type * as t from 'io-ts'
import type { AnyAttrs } from '../../staging/ops/op'
import type { Layer } from '../net'
import { layerCodec } from './codecs'
import { type LayerRule, unchanged } from './rule'
import { emit } from './site'

/** `inPlace`: its gradient needs no x. */
export const elementWise = <L extends Layer>(kind: string, op: string, attrs: AnyAttrs, inPlace: boolean): LayerRule<L> => ({
  codec: layerCodec(kind, {}) as unknown as t.Type<L>,
  shape: (_, input) => unchanged(input),
  ft: () => ['B', 'C', 'H', 'W'],
  inPlace,
  elaborate: (_, x, at) => emit(at, op, attrs, [x]),
})
