// Max and average pooling. In: [B,C,H,W]. Out: [B,C,H',W'], sizes as PyTorch counts them, ceil mode included.
// FT-compatible in every dimension. The stride is the kernel and the padding 0 unless given.
import type { Either } from 'fp-ts/Either'
import * as t from 'io-ts'
import type { GraphError } from '../../staging/core/errors'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import type { Ref } from '../../staging/ops/op'
import { maxPads } from '../../staging/ops/pool'
import { type PadTooLarge, padTooLarge, type ShapeText, shapeText, type WindowTooLarge, windowTooLarge } from '../messages'
import { type Dim, type Extent, type Height, height, type Layer, type Shape, type Width, width } from '../net'
import type { Compare, Mul } from '../numbers/naturals'
import { extentCodec, layerCodec, sidesCodec } from './codecs'
import { type BadSize, badSize, type LayerRule } from './rule'
import {
  type Far,
  far,
  type Near,
  near,
  type PaddingText,
  paddingText,
  type SidePadding,
  type SidesFault,
  sidesFault,
  sidesOf,
} from './sides'
import { emit } from './site'
import { type ExtentText, extentText, type PoolHeight, type PoolWidth, windowFits } from './window'

interface Pool<
  Kind extends string,
  Name extends string,
  Kernel extends Extent,
  Stride extends Extent,
  Pad extends SidePadding,
  Ceil extends boolean,
> extends Layer<Kind, Name> {
  readonly kernel: Kernel
  readonly stride: Stride
  readonly pad: Pad
  /** True if a last partial window counts. */
  readonly ceil: Ceil
}

/** The layer that `maxPool` creates. @example const pool: MaxPool<'pool1', 2> = maxPool('pool1', 2) */
export interface MaxPool<
  Name extends string,
  Kernel extends Extent,
  Stride extends Extent = Kernel,
  Pad extends SidePadding = 0,
  Ceil extends boolean = false,
> extends Pool<'maxPool', Name, Kernel, Stride, Pad, Ceil> {}
/** The layer that `avgPool` creates. @example const pool: AvgPool<'pool1', 2> = avgPool('pool1', 2) */
export interface AvgPool<
  Name extends string,
  Kernel extends Extent,
  Stride extends Extent = Kernel,
  Pad extends SidePadding = 0,
  Ceil extends boolean = false,
> extends Pool<'avgPool', Name, Kernel, Stride, Pad, Ceil> {
  /** True if zeros of the padding count in the mean. */
  readonly countIncludePad: boolean
}

/** Options of `maxPool`. @example const options: PoolOptions = { stride: 2, pad: 1 } */
export interface PoolOptions<S extends Extent = Extent, P extends SidePadding = SidePadding, C extends boolean = boolean> {
  /** Step from one window to the next, in pixels. Default: the kernel size. @example maxPool(3, { stride: 2 }) */
  readonly stride?: S | undefined
  /**
   * Padding in pixels: a number, [height, width], or one number per side. It is never a maximum. Default 0.
   *
   * @example maxPool(3, { stride: 2, pad: { top: 0, left: 0, bottom: 1, right: 1 } })
   */
  readonly pad?: P | undefined
  /** If true, the last window may reach past the border. Default false. @example maxPool(3, { stride: 2, ceil: true }) */
  readonly ceil?: C | undefined
}
/**
 * Options of `avgPool`.
 *
 * @example const options: AvgPoolOptions = { stride: 1, pad: 1, countIncludePad: false }
 */
export interface AvgPoolOptions<S extends Extent = Extent, P extends SidePadding = SidePadding, C extends boolean = boolean>
  extends PoolOptions<S, P, C> {
  /**
   * If true, zeros of the padding count in the mean. Default true.
   *
   * @example avgPool(3, { stride: 1, pad: 1, countIncludePad: false })
   */
  readonly countIncludePad?: boolean | undefined
}
const MAX_POOL = optionsFor<PoolOptions>()('maxPool', 'stride', 'pad', 'ceil')
const AVG_POOL = optionsFor<AvgPoolOptions>()('avgPool', 'stride', 'pad', 'ceil', 'countIncludePad')

interface PoolArgs<O> {
  readonly name: string
  readonly kernel: Extent
  readonly options: O
}
/** Tells `(name, kernel, options)` from `(kernel, options)`. */
const poolArgs = <O extends object>(args: readonly unknown[]): PoolArgs<O> => {
  const [name, kernel, options] = typeof args[0] === 'string' ? args : ['', ...args]
  return { name: name as string, kernel: kernel as Extent, options: (options ?? {}) as O }
}

const pool = <K extends string>(kind: K, name: string, kernel: Extent, o: PoolOptions<Extent, SidePadding, boolean>) => ({
  kind,
  name,
  kernel,
  stride: o.stride ?? kernel,
  pad: o.pad ?? 0,
  ceil: o.ceil ?? false,
})

/**
 * Creates max pooling. The name is optional: `maxPool(2)` and `maxPool('pool1', 2)` are both valid. The stride
 * is the kernel size by default.
 *
 * @example seq(conv2d('conv1', 64, 3), maxPool('pool1', 2), maxPool(3, { stride: 2, pad: 1 }))
 */
export function maxPool<
  const K extends Extent,
  const S extends Extent = K,
  const P extends SidePadding = 0,
  C extends boolean = false,
  Given = unknown,
>(kernel: K, options?: PoolOptions<S, P, C> & Strays<Given, typeof MAX_POOL>): MaxPool<'', K, S, P, C>
/**
 * Creates max pooling. The name is optional: `maxPool(2)` and `maxPool('pool1', 2)` are both valid. The stride
 * is the kernel size by default.
 *
 * @example seq(conv2d('conv1', 64, 3), maxPool('pool1', 2), maxPool(3, { stride: 2, pad: 1 }))
 */
export function maxPool<
  N extends string,
  const K extends Extent,
  const S extends Extent = K,
  const P extends SidePadding = 0,
  C extends boolean = false,
  Given = unknown,
>(name: N, kernel: K, options?: PoolOptions<S, P, C> & Strays<Given, typeof MAX_POOL>): MaxPool<N, K, S, P, C>
export function maxPool(...args: readonly unknown[]): MaxPool<string, Extent, Extent, SidePadding, boolean> {
  const { name, kernel, options } = poolArgs<PoolOptions<Extent, SidePadding, boolean>>(args)
  return pool('maxPool', name, kernel, known(MAX_POOL, options))
}

/**
 * Creates average pooling. The name is optional: `avgPool(2)` and `avgPool('pool1', 2)` are both valid. The
 * stride is the kernel size by default.
 *
 * @example seq(avgPool('pool1', 2), avgPool(3, { stride: 2, pad: 1, countIncludePad: false }))
 */
export function avgPool<
  const K extends Extent,
  const S extends Extent = K,
  const P extends SidePadding = 0,
  C extends boolean = false,
  Given = unknown,
>(kernel: K, options?: AvgPoolOptions<S, P, C> & Strays<Given, typeof AVG_POOL>): AvgPool<'', K, S, P, C>
/**
 * Creates average pooling. The name is optional: `avgPool(2)` and `avgPool('pool1', 2)` are both valid. The
 * stride is the kernel size by default.
 *
 * @example seq(avgPool('pool1', 2), avgPool(3, { stride: 2, pad: 1, countIncludePad: false }))
 */
export function avgPool<
  N extends string,
  const K extends Extent,
  const S extends Extent = K,
  const P extends SidePadding = 0,
  C extends boolean = false,
  Given = unknown,
>(name: N, kernel: K, options?: AvgPoolOptions<S, P, C> & Strays<Given, typeof AVG_POOL>): AvgPool<N, K, S, P, C>
export function avgPool(...args: readonly unknown[]): AvgPool<string, Extent, Extent, SidePadding, boolean> {
  const { name, kernel, options } = poolArgs<AvgPoolOptions<Extent, SidePadding, boolean>>(args)
  return { ...pool('avgPool', name, kernel, known(AVG_POOL, options)), countIncludePad: options.countIncludePad ?? true }
}

// ---------------------------------------------------------------- shapes, as types

type PoolShape<L, S extends Shape> =
  L extends Pool<any, any, infer K, infer St, infer P, infer C>
    ? BadSize<[['kernel', K, 1], ['stride', St, 1], ['padding', Near<P>, 0], ['padding', Far<P>, 0]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : SidesAtMost<P, K> extends false
          ? SidesFault<P> extends infer Side extends string
            ? Side
            : PadTooLarge<PaddingText<P>, ExtentText<K>>
          : [PoolHeight<S[2], K, St, P, C>, PoolWidth<S[3], K, St, P, C>] extends [infer H extends number, infer W extends number]
            ? [S[0], S[1], H, W]
            : WindowTooLarge<ExtentText<K>, ShapeText<S>>
      : never
    : never

type Half<P extends number, K extends number> = P extends 0
  ? true
  : number extends P | K
    ? true
    : Compare<Mul<2, P>, K> extends 'more'
      ? false
      : true
type HalfAtMost<P extends Extent, K extends Extent> = Half<Height<P>, Height<K>> extends true ? Half<Width<P>, Width<K>> : false
/** True if no window has more padding than pixels, and the sides exist. */
type SidesAtMost<P extends SidePadding, K extends Extent> = P extends Extent
  ? HalfAtMost<P, K>
  : SidesFault<P> extends string
    ? false
    : HalfAtMost<Near<P>, K> extends true
      ? HalfAtMost<Far<P>, K>
      : false

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    maxPool: PoolShape<L, S>
    avgPool: PoolShape<L, S>
  }
  interface LayerFt {
    maxPool: Dim
    avgPool: Dim
  }
}

// ---------------------------------------------------------------- at run time

type AnyPool = Pool<string, string, Extent, Extent, SidePadding, boolean>
const poolProps = { kernel: extentCodec, stride: extentCodec, pad: sidesCodec, ceil: t.boolean }

const fault = (l: AnyPool, input: Shape): string | null => {
  const pad = sidesOf(l.pad)
  const size =
    badSize(['kernel', l.kernel, 1], ['stride', l.stride, 1], ['padding', near(pad), 0], ['padding', far(pad), 0]) ??
    sidesFault(l.pad)
  if (size !== null) return size
  if (2 * Math.max(pad.top, pad.bottom) > height(l.kernel) || 2 * Math.max(pad.left, pad.right) > width(l.kernel))
    return padTooLarge(paddingText(l.pad), extentText(l.kernel))
  return windowFits(l, input) ? null : windowTooLarge(extentText(l.kernel), shapeText(input))
}

const windows = (l: AnyPool) => ({
  kernelH: height(l.kernel),
  kernelW: width(l.kernel),
  strideH: height(l.stride),
  strideW: width(l.stride),
  ceil: l.ceil ? 1 : 0,
})

const maxAttrs = (l: AnyPool) => {
  const { top, left, bottom, right } = sidesOf(l.pad)
  return { ...windows(l), ...maxPads(top, left, bottom, right) }
}

const avgAttrs = (l: AvgPool<string, Extent, Extent, SidePadding, boolean>) => {
  const { top, left, bottom, right } = sidesOf(l.pad)
  const pads = { padTop: top, padLeft: left, padBottom: bottom, padRight: right }
  return { ...windows(l), ...pads, countIncludePad: l.countIncludePad ? 1 : 0 }
}

export const maxPoolRule: LayerRule<MaxPool<string, Extent, Extent, SidePadding, boolean>> = {
  codec: layerCodec('maxPool', poolProps),
  fault,
  elaborate: (l, x, at) => {
    const maximum = (of: Ref): Either<GraphError, Ref> => emit(at, 'max_pool', maxAttrs(l), [of])
    return at.mask ? at.mask.highest(x, at.layer, maximum) : maximum(x)
  },
}

export const avgPoolRule: LayerRule<AvgPool<string, Extent, Extent, SidePadding, boolean>> = {
  codec: layerCodec('avgPool', { ...poolProps, countIncludePad: t.boolean }),
  fault,
  elaborate: (l, x, at) => emit(at, 'avg_pool', avgAttrs(l), [x]),
}
