// The rule of a layer without fields that is one element-wise op. In, out: [B,C,H,W]. FT-compatible in every dimension.
import type { AnyAttrs } from '../../staging/ops/op'
import type { Layer } from '../net'
import { layerCodec } from './codecs'
import type { LayerCodec, LayerRule } from './rule'
import { emit } from './site'

/** Those whose value at 0 is 0. */
const KEEP_ZERO: ReadonlySet<string> = new Set(['relu', 'relu6', 'tanh', 'silu', 'gelu', 'mish', 'hard_swish'])

export const elementWise = <L extends Layer>(kind: string, op: string, attrs: AnyAttrs): LayerRule<L> => ({
  codec: layerCodec(kind, {}) as unknown as LayerCodec<L>,
  example: `${kind}()`,
  ...(KEEP_ZERO.has(op) ? { masked: 'keeps' as const } : {}),
  elaborate: (_, x, at) => emit(at, op, attrs, [x]),
})
