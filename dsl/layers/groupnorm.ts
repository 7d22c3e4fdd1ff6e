// Group and instance normalisation: each image's channels in groups, or one by one, by their own mean and variance.
// In, out: [B,C,H,W]. Two ops, statistics (a reduction over each image) and apply (element-wise), so both stay exact under
// tiling, and tiles of the batch need no barrier. As in PyTorch, groupNorm has a scale and a shift unless it is told
// otherwise, and instanceNorm has none unless it is.
import { chain, type Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import type { GraphError } from '../../staging/core/errors'
import type { Ref } from '../../staging/ops/op'
import {
  type GroupsDoNotDivide,
  groupsDoNotDivide,
  type OneValueAGroup,
  oneValueAGroup,
  type ShapeText,
  shapeText,
} from '../messages'
import type { Layer, Shape } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { Divides } from './conv2d'
import { type BadSize, badSize, type LayerRule, type ParamSpec, type LayerPosition } from './rule'
import { emit, withParams } from './site'

/**
 * The layer that `groupNorm` creates.
 *
 * @example const norm: GroupNorm<'gn1', 32> = groupNorm('gn1', 32)
 */
export interface GroupNorm<Name extends string, Groups extends number, Affine extends boolean = true>
  extends Layer<'groupNorm', Name> {
  readonly groups: Groups
  readonly affine: Affine
  readonly eps: number
}
/**
 * The layer that `instanceNorm` creates.
 *
 * @example const norm: InstanceNorm<'in1', true> = instanceNorm('in1', { affine: true })
 */
export interface InstanceNorm<Name extends string, Affine extends boolean = false> extends Layer<'instanceNorm', Name> {
  readonly affine: Affine
  readonly eps: number
}

/**
 * Options of `groupNorm` and `instanceNorm`.
 *
 * @example const options: ImageNormOptions = { affine: true, eps: 1e-6 }
 */
export interface ImageNormOptions<A extends boolean = boolean> {
  /**
   * If true, the layer has a trained scale and shift per channel. Default true for `groupNorm`, false for
   * `instanceNorm`.
   *
   * @example instanceNorm('in1', { affine: true })
   */
  readonly affine?: A | undefined
  /** Number added to the variance. Default 1e-5. @example groupNorm('gn1', 32, { eps: 1e-6 }) */
  readonly eps?: number | undefined
}
const imageNormOptions = <const Of extends string>(of: Of) => optionsFor<ImageNormOptions>()(of, 'affine', 'eps')
const GROUP_NORM = imageNormOptions('groupNorm')
const INSTANCE_NORM = imageNormOptions('instanceNorm')
/** As given, and the defaults of the rest. */
const imageNorm = <A extends boolean>(affine: A, o: ImageNormOptions<A>) => ({ affine: o.affine ?? affine, eps: o.eps ?? 1e-5 })

/**
 * Creates group normalisation: each image's channels are normalised in groups, then scaled and shifted.
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param groups Number of groups; it must divide the number of channels.
 * @param options `affine` adds a scale and a shift (default true); `eps` is added to the variance.
 * @example seq(conv2d('conv1', 64, 3), groupNorm('gn1', 32), relu())
 */
export const groupNorm = <N extends string, G extends number, A extends boolean = true, Given = unknown>(
  name: N,
  groups: G,
  options: ImageNormOptions<A> & Strays<Given, typeof GROUP_NORM> = {} as never,
): GroupNorm<N, G, A> => ({
  kind: 'groupNorm',
  name,
  groups,
  ...imageNorm(true as A, known(GROUP_NORM, options)),
})

/**
 * Creates instance normalisation: each channel of each image gets mean 0 and variance 1.
 *
 * @param name Name of the layer. Default: its kind. A layer with `affine` needs a name.
 * @param options `affine` adds a scale and a shift (default false); `eps` is added to the variance.
 * @example seq(conv2d('conv1', 64, 3), instanceNorm(), relu(), conv2d('conv2', 64, 3), instanceNorm('in2', { affine: true }))
 */
export const instanceNorm = <N extends string = '', A extends boolean = false, Given = unknown>(
  name?: N,
  options: ImageNormOptions<A> & Strays<Given, typeof INSTANCE_NORM> = {} as never,
): InstanceNorm<N, A> => ({
  kind: 'instanceNorm',
  name: name ?? ('' as N),
  ...imageNorm(false as A, known(INSTANCE_NORM, options)),
})

// ---------------------------------------------------------------- shapes, as types

type GroupNormShape<L, S extends Shape> =
  L extends GroupNorm<any, infer G, any>
    ? BadSize<[['number of groups', G, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : Divides<S[1], G> extends false
          ? GroupsDoNotDivide<'input', `${S[1]}`, `${G}`>
          : S extends readonly [number, G, 1, 1]
            ? OneValueAGroup<ShapeText<S>>
            : [S[0], number extends G ? number : S[1], S[2], S[3]]
      : never
    : never

type AffineParameters<A, S extends Shape> = A extends true ? MulLimbs<Low<S[1]>, '2'> : null

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    groupNorm: GroupNormShape<L, S>
    instanceNorm: S extends readonly [number, number, 1, 1] ? OneValueAGroup<ShapeText<S>> : S
  }
  interface LayerFt {
    groupNorm: 'B'
    instanceNorm: 'B'
  }
  interface LayerSums<L> {
    groupNorm: 'H' | 'W'
    instanceNorm: 'H' | 'W'
  }
  interface LayerParameters<L, S extends Shape> {
    groupNorm: L extends GroupNorm<any, any, infer A> ? AffineParameters<A, S> : null
    instanceNorm: L extends InstanceNorm<any, infer A> ? AffineParameters<A, S> : null
  }
}

// ---------------------------------------------------------------- at run time

const affineParams = (affine: boolean, [, c]: Shape): readonly ParamSpec[] =>
  affine
    ? [
        { name: 'weight', shape: [c], init: { dist: 'constant', a: 1 } },
        { name: 'bias', shape: [c], init: { dist: 'constant', a: 0 } },
      ]
    : []

const normalised = (groups: number, eps: number, x: Ref, at: LayerPosition): Either<GraphError, Ref> => {
  const [, c, h, w] = at.input
  const attrs = { groups, eps, count: (c / groups) * h * w }
  return pipe(
    emit(at, 'group_norm_stats', { groups }, [x]),
    chain((stats) => withParams(at, (affine) => emit(at, 'group_norm_apply', attrs, [x, stats, ...affine]))),
  )
}

const variance = (groups: number, input: Shape): string | null =>
  input[1] === groups && input[2] * input[3] === 1 ? oneValueAGroup(shapeText(input)) : null

export const groupNormRule: LayerRule<GroupNorm<string, number, boolean>> = {
  masked: 'refused',
  codec: layerCodec('groupNorm', { groups: t.number, affine: t.boolean, eps: t.number }),
  fault: (l, input) =>
    badSize(['number of groups', l.groups, 1]) ??
    (input[1] % l.groups === 0 ? variance(l.groups, input) : groupsDoNotDivide('input', `${input[1]}`, `${l.groups}`)),
  params: (l, input) => affineParams(l.affine, input),
  elaborate: (l, x, at) => normalised(l.groups, l.eps, x, at),
}

export const instanceNormRule: LayerRule<InstanceNorm<string, boolean>> = {
  masked: 'refused',
  codec: layerCodec('instanceNorm', { affine: t.boolean, eps: t.number }),
  fault: (_, input) => variance(input[1], input),
  params: (l, input) => affineParams(l.affine, input),
  elaborate: (l, x, at) => normalised(at.input[1], l.eps, x, at),
}
