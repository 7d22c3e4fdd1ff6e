// A training step of one's own: nets applied to fed tensors, several times if need be, and objectives, each minimised over
// its own nets by its own optimizer. In: nets, shapes, losses. Out: plain data, whose type says how every tensor was made; a net
// is its own weights, so the same object applied twice is one set of them. All losses are measured on the weights that the
// step began with; then all are updated.
import { chain, type Either, isLeft, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { orThrow } from '../staging/core/certain'
import { known } from '../staging/core/known'
import { type Known, optionsFor } from '../staging/core/options'
import { lossEntry, targetOf } from '../staging/ops/losscalls'
import type { LOSSES, LossName, LossSum } from '../staging/ops/losses'
import { type FaultyGroups, UPDATES, type Updates, updatesOf } from '../staging/ops/updates'
import { type GraphError, renderError } from '../staging/core/errors'
import { analyse } from './analyse'
import type { IsStrict, OrWords } from '../staging/core/orwords'
import { type Combining, combinedShape } from './combined'
import type { AnalyseWhole, ComplaintOf, Facts } from './facts'
import { bytesLayer, type TakesBytes, takesBytes } from './fedbytes'
import {
  type BranchesDiffer,
  type BytesNotFed,
  bytesNotFed,
  type FactorMisfits,
  type FedNeedsStrict,
  type NetUnapplied,
  type ShapeText,
  shapeText,
  type TargetMisfits,
  targetMisfits,
  type TermsDiffer,
} from './messages'
import type { Net, Shape, Sized } from './net'
import type { Add } from './numbers/naturals'
import type { Loss, Optimizer } from './training'

// ---------------------------------------------------------------- tensors

/**
 * A value of a step, with its shape. The command line may ask for other sizes.
 *
 * @example const shapeOf = (t: Tensor) => t.shape.join('×')
 */
export interface Tensor<S extends Shape = Shape, M = unknown> {
  readonly kind: 'fed' | 'applied' | Combining | 'detached'
  readonly shape: S
  /** For types alone: how it was made, where they know it. */
  readonly made?: M
}
/**
 * The origin of a tensor, for types: its kind, its inputs, and the net or the name.
 *
 * @example type Origin = Made<'fed', readonly [], 'photo'>
 */
export interface Made<K extends Tensor['kind'] = Tensor['kind'], Of extends readonly Tensor[] = readonly Tensor[], By = unknown> {
  readonly kind: K
  readonly of: Of
  readonly by: By
}
/**
 * A tensor that data fill in each step.
 *
 * @example const input: Fed<[1, 3, 256, 256], 'photo'> = fed('photo', [1, 3, 256, 256])
 */
export interface Fed<S extends Shape = Shape, Name extends string = string> extends Tensor<S, Made<'fed', readonly [], Name>> {
  readonly kind: 'fed'
  readonly name: Name
}
/** The output of a net, as `apply` creates it. @example const made: Applied = apply(generator, label) */
export interface Applied<S extends Shape = Shape, N extends Net = Net, To extends Tensor = Tensor>
  extends Tensor<S, Made<'applied', readonly [To], N>> {
  readonly kind: 'applied'
  readonly net: N
  readonly to: To
}
/**
 * A tensor made of several: joined, added or multiplied.
 *
 * @example const both: Combined = joined(label, photo)
 */
export interface Combined<
  K extends Combining = Combining,
  S extends Shape = Shape,
  Parts extends readonly Tensor[] = readonly Tensor[],
> extends Tensor<S, Made<K, Parts>> {
  readonly kind: K
  readonly parts: Parts
}
/**
 * A tensor through which no gradient flows, as `detach` creates it.
 *
 * @example const constant: DetachedTensor = detach(fake)
 */
export interface DetachedTensor<S extends Shape = Shape, Of extends Tensor = Tensor>
  extends Tensor<S, Made<'detached', readonly [Of]>> {
  readonly kind: 'detached'
  readonly of: Of
}

/**
 * Creates a tensor that data fill in each step: images, label maps or classes.
 *
 * @param name Name of the tensor; data files and samples use it.
 * @param shape Shape: [batch, channels, height, width].
 * @example const photo = fed('photo', [1, 3, 256, 256])
 */
export const fed = <const Name extends string, const S extends readonly [number, number, number, number]>(
  name: Name,
  shape: FedOf<S>,
): Fed<SizesOf<S>, Name> => ({ kind: 'fed', name, shape: shape as never })
/** Without `strict` literal sizes are refused here, and nothing is known of them. */
type FedOf<S extends Shape> = IsStrict extends true ? S : number extends S[number] ? S : FedNeedsStrict
type SizesOf<S extends Shape> = IsStrict extends true ? S : Shape

/** Sizes and nets that are known only at run time are checked then. */
export type IsLiteral<N extends Net, S extends Shape> = IsStrict extends true
  ? number extends S[0] | S[1] | S[2] | S[3]
    ? false
    : string extends N['kind']
      ? false
      : true
  : false
type Takes<N extends Net, S extends Shape> = OrWords<IsLiteral<N, S> extends true ? ComplaintOf<AnalyseWhole<N, S>> : null>
/** The result of a net for a shape, if both are known. */
export type Given<N extends Net, S extends Shape> =
  IsLiteral<N, S> extends true ? (AnalyseWhole<N, S> extends Facts<infer O, any, any, any> ? O : Shape) : Shape

/**
 * Applies a net to a tensor. A net that is applied twice uses the same weights both times.
 *
 * @param net The layers.
 * @param to The input tensor.
 * @example
 * const made = apply(generator, label)
 * const score = apply(critic, made)
 */
export const apply = <N extends Net, T extends Tensor>(
  net: N,
  to: T & Takes<N, T['shape']> & TakesFed<N, T>,
): Applied<Given<N, T['shape']>, N, T> => ({
  kind: 'applied',
  net,
  to,
  shape: orThrow(renderError)(
    pipe(
      fedTo(net, to),
      chain(() => analyse(net, to.shape)),
    ),
  ).output as Given<N, T['shape']>,
})
/** Only fed tensors are bytes. */
type TakesFed<N extends Net, T extends Tensor> = OrWords<
  TakesBytes<N> extends true ? ('fed' extends T['kind'] ? null : BytesNotFed) : null
>
/** The same of a net that may come from outside. */
export const fedTo = (net: Net, to: Tensor): Either<GraphError, Tensor> =>
  takesBytes(net) && !isFed(to)
    ? left({ tag: 'ShapeInvalid', layer: bytesLayer(net)!.name || 'fromBytes', kind: 'fromBytes', reason: bytesNotFed() })
    : right(to)

/** The shape of tensors side by side; Shape when a size is not known. */
export type JoinedShape<Parts> = Parts extends readonly [Tensor<infer S>, ...infer Rest] ? AndChannels<S, Rest> : Shape
type AndChannels<S extends Shape, Rest> = Rest extends readonly [Tensor<infer T>, ...infer More]
  ? AndChannels<Sized<S[0], number extends S[1] | T[1] ? number : Add<S[1], T[1]>, S[2], S[3]>, More>
  : Rest extends readonly []
    ? S
    : Shape

const combined = <T extends Combined>(kind: T['kind'], parts: T['parts']): T => {
  const shapes = parts.map((p) => p.shape)
  return { kind, parts, shape: orThrow(String)(combinedShape(kind, shapes)) } as unknown as T
}

/**
 * Joins tensors along the channels.
 *
 * @param parts Tensors of the same batch, height and width.
 * @example
 * apply(critic, joined(label))
 * joined(label, photo).shape
 */
export const joined = <const Parts extends readonly [Tensor, ...Tensor[]]>(
  ...parts: { readonly [K in keyof Parts]: Parts[K] & Joinable<Parts[0]['shape'], Parts[K], K> }
): Combined<'joined', JoinedShape<Parts>, Parts> => combined('joined', parts as unknown as Parts)

/** Words where a part's images are not as large, or not as many, as the first's. */
type Joinable<A extends Shape, Part, K> = OrWords<
  Part extends Tensor<infer B>
    ? Misfit<ShapeText<[A[0], B[1], A[2], A[3]]>, A, B, BranchesDiffer<ShapeText<A>, Place<K>, ShapeText<B>>>
    : null
>
/** Counted from 1. */
type Place<K> = K extends `${infer N extends number}` ? `${Add<N, 1>}` : string

/** Words where both shapes are known, and the second is none of those that are legal. */
type Misfit<Legal, A extends Shape, B extends Shape, Words> = number extends A[number] | B[number]
  ? null
  : ShapeText<B> extends Legal
    ? null
    : Words
type Unless<Legal, A extends Shape, B extends Shape, Words> = OrWords<Misfit<Legal, A, B, Words>>
type Addable<A extends Shape, B extends Shape> = Unless<ShapeText<A>, A, B, TermsDiffer<ShapeText<A>, ShapeText<B>>>
type Factor<S extends Shape, F extends Shape> = Unless<
  ShapeText<S> | ShapeText<[S[0], S[1], 1, 1]> | ShapeText<[S[0], 1, S[2], S[3]]>,
  S,
  F,
  FactorMisfits<ShapeText<F>, ShapeText<S>>
>

/** Adds two tensors of the same shape. @example add(label, apply(same, label)) */
export const add = <A extends Tensor, B extends Tensor>(
  a: A,
  b: B & Addable<A['shape'], B['shape']>,
): Combined<'added', A['shape'], readonly [A, B]> => combined('added', [a, b])

/**
 * Multiplies two tensors element by element.
 *
 * @param x A tensor.
 * @param factor A tensor of the same shape, of one value per channel, or of one value per pixel.
 * @example multiply(label, apply(gate, label))
 */
export const multiply = <A extends Tensor, B extends Tensor>(
  x: A,
  factor: B & Factor<A['shape'], B['shape']>,
): Combined<'multiplied', A['shape'], readonly [A, B]> => combined('multiplied', [x, factor])

/**
 * Returns a tensor with the same values through which no gradient flows.
 *
 * @param of The tensor.
 * @example loss(mse, apply(critic, detach(fake)), 0)
 */
export const detach = <T extends Tensor>(of: T): DetachedTensor<T['shape'], T> => ({ kind: 'detached', of, shape: of.shape })

// ---------------------------------------------------------------- objectives

/**
 * One term of an objective, as `loss` creates it.
 *
 * @example const term: LossTerm = loss(l1, fake, photo, 100)
 */
export interface LossTerm<
  L extends Loss = Loss,
  Of extends Tensor = Tensor,
  To extends Tensor | number = Tensor | number,
  W extends number = number,
> {
  readonly loss: L
  readonly of: Of
  readonly to: To
  readonly weight: W
}

/**
 * Creates one term of an objective: `weight` times a loss between a tensor and its target.
 *
 * @param kind The loss, e.g. `mse`, `crossEntropy` or `dice()`.
 * @param of The tensor to train.
 * @param to The target: a tensor, or one number for every element.
 * @param weight Factor of the term. Default 1.
 * @example const terms = [loss(mse, judged, 1), loss(l1, fake, photo, 100)]
 */
export const loss = <L extends Loss, Of extends Tensor, To extends Tensor | number, W extends number = 1>(
  kind: L,
  of: Of,
  to: To & Target<L, Of['shape'], To>,
  weight = 1 as W,
): LossTerm<L, Of, To, W> => {
  orThrow(String)(comparable(kind, of, to))
  return { loss: kind, of, to, weight }
}

/** Class labels have one channel; all other compared tensors have one shape. */
type TargetShape<L, S extends Shape> =
  L extends LossSum<infer Part>
    ? TargetShape<Part, S>
    : L extends OfLabels | { readonly kind: OfLabels }
      ? [S[0], 1, S[2], S[3]]
      : S
/** The losses that compare with class labels. */
type OfLabels = { [K in LossName]: (typeof LOSSES)[K] extends { readonly labels: true } ? K : never }[LossName]
type Target<L extends Loss, S extends Shape, To> = OrWords<
  To extends Tensor<infer T>
    ? ShapeText<TargetShape<L, S>> extends infer Legal extends string
      ? Misfit<Legal, S, T, TargetMisfits<ShapeText<T>, ShapeText<S>, Legal>>
      : null
    : null
>
const comparable = (kind: Loss, of: Tensor, to: Tensor | number): Either<string, unknown> => {
  const entry = lossEntry(kind)
  if (typeof to === 'number' || isLeft(entry)) return right(to)
  const legal = shapeText(targetOf(entry.right, of.shape) as unknown as Shape)
  return shapeText(to.shape) === legal ? right(to) : left(targetMisfits(shapeText(to.shape), shapeText(of.shape), legal))
}

type OneOrMore<T> = T | readonly T[]
export type Losses = Readonly<Record<string, readonly LossTerm[]>>

/**
 * An objective of a step: its nets, optimizer, updates and losses.
 *
 * @example const names = (os: readonly StepObjective[]) => os.map((o) => o.name)
 */
export interface StepObjective<
  Name extends string = string,
  Over extends readonly Net[] = readonly Net[],
  Opt extends Optimizer = Optimizer,
  Ls extends Losses = Losses,
  U extends Updates = Updates,
> {
  readonly name: Name
  /** The nets to train. */
  readonly over: Over
  readonly optimizer: Opt
  /** Options of the updates, e.g. `freeze` or `clipNorm`. */
  readonly updates: U
  /** The losses by name. Logs call them `<objective>.<loss>`; several terms of one name have a number. */
  readonly losses: Ls
}

/**
 * Options of `minimize`.
 *
 * @example const objective: Minimize = { over: critic, optimizer: adam({ lr: 1e-4 }), losses: { real: loss(mse, judged, 1) } }
 */
export interface Minimize<Nets = OneOrMore<Net>> extends Updates {
  /**
   * The nets to train: one, or a list.
   *
   * @example minimize('critic', { over: critic, optimizer: adam({ lr: 1e-4 }), losses: { real: loss(mse, judged, 1) } })
   */
  readonly over: Nets
  /**
   * The optimizer of all nets of this objective.
   *
   * @example minimize('critic', { over: critic, optimizer: adam({ lr: 1e-4 }), losses: { real: loss(mse, judged, 1) } })
   */
  readonly optimizer: Optimizer
  /**
   * The losses by name; several terms under one name are summed.
   *
   * @example minimize('critic', { over: critic, optimizer: sgd({ lr: 0.1 }), losses: { real: loss(mse, judged, 1) } })
   */
  readonly losses: Readonly<Record<string, OneOrMore<LossTerm>>>
}
// An editor needs only the texts: the nets may be a list of unknown length, which no type in this place describes.
const MINIMIZE = optionsFor<Minimize<unknown>>()('minimize', 'over', 'optimizer', 'losses', ...UPDATES.keys)

type Listed<T> = T extends readonly unknown[] ? T : readonly [T]
const listed = <T>(one: OneOrMore<T>): readonly T[] => (Array.isArray(one) ? one : [one as T])

/**
 * The objective that `minimize` creates from a name and options.
 *
 * @example type Critic = Minimized<'critic', Minimize>
 */
export type Minimized<Name extends string, O extends Minimize> = StepObjective<
  Name,
  Listed<O['over']>,
  O['optimizer'],
  { readonly [K in keyof O['losses']]: Listed<O['losses'][K]> },
  { readonly [K in keyof O & keyof Updates]: O[K] }
>

/**
 * Creates an objective: the nets to train, their optimizer, and the losses.
 *
 * @param name Name of the objective in logs.
 * @param objective The nets (`over`), the `optimizer`, the `losses`, and options such as `freeze` or
 *   `clipNorm`.
 * @example minimize('critic', { over: critic, optimizer: adam({ lr: 1e-4 }), losses: { real: loss(mse, judged, 1) } })
 */
export const minimize = <const Name extends string, const O extends Minimize>(
  name: Name,
  objective: Known<O, typeof MINIMIZE, FaultyGroups<O>>,
): Minimized<Name, O> => {
  const { over, optimizer, losses, ...updates }: Minimize = known(MINIMIZE, objective as unknown as O)
  return {
    name,
    over: listed<Net>(over),
    optimizer,
    updates: updatesOf(updates),
    losses: Object.fromEntries(Object.entries(losses).map(([k, terms]) => [k, listed<LossTerm>(terms)])),
  } as unknown as Minimized<Name, O>
}

/**
 * A training step: objectives that are minimised together.
 *
 * @example const count = (s: TrainingStep) => s.objectives.length
 */
export interface TrainingStep<Os extends readonly StepObjective[] = readonly StepObjective[]> {
  readonly kind: 'step'
  readonly objectives: Os
}

/** The nets in a tensor's construction; any, if its type does not tell. */
type NetsOf<T> = T extends { readonly kind: 'applied'; readonly net: infer N; readonly to: infer To }
  ? N | NetsOf<To>
  : T extends { readonly kind: Combining; readonly parts: infer Parts extends readonly unknown[] }
    ? NetsOf<Parts[number]>
    : T extends { readonly kind: 'detached'; readonly of: infer Of }
      ? NetsOf<Of>
      : T extends number | { readonly kind: 'fed' }
        ? never
        : Net
type NetsOfTerms<T> = T extends LossTerm ? NetsOf<T['of'] | T['to']> : never
type NetsOfLosses<Ls> = { [K in keyof Ls]: Ls[K] extends readonly unknown[] ? NetsOfTerms<Ls[K][number]> : never }[keyof Ls]
type NetsOfObjectives<O> = O extends StepObjective ? NetsOfLosses<O['losses']> : never

/** Words where a net that is trained is none of those that are applied. */
type Trains<O, Applies> = OrWords<
  O extends StepObjective
    ? KindUnapplied<O['over'][number], Applies> extends infer K
      ? [K] extends [never]
        ? null
        : NetUnapplied<O['name'], K & string>
      : null
    : null
>
type KindUnapplied<N extends Net, Applies> = N extends unknown
  ? string extends N['kind']
    ? never
    : [N] extends [Applies]
      ? never
      : N['kind']
  : never

/**
 * Creates a training step with several objectives, such as a GAN. All losses are computed with the weights from
 * before the step.
 *
 * @param objectives One `minimize(…)` per objective.
 * @example
 * step(
 *   minimize('critic', { over: critic, optimizer: adam({ lr: 1e-4 }), losses: { fake: loss(mse, apply(critic, detach(fake)), 0) } }),
 *   minimize('generator', { over: generator, optimizer: adam({ lr: 1e-4 }), losses: { l1: loss(l1, fake, photo) } }),
 * )
 */
export const step = <const Os extends readonly StepObjective[]>(
  ...objectives: { readonly [I in keyof Os]: Os[I] & Trains<Os[I], NetsOfObjectives<Os[number]>> }
): TrainingStep<Os> => ({
  kind: 'step',
  objectives: objectives as unknown as Os,
})

export const termsOf = (s: TrainingStep): readonly LossTerm[] => s.objectives.flatMap((o) => Object.values(o.losses).flat())

/** The tensors that a tensor was made from. */
export const partsOf = (t: Tensor): readonly Tensor[] => {
  switch (t.kind) {
    case 'fed':
      return []
    case 'applied':
      return [(t as Applied).to]
    case 'joined':
    case 'added':
    case 'multiplied':
      return (t as Combined).parts
    case 'detached':
      return [(t as DetachedTensor).of]
  }
}

/** These tensors and all of their sources, in the order of construction. */
export const madeOf = (tensors: readonly Tensor[]): ReadonlySet<Tensor> => {
  const made = new Set<Tensor>()
  const visit = (t: Tensor): void => {
    if (made.has(t)) return
    partsOf(t).forEach(visit)
    made.add(t)
  }
  tensors.forEach(visit)
  return made
}

export const isFed = (t: Tensor): t is Fed => t.kind === 'fed'
export const isTensor = (to: Tensor | number): to is Tensor => typeof to !== 'number'

/** All tensors of the step, in the order of construction. */
export const tensorsOf = (s: TrainingStep): readonly Tensor[] => [
  ...madeOf(termsOf(s).flatMap((t) => [t.of, t.to].filter(isTensor))),
]

/**
 * Returns the tensors that data fill in each step.
 *
 * @param s The step.
 * @example fedOf(objectives).map((tensor) => `${tensor.name}: ${tensor.shape.join('×')}`)
 */
export const fedOf = (s: TrainingStep): readonly Fed[] => tensorsOf(s).filter(isFed)
