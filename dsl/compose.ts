// Compositions: nodes made of nodes. A scope (block, blocks) puts its name before the names of what stands in it, so a
// layer's full name, 'layer1.0.conv1', is also what its weights are called in PyTorch.
// In: nets. Out: nets, as plain data whose types are the syntax tree.
import { type Identity, identity, type Net } from './net'

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

/** One after the other. */
export const seq = <const Ls extends readonly Net[]>(...layers: Ls): Seq<Ls> => ({ kind: 'seq', layers })

/** @example block('downsample', conv2d('0', 64, 1, { stride: 2 }), batchNorm('1')) has layers 'downsample.0', 'downsample.1' */
export const block = <N extends string, const Ls extends readonly Net[]>(name: N, ...layers: Ls): Block<N, Seq<Ls>> => ({
  kind: 'block',
  name,
  body: seq(...layers),
})

/** @example blocks('layer1', basicBlock(64), basicBlock(64)) has layers 'layer1.0.conv1', ..., 'layer1.1.conv1', ... */
export const blocks = <N extends string, const Ls extends readonly Net[]>(name: N, ...layers: Ls): Blocks<N, Ls> => ({
  kind: 'blocks',
  name,
  layers,
})

/** @example counted('denselayer', 1, repeat(6, denseLayer)) has layers 'denselayer1.conv1', ..., 'denselayer6.conv1', ... */
export const counted = <S extends string, F extends number, const Ls extends readonly Net[]>(
  stem: S,
  from: F,
  ...layers: Ls
): Counted<S, F, Ls> => ({ kind: 'counted', stem, from, layers })

export const repeat = <T extends number, B extends Net>(times: T, body: B): Repeat<T, B> => ({ kind: 'repeat', times, body })

export const residual = <B extends Net, S extends Net>(body: B, shortcut: S): Residual<B, S> => ({
  kind: 'residual',
  body,
  shortcut,
})

/**
 * The input times what the layers make of it: of its shape, or a value for each channel ([B,C,1,1]) or pixel ([B,1,H,W]).
 *
 * @example scaled(globalAvgPool(), conv2d('fc1', 8, 1), relu(), conv2d('fc2', 96, 1), sigmoid()) is squeeze and excite
 */
export const scaled = <const Ls extends readonly Net[]>(...layers: Ls): Scaled<Seq<Ls>> => ({
  kind: 'scaled',
  body: seq(...layers),
})

/** What all branches make of the same input, joined along the channels, in their order. */
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
 * @example skip(conv2d('conv', 32, 3)) makes 96 channels of 64
 */
export const skip = <const Ls extends readonly Net[]>(...layers: Ls): Concat<readonly [Identity, Seq<Ls>]> =>
  concat(identity, seq(...layers))
