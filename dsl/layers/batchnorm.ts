// Batch normalisation. In, out: [B,C,H,W]. In training it is two ops, statistics (a reduction) and apply (element-wise),
// so that it stays exact under tiling; frozen, it applies its running statistics and is element-wise in every dimension.
// The gradient pass finds the running statistics by the layer's name: '<layer>.running_mean' and '<layer>.running_var'.
import { bind, chain, Do, type Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import type { GraphError } from '../../staging/core/errors'
import type { Ref } from '../../staging/ops/op'
import { type OneValueAChannel, oneValueAChannel, type ShapeText, shapeText } from '../messages'
import type { Dim, Layer, Shape } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import type { Mask } from '../masks'
import { layerCodec } from './codecs'
import type { LayerRule, LayerPosition } from './rule'
import { emit, withParams } from './site'

/** The layer that `batchNorm` creates. @example const norm: BatchNorm<'bn1'> = batchNorm('bn1') */
export interface BatchNorm<Name extends string, Frozen extends boolean = false> extends Layer<'batchNorm', Name> {
  readonly frozen: Frozen
  readonly eps: number
}

/** Options of `batchNorm`. @example const options: BatchNormOptions = { frozen: true, eps: 1e-3 } */
export interface BatchNormOptions<F extends boolean = boolean> {
  /**
   * If true, the layer uses its running statistics and never changes them. Default false.
   *
   * @example batchNorm('bn1', { frozen: true })
   */
  readonly frozen?: F | undefined
  /** Number added to the variance. Default 1e-5. @example batchNorm('bn1', { eps: 1e-3 }) */
  readonly eps?: number | undefined
}
const OPTIONS = optionsFor<BatchNormOptions>()('batchNorm', 'frozen', 'eps')

/**
 * Creates batch normalisation: each channel gets mean 0 and variance 1 over the batch and all pixels, then a
 * trained scale and shift. Tiles and ranks add up to the statistics of the whole batch. Predictions use the
 * running statistics.
 *
 * @param name Name of the layer; the parameters are `<name>.weight`, `<name>.bias`, `<name>.running_mean` and
 *   `<name>.running_var`.
 * @param options `frozen` keeps the running statistics fixed; `eps` is added to the variance.
 * @example seq(conv2d('conv1', 64, 3, { bias: false }), batchNorm('bn1'), relu())
 */
export const batchNorm = <N extends string, F extends boolean = false, Given = unknown>(
  name: N,
  options: BatchNormOptions<F> & Strays<Given, typeof OPTIONS> = {} as never,
): BatchNorm<N, F> => {
  const { frozen = false as F, eps = 1e-5 } = known(OPTIONS, options)
  return { kind: 'batchNorm', name, frozen, eps }
}

type BatchNormShape<L, S extends Shape> =
  L extends BatchNorm<any, true> ? S : S extends readonly [1, number, 1, 1] ? OneValueAChannel<ShapeText<S>> : S

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    batchNorm: BatchNormShape<L, S>
  }
  interface LayerFtOf<L> {
    batchNorm: L extends BatchNorm<any, true> ? Dim : 'C'
  }
  interface LayerSums<L> {
    batchNorm: L extends BatchNorm<any, true> ? never : 'B' | 'H' | 'W'
  }
  interface LayerParameters<L, S extends Shape> {
    batchNorm: MulLimbs<Low<S[1]>, '2'>
  }
  interface LayerState<L, S extends Shape> {
    batchNorm: MulLimbs<Low<S[1]>, '2'>
  }
}

/** Over the pixels inside of the mask; x is 0 outside. */
const masked = (
  mask: Mask,
  attrs: { readonly eps: number; readonly count: number },
  x: Ref,
  affine: readonly Ref[],
  at: LayerPosition,
): Either<GraphError, Ref> =>
  pipe(
    Do,
    bind('of', () => mask.stats(at.input[2], at.input[3], at.layer)),
    bind('all', () => emit(at, 'bn_stats', {}, [x])),
    bind('stats', ({ all, of }) => at.graph.op('masked_stats', { count: attrs.count }, [all, of], at.layer)),
    chain(({ stats, of }) => emit(at, 'bn_masked_apply', attrs, [x, stats[0]!, ...affine, of])),
  )

const training = (
  l: BatchNorm<string, boolean>,
  x: Ref,
  [gamma, beta]: readonly Ref[],
  at: LayerPosition,
): Either<GraphError, Ref> => {
  const [b, , h, w] = at.input
  const count = b * h * w
  if (at.mask && h * w > 1) return masked(at.mask, { eps: l.eps, count }, x, [gamma!, beta!], at)
  return pipe(
    emit(at, 'bn_stats', {}, [x]),
    chain((stats) => emit(at, 'bn_apply', { eps: l.eps, count }, [x, stats, gamma!, beta!])),
  )
}

export const batchNormRule: LayerRule<BatchNorm<string, boolean>> = {
  codec: layerCodec('batchNorm', { frozen: t.boolean, eps: t.number }),
  fault: (l, input, mode) =>
    !l.frozen && mode === 'train' && input[0] * input[2] * input[3] === 1 ? oneValueAChannel(shapeText(input)) : null,
  params: (_, [, c]) => [
    { name: 'weight', shape: [c], init: { dist: 'constant', a: 1 } },
    { name: 'bias', shape: [c], init: { dist: 'constant', a: 0 } },
    { name: 'running_mean', shape: [c], init: { dist: 'constant', a: 0 }, role: 'state' },
    { name: 'running_var', shape: [c], init: { dist: 'constant', a: 1 }, role: 'state' },
  ],
  elaborate: (l, x, at) =>
    withParams(at, ([gamma, beta, mean, variance]) =>
      l.frozen || at.mode === 'predict'
        ? emit(at, 'bn_frozen', { eps: l.eps }, [x, mean!, variance!, gamma!, beta!])
        : training(l, x, [gamma!, beta!], at),
    ),
}
