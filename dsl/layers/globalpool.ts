// Pooling to a fixed size. globalAvgPool: [B,C,H,W] to [B,C,1,1], a reduction that tiles accumulate into.
// adaptiveAvgPool: to [B,C,h,w], in PyTorch's windows. If h and w divide the input's, all windows have the same size; if they are multiples, every pixel
// is repeated alike; else windows differ in size. An input that has the size already passes as it is, without an op.
import { chain, type Either, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../../staging/core/errors'
import type { Ref } from '../../staging/ops/op'
import { type Dim, type Extent, type Height, height, type Layer, type Shape, type Width, width } from '../net'
import { extentCodec, layerCodec } from './codecs'
import { type BadSize, badSize, type LayerRule, type LayerPosition } from './rule'
import { emit } from './site'

/**
 * The layer that `globalAvgPool` creates.
 *
 * @example const pool: GlobalAvgPool<'pool'> = globalAvgPool('pool')
 */
export interface GlobalAvgPool<Name extends string = ''> extends Layer<'globalAvgPool', Name> {}
/**
 * The layer that `adaptiveAvgPool` creates.
 *
 * @example const pool: AdaptiveAvgPool<'avgpool', 7> = adaptiveAvgPool('avgpool', 7)
 */
export interface AdaptiveAvgPool<Name extends string, Size extends Extent> extends Layer<'adaptiveAvgPool', Name> {
  readonly size: Size
}

/**
 * Creates a layer that averages each channel over the whole image.
 *
 * @param name Name of the layer. Default: its kind.
 * @example seq(relu(), globalAvgPool('pool'), linear('fc', 10))
 */
export const globalAvgPool = <N extends string = ''>(name?: N): GlobalAvgPool<N> => ({
  kind: 'globalAvgPool',
  name: name ?? ('' as N),
})

/**
 * Creates average pooling to a fixed output size, as PyTorch's `AdaptiveAvgPool2d`. If the output size does not divide
 * the input size, windows differ in size and may overlap.
 *
 * @param name Name of the layer.
 * @param size Output size in pixels: one number, or [height, width].
 * @example seq(adaptiveAvgPool('avgpool', 7), flatten(), linear('fc', 4096))
 */
export const adaptiveAvgPool = <N extends string, const E extends Extent>(name: N, size: E): AdaptiveAvgPool<N, E> => ({
  kind: 'adaptiveAvgPool',
  name,
  size,
})

type AdaptiveShape<L, S extends Shape> =
  L extends AdaptiveAvgPool<any, infer E>
    ? BadSize<[['size', E, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : number extends S[2] | S[3]
          ? [S[0], S[1], number, number]
          : [Height<E>, Width<E>] extends [infer H extends number, infer W extends number]
            ? [S[0], S[1], H, W]
            : never
      : never
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    globalAvgPool: [S[0], S[1], 1, 1]
    adaptiveAvgPool: AdaptiveShape<L, S>
  }
  interface LayerFt {
    globalAvgPool: 'B' | 'C'
    adaptiveAvgPool: Dim
  }
  interface LayerSums<L> {
    globalAvgPool: 'H' | 'W'
  }
}

/** The mean over all pixels of an image. */
export const meanOf = (x: Ref, at: LayerPosition): Either<GraphError, Ref> =>
  emit(at, 'global_avg_pool', { count: at.input[2] * at.input[3] }, [x])

/** Far below the share of one pixel. */
const LEAST_SHARE = 1e-12

/** The mean of the pixels inside of the mask, from that of all pixels of values that are 0 outside. */
export const overShare = (mean: Ref, at: LayerPosition): Either<GraphError, Ref> => {
  const [, , h, w] = at.input
  return at.mask === undefined || h * w === 1
    ? right(mean)
    : pipe(
        at.mask.at(h, w, at.layer),
        chain((mask) => meanOf(mask, at)),
        chain((share) => emit(at, 'clamp', { low: LEAST_SHARE, high: 1 }, [share])),
        chain((share) => emit(at, 'reciprocal', {}, [share])),
        chain((factor) => emit(at, 'multiply', { over: 2 }, [mean, factor])),
      )
}

export const globalAvgPoolRule: LayerRule<GlobalAvgPool<string>> = {
  codec: layerCodec('globalAvgPool', {}),
  elaborate: (_, x, at) =>
    pipe(
      meanOf(x, at),
      chain((y) => overShare(y, at)),
    ),
}

const fits = (n: number, size: number): boolean => n % size === 0 || size % n === 0

/** Averages where there are more pixels than wanted. */
const averaged = (l: AdaptiveAvgPool<string, Extent>, x: Ref, at: LayerPosition): Either<GraphError, Ref> => {
  const [kernelH, kernelW] = [Math.max(1, at.input[2] / height(l.size)), Math.max(1, at.input[3] / width(l.size))]
  if (kernelH === 1 && kernelW === 1) return right(x)
  const window = { kernelH, kernelW, strideH: kernelH, strideW: kernelW }
  return emit(at, 'avg_pool', { ...window, padTop: 0, padLeft: 0, ceil: 0, countIncludePad: 1, padBottom: 0, padRight: 0 }, [x])
}

/** Repeats pixels where there are fewer. */
const repeated = (l: AdaptiveAvgPool<string, Extent>, x: Ref, at: LayerPosition): Either<GraphError, Ref> => {
  const [outH, outW] = [height(l.size), width(l.size)]
  const [inH, inW] = [Math.min(outH, at.input[2]), Math.min(outW, at.input[3])]
  return inH === outH && inW === outW ? right(x) : emit(at, 'upsample', { mode: 0, inH, inW, outH, outW }, [x])
}

export const adaptiveAvgPoolRule: LayerRule<AdaptiveAvgPool<string, Extent>> = {
  masked: 'refused',
  codec: layerCodec('adaptiveAvgPool', { size: extentCodec }),
  fault: (l) => badSize(['size', l.size, 1]),
  elaborate: (l, x, at) => {
    const [, , inH, inW] = at.input
    const [outH, outW] = [height(l.size), width(l.size)]
    return fits(inH, outH) && fits(inW, outW)
      ? pipe(
          averaged(l, x, at),
          chain((y) => repeated(l, y, at)),
        )
      : emit(at, 'upsample', { mode: 3, inH, inW, outH, outW }, [x])
  },
}
