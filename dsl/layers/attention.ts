// Scaled dot-product attention within groups of pixels. In: [B,3C,H,W], the channels of queries, keys and values. Out: [B,C,H,W]. FT-compatible in B.
import { chain, type Either, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import type { GraphError } from '../../staging/core/errors'
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
  type TokenDoesNotFit,
  tokenDoesNotFit,
  type WindowDoesNotDivide,
  windowDoesNotDivide,
} from '../messages'
import { type Extent, type Height, height, type Layer, type Shape, type Sized, type Width, width } from '../net'
import type { AddLimbs } from '../numbers/limbs'
import type { Compare, Div, Low, Mul, Sub } from '../numbers/naturals'
import { extentCodec, layerCodec } from './codecs'
import type { Divides } from './conv2d'
import type { Ref } from '../../staging/ops/op'
import { type BadSize, badSize, type LayerPosition, type LayerRule, type ParamSpec } from './rule'
import { emit, withParams } from './site'
import { type ExtentText, extentText } from './window'

/**
 * A trained number for each distance of two pixels behind a class token, and three for the class token, as in BEiT.
 *
 * @example const relative: DistancesBehindToken<[14, 14]> = { behindToken: [14, 14] }
 */
export interface DistancesBehindToken<Size extends Extent = Extent> {
  /** Rows and columns of the pixels behind the class token. @example attention('attn', 12, { relative: { behindToken: 14 } }) */
  readonly behindToken: Size
}
/**
 * A network of two trained layers that computes the number of each distance, as in Swin V2. It has two inputs: the coordinate of
 * rows and that of columns. A distance d has the coordinate sign(d)·log(1 + reach·|d|)·factor.
 *
 * @example const relative: NetworkOfDistances<512> = { hidden: 512, reach: 8 / 7, factor: 1 / Math.log(8), bound: 16 }
 */
export interface NetworkOfDistances<Hidden extends number = number, B extends boolean = boolean> {
  /** Number of hidden values. @example attention('attn', 3, { window: 8, relative: { hidden: 512 } }) */
  readonly hidden: Hidden
  /** Factor of distances, of rows and columns. Default 1. @example attention('attn', 3, { relative: { hidden: 512, reach: 8 / 7 } }) */
  readonly reach?: Extent | undefined
  /** Factor of coordinates. Default 1. @example attention('attn', 3, { relative: { hidden: 512, factor: 1 / Math.log(8) } }) */
  readonly factor?: number | undefined
  /** With a bound, a number z becomes bound·sigmoid(z). Default: none. @example attention('attn', 3, { relative: { hidden: 512, bound: 16 } }) */
  readonly bound?: number | undefined
  /** If true, the second layer has a bias. Default false. @example attention('attn', 3, { relative: { hidden: 384, bias: true } }) */
  readonly bias?: B | undefined
  /**
   * Names of the two layers. Default: those of Swin V2, 'cpb_mlp.0' and 'cpb_mlp.2'.
   *
   * @example attention('attn', 3, { relative: { hidden: 384, layers: ['meta_mlp.fc1', 'meta_mlp.fc2'] } })
   */
  readonly layers?: readonly [string, string] | undefined
}

/** The trained bias of scores: none, a number for each distance in one of these forms, or a network that computes it. */
type Relative = boolean | 'mirrored' | 'reversed' | DistancesBehindToken | NetworkOfDistances

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
  C extends number | false = false,
> extends Layer<'attention', Name> {
  readonly heads: Heads
  readonly window: W
  readonly grid: G
  readonly shift: S
  readonly relative: R
  readonly headFirst: boolean
  readonly cosine: C
  readonly scale?: number
}

/**
 * Options of `attention`.
 *
 * @example const options: AttentionOptions<7, false, 3, true> = { window: 7, shift: 3, relative: true }
 */
export interface AttentionOptions<
  W extends Extent | 'image',
  G extends boolean,
  S extends Extent,
  R extends Relative,
  C extends number | false = number | false,
> {
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
   * number is the same for a distance and its mirror images, as in LeViT. `'reversed'`: the parameter has the heads first
   * and distances from keys to queries, as MaxViT of TensorFlow. An object: distances behind a class token, or a network
   * that computes the numbers. Default false.
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
  /**
   * Scores are cosines of queries and keys times a trained factor of each head, as in Swin V2. The option is the largest
   * logarithm of a factor. Default false.
   *
   * @example attention('attn', 3, { window: 8, cosine: Math.log(100) })
   */
  readonly cosine?: C | undefined
  /** Factor of the products. Default: 1 / √(C / heads), with `cosine` 1. @example attention('attn', 2, { scale: 0.125 }) */
  readonly scale?: number | undefined
}
const OPTIONS = optionsFor<AttentionOptions<Extent, boolean, Extent, Relative>>()(
  'attention',
  'window',
  'grid',
  'shift',
  'relative',
  'headFirst',
  'cosine',
  'scale',
)

/**
 * Creates scaled dot-product attention: y = softmax(scale·q·kᵀ)·v for each head. Its input has the channels of queries,
 * keys and values, e.g. from `pixelLinear`. No matrix of scores is stored; the backward pass computes them again.
 *
 * @param name Name of the layer; with `relative`, its parameter is `<name>.relative_position_bias_table`, or `<name>.attention_biases` if it is mirrored.
 * With `cosine`, it has `<name>.logit_scale`.
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
  const R extends Relative = false,
  C extends number | false = false,
  Given = unknown,
>(
  name: N,
  heads: H,
  options: AttentionOptions<W, G, S, R, C> & Strays<Given, typeof OPTIONS> = {} as never,
): Attention<N, H, W, G, S, R, C> => {
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
    cosine: options.cosine ?? (false as C),
    ...(scale === undefined ? {} : { scale }),
  }
}

// ---------------------------------------------------------------- its shape, as a type

type AnyAttention = Attention<any, number, Extent | 'image', boolean, Extent, Relative, number | false>
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
  ? OutputOf<L['heads'], L['window'], L['grid'], L['shift'], S> extends infer Out
    ? Out extends string
      ? Out
      : TokenFits<L['relative'], WindowOf<L['window'], S>, L['shift']> extends infer Fits
        ? Fits extends true
          ? Out
          : Fits
        : never
    : never
  : never
/** True, or the message for distances behind a class token that have another number of pixels than the window. */
type TokenFits<R, W extends Extent, Sh extends Extent> =
  R extends DistancesBehindToken<infer Size>
    ? number extends Height<W> | Width<W> | Height<Size> | Width<Size>
      ? true
      : [Height<W>, Sub<Width<W>, 1>, Sh] extends [1, Mul<Height<Size>, Width<Size>>, 0 | readonly [0, 0]]
        ? true
        : TokenDoesNotFit<`${Height<Size>}x${Width<Size>}`, ExtentText<W>>
    : true
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
/** Numbers of signed distances in a window, for all heads. */
type Signed<W extends Extent, Heads extends number> = Low<Mul<Mul<Reach<Height<W>>, Reach<Width<W>>>, Heads>>
type RelativeParameters<R, W extends Extent, Heads extends number> = R extends true | 'reversed'
  ? Signed<W, Heads>
  : R extends 'mirrored'
    ? Low<Mul<Mul<Height<W>, Width<W>>, Heads>>
    : R extends DistancesBehindToken<infer Size>
      ? AddLimbs<Signed<Size, Heads>, Low<Mul<3, Heads>>>
      : R extends NetworkOfDistances<infer K>
        ? AddLimbs<AddLimbs<Low<Mul<3, K>>, Low<Mul<Heads, K>>>, R extends { readonly bias: true } ? Low<Heads> : null>
        : null
type TableParameters<L, S extends Shape> = L extends AnyAttention
  ? AddLimbs<
      RelativeParameters<L['relative'], WindowOf<L['window'], S>, L['heads']>,
      L['cosine'] extends number ? Low<L['heads']> : null
    >
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
  const token = behindToken(l.relative)
  if (token && (window[0] !== 1 || window[1] !== 1 + token[0] * token[1] || width(l.shift) > 0))
    return tokenDoesNotFit(`${token[0]}x${token[1]}`, extentText(window))
  return l.grid && height(l.shift) + width(l.shift) > 0 ? gridNotShifted() : null
}

/** The size of the pixels behind a class token, if there is one. */
const behindToken = (relative: Relative): readonly [number, number] | undefined =>
  typeof relative === 'object' && 'behindToken' in relative
    ? [height(relative.behindToken), width(relative.behindToken)]
    : undefined
const networkOf = (relative: Relative): NetworkOfDistances | undefined =>
  typeof relative === 'object' && 'hidden' in relative ? relative : undefined

const NAMES = ['cpb_mlp.0', 'cpb_mlp.2'] as const
const WEIGHTS = { dist: 'normal', a: 0.02 } as const
const ZEROS = { dist: 'constant', a: 0 } as const

/** The parameters of the bias of scores. */
const biasParams = (l: AnyAttention, input: Shape): readonly ParamSpec[] => {
  const [windowH, windowW] = windowOf(l.window, input)
  const { heads, relative } = l
  if (relative === false) return []
  if (relative === 'mirrored') return [{ name: 'attention_biases', shape: [heads, windowH * windowW], init: ZEROS }]
  const table = 'relative_position_bias_table'
  if (relative === 'reversed') return [{ name: table, shape: [heads, 2 * windowH - 1, 2 * windowW - 1], init: WEIGHTS }]
  const network = networkOf(relative)
  if (network === undefined)
    return [{ name: table, shape: tableOf({ heads, windowH, windowW, across: behindToken(relative)?.[1] ?? 0 }), init: WEIGHTS }]
  const [first, second] = network.layers ?? NAMES
  return [
    { name: `${first}.weight`, shape: [network.hidden, 2], init: WEIGHTS },
    { name: `${first}.bias`, shape: [network.hidden], init: ZEROS },
    { name: `${second}.weight`, shape: [heads, network.hidden], init: WEIGHTS },
    ...(network.bias === true ? [{ name: `${second}.bias`, shape: [heads], init: ZEROS }] : []),
  ]
}

/** The table that attention reads, from the parameters of the bias. */
const tableFor = (l: AnyAttention, own: readonly Ref[], at: LayerPosition): Either<GraphError, readonly Ref[]> => {
  const [windowH, windowW] = windowOf(l.window, at.input)
  const network = networkOf(l.relative)
  const size = { height: windowH, width: windowW }
  const isMirrored = l.relative === 'mirrored'
  if (network === undefined && !isMirrored && l.relative !== 'reversed') return right(own)
  const made = network
    ? emit(
        at,
        'distance_scores',
        {
          ...size,
          reachH: height(network.reach ?? 1),
          reachW: width(network.reach ?? 1),
          factor: network.factor ?? 1,
          bound: network.bound ?? 0,
        },
        own,
      )
    : emit(at, 'mirror', { ...size, isSigned: Number(!isMirrored) }, own)
  return pipe(
    made,
    map((table) => [table]),
  )
}

export const attentionRule: LayerRule<AnyAttention> = {
  masked: 'refused',
  codec: layerCodec(
    'attention',
    {
      heads: t.number,
      window: t.union([extentCodec, t.literal('image')]),
      grid: t.boolean,
      shift: extentCodec,
      relative: t.union([
        t.boolean,
        t.literal('mirrored'),
        t.literal('reversed'),
        t.readonly(t.exact(t.type({ behindToken: extentCodec }))),
        t.readonly(
          t.exact(
            t.intersection([
              t.type({ hidden: t.number }),
              t.partial({
                reach: extentCodec,
                factor: t.number,
                bound: t.number,
                bias: t.boolean,
                layers: t.readonly(t.tuple([t.string, t.string])),
              }),
            ]),
          ),
        ),
      ]),
      headFirst: t.boolean,
      cosine: t.union([t.number, t.literal(false)]),
    },
    { scale: t.number },
  ),
  example: "attention('n', 1)",
  fault,
  params: (l, input) => [
    ...(l.cosine === false
      ? []
      : [{ name: 'logit_scale', shape: [l.heads, 1, 1], init: { dist: 'constant', a: Math.log(10) } } as const]),
    ...biasParams(l, input),
  ],
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
      scale: l.scale ?? (l.cosine === false ? 1 / Math.sqrt(at.input[1] / (3 * l.heads)) : 1),
      across: behindToken(l.relative)?.[1] ?? 0,
    }
    return withParams(at, (all) => {
      const [factors, own] = l.cosine === false ? [undefined, all] : [all[0]!, all.slice(1)]
      const unit = { heads: l.heads, headFirst: Number(l.headFirst), most: Number(l.cosine) }
      return pipe(
        factors === undefined ? right(x) : emit(at, 'unit_heads', unit, [x, factors]),
        chain((of) =>
          pipe(
            tableFor(l, own, at),
            chain((table) => emit(at, 'attention', attrs, [of, ...table])),
          ),
        ),
      )
    })
  },
}
