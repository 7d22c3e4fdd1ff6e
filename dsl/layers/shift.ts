// Trained values that are added: one for each channel, one for all, or one for each element of an image. In, out: [B,C,H,W]. In place,
// FT-compatible in every dimension. The parameter has the layer's name.
import { chain, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { tuple } from '../../staging/core/codecs'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { choice, flag, listOf, withValues } from '../../staging/core/values'
import type { Dim, Layer, Shape } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit, withParams } from './site'

/** The layer that `bias` creates. @example const shift: Bias<'beta'> = bias('beta') */
export interface Bias<Name extends string, Shared extends boolean = false> extends Layer<'bias', Name> {
  readonly shared: Shared
  readonly without?: readonly [number, number]
}
/** The layer that `position` creates. @example const places: Position<'pos_embed'> = position('pos_embed') */
export interface Position<Name extends string> extends Layer<'position', Name> {
  readonly shape: PositionShape
}

/** Options of `bias`. @example const options: BiasOptions = { shared: true } */
export interface BiasOptions<Shared extends boolean = boolean> {
  /** If true, one value for all channels, of shape [1]. Default false. @example bias('act.bias', { shared: true }) */
  readonly shared?: Shared | undefined
  /**
   * Channels that get no value, from the first to before the last: their values are 0 and stay untrained, as the keys of
   * Swin V2. Default: none.
   *
   * @example bias('attn.qkv.bias', { without: [96, 192] })
   */
  readonly without?: readonly [number, number] | undefined
}
const OPTIONS = withValues(optionsFor<BiasOptions>()('bias', 'shared', 'without'), {
  shared: flag,
  without: listOf('two channel numbers', (u) => typeof u === 'number'),
})

/** The shape of the values of all elements: [C,H,W], [1,C,H,W], [1,H·W,C], [1,H,W,C] or [C,H·W]. */
export type PositionShape = 'image' | 'batch' | 'tokens' | 'rows' | 'matrix'

/** Options of `position`. @example const options: PositionOptions = { shape: 'tokens' } */
export interface PositionOptions {
  /**
   * Shape of the parameter: 'image' is [C,H,W], 'batch' [1,C,H,W], 'tokens' [1,H·W,C], as in vision transformers,
   * 'rows' [1,H,W,C] and 'matrix' [C,H·W]. Default 'image'.
   *
   * @example position('pos_embed', { shape: 'tokens' })
   */
  readonly shape?: PositionShape | undefined
}
const POSITION = withValues(optionsFor<PositionOptions>()('position', 'shape'), {
  shape: choice(['image', 'batch', 'tokens', 'rows', 'matrix']),
})

/**
 * Creates a layer that adds a trained value to each channel.
 *
 * @param name Name of the layer and of its parameter.
 * @param options `shared` adds one value to all channels (default false); `without` leaves channels out.
 * @example seq(conv2d('conv1', 64, 3, { bias: false }), layerScale('gamma', 1), bias('beta'))
 */
export const bias = <N extends string, S extends boolean = false, Given = unknown>(
  name: N,
  options: BiasOptions<S> & Strays<Given, typeof OPTIONS> = {} as never,
): Bias<N, S> => {
  const { shared = false, without } = known(OPTIONS, options)
  return { kind: 'bias', name, shared: shared as S, ...(without === undefined ? {} : { without }) }
}

/**
 * Creates a layer that adds a trained value to each element of an image: a position embedding. It fits images of one
 * size only.
 *
 * @param name Name of the layer and of its parameter.
 * @param options `shape` of the parameter (default [C,H,W]).
 * @example seq(conv2d('patches', 192, 16, { stride: 16, pad: 0 }), position('pos_embed'))
 */
export const position = <N extends string, Given = unknown>(
  name: N,
  options: PositionOptions & Strays<Given, typeof POSITION> = {} as never,
): Position<N> => ({ kind: 'position', name, shape: known(POSITION, options).shape ?? 'image' })

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
    bias: L extends { readonly shared: true } ? Low<1> : Low<S[1]>
    position: MulLimbs<MulLimbs<Low<S[1]>, `${S[2]}`>, `${S[3]}`>
  }
}

export const biasRule: LayerRule<Bias<string, boolean>> = {
  codec: layerCodec('bias', { shared: t.boolean }, { without: tuple(t.number, t.number) }),
  example: "bias('n', { shared: true })",
  fault: ({ shared, without }, [, c]) => {
    if (without === undefined) return null
    const [from, to] = without
    return !shared && Number.isInteger(from) && Number.isInteger(to) && from >= 0 && from < to && to <= c
      ? null
      : `without is ${from} to ${to}; allowed: channels of ${c}, the smaller one first, and no shared value`
  },
  params: (l, [, c]) => [{ name: '', shape: [l.shared ? 1 : c], init: { dist: 'constant', a: 0 } }],
  elaborate: (l, x, at) =>
    withParams(at, ([p]) =>
      pipe(
        l.shared
          ? emit(at, 'spread', { times: at.input[1] }, [p!])
          : l.without
            ? emit(at, 'blank', { from: l.without[0], to: l.without[1] }, [p!])
            : right(p!),
        chain((values) => emit(at, 'shift', { elements: 0 }, [x, values])),
      ),
    ),
}

const POSITIONS: Readonly<Record<PositionShape, (c: number, h: number, w: number) => readonly number[]>> = {
  image: (c, h, w) => [c, h, w],
  batch: (c, h, w) => [1, c, h, w],
  tokens: (c, h, w) => [1, h * w, c],
  rows: (c, h, w) => [1, h, w, c],
  matrix: (c, h, w) => [c, h * w],
}
/** The sizes of the values of an image's elements. */
export const positionSizes = (shape: PositionShape, c: number, h: number, w: number): readonly number[] =>
  POSITIONS[shape](c, h, w)
const hasChannelsLast = (shape: PositionShape): boolean => shape === 'tokens' || shape === 'rows'

export const positionRule: LayerRule<Position<string>> = {
  codec: layerCodec('position', { shape: t.keyof({ image: null, batch: null, tokens: null, rows: null, matrix: null }) }),
  example: "position('n', { shape: 'tokens' })",
  params: (l, [, c, h, w]) => [{ name: '', shape: POSITIONS[l.shape](c, h, w), init: { dist: 'normal', a: 0.02 } }],
  elaborate: (l, x, at) => withParams(at, (p) => emit(at, 'shift', { elements: hasChannelsLast(l.shape) ? 2 : 1 }, [x, ...p])),
}
