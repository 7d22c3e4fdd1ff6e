// The leaky rectifier with a trained slope. In, out: [B,C,H,W]. FT-compatible in B, H and W. Its parameter is `<name>.weight`, as in PyTorch.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
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

/** Options of `prelu`. @example const options: PreluOptions = { start: 0.1 } */
export interface PreluOptions<Shared extends boolean = boolean> {
  /** One slope for all channels, the default of PyTorch's `PReLU`. Default false. @example prelu('act1', { shared: true }) */
  readonly shared?: Shared | undefined
  /** Initial slope. Default 0.25. @example prelu('act1', { start: 0.1 }) */
  readonly start?: number | undefined
}
const OPTIONS = optionsFor<PreluOptions>()('prelu', 'shared', 'start')

/**
 * Creates the leaky rectifier with a trained slope: positive numbers stay, negative numbers are multiplied by the slope of
 * their channel.
 *
 * @param name Name of the layer; the parameter is `<name>.weight`.
 * @param options One slope for all channels, and the initial slope.
 * @example seq(conv2d('conv1', 64, 9), prelu('act1'))
 */
export const prelu = <N extends string, S extends boolean = false, Given = unknown>(
  name: N,
  options: PreluOptions<S> & Strays<Given, typeof OPTIONS> = {} as never,
): Prelu<N, S> => {
  const { shared = false, start = 0.25 } = known(OPTIONS, options)
  return { kind: 'prelu', name, shared: shared as S, start }
}

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
