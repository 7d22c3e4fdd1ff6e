// The tensors of a step in the order of their construction, and the names of its layers, as types: for plans by hand. The run-time twin is tensorsOf
// in step.ts. In: the type of a step. Out: a tuple of Tensors; or a list without a length, of the known ones, if types do not tell the order: unknown
// nets, sizes or lists, and objectives that make tensors for several losses, because properties of a type have no order. Types take two tensors that
// are made alike for one.
import type { OrWords } from '../../staging/core/orwords'
import type { Analyse, Facts } from '../facts'
import type { Net, Shape } from '../net'
import type { IsLiteral, LossTerm, Made, StepObjective, Tensor, TrainingStep } from '../step'
import type { StepOf, Trainable } from '../trainable'
import type { UseSuffix } from './sites'

export type TensorsOf<S extends TrainingStep> = OfObjectives<S['objectives']>

type Unordered<T extends Tensor = Tensor> = readonly T[]

type OfObjectives<Os, Before extends Unordered = []> = Os extends readonly [infer O extends StepObjective, ...infer Rest]
  ? OfObjectives<Rest, OfLosses<O['losses'], Before>>
  : Os extends readonly []
    ? Before
    : Unordered

type OfLosses<Ls, Before extends Unordered> = string extends keyof Ls
  ? Unordered
  : number extends Before['length']
    ? Unordered<Before[number] | OfTerms<Ls[keyof Ls], []>[number]>
    : Adding<{ [K in keyof Ls]: OfTerms<Ls[K], Before> }, Before>
/** After: the tensors if a loss comes first. If one loss alone makes tensors, the others come after it or before it. */
type Adding<After, Before extends Unordered> = {
  [K in keyof After]: After[K] extends Before ? never : K
}[keyof After] extends infer K extends keyof After
  ? [K] extends [never]
    ? Before
    : IsOne<K> extends true
      ? Extract<After[K], Unordered>
      : Unordered<Extract<After[keyof After], Unordered>[number]>
  : never

type OfTerms<Terms, Before extends Unordered> = Terms extends readonly [LossTerm<any, infer Of, infer To>, ...infer Rest]
  ? OfTerms<Rest, Walk<[Of, To], Before>>
  : Terms extends readonly []
    ? Before
    : Unordered

/** Depth first, each tensor after its sources; Stack: the tensors still to make. */
type Walk<Stack, Before extends Unordered> = number extends Before['length']
  ? Before
  : Stack extends readonly [infer T, ...infer Rest]
    ? [T] extends [number]
      ? Walk<Rest, Before>
      : KnownTensor<T> extends infer K extends Tensor<any, Made>
        ? K extends Before[number]
          ? Walk<Rest, Before>
          : PartsOf<K> extends infer Parts extends Unordered
            ? KnownTensor<Parts[number]> extends Before[number]
              ? Walk<Rest, [...Before, K]>
              : Walk<[...Parts, K, ...Rest], Before>
            : never
        : Unordered
    : Before
type PartsOf<T> = T extends Tensor<any, Made<any, infer Of>> ? Of : never

/** A tensor by how it is made; null where types do not know. */
type KnownTensor<T> =
  T extends Tensor<infer S, infer M>
    ? IsKnown<M> extends true
      ? M extends Made<'applied', readonly [Tensor<infer In>], infer N extends Net>
        ? IsLiteral<N, In> extends true
          ? Tensor<S, M>
          : null
        : Tensor<S, M>
      : null
    : null

/** If a tensor has several possible origins, it is unknown. */
export type IsKnown<M> = [M] extends [Made] ? IsOne<M> : false
type IsOne<M, All = M> = M extends unknown ? ([All] extends [M] ? true : false) : never

// ---------------------------------------------------------------- names

/**
 * The names of all layers of a model or step, as string literals if they are known.
 *
 * @example const first: NamesIn<typeof net> = 'conv1'
 */
export type NamesIn<M extends Trainable> = OrWords<NamesOf<TensorsOf<StepOf<M>>>, string>

type NamesOf<Ts extends Unordered, Used extends readonly unknown[] = [], Acc extends string = never> = Ts extends readonly [
  infer T,
  ...infer Rest extends Unordered,
]
  ? T extends ApplicationOf<infer N, infer In>
    ? NamesOf<Rest, [...Used, N], Acc | `${NamesAt<N, In>}${UseSuffix<N, Used>}`>
    : NamesOf<Rest, Used, Acc>
  : Ts extends readonly []
    ? Acc
    : AnyUse<Ts[number]>
export type ApplicationOf<N extends Net, In extends Shape> = Tensor<Shape, Made<'applied', readonly [Tensor<In>], N>>
type NamesAt<N extends Net, In extends Shape> = Analyse<N, In> extends Facts<any, any, any, infer L> ? L : never
/** How often a net was applied before is not known without an order. */
type AnyUse<T> =
  T extends Tensor<any, infer M>
    ? unknown extends M
      ? string
      : T extends ApplicationOf<infer N, infer In>
        ? NamesAt<N, In> | `${NamesAt<N, In>}#${number}`
        : never
    : never
