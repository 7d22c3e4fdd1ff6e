// What the run-time half knows of each kind of layer: a rule, as the registries of net.ts are for the type-level half.
// In: a node. Out: its output shape or a reason, its FT dimensions, parameters, ops. Invariant: both halves say the same;
// test/dsl/twins.test.ts compares them with each other and with the op table.
import { type Either, left, right } from 'fp-ts/Either'
import type * as t from 'io-ts'
import type { GraphError } from '../../staging/core/errors'
import type { GraphBuilder } from '../../staging/graph/builder'
import type { Init } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import { notASize, type NotASize } from '../messages'
import { type Dim, type Extent, type Height, height, type Net, type Shape, type Width, width } from '../net'
import type { IsWhole } from '../numbers/naturals'

export interface ParamSpec {
  readonly name: string
  readonly shape: readonly number[]
  readonly init: Init
  /** A state is kept and not trained: running statistics. */
  readonly role?: 'state'
}

/** Where a layer stands while the graph is made. */
export interface Site {
  readonly graph: GraphBuilder
  /** The layer's full name, which its ops carry. */
  readonly layer: string
  /** What its parameters' names start with. */
  readonly weights: string
  readonly input: Shape
  /** What the rule's `params` lists for this layer. */
  readonly params: readonly ParamSpec[]
  /** A number that no other random layer of the network has. */
  readonly randomKey: () => number
}

export interface LayerRule<L extends Net = Net> {
  /** The node as untrusted data. */
  readonly codec: t.Type<L>
  /** The shape of its output, or the reason why there is none. */
  readonly shape: (l: L, input: Shape) => Either<string, Shape>
  readonly ft: (l: L) => readonly Dim[]
  /** The dimensions over which it sums, as LayerSums of net.ts has them; without it, none. */
  readonly sums?: (l: L) => readonly Dim[]
  /** What it trains and keeps at an input shape that it takes; without it, nothing. */
  readonly params?: (l: L, input: Shape) => readonly ParamSpec[]
  /** Whether it writes over its input. */
  readonly inPlace: boolean
  readonly elaborate: (l: L, x: Ref, at: Site) => Either<GraphError, Ref>
}

// ---------------------------------------------------------------- sizes that must be whole numbers

/** What a size is, the size, and the least that is legal. */
type SizeCheck = readonly [what: string, size: Extent, least: 0 | 1]

type SizeOk<N extends number, Least extends number> =
  IsWhole<N> extends true ? ((N extends 0 ? Least : 0) extends 0 ? true : false) : false
/** The reason why the first illegal size is so; null when all are legal. */
export type BadSize<Checks> = Checks extends readonly [
  readonly [infer What extends string, infer E extends Extent, infer Least extends number],
  ...infer Rest,
]
  ? SizeOk<Height<E>, Least> extends true
    ? SizeOk<Width<E>, Least> extends true
      ? BadSize<Rest>
      : NotASize<What, `${Least}`, `${Width<E>}`>
    : NotASize<What, `${Least}`, `${Height<E>}`>
  : null

export const badSize = (...checks: readonly SizeCheck[]): string | null => {
  for (const [what, size, least] of checks)
    for (const n of [height(size), width(size)])
      if (!Number.isSafeInteger(n) || n < least) return notASize(what, `${least}`, `${n}`)
  return null
}

export const reasonOr = (reason: string | null, shape: () => Either<string, Shape>): Either<string, Shape> =>
  reason === null ? shape() : left(reason)

export const unchanged = (s: Shape): Either<string, Shape> => right(s)
