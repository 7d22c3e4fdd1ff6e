// Max and average pooling. In: [B,C,H,W]. Out: [B,C,H',W'], sizes as PyTorch counts them, ceil mode included.
// FT-compatible in every dimension. The stride is the kernel and the padding 0 unless given.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { type PadTooLarge, padTooLarge, type ShapeText, shapeText, type WindowTooLarge, windowTooLarge } from '../messages'
import { type Dim, type Extent, type Height, height, type Layer, type Shape, type Width, width } from '../net'
import type { Compare, Mul } from '../numbers/naturals'
import { extentCodec, layerCodec } from './codecs'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit } from './site'
import { type ExtentText, extentText, type PoolHeight, type PoolWidth, windowFits } from './window'

interface Pool<
  Kind extends string,
  Name extends string,
  Kernel extends Extent,
  Stride extends Extent,
  Pad extends Extent,
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
  Pad extends Extent = 0,
  Ceil extends boolean = false,
> extends Pool<'maxPool', Name, Kernel, Stride, Pad, Ceil> {}
/** The layer that `avgPool` creates. @example const pool: AvgPool<'pool1', 2> = avgPool('pool1', 2) */
export interface AvgPool<
  Name extends string,
  Kernel extends Extent,
  Stride extends Extent = Kernel,
  Pad extends Extent = 0,
  Ceil extends boolean = false,
> extends Pool<'avgPool', Name, Kernel, Stride, Pad, Ceil> {
  /** True if zeros of the padding count in the mean. */
  readonly countIncludePad: boolean
}

/** Options of `maxPool`. @example const options: PoolOptions = { stride: 2, pad: 1 } */
export interface PoolOptions<S extends Extent = Extent, P extends Extent = Extent, C extends boolean = boolean> {
  /** Step from one window to the next, in pixels. Default: the kernel size. @example maxPool(3, { stride: 2 }) */
  readonly stride?: S | undefined
  /** Rows and columns of padding on each side, in pixels. Default 0. @example maxPool(3, { stride: 2, pad: 1 }) */
  readonly pad?: P | undefined
  /** If true, the last window may reach past the border. Default false. @example maxPool(3, { stride: 2, ceil: true }) */
  readonly ceil?: C | undefined
}
/**
 * Options of `avgPool`.
 *
 * @example const options: AvgPoolOptions = { stride: 1, pad: 1, countIncludePad: false }
 */
export interface AvgPoolOptions<S extends Extent = Extent, P extends Extent = Extent, C extends boolean = boolean>
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

const pool = <K extends string>(kind: K, name: string, kernel: Extent, o: PoolOptions<Extent, Extent, boolean>) => ({
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
  const P extends Extent = 0,
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
  const P extends Extent = 0,
  C extends boolean = false,
  Given = unknown,
>(name: N, kernel: K, options?: PoolOptions<S, P, C> & Strays<Given, typeof MAX_POOL>): MaxPool<N, K, S, P, C>
export function maxPool(...args: readonly unknown[]): MaxPool<string, Extent, Extent, Extent, boolean> {
  const { name, kernel, options } = poolArgs<PoolOptions<Extent, Extent, boolean>>(args)
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
  const P extends Extent = 0,
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
  const P extends Extent = 0,
  C extends boolean = false,
  Given = unknown,
>(name: N, kernel: K, options?: AvgPoolOptions<S, P, C> & Strays<Given, typeof AVG_POOL>): AvgPool<N, K, S, P, C>
export function avgPool(...args: readonly unknown[]): AvgPool<string, Extent, Extent, Extent, boolean> {
  const { name, kernel, options } = poolArgs<AvgPoolOptions<Extent, Extent, boolean>>(args)
  return { ...pool('avgPool', name, kernel, known(AVG_POOL, options)), countIncludePad: options.countIncludePad ?? true }
}

// ---------------------------------------------------------------- shapes, as types

type PoolShape<L, S extends Shape> =
  L extends Pool<any, any, infer K, infer St, infer P, infer C>
    ? BadSize<[['kernel', K, 1], ['stride', St, 1], ['padding', P, 0]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : HalfAtMost<P, K> extends false
          ? PadTooLarge<ExtentText<P>, ExtentText<K>>
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

type AnyPool = Pool<string, string, Extent, Extent, Extent, boolean>
const poolProps = { kernel: extentCodec, stride: extentCodec, pad: extentCodec, ceil: t.boolean }

const fault = (l: AnyPool, input: Shape): string | null => {
  const size = badSize(['kernel', l.kernel, 1], ['stride', l.stride, 1], ['padding', l.pad, 0])
  if (size !== null) return size
  if (2 * height(l.pad) > height(l.kernel) || 2 * width(l.pad) > width(l.kernel))
    return padTooLarge(extentText(l.pad), extentText(l.kernel))
  return windowFits(l, input) ? null : windowTooLarge(extentText(l.kernel), shapeText(input))
}

const attrs = (l: AnyPool) => ({
  kernelH: height(l.kernel),
  kernelW: width(l.kernel),
  strideH: height(l.stride),
  strideW: width(l.stride),
  padTop: height(l.pad),
  padLeft: width(l.pad),
  ceil: l.ceil ? 1 : 0,
})

export const maxPoolRule: LayerRule<MaxPool<string, Extent, Extent, Extent, boolean>> = {
  codec: layerCodec('maxPool', poolProps),
  fault,
  elaborate: (l, x, at) => emit(at, 'max_pool', attrs(l), [x]),
}

export const avgPoolRule: LayerRule<AvgPool<string, Extent, Extent, Extent, boolean>> = {
  codec: layerCodec('avgPool', { ...poolProps, countIncludePad: t.boolean }),
  fault,
  elaborate: (l, x, at) =>
    emit(
      at,
      'avg_pool',
      {
        ...attrs(l),
        countIncludePad: l.countIncludePad ? 1 : 0,
        padBottom: height(l.pad),
        padRight: width(l.pad),
      },
      [x],
    ),
}
