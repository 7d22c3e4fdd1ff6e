// Transposed convolution, PyTorch's ConvTranspose2d. In: [B,C,H,W]. Out: [B,out,H',W'] with
// H' = (H - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1 + outputPad. FT-compatible in B, H and W.
// Worked example: kernel 4, stride 2, padding 1 doubles the size: (7 - 1) * 2 - 2 + 3 + 1 = 14.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import {
  type GroupsDoNotDivide,
  type OutputPadTooLarge,
  outputPadTooLarge,
  type PadBeyondWindow,
  padBeyondWindow,
  type PaddedAway,
  paddedAway,
} from '../messages'
import { type Extent, type Height, height, type Layer, type Shape, type Width, width } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Add, Compare, Div, Low, Mul, Sub } from '../numbers/naturals'
import { extentCodec, layerCodec } from './codecs'
import { type Divides, groupsFault, type SeesPixels } from './conv2d'
import { weightAndBias, weightFields, weighted, type Weighted, type WeightOptions, type WithBias } from './init'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit, withParams } from './site'
import { type ExtentText, extentText } from './window'

/**
 * The layer that `convTranspose2d` creates.
 *
 * @example const up: ConvTranspose2d<'up1', 64, 2, 2> = convTranspose2d('up1', 64, 2, { stride: 2 })
 */
export interface ConvTranspose2d<
  Name extends string,
  Out extends number,
  Kernel extends Extent,
  Stride extends Extent = 1,
  Pad extends Extent = 0,
  OutputPad extends Extent = 0,
  Dilation extends Extent = 1,
  Groups extends number = 1,
  Bias extends boolean = true,
> extends Layer<'convTranspose2d', Name>,
    Weighted<Out, Bias> {
  readonly kernel: Kernel
  readonly stride: Stride
  readonly pad: Pad
  readonly outputPad: OutputPad
  readonly dilation: Dilation
  readonly groups: Groups
}
type AnyTransposed = ConvTranspose2d<string, number, Extent, Extent, Extent, Extent, Extent, number, boolean>

/**
 * Options of `convTranspose2d`.
 *
 * @example const options: ConvTranspose2dOptions = { stride: 2, pad: 1, outputPad: 1 }
 */
export interface ConvTranspose2dOptions<
  S extends Extent = Extent,
  P extends Extent = Extent,
  Q extends Extent = Extent,
  D extends Extent = Extent,
  G extends number = number,
  B extends boolean = boolean,
> extends WeightOptions<B> {
  /**
   * Step from one window of the output to the next, in pixels. Default 1.
   *
   * @example convTranspose2d('up1', 512, 2, { stride: 2 })
   */
  readonly stride?: S | undefined
  /**
   * Rows and columns removed from each side of the output. Default 0.
   *
   * @example convTranspose2d('up1', 512, 4, { stride: 2, pad: 1 })
   */
  readonly pad?: P | undefined
  /**
   * Rows added at the bottom and columns added at the right; less than the stride or the dilation. Default 0.
   *
   * @example convTranspose2d('up1', 512, 3, { stride: 2, pad: 1, outputPad: 1 })
   */
  readonly outputPad?: Q | undefined
  /**
   * Distance between two elements of a window, in pixels. Default 1.
   *
   * @example convTranspose2d('up1', 512, 3, { dilation: 2 })
   */
  readonly dilation?: D | undefined
  /**
   * Number of channel groups; each output channel reads only the input channels of its group. Default 1.
   *
   * @example convTranspose2d('up1', 64, 2, { stride: 2, groups: 64 })
   */
  readonly groups?: G | undefined
}
// biome-ignore format: a list
const OPTIONS = optionsFor<ConvTranspose2dOptions>()('convTranspose2d', 'stride', 'pad', 'outputPad', 'dilation', 'groups', 'bias', 'init', 'param')

/**
 * Creates a transposed convolution, as PyTorch's `ConvTranspose2d`. Use it to enlarge an image with trained
 * weights.
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param out Number of output channels.
 * @param kernel Kernel size in pixels: one number, or [height, width].
 * @param options Stride, padding, output padding, dilation, groups, bias, initial weights and the parameter
 *   name.
 * @example seq(convTranspose2d('up1', 256, 2, { stride: 2 }), relu())
 */
export const convTranspose2d = <
  N extends string,
  O extends number,
  const K extends Extent,
  const S extends Extent = 1,
  const P extends Extent = 0,
  const Q extends Extent = 0,
  const D extends Extent = 1,
  G extends number = 1,
  B extends boolean = true,
  Given = unknown,
>(
  name: N,
  out: O,
  kernel: K,
  options: ConvTranspose2dOptions<S, P, Q, D, G, B> & Strays<Given, typeof OPTIONS> = {} as never,
): ConvTranspose2d<N, O, K, S, P, Q, D, G, B> => ({
  kind: 'convTranspose2d',
  name,
  kernel,
  stride: options.stride ?? (1 as S),
  pad: options.pad ?? (0 as P),
  outputPad: options.outputPad ?? (0 as Q),
  dilation: options.dilation ?? (1 as D),
  groups: options.groups ?? (1 as G),
  ...weighted(out, known(OPTIONS, options)),
})

// ---------------------------------------------------------------- its shape and parameters, as types

/** The rows that H rows of windows reach, less the padding; 0 or 'negative' when nothing is left. */
type Spread<
  H extends number,
  K extends number,
  S extends number,
  P extends number,
  Q extends number,
  D extends number,
> = number extends H | K | S | P | Q | D
  ? number
  : Sub<Add<Mul<Sub<H, 1> & number, S>, Add<Add<Mul<D, Sub<K, 1> & number>, 1>, Q>>, Mul<2, P>>

type Below<Q extends number, S extends number, D extends number> = Q extends 0
  ? true
  : number extends Q | S | D
    ? true
    : Compare<Q, S> extends 'less'
      ? true
      : Compare<Q, D> extends 'less'
        ? true
        : false

type TransposedShape<L, S extends Shape> =
  L extends ConvTranspose2d<any, infer O, infer K, infer St, infer P, infer Q, infer D, infer G, any>
    ? BadSize<
        [
          ['number of channels', O, 1],
          ['kernel', K, 1],
          ['stride', St, 1],
          ['dilation', D, 1],
          ['number of groups', G, 1],
          ['padding', P, 0],
          ['output padding', Q, 0],
        ]
      > extends infer Bad
      ? Bad extends string
        ? Bad
        : SeesPixels<K, P, D> extends false
          ? PadBeyondWindow<ExtentText<P>, ExtentText<K>>
          : [Below<Height<Q>, Height<St>, Height<D>>, Below<Width<Q>, Width<St>, Width<D>>] extends [true, true]
            ? Divides<S[1], G> extends false
              ? GroupsDoNotDivide<'input', `${S[1]}`, `${G}`>
              : Divides<O, G> extends false
                ? GroupsDoNotDivide<'output', `${O}`, `${G}`>
                : [
                      Spread<S[2], Height<K>, Height<St>, Height<P>, Height<Q>, Height<D>>,
                      Spread<S[3], Width<K>, Width<St>, Width<P>, Width<Q>, Width<D>>,
                    ] extends [infer H, infer W]
                  ? H extends 0 | 'negative'
                    ? PaddedAway<ExtentText<P>>
                    : W extends 0 | 'negative'
                      ? PaddedAway<ExtentText<P>>
                      : [S[0], number extends G ? number : O, H & number, W & number]
                  : never
            : OutputPadTooLarge<ExtentText<Q>, ExtentText<St>, ExtentText<D>>
      : never
    : never

type TransposedParameters<L, C extends number> =
  L extends ConvTranspose2d<any, infer O, infer K, any, any, any, any, infer G, infer B>
    ? WithBias<MulLimbs<MulLimbs<MulLimbs<Low<C>, `${Div<O, G>}`>, `${Height<K>}`>, `${Width<K>}`>, O, B>
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    convTranspose2d: TransposedShape<L, S>
  }
  interface LayerParameters<L, S extends Shape> {
    convTranspose2d: TransposedParameters<L, S[1]>
  }
  interface LayerFt {
    convTranspose2d: 'B' | 'H' | 'W'
  }
}

// ---------------------------------------------------------------- at run time

const both = (holds: (side: (e: Extent) => number) => boolean): boolean => holds(height) && holds(width)

const complaint = (l: AnyTransposed, input: Shape): string | null => {
  const size = badSize(
    ['number of channels', l.out, 1],
    ['kernel', l.kernel, 1],
    ['stride', l.stride, 1],
    ['dilation', l.dilation, 1],
    ['number of groups', l.groups, 1],
    ['padding', l.pad, 0],
    ['output padding', l.outputPad, 0],
  )
  if (size !== null) return size
  if (!both((side) => side(l.pad) <= side(l.dilation) * (side(l.kernel) - 1)))
    return padBeyondWindow(extentText(l.pad), extentText(l.kernel))
  if (!both((side) => side(l.outputPad) < Math.max(side(l.stride), side(l.dilation), 1)))
    return outputPadTooLarge(extentText(l.outputPad), extentText(l.stride), extentText(l.dilation))
  return groupsFault(l, input)
}

const spread = (l: AnyTransposed, size: number, side: (e: Extent) => number): number =>
  (size - 1) * side(l.stride) - 2 * side(l.pad) + side(l.dilation) * (side(l.kernel) - 1) + 1 + side(l.outputPad)

export const convTranspose2dRule: LayerRule<AnyTransposed> = {
  codec: layerCodec(
    'convTranspose2d',
    {
      ...weightFields,
      kernel: extentCodec,
      stride: extentCodec,
      pad: extentCodec,
      outputPad: extentCodec,
      dilation: extentCodec,
      groups: t.number,
    },
    { param: t.string },
  ),
  fault: (l, input) =>
    complaint(l, input) ??
    (spread(l, input[2], height) < 1 || spread(l, input[3], width) < 1 ? paddedAway(extentText(l.pad)) : null),
  params: (l, input) => weightAndBias(l, [input[1], l.out / l.groups, height(l.kernel), width(l.kernel)]),
  elaborate: (l, x, at) =>
    withParams(at, (ps) =>
      emit(
        at,
        'conv_transpose2d',
        {
          strideH: height(l.stride),
          strideW: width(l.stride),
          padTop: height(l.pad),
          padLeft: width(l.pad),
          padBottom: height(l.pad),
          padRight: width(l.pad),
          dilationH: height(l.dilation),
          dilationW: width(l.dilation),
          groups: l.groups,
          outputPadH: height(l.outputPad),
          outputPadW: width(l.outputPad),
        },
        [x, ...ps],
      ),
    ),
}
