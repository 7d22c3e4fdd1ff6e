// A fully connected layer. In: [B,C,1,1]. Out: [B,out,1,1]. FT-compatible in B only.
// Its input must be flat already: flatten() or globalAvgPool() stands before it, so that nothing is reshaped unseen.
import { left, right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { type NotFlat, notFlat, type ShapeText, shapeText } from '../messages'
import type { Layer, Shape } from '../net'
import type { Low, MulLow } from '../numbers/naturals'
import { layerCodec } from './codecs'
import { biasInit, initCodec, type WeightInit, type WithBias, weightInit } from './init'
import { type BadSize, badSize, type LayerRule, reasonOr } from './rule'
import { emit, withParams } from './site'

export interface Linear<Name extends string, Out extends number, Bias extends boolean = true> extends Layer<'linear', Name> {
  readonly out: Out
  readonly bias: Bias
  readonly init: WeightInit
  /** What the parameters' names start with, when that is not the layer's name. */
  readonly param?: string
}

export interface LinearOptions<B extends boolean = boolean> {
  /** Whether it adds a bias; true unless said otherwise. */
  readonly bias?: B
  readonly init?: WeightInit
  readonly param?: string
}

/** @example linear('fc', 1000) */
export const linear = <N extends string, O extends number, B extends boolean = true>(
  name: N,
  out: O,
  options: LinearOptions<B> = {},
): Linear<N, O, B> => ({
  kind: 'linear',
  name,
  out,
  bias: options.bias ?? (true as B),
  init: options.init ?? 'fan-in-uniform',
  ...(options.param === undefined ? {} : { param: options.param }),
})

type LinearShape<L, S extends Shape> =
  L extends Linear<any, infer O, any>
    ? BadSize<[['number of outputs', O, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : number extends S[2] | S[3]
          ? [S[0], O, number, number]
          : [S[2], S[3]] extends [1, 1]
            ? [S[0], O, 1, 1]
            : NotFlat<ShapeText<S>>
      : never
    : never

type LinearParameters<L, C extends number> =
  L extends Linear<any, infer O, infer B> ? WithBias<MulLow<Low<O>, `${C}`>, O, B> : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    linear: LinearShape<L, S>
  }
  interface LayerParameters<L, S extends Shape> {
    linear: LinearParameters<L, S[1]>
  }
  interface LayerFt<L> {
    linear: 'B'
  }
}

export const linearRule: LayerRule<Linear<string, number, boolean>> = {
  codec: layerCodec('linear', { out: t.number, bias: t.boolean, init: initCodec }, { param: t.string }),
  shape: (l, input) =>
    reasonOr(badSize(['number of outputs', l.out, 1]), () =>
      input[2] === 1 && input[3] === 1 ? right([input[0], l.out, 1, 1]) : left(notFlat(shapeText(input))),
    ),
  ft: () => ['B'],
  inPlace: false,
  params: (l, [, c]) => [
    { name: 'weight', shape: [l.out, c], init: weightInit(l.init, c, l.out) },
    ...(l.bias ? [{ name: 'bias', shape: [l.out], init: biasInit(l.init, c) }] : []),
  ],
  elaborate: (_, x, at) => withParams(at, (ps) => emit(at, 'linear', {}, [x, ...ps])),
}
