// A step as plain data with numbered nets and tensors: the literals of a plan module about its step. In: a step. Out: Described; as a type, the step
// of a Described. Invariant: tensors are in the order of their construction, so sources come first. Worked example: a model is one net, the tensors
// 'input', the net applied to it, 'target', and one objective over net 0.
import type { Updates } from '../../staging/ops/updates'
import type { Loss, Optimizer } from '../training'
import type { Net, Shape } from '../net'
import {
  type Applied,
  type Fed,
  type Given,
  isFed,
  isTensor,
  type JoinedShape,
  type Losses,
  type LossTerm,
  type Made,
  partsOf,
  type StepObjective,
  type Tensor,
  tensorsOf,
  type TrainingStep,
} from '../step'

export interface DescribedTensor {
  readonly kind: Tensor['kind']
  /** The name of a fed tensor. */
  readonly name?: string
  readonly shape?: Shape
  /** The net that is applied. */
  readonly net?: number
  /** The tensors that it is made of. */
  readonly of?: readonly number[]
}
export interface DescribedTerm {
  readonly loss: Loss
  readonly of: number
  /** The tensor, or the number, that it is compared with. */
  readonly to?: number
  readonly constant?: number
  readonly weight: number
}
export interface DescribedObjective {
  readonly name: string
  /** The nets that it trains. */
  readonly over: readonly number[]
  readonly optimizer: Optimizer
  /** If there are any. */
  readonly updates?: Updates
  readonly losses: Readonly<Record<string, readonly DescribedTerm[]>>
}
export interface Described {
  /** Syntax trees: a net is its own description. */
  readonly nets: readonly { readonly kind: string; readonly [field: string]: unknown }[]
  readonly tensors: readonly DescribedTensor[]
  readonly objectives: readonly DescribedObjective[]
}

export const described = (s: TrainingStep): Described => {
  const tensors = tensorsOf(s)
  const applied = tensors.flatMap((t) => (t.kind === 'applied' ? [(t as Applied).net] : []))
  const nets = [...new Set([...applied, ...s.objectives.flatMap((o) => o.over)])]
  const [places, netPlaces] = [new Map(tensors.map((t, i) => [t, i])), new Map(nets.map((n, i) => [n, i]))]
  const at = (t: Tensor): number => places.get(t)!
  const own = (t: Tensor): Omit<DescribedTensor, 'kind'> => {
    if (isFed(t)) return { name: t.name, shape: t.shape }
    return { ...(t.kind === 'applied' ? { net: netPlaces.get((t as Applied).net)! } : {}), of: partsOf(t).map(at) }
  }
  const term = ({ loss, of, to, weight }: LossTerm): DescribedTerm => ({
    loss,
    of: at(of),
    ...(isTensor(to) ? { to: at(to) } : { constant: to }),
    weight,
  })
  return {
    nets: nets as unknown as Described['nets'],
    tensors: tensors.map((t) => ({ kind: t.kind, ...own(t) })),
    objectives: s.objectives.map(({ name, over, optimizer, updates, losses }) => ({
      name,
      over: over.map((n) => netPlaces.get(n)!),
      optimizer,
      ...(Object.keys(updates).length > 0 ? { updates } : {}),
      losses: Object.fromEntries(Object.entries(losses).map(([k, terms]) => [k, terms.map(term)])),
    })),
  }
}

// ---------------------------------------------------------------- as types

/** Those of a list that stand at these places. */
export type Chosen<List, Places> = { readonly [J in keyof Places]: List[Places[J] & keyof List] }

/** The tensors of a description; the sizes of fed ones are their own, or, if they may be others, unknown. */
export type TensorsFrom<P extends Described, Sized = true> = Tensors<P['tensors'], P['nets'], Sized>
type Tensors<Ds, Nets, Sized, Before extends readonly Tensor[] = []> = Ds extends readonly [infer D, ...infer Rest]
  ? Tensors<Rest, Nets, Sized, [...Before, TensorFrom<D, Nets, Sized, Before>]>
  : Before
type TensorFrom<D, Nets, Sized, Before> = D extends {
  readonly name: infer Name extends string
  readonly shape: infer S extends Shape
}
  ? Fed<Sized extends true ? S : Shape, Name>
  : D extends { readonly kind: infer K extends Tensor['kind']; readonly of: infer Of }
    ? Chosen<Before, Of> extends infer Parts extends readonly Tensor[]
      ? D extends { readonly net: infer I extends keyof Nets }
        ? Tensor<Given<Nets[I] & Net, Parts[0]['shape']>, Made<K, Parts, Nets[I]>>
        : Tensor<K extends 'joined' ? JoinedShape<Parts> : Parts[0]['shape'], Made<K, Parts>>
      : never
    : never

/**
 * The training step that the head of a plan module describes, as a type.
 *
 * @example type Step = StepFrom<PlanHead>
 */
export type StepFrom<P extends Described, Sized = true> =
  TensorsFrom<P, Sized> extends infer Ts
    ? ObjectivesFrom<P['objectives'], P['nets'], Ts> extends infer Os extends readonly StepObjective[]
      ? TrainingStep<Os>
      : never
    : never
type ObjectivesFrom<Os, Nets, Ts> = { readonly [I in keyof Os]: ObjectiveFrom<Os[I], Nets, Ts> }
type ObjectiveFrom<O, Nets, Ts> = O extends DescribedObjective
  ? [Chosen<Nets, O['over']>, LossesFrom<O['losses'], Ts>] extends [infer Over extends readonly Net[], infer Ls extends Losses]
    ? StepObjective<O['name'], Over, O['optimizer'], Ls, UpdatesFrom<O>>
    : never
  : never
type UpdatesFrom<O> = O extends { readonly updates: infer U extends Updates } ? U : Record<never, never>
type LossesFrom<Ls, Ts> = { readonly [K in keyof Ls]: TermsFrom<Ls[K], Ts> }
type TermsFrom<Terms, Ts> = { readonly [I in keyof Terms]: TermFrom<Terms[I], Ts> }
type TermFrom<T, Ts> = T extends {
  readonly loss: infer L extends Loss
  readonly of: infer I
  readonly weight: infer W extends number
}
  ? LossTerm<L, Ts[I & keyof Ts] & Tensor, ComparedWith<T, Ts>, W>
  : never
type ComparedWith<T, Ts> = T extends { readonly to: infer I }
  ? Ts[I & keyof Ts] & Tensor
  : T extends { readonly constant: infer C extends number }
    ? C
    : never
