// The network as a value whose type is its own syntax tree: plain data, so a net is also its own JSON description.
// In: nothing. Out: the base of all nodes, and the registries that the type-level interpreters look layers up in.
// A new kind of layer is one file in layers/: its node, constructor and run-time rule, and its lines in these registries.
import type { Dim, Shape } from '../staging/core/box'

export type { Dim, Shape }

/** Any node: a layer or a composition of layers. */
export interface Net<Kind extends string = string> {
  readonly kind: Kind
}

/** A node that stands for one layer. Layers without a name of their own are called after their kind. */
export interface Layer<Kind extends string = string, Name extends string = string> extends Net<Kind> {
  readonly name: Name
}

/** A size along height and width: one number for both, or [height, width]. */
export type Extent = number | readonly [height: number, width: number]
export type Height<E extends Extent> = E extends readonly [infer H extends number, number] ? H : E extends number ? E : never
export type Width<E extends Extent> = E extends readonly [number, infer W extends number] ? W : E extends number ? E : never
export const height = (e: Extent): number => (typeof e === 'number' ? e : e[0])
export const width = (e: Extent): number => (typeof e === 'number' ? e : e[1])

// ---------------------------------------------------------------- what the interpreters know of each kind of layer

/** Kind of layer -> its output shape for input shape S, or the reason why there is none, in words. */
// biome-ignore lint/correctness/noUnusedVariables: the lines that layers/ add use it
export interface LayerShapes<L, S extends Shape> {
  identity: S
}

/** Kind of layer -> the dimensions along which it is FT-compatible: a tile of its output needs a tile of its input. */
// biome-ignore lint/correctness/noUnusedVariables: the lines that layers/ add use it
export interface LayerFt<L> {
  identity: Dim
}

/** Kind of layer -> how many numbers it trains, as Low (numbers/); kinds without a line train none. */
// biome-ignore lint/correctness/noUnusedVariables: the lines that layers/ add use it
export interface LayerParameters<L, S extends Shape> {
  identity: null
}

/** Kind of layer -> how many numbers it keeps from step to step without training them, in the same way. */
// biome-ignore lint/correctness/noUnusedVariables: the lines that layers/ add use it
export interface LayerState<L, S extends Shape> {
  identity: null
}

/**
 * Kind of layer -> the dimensions along which it is not FT-compatible only because it sums over them: tiles can add into
 * the sums, so it may end a tiled range there, and its result may begin the next one.
 */
// biome-ignore lint/correctness/noUnusedVariables: the lines that layers/ add use it
export interface LayerSums<L> {
  identity: never
}

/** Kinds of layers that write over their input and so need no bytes of their own. */
export interface InPlaceLayers {
  identity: true
}

/** The layer that does nothing. */
export interface Identity extends Layer<'identity', ''> {}
/** What it is given. @example residual(seq(conv2d('conv1', 64, 3), relu()), identity) */
export const identity: Identity = { kind: 'identity', name: '' }
