// The network as a value whose type is its own syntax tree: plain data, so a net is also its own JSON description.
// In: nothing. Out: the base of all nodes, and the registries that the type-level interpreters look layers up in.
// A new kind of layer is one file in layers/: its node, constructor and run-time rule, and its lines in these registries.
import type { Dim, Shape } from '../staging/core/box'

export type { Dim, Shape }
/** A shape, made at once. TypeScript defers a tuple that names an alias, and copies it with everything that holds it. */
export type Sized<B, C, H, W> = 0 extends 0 ? [B, C, H, W] : never

/**
 * A network: one layer, or a combination of layers. It is plain data.
 *
 * @example const trunk: Net = seq(conv2d('conv1', 64, 3), relu())
 */
export interface Net<Kind extends string = string> {
  readonly kind: Kind
}

/**
 * One layer. A layer without its own name is called after its kind.
 *
 * @example const layer: Layer<'relu', ''> = relu()
 */
export interface Layer<Kind extends string = string, Name extends string = string> extends Net<Kind> {
  readonly name: Name
}

/**
 * A size along height and width: one number for both, or [height, width].
 *
 * @example
 * const kernel: Extent = [3, 5]
 * conv2d('conv1', 64, kernel)
 */
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
export interface LayerFt {
  identity: Dim
}

/** The same for kinds whose dimensions depend on their options. A type with a parameter is built anew for each layer. */
// biome-ignore lint/correctness/noUnusedVariables: the lines that layers/ add use it
// biome-ignore lint/suspicious/noEmptyInterface: the same
export interface LayerFtOf<L> {}

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

/** The layer that returns its input. @example const shortcut: Identity = identity */
export interface Identity extends Layer<'identity', ''> {}
/**
 * A layer that returns its input. Use it as the shortcut of a `residual` or as a branch of a `concat`.
 *
 * @example residual(seq(conv2d('conv1', 64, 3), relu()), identity)
 */
export const identity: Identity = { kind: 'identity', name: '' }
