// The bytes of a training step, by two rules that types and run time both count, in 32-bit floats (bf16 halves outputs).
//  in core  parameters, a gradient of each, the optimizer's numbers for each, running statistics, and every layer's output
//           but those written over their input
//  least    the largest layer's parameters and gradients: large values of the others may be in the lower tier while that layer is
//           updated. No plan works with less.
import { elementsOf } from '../../staging/core/box'
import type { ElaboratedStep } from '../../staging/grad/objective'
import type { ValueId } from '../../staging/graph/graph'
import { type OPTIMIZERS, type Optimizer, type OptimizerName, statesKept } from '../../staging/ops/optimizer'
import type { IsStrict } from '../../staging/core/orwords'
import type { Analyse, Facts, ParametersNumber, StateNumber } from '../facts'
import type { Model } from '../model'
import type { CompareLimbs } from '../numbers/limbs'
import type { Add, FromLow, Mul } from '../numbers/naturals'
import type { Tensor, TrainingStep } from '../step'
import type { ApplicationOf, TensorsOf } from './order'
import type { AnySite, FirstOf, Nested, RestOf, SitesOfTensors, UseSuffix } from './sites'

/** True if an option is not 0; `boolean` if its type does not say. */
type IsOn<V> = V extends 0 | false ? false : number extends V ? boolean : true
type Kept<States, O, N extends readonly 0[] = []> = States extends readonly [infer First, ...infer Rest]
  ? First extends { readonly when: infer W extends keyof O }
    ? boolean extends IsOn<O[W]>
      ? number
      : Kept<Rest, O, IsOn<O[W]> extends true ? [...N, 0] : N>
    : Kept<Rest, O, [...N, 0]>
  : N['length']

/**
 * The number of values that an optimizer keeps per parameter, e.g. 2 for Adam.
 *
 * @example const kept: NumbersKept<Adam> = 2
 */
export type NumbersKept<O> = O extends { readonly kind: infer K extends OptimizerName }
  ? Kept<(typeof OPTIMIZERS)[K]['states'], O>
  : number
export const numbersKept = (o: Optimizer): number => statesKept(o).length

/** The facts of a model alone: the numbers that it trains and keeps, and its activations' bytes. */
type Numbers<M extends Model> =
  Analyse<M['net'], M['input']> extends Facts<any, any, infer T, any>
    ? [parameters: ParametersNumber<T>, state: StateNumber<T>]
    : never

/**
 * The bytes of an in-core step, computed by the compiler. K is the number of values that the optimizer keeps
 * per parameter.
 *
 * @example type Bytes = StepBytes<typeof net, NumbersKept<Sgd<0.9>>>
 */
export type StepBytes<M extends Model, K extends number> = IsStrict extends false
  ? number
  : number extends K
    ? number
    : Numbers<M> extends [infer P extends number, infer State extends number]
      ? Add<Mul<4, Add<Mul<P, Add<2, K>>, State>>, M['activationBytes']>
      : never

/**
 * Returns the bytes of an in-core step: parameters, gradients, optimizer state and activations. It is a lower
 * estimate without workspace; hover over the result to see the number.
 *
 * @param m The model.
 * @param optimizer The optimizer; its state counts.
 * @example
 * const bytes = stepBytes(net, sgd({ lr: 0.1, momentum: 0.9 }))
 * console.log(showBytes(bytes))
 */
export const stepBytes = <M extends Model, const O extends Optimizer>(m: M, optimizer: O): StepBytes<M, NumbersKept<O>> =>
  (4 * (m.parameters * (2 + numbersKept(optimizer)) + stateOf(m)) + m.activationBytes) as StepBytes<M, NumbersKept<O>>

const stateOf = (m: Model): number => m.layers.reduce((n, l) => n + l.state, 0)

type Largest<Sites, Most = null> = Sites extends null
  ? Most
  : FirstOf<Sites> extends infer X extends AnySite
    ? Largest<RestOf<Sites>, CompareLimbs<X['parameters'], Most> extends 'more' ? X['parameters'] : Most>
    : Nested<Largest<RestOf<Sites>, Most>>

/**
 * A lower bound of the bytes of every plan of a step, computed by the compiler. It is null if the types do not
 * know it.
 *
 * @example type Least = LeastBytes<StepOf<typeof net>>
 */
export type LeastBytes<S extends TrainingStep> =
  TensorsOf<S> extends infer Ts extends readonly Tensor[]
    ? number extends Ts['length'] | TrainsSome<S['objectives'][number]['updates']>
      ? null
      : LargestTrained<S, FirstUses<Ts>> extends infer Most extends number
        ? Mul<8, Most>
        : never
    : never

/** `number` where an objective says so: then types do not know which. */
type TrainsSome<U> = U extends { readonly freeze: unknown } | { readonly groups: unknown } ? number : never

/** A net is its own weights: the applied nets, each once. */
type FirstUses<Ts, Used extends readonly unknown[] = [], Acc extends readonly unknown[] = []> = Ts extends readonly [
  infer T,
  ...infer Rest,
]
  ? T extends ApplicationOf<infer N, any>
    ? FirstUses<Rest, [...Used, N], UseSuffix<N, Used> extends '' ? [...Acc, T] : Acc>
    : FirstUses<Rest, Used, Acc>
  : Acc
type UsesOf<Nets, Uses, Acc extends readonly unknown[] = []> = Uses extends readonly [infer T, ...infer Rest]
  ? UsesOf<Nets, Rest, T extends ApplicationOf<infer N, any> ? (N extends Nets ? [...Acc, T] : Acc) : Acc>
  : Acc
type LargestTrained<S extends TrainingStep, Uses> = FromLow<
  Largest<SitesOfTensors<UsesOf<S['objectives'][number]['over'][number], Uses>>>
>

/** The same of any step, as it was elaborated. */
export const leastBytes = ({ graph, objectives }: ElaboratedStep): number => {
  const numbers = (ids: Iterable<ValueId>): number => [...ids].reduce((n, v) => n + elementsOf(graph.values[v]!.shape), 0)
  const trained = new Set(objectives.flatMap((o) => [...o.params.keys()]))
  const layers = new Map<string, Set<ValueId>>()
  for (const { layer, ins } of graph.ops)
    for (const v of ins) if (trained.has(v)) layers.set(layer, (layers.get(layer) ?? new Set()).add(v))
  return 8 * Math.max(0, ...[...layers.values()].map(numbers))
}
