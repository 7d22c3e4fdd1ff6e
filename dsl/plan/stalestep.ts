// Compares a step, or a model, with the one that a plan was staged for: its objectives, their nets, and the construction of their operands. In: the
// step now and then, as types; at run time as Described. Out: the first difference in words, or null. Invariant: the run time finds all that the
// types find; a single difference in the same words. Types take the losses of an objective in no order, and leave unknown facts to run time.
import type { UPDATES } from '../../staging/ops/updates'
import { shapeText, type ShapeText } from '../messages'
import type { Shape } from '../net'
import type { LossTerm, Made, StepObjective, Tensor, TrainingStep } from '../step'
import type { Described, DescribedObjective } from './described'
import type { IsKnown } from './order'
import { type Node, staleItems, type StaleNet, staleNets, type StaleNets } from './stale'
import {
  type StaleChanged,
  staleChanged,
  type StaleGone,
  staleGone,
  type StaleInput,
  staleInput,
  type StaleNew,
  staleNew,
  type StaleReplaced,
  staleReplaced,
} from './words'

// ---------------------------------------------------------------- as types

/**
 * The difference between two steps, in words, as a type; null if they are equal.
 *
 * @example type Changed = Stale<StepOf<typeof net>, StepOf<typeof net>>
 */
export type Stale<Now extends TrainingStep, Then extends TrainingStep> = StaleObjectives<Now['objectives'], Then['objectives']>

type StaleObjectives<Now, Then> = Now extends readonly [infer N extends StepObjective, ...infer Rest]
  ? Then extends readonly [infer T extends StepObjective, ...infer RestThen]
    ? StaleObjective<N, T> extends infer S extends string
      ? S
      : StaleObjectives<Rest, RestThen>
    : Then extends readonly []
      ? StaleNew<N['name'], 'objective'>
      : null
  : [Now, Then] extends [readonly [], readonly [infer T extends StepObjective, ...unknown[]]]
    ? StaleGone<T['name'], 'objective'>
    : null

/** One of the two may say less than the other. */
type Agree<Now, Then> = [Then] extends [Now] ? true : [Now] extends [Then] ? true : false

type StaleObjective<Now extends StepObjective, Then extends StepObjective> =
  Agree<Now['name'], Then['name']> extends false
    ? StaleReplaced<Then['name'], 'objective', Now['name'], 'objective'>
    : [Agree<Now['optimizer'], Then['optimizer']>, Agree<Said<Now['updates']>, Said<Then['updates']>>] extends [true, true]
      ? StaleNets<Now['over'], Then['over']> extends infer S extends string
        ? S
        : StaleLosses<Now['losses'], Then['losses'], Then['name']>
      : StaleChanged<Then['name'], 'objective'>
/** The options beside an optimizer, or undefined. A list: an object would be compared by its construction. */
type Said<U, Keys = (typeof UPDATES)['keys']> = Keys extends readonly [infer K, ...infer Rest]
  ? [K extends keyof U ? U[K] : undefined, ...Said<U, Rest>]
  : []

type StaleLosses<Now, Then, At extends string> = string extends keyof Now | keyof Then
  ? null
  : Words<
      [keyof Now] extends [keyof Then]
        ? [keyof Then] extends [keyof Now]
          ? { [K in keyof Now & keyof Then]: StaleLoss<Now[K], Then[K], `${At}.${K & string}`> }[keyof Now & keyof Then]
          : StaleGone<`${At}.${Exclude<keyof Then, keyof Now> & string}`, 'loss'>
        : StaleNew<`${At}.${Exclude<keyof Now, keyof Then> & string}`, 'loss'>
    >
type StaleLoss<Now, Then, At extends string> =
  StaleTerms<Now, Then> extends infer S ? (S extends false ? StaleChanged<At, 'loss'> : S) : never
type Words<All> = [Extract<All, string>] extends [never] ? null : Extract<All, string>

/** Words for a net or a fed tensor; false if the losses differ, or their operands are made otherwise. */
type StaleTerms<Now, Then> = Now extends readonly [infer N extends LossTerm, ...infer Rest]
  ? Then extends readonly [infer T extends LossTerm, ...infer RestThen]
    ? [Agree<N['loss'], T['loss']>, Agree<N['weight'], T['weight']>] extends [true, true]
      ? StaleTensors<[N['of'], N['to']], [T['of'], T['to']]> extends infer S extends string | false
        ? S
        : StaleTerms<Rest, RestThen>
      : false
    : Then extends readonly []
      ? false
      : null
  : [Now, Then] extends [readonly [], readonly [unknown, ...unknown[]]]
    ? false
    : null

type StaleTensors<Now, Then> = Now extends readonly [infer N, ...infer Rest]
  ? Then extends readonly [infer T, ...infer RestThen]
    ? Rest extends readonly []
      ? StaleTensor<N, T>
      : StaleTensor<N, T> extends infer S extends string | false
        ? S
        : StaleTensors<Rest, RestThen>
    : false
  : null

/** A tensor, or a number that one is compared with; where it may have been made in several ways, nothing is known. */
type StaleTensor<Now, Then> = [Now, Then] extends [Tensor<infer S, infer M>, Tensor<infer S2, infer M2>]
  ? [IsKnown<M>, IsKnown<M2>] extends [true, true]
    ? StaleMade<M, S, M2, S2>
    : null
  : Agree<Now, Then> extends false
    ? false
    : null

type StaleMade<M, S extends Shape, M2, S2 extends Shape> = [M, M2] extends [
  Made<infer K, infer Of, infer By>,
  Made<infer K2, infer Of2, infer By2>,
]
  ? [K, By] extends ['fed', infer Name extends string]
    ? [K2, By2] extends ['fed', infer Name2 extends string]
      ? StaleFed<Name, S, Name2, S2>
      : false
    : K extends K2
      ? (K extends 'applied' ? StaleNet<By, By2> : null) extends infer W extends string
        ? W
        : StaleTensors<Of, Of2>
      : false
  : null
type StaleFed<Name extends string, S extends Shape, Name2 extends string, S2 extends Shape> =
  Agree<Name, Name2> extends false
    ? StaleReplaced<Name2, 'fed', Name, 'fed'>
    : Agree<ShapeText<S>, ShapeText<S2>> extends false
      ? StaleInput<Name2, ShapeText<S2>, ShapeText<S>>
      : null

// ---------------------------------------------------------------- at run time

const fieldsText = (o: object): string => JSON.stringify(Object.entries(o).sort())
const netsOf = (d: Described, places: readonly number[]): readonly Node[] => places.map((n) => d.nets[n]!)

/** Tensors have their numbers in the order of their construction: those before this one are equal. */
const staleTensor = (now: Described, then: Described, i: number, at: string): string | null => {
  const [n, t] = [now.tensors[i]!, then.tensors[i]]
  if (n.kind !== t?.kind) return staleChanged(at, 'loss')
  if (n.name !== t.name) return staleReplaced(`${t.name}`, 'fed', `${n.name}`, 'fed')
  if (n.shape && t.shape && n.shape.join() !== t.shape.join())
    return staleInput(`${t.name}`, shapeText(t.shape), shapeText(n.shape))
  const [nets, before] = [n, t].map(({ net }) => (net === undefined ? [] : [net])) as [number[], number[]]
  return staleNets(netsOf(now, nets), netsOf(then, before)) ?? (fieldsText(n) === fieldsText(t) ? null : staleChanged(at, 'loss'))
}

const staleObjective = (now: Described, then: Described, n: DescribedObjective, t: DescribedObjective): string | null => {
  if (n.name !== t.name) return staleReplaced(t.name, 'objective', n.name, 'objective')
  if (fieldsText(n.optimizer) !== fieldsText(t.optimizer)) return staleChanged(t.name, 'objective')
  if (fieldsText(n.updates ?? {}) !== fieldsText(t.updates ?? {})) return staleChanged(t.name, 'objective')
  const nets = staleNets(netsOf(now, n.over), netsOf(then, t.over))
  if (nets !== null) return nets
  const [names, before] = [Object.keys(n.losses), Object.keys(t.losses)]
  const added = names.find((k) => !before.includes(k))
  if (added !== undefined) return staleNew(`${t.name}.${added}`, 'loss')
  const dropped = before.find((k) => !names.includes(k))
  if (dropped !== undefined) return staleGone(`${t.name}.${dropped}`, 'loss')
  for (const k of names) {
    const at = `${t.name}.${k}`
    const terms = n.losses[k]!
    const last = Math.max(...terms.flatMap(({ of, to = of }) => [of, to]))
    for (let tensor = 0; tensor <= last; tensor++) {
      const stale = staleTensor(now, then, tensor, at)
      if (stale !== null) return stale
    }
    if (JSON.stringify(terms) !== JSON.stringify(t.losses[k])) return staleChanged(at, 'loss')
  }
  return null
}

export const stale = (now: Described, then: Described): string | null =>
  staleItems(
    now.objectives,
    then.objectives,
    (n, t) => staleObjective(now, then, n, t),
    (o, words) => words(o.name, 'objective'),
  )
