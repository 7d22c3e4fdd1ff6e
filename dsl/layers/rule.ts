// The run-time half of each kind of layer: its ops, its parameters, its illegal values. Its shape, its FT dimensions, its sums and its overwriting
// follow from its ops (derived.ts). In: a node. Out: parameters, ops. Invariant: the registries of net.ts, the type-level half, agree;
// test/dsl/twins.test.ts compares both.
import type { Either } from 'fp-ts/Either'
import type { GraphError } from '../../staging/core/errors'
import type { Options } from '../../staging/core/options'
import type { GraphBuilder } from '../../staging/graph/builder'
import type { Init } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import type { Mask } from '../masks'
import { notASize, type NotASize } from '../messages'
import { type Extent, type Height, height, type Net, type Shape, type Width, width } from '../net'
import type { IsWhole, NextDigit } from '../numbers/naturals'

/**
 * Purpose of a graph: 'train' adds the backward pass, 'predict' uses running statistics and drops nothing.
 *
 * @example
 * const mode: Mode = 'predict'
 * modelAt([1, 3, 64, 64], conv2d('conv1', 8, 3), mode)
 */
export type Mode = 'train' | 'predict'

export interface ParamSpec {
  readonly name: string
  readonly shape: readonly number[]
  readonly init: Init
  /** A state is kept and not trained: running statistics. */
  readonly role?: 'state'
}

/** The place of a layer in the graph under construction. */
export interface LayerPosition {
  readonly graph: GraphBuilder
  /** The layer's full name, which its ops carry. */
  readonly layer: string
  /** The prefix of its parameters' names. */
  readonly weights: string
  readonly input: Shape
  /** The rule's `params` for this layer. */
  readonly params: readonly ParamSpec[]
  /** A number that no other random layer of the network has. */
  readonly randomKey: () => number
  /** The purpose of the graph: without training, statistics are the running ones and nothing is dropped. */
  readonly mode: Mode
  /** The pixels that count, in a net of a mask. */
  readonly mask?: Mask | undefined
}

/** An illegal field: its path, and its value. */
export interface FieldFault {
  readonly fields: readonly string[]
  readonly value: unknown
}
/** The node as untrusted data. */
export interface LayerCodec<L> {
  /** The fields that there are. */
  readonly options: Options
  readonly decode: (u: unknown) => Either<FieldFault, L>
}

export interface LayerRule<L extends Net = Net> {
  readonly codec: LayerCodec<L>
  /** How it is written, its name 'n'; tests put it into random networks. */
  readonly example?: string
  /** Why it has no output for this input, in the words of its type; without it, it takes all. */
  readonly fault?: (l: L, input: Shape, mode: Mode) => string | null
  /** Its place in a net of a mask: it 'keeps' zeros, or it is 'refused', because all pixels of an image count for it. Else its result is masked. */
  readonly masked?: 'keeps' | 'refused'
  /** The element type of its input, if it is not the usual one of layers. */
  readonly takes?: 'u8'
  /** Returns true if it is nothing at all: no op, no bytes, for any input. */
  readonly isNothing?: (l: L) => boolean
  /** Its trained and kept numbers at a legal input shape; without it, none. */
  readonly params?: (l: L, input: Shape) => readonly ParamSpec[]
  readonly elaborate: (l: L, x: Ref, at: LayerPosition) => Either<GraphError, Ref>
}

// ---------------------------------------------------------------- sizes that must be whole numbers

/** The name of a size, the size, and the least legal one. */
export type SizeCheck = readonly [what: string, size: Extent, least: 0 | 1]

type SizeOk<N extends number, Least extends number> =
  IsWhole<N> extends true ? ((N extends 0 ? Least : 0) extends 0 ? true : false) : false
/** The reason why the first illegal size is so; null when all are legal. Read by place: each `infer` empties the compiler's caches. */
export type BadSize<Checks, Place extends keyof NextDigit = '0'> = Place extends keyof Checks
  ? NotWhole<Checks[Place]> extends null
    ? BadSize<Checks, NextDigit[Place]>
    : NotWhole<Checks[Place]>
  : null
type NotWhole<C> = C extends SizeCheck
  ? SizeOk<Height<C[1]>, C[2]> extends true
    ? SizeOk<Width<C[1]>, C[2]> extends true
      ? null
      : NotASize<C[0], `${C[2]}`, `${Width<C[1]>}`>
    : NotASize<C[0], `${C[2]}`, `${Height<C[1]>}`>
  : null

export const badSize = (...checks: readonly SizeCheck[]): string | null => {
  for (const [what, size, least] of checks)
    for (const n of [height(size), width(size)])
      if (!Number.isSafeInteger(n) || n < least) return notASize(what, `${least}`, `${n}`)
  return null
}
