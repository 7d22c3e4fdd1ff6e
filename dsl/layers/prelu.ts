// The leaky rectifier with a trained slope. In, out: [B,C,H,W]. FT-compatible in B, H and W. Its parameter is `<name>.weight`, as in PyTorch.
import * as t from 'io-ts'
import type { Layer, Shape } from '../net'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit, withParams } from './site'

/** The layer that `prelu` creates. @example const activation: Prelu<'act1'> = prelu('act1') */
export interface Prelu<Name extends string, Shared extends boolean = boolean> extends Layer<'prelu', Name> {
  readonly shared: Shared
  readonly start: number
}

/**
 * Creates the leaky rectifier with a trained slope: positive numbers stay, negative numbers are multiplied by the slope of
 * their channel.
 *
 * @param name Name of the layer.
 * @param options `shared`: one slope for all channels, the default of PyTorch's `PReLU`; default false. `start`: initial slope,
 * default 0.25.
 * @example seq(conv2d('conv1', 64, 9), prelu('act1'))
 */
export const prelu = <N extends string, S extends boolean = false>(
  name: N,
  options: { readonly shared?: S; readonly start?: number } = {},
): Prelu<N, S> => ({ kind: 'prelu', name, shared: (options.shared ?? false) as S, start: options.start ?? 0.25 })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    prelu: S
  }
  interface LayerFt {
    prelu: 'B' | 'H' | 'W'
  }
  interface LayerParameters<L, S extends Shape> {
    prelu: L extends { readonly shared: false } ? Low<S[1]> : Low<1>
  }
}

export const preluRule: LayerRule<Prelu<string>> = {
  codec: layerCodec('prelu', { shared: t.boolean, start: t.number }),
  example: "prelu('n')",
  params: (l, [, c]) => [{ name: 'weight', shape: [l.shared ? 1 : c], init: { dist: 'constant', a: l.start } }],
  elaborate: (l, x, at) => withParams(at, (slope) => emit(at, 'prelu', { shared: Number(l.shared) }, [x, ...slope])),
}
