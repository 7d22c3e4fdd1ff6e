// Convolution. In: [B,C,H,W]. Out: [B,out,H',W']. FT-compatible in B, H and W: every output needs all input channels. The default padding is 'same':
// floor(dilation * (kernel - 1) / 2) zeros on each side, for any stride.
import { chain, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import {
  type GroupsDoNotDivide,
  groupsDoNotDivide,
  type PadBeyondWindow,
  padBeyondWindow,
  type ShapeText,
  shapeText,
  type WindowTooLarge,
  windowTooLarge,
} from '../messages'
import { type Extent, type Height, height, type Layer, type Shape, type Width, width } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Compare, Div, Kept, Low, Mod, Mul, Sub } from '../numbers/naturals'
import { extentCodec, layerCodec, paddingCodec } from './codecs'
import { weightAndBias, weightFields, weighted, type Weighted, type WeightOptions, type WithBias } from './init'
import { type BadSize, badSize, type LayerRule } from './rule'
import {
  type Far,
  far,
  type Near,
  near,
  type PaddingText,
  paddingText,
  type SidePadding,
  type Sides,
  type SidesFault,
  sidesFault,
} from './sides'
import { emit, withParams } from './site'
import { type ExtentText, extentText, type Padding, padOf, type WindowHeight, windowFits, type WindowWidth } from './window'

/**
 * The layer that `conv2d` creates. The name and all sizes are literals of its type.
 *
 * @example const stem: Conv2d<'stem', 64, 7, 2> = conv2d('stem', 64, 7, { stride: 2 })
 */
export interface Conv2d<
  Name extends string,
  Out extends number,
  Kernel extends Extent,
  Stride extends Extent = 1,
  Pad extends Padding = 'same',
  Dilation extends Extent = 1,
  Groups extends number = 1,
  Bias extends boolean = true,
> extends Layer<'conv2d', Name>,
    Weighted<Out, Bias> {
  readonly kernel: Kernel
  readonly stride: Stride
  readonly pad: Pad
  readonly dilation: Dilation
  readonly groups: Groups
  /** Number added to the variance of standardised weights; absent: weights as they are. */
  readonly standardize?: number
}
type AnyConv2d = Conv2d<string, number, Extent, Extent, Padding, Extent, number, boolean>

/** Options of `conv2d`. @example const options: Conv2dOptions = { stride: 2, pad: 1, bias: false } */
export interface Conv2dOptions<
  S extends Extent = Extent,
  P extends Padding = Padding,
  D extends Extent = Extent,
  G extends number = number,
  B extends boolean = boolean,
> extends WeightOptions<B> {
  /** Step from one window to the next, in pixels. Default 1. @example conv2d('down', 128, 3, { stride: 2 }) */
  readonly stride?: S | undefined
  /**
   * Zeros around the image, in pixels: a number, [height, width], one number per side, or 'same'. Default
   * 'same'.
   *
   * @example conv2d('conv1', 64, 3, { pad: 0 })
   */
  readonly pad?: P | undefined
  /** Distance between two elements of a window, in pixels. Default 1. @example conv2d('atrous', 64, 3, { dilation: 6 }) */
  readonly dilation?: D | undefined
  /**
   * Number of channel groups; each output channel reads only the input channels of its group. Default 1.
   *
   * @example conv2d('depthwise', 64, 3, { groups: 64 })
   */
  readonly groups?: G | undefined
  /**
   * Standardises the weights: before each step, those of an output channel get the mean 0 and the variance 1. The option
   * is the number added to their variance, e.g. 1e-6. Use it with group norms, as in BiT. Default: weights as they are.
   *
   * @example conv2d('conv1', 64, 3, { standardize: 1e-6, bias: false })
   */
  readonly standardize?: number | undefined
}
const OPTIONS = optionsFor<Conv2dOptions>()(
  'conv2d',
  'stride',
  'pad',
  'dilation',
  'groups',
  'standardize',
  'bias',
  'init',
  'param',
)

/**
 * Creates a convolution. Padding is 'same' by default, so an odd kernel at stride 1 keeps height and width.
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param out Number of output channels.
 * @param kernel Kernel size in pixels: one number, or [height, width].
 * @param options Stride, padding, dilation, groups, standardised weights, bias, initial weights and the parameter name.
 * @example
 * seq(
 *   conv2d('conv1', 64, 3),
 *   conv2d('down', 128, 3, { stride: 2, bias: false }),
 *   conv2d('atrous', 128, [3, 5], { dilation: 2 }),
 * )
 */
export const conv2d = <
  N extends string,
  O extends number,
  const K extends Extent,
  const S extends Extent = 1,
  const P extends Padding = 'same',
  const D extends Extent = 1,
  G extends number = 1,
  B extends boolean = true,
  Given = unknown,
>(
  name: N,
  out: O,
  kernel: K,
  options: Conv2dOptions<S, P, D, G, B> & Strays<Given, typeof OPTIONS> = {} as never,
): Conv2d<N, O, K, S, P, D, G, B> => ({
  kind: 'conv2d',
  name,
  kernel,
  stride: options.stride ?? (1 as S),
  pad: options.pad ?? ('same' as P),
  dilation: options.dilation ?? (1 as D),
  groups: options.groups ?? (1 as G),
  ...(options.standardize === undefined ? {} : { standardize: options.standardize }),
  ...weighted(out, known(OPTIONS, options)),
})

// ---------------------------------------------------------------- its shape, as a type

type Conv2dShape<L, S extends Shape> = L extends AnyConv2d
  ? Kept<OutputOf<L['out'], L['kernel'], L['stride'], L['pad'], L['dilation'], L['groups'], S>>
  : never
/** Without the name and the bias, so that equal layers are computed once. */
type OutputOf<
  O extends number,
  K extends Extent,
  St extends Extent,
  P extends Padding,
  D extends Extent,
  G extends number,
  S extends Shape,
> =
  BadSize<
    [
      ['number of channels', O, 1],
      ['kernel', K, 1],
      ['stride', St, 1],
      ['dilation', D, 1],
      ['number of groups', G, 1],
      ['padding', P extends SidePadding ? Near<P> : 0, 0],
      ['padding', P extends SidePadding ? Far<P> : 0, 0],
    ]
  > extends infer Bad
    ? Bad extends string
      ? Bad
      : SeesPixels<K, P, D> extends false
        ? SidesFault<P> extends infer Side extends string
          ? Side
          : P extends SidePadding
            ? PadBeyondWindow<PaddingText<P>, ExtentText<K>>
            : never
        : Divides<S[1], G> extends false
          ? GroupsDoNotDivide<'input', `${S[1]}`, `${G}`>
          : Divides<O, G> extends false
            ? GroupsDoNotDivide<'output', `${O}`, `${G}`>
            : [WindowHeight<S[2], K, St, P, D>, WindowWidth<S[3], K, St, P, D>] extends [
                  infer H extends number,
                  infer W extends number,
                ]
              ? [S[0], number extends G ? number : O, H, W]
              : WindowTooLarge<ExtentText<K>, ShapeText<S>>
    : never

/** True if the groups share the channels evenly. */
export type Divides<C extends number, G extends number> = G extends 1
  ? true
  : number extends C | G
    ? true
    : Mod<C, G> extends 0
      ? true
      : false
type Within<P extends number, K extends number, D extends number> = P extends 0
  ? true
  : number extends P | K | D
    ? true
    : Compare<P, Mul<D, Sub<K, 1> & number>> extends 'more'
      ? false
      : true
type SeesOn<K extends Extent, P extends Extent, D extends Extent> =
  Within<Height<P>, Height<K>, Height<D>> extends true ? Within<Width<P>, Width<K>, Width<D>> : false
/** True if each window of this padding sees a pixel, and its sides exist. */
export type SeesPixels<K extends Extent, P extends Padding, D extends Extent> = P extends Extent
  ? SeesOn<K, P, D>
  : P extends Sides
    ? SidesFault<P> extends string
      ? false
      : SeesOn<K, Near<P>, D> extends true
        ? SeesOn<K, Far<P>, D>
        : false
    : true

// ---------------------------------------------------------------- its parameters, as a type

type Conv2dParameters<L, C extends number> = L extends AnyConv2d
  ? Kept<Weights<L['out'], L['kernel'], L['groups'], L['bias'], C>>
  : never
type Weights<O extends number, K extends Extent, G extends number, B extends boolean, C extends number> = WithBias<
  MulLimbs<MulLimbs<MulLimbs<Low<O>, `${Div<C, G>}`>, `${Height<K>}`>, `${Width<K>}`>,
  O,
  B
>

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    conv2d: Conv2dShape<L, S>
  }
  interface LayerParameters<L, S extends Shape> {
    conv2d: Conv2dParameters<L, S[1]>
  }
  interface LayerFt {
    conv2d: 'B' | 'H' | 'W'
  }
}

// ---------------------------------------------------------------- at run time

const complaint = (l: AnyConv2d, input: Shape): string | null => {
  const pad = padOf(l.pad, l.kernel, l.dilation)
  const size = badSize(
    ['number of channels', l.out, 1],
    ['kernel', l.kernel, 1],
    ['stride', l.stride, 1],
    ['dilation', l.dilation, 1],
    ['number of groups', l.groups, 1],
    ['padding', near(pad), 0],
    ['padding', far(pad), 0],
  )
  const fault = size ?? sidesFault(l.pad)
  if (fault !== null) return fault
  if (
    Math.max(pad.top, pad.bottom) > height(l.dilation) * (height(l.kernel) - 1) ||
    Math.max(pad.left, pad.right) > width(l.dilation) * (width(l.kernel) - 1)
  )
    return padBeyondWindow(l.pad === 'same' ? extentText(near(pad)) : paddingText(l.pad), extentText(l.kernel))
  return groupsFault(l, input) ?? (windowFits(l, input) ? null : windowTooLarge(extentText(l.kernel), shapeText(input)))
}

/** Refuses a number of groups that does not divide the channels of both sides. */
export const groupsFault = ({ out, groups }: { out: number; groups: number }, [, c]: Shape): string | null => {
  if (c % groups !== 0) return groupsDoNotDivide('input', `${c}`, `${groups}`)
  return out % groups === 0 ? null : groupsDoNotDivide('output', `${out}`, `${groups}`)
}

export const conv2dRule: LayerRule<AnyConv2d> = {
  codec: layerCodec(
    'conv2d',
    {
      ...weightFields,
      kernel: extentCodec,
      stride: extentCodec,
      pad: paddingCodec,
      dilation: extentCodec,
      groups: t.number,
    },
    { param: t.string, standardize: t.number },
  ),
  fault: complaint,
  params: (l, input) => weightAndBias(l, [l.out, input[1] / l.groups, height(l.kernel), width(l.kernel)]),
  elaborate: (l, x, at) => {
    const pad = padOf(l.pad, l.kernel, l.dilation)
    const attrs = {
      strideH: height(l.stride),
      strideW: width(l.stride),
      padTop: pad.top,
      padLeft: pad.left,
      padBottom: pad.bottom,
      padRight: pad.right,
      dilationH: height(l.dilation),
      dilationW: width(l.dilation),
      groups: l.groups,
    }
    return withParams(at, ([weight, ...bias]) =>
      pipe(
        l.standardize === undefined ? right(weight!) : emit(at, 'standardize', { eps: l.standardize }, [weight!]),
        chain((w) => emit(at, 'conv2d', attrs, [x, w, ...bias])),
      ),
    )
  },
}
