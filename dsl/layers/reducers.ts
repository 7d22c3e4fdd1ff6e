// Reductions of an image to one pixel, beside the mean (globalpool.ts): the maximum, a generalised mean, and gated attention over all pixels.
// In: [B,C,H,W]. Out: [B,C,1,1]. Each is a sequence of ops that tiles accumulate into, so the whole image is never held at once.
// Worked example, the maximum of 512 × 300 pixels: windows of 8 × 8 leave 64 × 38, then 8 × 5, then 1 × 1.
import { bind, chain, Do, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import type { Ref } from '../../staging/ops/op'
import type { Dim, Layer, Shape } from '../net'
import type { AddLimbs, MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import { meanOf, overShare } from './globalpool'
import { weightAndBias, type WithBias } from './init'
import { type BadSize, badSize, type LayerPosition, type LayerRule, type ParamSpec } from './rule'
import { emit, emitAfter, type Made, withParams } from './site'

/** The layer that `globalMaxPool` creates. @example const pool: GlobalMaxPool = globalMaxPool() */
export interface GlobalMaxPool<Name extends string = ''> extends Layer<'globalMaxPool', Name> {}
/**
 * The layer that `generalizedMeanPool` creates.
 *
 * @example const pool: GeneralizedMeanPool = generalizedMeanPool(3)
 */
export interface GeneralizedMeanPool<Name extends string = ''> extends Layer<'generalizedMeanPool', Name> {
  readonly power: number
  readonly eps: number
}
/**
 * The layer that `gatedAttentionPool` creates.
 *
 * @example const pool: GatedAttentionPool<'pool', 128> = gatedAttentionPool('pool', 128)
 */
export interface GatedAttentionPool<Name extends string, Hidden extends number> extends Layer<'gatedAttentionPool', Name> {
  readonly hidden: Hidden
}

/**
 * Creates a layer that takes the maximum of each channel over the whole image.
 *
 * @param name Name of the layer. Default: its kind.
 * @example seq(relu(), globalMaxPool(), linear('fc', 10))
 */
export const globalMaxPool = <N extends string = ''>(name?: N): GlobalMaxPool<N> => ({
  kind: 'globalMaxPool',
  name: name ?? ('' as N),
})

/**
 * Creates a layer that takes a generalised mean of each channel over the whole image: the `power`-th root of the mean
 * of `power`-th powers. Power 1 is the mean; large powers come close to the maximum. The power is not trained.
 *
 * @param power Power, above 0. Default 3.
 * @param eps Smaller inputs count as this number. Default 1e-6.
 * @param name Name of the layer. Default: its kind.
 * @example seq(relu(), generalizedMeanPool(3), linear('fc', 10))
 */
export const generalizedMeanPool = <N extends string = ''>(power = 3, eps = 1e-6, name?: N): GeneralizedMeanPool<N> => ({
  kind: 'generalizedMeanPool',
  name: name ?? ('' as N),
  power,
  eps,
})

/**
 * Creates gated attention pooling (Ilse et al., 2018) over all pixels of an image or slide. Each pixel gets the score
 * w·(tanh(V·h) ⊙ sigmoid(U·h)) of its channels h. The output is the mean of h, weighted by the softmax of the scores over
 * the whole image. Scores beyond ±80 count as ±80.
 *
 * @param name Name of the layer; the parameters are `<name>.V.weight`, `<name>.U.weight`, `<name>.w.weight` and their biases.
 * @param hidden Number of rows of V and U.
 * @example seq(conv2d('conv1', 64, 3), relu(), gatedAttentionPool('pool', 128), linear('fc', 2))
 */
export const gatedAttentionPool = <N extends string, H extends number>(name: N, hidden: H): GatedAttentionPool<N, H> => ({
  kind: 'gatedAttentionPool',
  name,
  hidden,
})

type HiddenOf<L> = L extends { readonly hidden: infer H extends number } ? H : never
type Gate<L, S extends Shape> = WithBias<MulLimbs<Low<HiddenOf<L>>, `${S[1]}`>, HiddenOf<L>, true>

type AttendedShape<L, S extends Shape> =
  BadSize<[['number of rows', HiddenOf<L>, 1]]> extends infer Bad ? (Bad extends string ? Bad : [S[0], S[1], 1, 1]) : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    globalMaxPool: [S[0], S[1], 1, 1]
    generalizedMeanPool: [S[0], S[1], 1, 1]
    gatedAttentionPool: AttendedShape<L, S>
  }
  interface LayerFt {
    globalMaxPool: Dim
    generalizedMeanPool: 'B' | 'C'
    gatedAttentionPool: 'B'
  }
  interface LayerSums<L> {
    generalizedMeanPool: 'H' | 'W'
    gatedAttentionPool: 'H' | 'W'
  }
  interface LayerParameters<L, S extends Shape> {
    gatedAttentionPool: AddLimbs<AddLimbs<Gate<L, S>, Gate<L, S>>, AddLimbs<Low<HiddenOf<L>>, Low<1>>>
  }
}

// ---------------------------------------------------------------- at run time

/** Sides of the windows of one step: their results are few beside the image. */
const SIDE = 8

const maximum = (x: Ref, at: LayerPosition, h: number, w: number): Made => {
  if (h === 1 && w === 1) return right(x)
  const [kernelH, kernelW] = [Math.min(SIDE, h), Math.min(SIDE, w)]
  const attrs = { kernelH, kernelW, strideH: kernelH, strideW: kernelW, padTop: 0, padLeft: 0, ceil: 1 }
  return pipe(
    emit(at, 'max_pool', attrs, [x]),
    chain((y) => maximum(y, at, Math.ceil(h / kernelH), Math.ceil(w / kernelW))),
  )
}

export const globalMaxPoolRule: LayerRule<GlobalMaxPool<string>> = {
  codec: layerCodec('globalMaxPool', {}),
  example: 'globalMaxPool()',
  elaborate: (_, x, at) => {
    const [, , h, w] = at.input
    const whole = (of: Ref): Made => maximum(of, at, h, w)
    return at.mask && h * w > 1 ? at.mask.highest(x, at.layer, whole) : whole(x)
  },
}

const mean = (at: LayerPosition) => chain((x: Ref) => meanOf(x, at))
/** An image may have no pixel inside of its mask. */
const nonzero = (at: LayerPosition) => (made: Made) =>
  at.mask ? emitAfter(at, 'clamp', { low: LEAST, high: LARGEST })(made) : made
const [LEAST, LARGEST] = [1e-37, 3.4e38]
/** The values inside of the mask, 0 outside. */
const inside = (at: LayerPosition) => chain((x: Ref) => (at.mask ? at.mask.inside(x, at.layer) : right(x)))

export const generalizedMeanPoolRule: LayerRule<GeneralizedMeanPool<string>> = {
  codec: layerCodec('generalizedMeanPool', { power: t.number, eps: t.number }),
  example: 'generalizedMeanPool(3)',
  fault: (l) => (l.power > 0 && l.eps > 0 ? null : `power is ${l.power} and eps is ${l.eps}; allowed: numbers above 0`),
  elaborate: (l, x, at) => {
    const raised = (power: number) => (y: Made) =>
      pipe(y, emitAfter(at, 'log'), emitAfter(at, 'affine', { factor: power, shift: 0 }), emitAfter(at, 'exp'))
    return pipe(
      right(x),
      emitAfter(at, 'clamp', { low: l.eps, high: LARGEST }),
      raised(l.power),
      inside(at),
      mean(at),
      chain((y) => overShare(y, at)),
      raised(1 / l.power),
    )
  },
}

/** The sum of e^score over the pixels of any image is finite up to this score. */
const MOST_SCORE = 80

const gate = (name: string, rows: number, columns: number): readonly ParamSpec[] =>
  weightAndBias({ out: rows, bias: true, init: 'fan-in-uniform' }, [rows, columns]).map((p) => ({
    ...p,
    name: `${name}.${p.name}`,
  }))

export const gatedAttentionPoolRule: LayerRule<GatedAttentionPool<string, number>> = {
  codec: layerCodec('gatedAttentionPool', { hidden: t.number }),
  example: "gatedAttentionPool('n', 3)",
  fault: (l) => badSize(['number of rows', l.hidden, 1]),
  params: (l, [, c]) => [...gate('V', l.hidden, c), ...gate('U', l.hidden, c), ...gate('w', 1, l.hidden)],
  elaborate: (_, x, at) =>
    withParams(at, ([vw, vb, uw, ub, ww, wb]) =>
      pipe(
        Do,
        bind('v', () => emitAfter(at, 'tanh')(emit(at, 'linear', {}, [x, vw!, vb!]))),
        bind('u', () => emitAfter(at, 'sigmoid')(emit(at, 'linear', {}, [x, uw!, ub!]))),
        bind('gated', ({ v, u }) => emit(at, 'multiply', { over: 0 }, [v, u])),
        bind('weights', ({ gated }) =>
          pipe(
            emit(at, 'linear', {}, [gated, ww!, wb!]),
            emitAfter(at, 'clamp', { low: -MOST_SCORE, high: MOST_SCORE }),
            emitAfter(at, 'exp'),
            inside(at),
          ),
        ),
        bind('sum', ({ weights }) => mean(at)(emit(at, 'multiply', { over: 2 }, [x, weights]))),
        bind('share', ({ weights }) => pipe(right(weights), mean(at), nonzero(at), emitAfter(at, 'reciprocal'))),
        chain(({ sum, share }) => emit(at, 'multiply', { over: 2 }, [sum, share])),
      ),
    ),
}
