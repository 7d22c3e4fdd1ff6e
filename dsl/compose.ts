// Compositions: nodes made of nodes. A scope (block, blocks) puts its name before the names of what stands in it, so a
// layer's full name, 'layer1.0.conv1', is also what its weights are called in PyTorch.
// In: nets. Out: nets, as plain data whose types are the syntax tree.
import { type Identity, identity, type Net } from './net'

/** Layers one after the other. */
export interface Seq<Ls extends readonly Net[]> extends Net<'seq'> {
  readonly layers: Ls
}
/** A scope: the names inside are '<name>.<...>'. */
export interface Block<Name extends string, Body extends Net> extends Net<'block'> {
  readonly name: Name
  readonly body: Body
}
/** A scope of numbered scopes: the names inside are '<name>.0.<...>', '<name>.1.<...>', ...; a repeat counts on. */
export interface Blocks<Name extends string, Ls extends readonly Net[]> extends Net<'blocks'> {
  readonly name: Name
  readonly layers: Ls
}
/** Numbered scopes under a stem, from a number on: the names inside are '<stem><from>.<...>', ...; a repeat counts on. */
export interface Counted<Stem extends string, From extends number, Ls extends readonly Net[]> extends Net<'counted'> {
  readonly stem: Stem
  readonly from: From
  readonly layers: Ls
}
/** So many copies, one after the other, in scopes '0', '1', ... */
export interface Repeat<Times extends number, Body extends Net> extends Net<'repeat'> {
  readonly times: Times
  readonly body: Body
}
/** The sum of what both make of the same input. */
export interface Residual<Body extends Net, Shortcut extends Net> extends Net<'residual'> {
  readonly body: Body
  readonly shortcut: Shortcut
}
/** What all branches make of the same input, joined along the channels. */
export interface Concat<Bs extends readonly Net[]> extends Net<'concat'> {
  readonly branches: Bs
}

/** Its input times what the body makes of it. */
export interface Scaled<Body extends Net> extends Net<'scaled'> {
  readonly body: Body
}

/** What the body makes, stretched or shrunk to the height and width of its input. */
export interface AtInputSize<Body extends Net> extends Net<'atInputSize'> {
  readonly body: Body
}

/** One after the other. @example seq(conv2d('conv1', 64, 3), relu(), maxPool('pool1', 2)) */
export const seq = <const Ls extends readonly Net[]>(...layers: Ls): Seq<Ls> => ({ kind: 'seq', layers })

/**
 * Layers whose names begin with the block's: 'downsample.0', 'downsample.1'.
 *
 * @example block('downsample', conv2d('0', 64, 1, { stride: 2 }), batchNorm('1'))
 */
export const block = <N extends string, const Ls extends readonly Net[]>(name: N, ...layers: Ls): Block<N, Seq<Ls>> => ({
  kind: 'block',
  name,
  body: seq(...layers),
})

/** Numbered blocks: layers 'layer1.0.conv', 'layer1.1.conv'. @example blocks('layer1', conv2d('conv', 64, 3), conv2d('conv', 64, 3)) */
export const blocks = <N extends string, const Ls extends readonly Net[]>(name: N, ...layers: Ls): Blocks<N, Ls> => ({
  kind: 'blocks',
  name,
  layers,
})

/**
 * Layers whose names go on counting: 'denselayer1.conv' to 'denselayer6.conv'.
 *
 * @example counted('denselayer', 1, repeat(6, conv2d('conv', 32, 3)))
 */
export const counted = <S extends string, F extends number, const Ls extends readonly Net[]>(
  stem: S,
  from: F,
  ...layers: Ls
): Counted<S, F, Ls> => ({ kind: 'counted', stem, from, layers })

/**
 * A layer so many times, each with weights of its own; give it numbers by `counted`.
 *
 * @example counted('unit', 1, repeat(4, conv2d('conv', 64, 3)))
 */
export const repeat = <T extends number, B extends Net>(times: T, body: B): Repeat<T, B> => ({ kind: 'repeat', times, body })

/** The sum of two branches. @example residual(seq(conv2d('conv1', 64, 3), relu()), identity) */
export const residual = <B extends Net, S extends Net>(body: B, shortcut: S): Residual<B, S> => ({
  kind: 'residual',
  body,
  shortcut,
})

/**
 * One branch times another: squeeze and excite, say.
 *
 * @example scaled(globalAvgPool(), conv2d('fc1', 8, 1), relu(), conv2d('fc2', 64, 1), sigmoid())
 */
export const scaled = <const Ls extends readonly Net[]>(...layers: Ls): Scaled<Seq<Ls>> => ({
  kind: 'scaled',
  body: seq(...layers),
})

/**
 * What all branches make of the same input, joined along the channels, in their order.
 *
 * @example concat(conv2d('a', 16, 1), conv2d('b', 32, 3))
 */
export const concat = <const Bs extends readonly Net[]>(...branches: Bs): Concat<Bs> => ({ kind: 'concat', branches })

/**
 * What the layers make, resized bilinearly to the height and width of their input (PyTorch's align_corners=false), so that it
 * can meet what has kept that size: a context taken from the whole image, a coarse branch, a prediction for each pixel.
 *
 * @example concat(identity, atInputSize(globalAvgPool(), conv2d('context', 256, 1)))
 */
export const atInputSize = <const Ls extends readonly Net[]>(...layers: Ls): AtInputSize<Seq<Ls>> => ({
  kind: 'atInputSize',
  body: seq(...layers),
})

/**
 * A skip across the layers: their input, then along the channels what they make of it. A dense layer, a level of a U-Net.
 *
 * @example skip(conv2d('conv', 32, 3))
 */
export const skip = <const Ls extends readonly Net[]>(...layers: Ls): Concat<readonly [Identity, Seq<Ls>]> =>
  concat(identity, seq(...layers))
