// Fully connected layers. linear: [B,C,1,1] to [B,out,1,1], FT-compatible in B only; its input must be flat already: flatten()
// or globalAvgPool() stands before it, so that nothing is reshaped unseen. pixelLinear: [B,C,H,W] to [B,out,H,W], over the
// channels of each pixel, as PyTorch's Linear where the channels come last; FT-compatible in B, H and W.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { type NotFlat, notFlat, type ShapeText, shapeText } from '../messages'
import type { Layer, Shape, Sized } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import { weightAndBias, weightFields, weighted, type Weighted, type WeightOptions, type WithBias } from './init'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit, withParams } from './site'

/** The layer that `linear` creates. @example const head: Linear<'fc', 1000> = linear('fc', 1000) */
export interface Linear<Name extends string, Out extends number, Bias extends boolean = true>
  extends Layer<'linear', Name>,
    Weighted<Out, Bias> {}
/**
 * The layer that `pixelLinear` creates.
 *
 * @example const mlp: PixelLinear<'mlp.0', 384> = pixelLinear('mlp.0', 384)
 */
export interface PixelLinear<Name extends string, Out extends number, Bias extends boolean = true>
  extends Layer<'pixelLinear', Name>,
    Weighted<Out, Bias> {}

const LINEAR = optionsFor<WeightOptions>()('linear', 'bias', 'init', 'param')
const PIXEL_LINEAR = optionsFor<WeightOptions>()('pixelLinear', 'bias', 'init', 'param')

/**
 * Creates a fully connected layer. Its input must have one pixel: put `flatten()` or `globalAvgPool()` before
 * it.
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param out Number of outputs.
 * @param options Bias, initial weights and the parameter name.
 * @example seq(globalAvgPool('pool'), linear('fc', 1000))
 */
export const linear = <N extends string, O extends number, B extends boolean = true, Given = unknown>(
  name: N,
  out: O,
  options: WeightOptions<B> & Strays<Given, typeof LINEAR> = {} as never,
): Linear<N, O, B> => ({ kind: 'linear', name, ...weighted(out, known(LINEAR, options)) })

/**
 * Creates a linear layer over the channels of each pixel: a 1×1 convolution with weights of shape [out, C].
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param out Number of output channels.
 * @param options Bias, initial weights and the parameter name.
 * @example seq(pixelLinear('mlp.0', 384), gelu(), pixelLinear('mlp.2', 96))
 */
export const pixelLinear = <N extends string, O extends number, B extends boolean = true, Given = unknown>(
  name: N,
  out: O,
  options: WeightOptions<B> & Strays<Given, typeof PIXEL_LINEAR> = {} as never,
): PixelLinear<N, O, B> => ({ kind: 'pixelLinear', name, ...weighted(out, known(PIXEL_LINEAR, options)) })

type OutOf<L> = L extends { readonly out: infer O extends number } ? O : never

type LinearShape<L, S extends Shape> =
  BadSize<[['number of outputs', OutOf<L>, 1]]> extends infer Bad
    ? Bad extends string
      ? Bad
      : number extends S[2] | S[3]
        ? Sized<S[0], OutOf<L>, number, number>
        : [S[2], S[3]] extends [1, 1]
          ? Sized<S[0], OutOf<L>, 1, 1>
          : NotFlat<ShapeText<S>>
    : never

type PixelLinearShape<L, S extends Shape> =
  BadSize<[['number of outputs', OutOf<L>, 1]]> extends infer Bad
    ? Bad extends string
      ? Bad
      : Sized<S[0], OutOf<L>, S[2], S[3]>
    : never

type LinearParameters<L, C extends number> = L extends { readonly out: infer O extends number; readonly bias: infer B }
  ? WithBias<MulLimbs<Low<O>, `${C}`>, O, B>
  : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    linear: LinearShape<L, S>
    pixelLinear: PixelLinearShape<L, S>
  }
  interface LayerParameters<L, S extends Shape> {
    linear: LinearParameters<L, S[1]>
    pixelLinear: LinearParameters<L, S[1]>
  }
  interface LayerFt {
    linear: 'B'
    pixelLinear: 'B' | 'H' | 'W'
  }
}

type AnyLinear = Linear<string, number, boolean> | PixelLinear<string, number, boolean>

const outputsFault = (l: AnyLinear): string | null => badSize(['number of outputs', l.out, 1])
const shared: Pick<LayerRule<AnyLinear>, 'params' | 'elaborate'> = {
  params: (l, [, c]) => weightAndBias(l, [l.out, c]),
  elaborate: (_, x, at) => withParams(at, (ps) => emit(at, 'linear', {}, [x, ...ps])),
}

export const linearRule: LayerRule<Linear<string, number, boolean>> = {
  codec: layerCodec('linear', weightFields, { param: t.string }),
  fault: (l, input) => outputsFault(l) ?? (input[2] === 1 && input[3] === 1 ? null : notFlat(shapeText(input))),
  ...shared,
}

export const pixelLinearRule: LayerRule<PixelLinear<string, number, boolean>> = {
  codec: layerCodec('pixelLinear', weightFields, { param: t.string }),
  fault: outputsFault,
  ...shared,
}
