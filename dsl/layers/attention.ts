// Scaled dot-product attention within groups of pixels. In: [B,3C,H,W], the channels of queries, keys and values. Out: [B,C,H,W]. FT-compatible in B.
import { chain, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { MOST_HEAD_CHANNELS, tableOf } from '../../staging/ops/attention'
import {
  type GridNotShifted,
  gridNotShifted,
  type HeadsDoNotFit,
  headsDoNotFit,
  type HeadTooWide,
  headTooWide,
  type ShapeText,
  shapeText,
  type ShiftBeyondWindow,
  shiftBeyondWindow,
  type WindowDoesNotDivide,
  windowDoesNotDivide,
} from '../messages'
import { type Extent, type Height, height, type Layer, type Shape, type Sized, type Width, width } from '../net'
import type { Compare, Div, Low, Mul, Sub } from '../numbers/naturals'
import { extentCodec, layerCodec } from './codecs'
import type { Divides } from './conv2d'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit, withParams } from './site'
import { type ExtentText, extentText } from './window'

/** The trained bias of scores: none, a number for each distance, or one for a distance and its mirror images. */
type Relative = boolean | 'mirrored'

/**
 * The layer that `attention` creates.
 *
 * @example const windows: Attention<'attn', 3, 7> = attention('attn', 3, { window: 7 })
 */
export interface Attention<
  Name extends string,
  Heads extends number,
  W extends Extent | 'image' = 'image',
  G extends boolean = false,
  S extends Extent = 0,
  R extends Relative = false,
> extends Layer<'attention', Name> {
  readonly heads: Heads
  readonly window: W
  readonly grid: G
  readonly shift: S
  readonly relative: R
  readonly headFirst: boolean
  readonly scale?: number
}

/**
 * Options of `attention`.
 *
 * @example const options: AttentionOptions<7, false, 3, true> = { window: 7, shift: 3, relative: true }
 */
export interface AttentionOptions<W extends Extent | 'image', G extends boolean, S extends Extent, R extends Relative> {
  /**
   * Pixels that attend to each other: the height and width of a window, which divide the image. Default 'image': all
   * pixels.
   *
   * @example attention('attn', 3, { window: 7 })
   */
  readonly window?: W | undefined
  /**
   * If true, a group has pixels at equal distances over the whole image, as the grids of MaxViT. Default false.
   *
   * @example attention('attn', 3, { window: 7, grid: true })
   */
  readonly grid?: G | undefined
  /**
   * Shift of the windows in pixels, as in Swin; less than a window. Pixels of opposite borders ignore each other. A window
   * as high or as wide as the image is not shifted along that side. Default 0.
   *
   * @example attention('attn', 3, { window: 7, shift: 3 })
   */
  readonly shift?: S | undefined
  /**
   * If true, a trained number for each head and each distance of two pixels is added to their score. `'mirrored'`: the
   * number is the same for a distance and its mirror images, as in LeViT. Default false.
   *
   * @example attention('attn', 3, { window: 7, relative: true })
   */
  readonly relative?: R | undefined
  /**
   * Order of the channels: true for [heads, 3, C / heads], false for [3, heads, C / heads]. Default false.
   *
   * @example attention('attn', 6, { headFirst: true })
   */
  readonly headFirst?: boolean | undefined
  /** Factor of the products. Default: 1 / √(C / heads). @example attention('attn', 2, { scale: 0.125 }) */
  readonly scale?: number | undefined
}
const OPTIONS = optionsFor<AttentionOptions<Extent, boolean, Extent, Relative>>()(
  'attention',
  'window',
  'grid',
  'shift',
  'relative',
  'headFirst',
  'scale',
)

/**
 * Creates scaled dot-product attention: y = softmax(scale·q·kᵀ)·v for each head. Its input has the channels of queries,
 * keys and values, e.g. from `pixelLinear`. No matrix of scores is stored; the backward pass computes them again.
 *
 * @param name Name of the layer; with `relative`, its parameter is `<name>.relative_position_bias_table`, or `<name>.attention_biases` if it is mirrored.
 * @param heads Number of heads; 3·heads must divide the channels.
 * @param options `window`, `grid` and `shift` choose the pixels that attend to each other; `relative` adds a trained bias.
 * @example
 * residual(
 *   seq(layerNorm('norm'), pixelLinear('qkv', 288), attention('attn', 3, { window: 7, relative: true }), pixelLinear('proj', 96)),
 *   identity,
 * )
 */
export const attention = <
  N extends string,
  H extends number,
  const W extends Extent | 'image' = 'image',
  G extends boolean = false,
  const S extends Extent = 0,
  R extends Relative = false,
  Given = unknown,
>(
  name: N,
  heads: H,
  options: AttentionOptions<W, G, S, R> & Strays<Given, typeof OPTIONS> = {} as never,
): Attention<N, H, W, G, S, R> => {
  const { scale } = known(OPTIONS, options as AttentionOptions<Extent, boolean, Extent, Relative>)
  return {
    kind: 'attention',
    name,
    heads,
    window: options.window ?? ('image' as W),
    grid: options.grid ?? (false as G),
    shift: options.shift ?? (0 as S),
    relative: options.relative ?? (false as R),
    headFirst: options.headFirst ?? false,
    ...(scale === undefined ? {} : { scale }),
  }
}

// ---------------------------------------------------------------- its shape, as a type

type AnyAttention = Attention<any, number, Extent | 'image', boolean, Extent, Relative>
type WindowOf<W, S extends Shape> = W extends Extent ? W : [S[2], S[3]]
type WindowsFit<W extends Extent, S extends Shape> =
  Divides<S[2], Height<W>> extends false ? false : Divides<S[3], Width<W>> extends false ? false : true
type Below<A extends number, B extends number> = number extends A | B ? true : Compare<A, B> extends 'less' ? true : false
type ShiftFits<Sh extends Extent, W extends Extent> =
  Below<Height<Sh>, Height<W>> extends false ? false : Below<Width<Sh>, Width<W>>
type TooWide<C extends number, Heads extends number> = number extends C | Heads
  ? false
  : Compare<Div<C, Mul<3, Heads>>, 256> extends 'more'
    ? true
    : false

type AttentionShape<L, S extends Shape> = L extends AnyAttention
  ? OutputOf<L['heads'], L['window'], L['grid'], L['shift'], S>
  : never
type OutputOf<Heads extends number, W extends Extent | 'image', G extends boolean, Sh extends Extent, S extends Shape> =
  BadSize<[['number of heads', Heads, 1], ['window', WindowOf<W, S>, 1], ['shift', Sh, 0]]> extends infer Bad
    ? Bad extends string
      ? Bad
      : Divides<S[1], Mul<3, Heads>> extends false
        ? HeadsDoNotFit<`${S[1]}`, `${Heads}`>
        : TooWide<S[1], Heads> extends true
          ? HeadTooWide<`${Div<S[1], Mul<3, Heads>>}`>
          : WindowsFit<WindowOf<W, S>, S> extends false
            ? WindowDoesNotDivide<ExtentText<WindowOf<W, S>>, ShapeText<S>>
            : ShiftFits<Sh, WindowOf<W, S>> extends false
              ? ShiftBeyondWindow<ExtentText<Sh>, ExtentText<WindowOf<W, S>>>
              : [G, Sh] extends [true, 0 | readonly [0, 0]] | [false, unknown]
                ? Sized<S[0], number extends Heads | S[1] ? number : Div<S[1], 3>, S[2], S[3]>
                : [G] extends [boolean]
                  ? boolean extends G
                    ? Sized<S[0], number extends Heads | S[1] ? number : Div<S[1], 3>, S[2], S[3]>
                    : GridNotShifted
                  : never
    : never

type Reach<N extends number> = Sub<Mul<2, N>, 1> & number
type TableParameters<L, S extends Shape> = L extends AnyAttention
  ? L['relative'] extends true
    ? Low<Mul<Mul<Reach<Height<WindowOf<L['window'], S>>>, Reach<Width<WindowOf<L['window'], S>>>>, L['heads']>>
    : L['relative'] extends 'mirrored'
      ? Low<Mul<Mul<Height<WindowOf<L['window'], S>>, Width<WindowOf<L['window'], S>>>, L['heads']>>
      : null
  : null

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    attention: AttentionShape<L, S>
  }
  interface LayerFt {
    attention: 'B'
  }
  interface LayerParameters<L, S extends Shape> {
    attention: TableParameters<L, S>
  }
}

// ---------------------------------------------------------------- at run time

const windowOf = (window: Extent | 'image', [, , h, w]: Shape): readonly [number, number] =>
  window === 'image' ? [h, w] : [height(window), width(window)]

const fault = (l: AnyAttention, input: Shape): string | null => {
  const [, c, h, w] = input
  const window = windowOf(l.window, input)
  const bad = badSize(['number of heads', l.heads, 1], ['window', window, 1], ['shift', l.shift, 0])
  if (bad !== null) return bad
  if (c % (3 * l.heads) !== 0) return headsDoNotFit(`${c}`, `${l.heads}`)
  const head = c / (3 * l.heads)
  if (head > MOST_HEAD_CHANNELS) return headTooWide(`${head}`)
  if (h % window[0] !== 0 || w % window[1] !== 0) return windowDoesNotDivide(extentText(window), shapeText(input))
  if (height(l.shift) >= window[0] || width(l.shift) >= window[1])
    return shiftBeyondWindow(extentText(l.shift), extentText(window))
  return l.grid && height(l.shift) + width(l.shift) > 0 ? gridNotShifted() : null
}

export const attentionRule: LayerRule<Attention<string, number, Extent | 'image', boolean, Extent, Relative>> = {
  masked: 'refused',
  codec: layerCodec(
    'attention',
    {
      heads: t.number,
      window: t.union([extentCodec, t.literal('image')]),
      grid: t.boolean,
      shift: extentCodec,
      relative: t.union([t.boolean, t.literal('mirrored')]),
      headFirst: t.boolean,
    },
    { scale: t.number },
  ),
  example: "attention('n', 1)",
  fault,
  params: (l, input) => {
    const [windowH, windowW] = windowOf(l.window, input)
    if (l.relative === false) return []
    if (l.relative === 'mirrored')
      return [{ name: 'attention_biases', shape: [l.heads, windowH * windowW], init: { dist: 'constant', a: 0 } }]
    const shape = tableOf({ heads: l.heads, windowH, windowW })
    return [{ name: 'relative_position_bias_table', shape, init: { dist: 'normal', a: 0.02 } }]
  },
  elaborate: (l, x, at) => {
    const [windowH, windowW] = windowOf(l.window, at.input)
    const attrs = {
      heads: l.heads,
      headFirst: Number(l.headFirst),
      windowH,
      windowW,
      grid: Number(l.grid),
      shiftH: windowH === at.input[2] ? 0 : height(l.shift),
      shiftW: windowW === at.input[3] ? 0 : width(l.shift),
      biased: Number(l.relative !== false),
      scale: l.scale ?? 1 / Math.sqrt(at.input[1] / (3 * l.heads)),
    }
    return withParams(at, (own) =>
      pipe(
        l.relative === 'mirrored'
          ? pipe(
              emit(at, 'mirror', { height: windowH, width: windowW }, own),
              map((table) => [table]),
            )
          : right(own),
        chain((table) => emit(at, 'attention', attrs, [x, ...table])),
      ),
    )
  },
}
