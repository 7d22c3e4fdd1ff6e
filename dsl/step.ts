// A training step of one's own: nets applied to fed tensors, several times if need be, and objectives, each minimised over
// its own nets by its own optimizer. In: nets, shapes, losses. Out: plain data; a net is its own weights, so the same object
// applied twice is one set of them. All losses are measured on the weights that the step began with; then all are updated.
import { isLeft } from 'fp-ts/Either'
import { renderError } from '../staging/core/errors'
import { analyse } from './analyse'
import type { Analyse, ComplaintOf, Facts } from './facts'
import { branchesDiffer, shapeText } from './messages'
import type { Net, Shape } from './net'
import type { Loss, Optimizer } from './training'

// ---------------------------------------------------------------- tensors

/** A value of the step. Its shape is that of the sizes written down; the command line may ask for others. */
export interface Tensor<S extends Shape = Shape> {
  readonly kind: 'fed' | 'applied' | 'joined' | 'detached'
  readonly shape: S
}
export interface Fed<S extends Shape = Shape> extends Tensor<S> {
  readonly kind: 'fed'
  readonly name: string
}
export interface Applied<S extends Shape = Shape> extends Tensor<S> {
  readonly kind: 'applied'
  readonly net: Net
  readonly to: Tensor
}
export interface Joined<S extends Shape = Shape> extends Tensor<S> {
  readonly kind: 'joined'
  readonly parts: readonly Tensor[]
}
export interface DetachedTensor<S extends Shape = Shape> extends Tensor<S> {
  readonly kind: 'detached'
  readonly of: Tensor
}

/** What each step is given: images, label maps, classes. Data files hold it under this name. */
export const fed = <const S extends readonly [number, number, number, number]>(name: string, shape: S): Fed<S> => ({
  kind: 'fed',
  name,
  shape,
})

/** Sizes and nets that are known only at run time are checked then. */
type IsLiteral<N extends Net, S extends Shape> = number extends S[0] | S[1] | S[2] | S[3]
  ? false
  : string extends N['kind']
    ? false
    : true
type Takes<N extends Net, S extends Shape> =
  IsLiteral<N, S> extends true ? (ComplaintOf<Analyse<N, S>> extends infer C extends string ? C : unknown) : unknown
type Given<N extends Net, S extends Shape> =
  IsLiteral<N, S> extends true ? (Analyse<N, S> extends Facts<infer O, any, any, any> ? O : Shape) : Shape

/** @example const fake = apply(generator, label) */
export const apply = <N extends Net, S extends Shape>(net: N, to: Tensor<S> & Takes<N, S>): Applied<Given<N, S>> => {
  const a = analyse(net, to.shape)
  if (isLeft(a)) throw new Error(renderError(a.left))
  return { kind: 'applied', net, to, shape: a.right.output as Given<N, S> }
}

/** Side by side along the channels. @example joined(label, photo) */
export const joined = (...parts: readonly [Tensor, ...Tensor[]]): Joined => {
  const [first] = parts
  const odd = parts.findIndex((p) => [0, 2, 3].some((d) => p.shape[d] !== first.shape[d]))
  if (odd >= 0) throw new Error(branchesDiffer(shapeText(first.shape), `${odd + 1}`, shapeText(parts[odd]!.shape)))
  const [b, , h, w] = first.shape
  return { kind: 'joined', parts, shape: [b, parts.reduce((n, p) => n + p.shape[1], 0), h, w] }
}

/** The same values, taken as constants: no gradient passes. */
export const detach = <S extends Shape>(of: Tensor<S>): DetachedTensor<S> => ({ kind: 'detached', of, shape: of.shape })

// ---------------------------------------------------------------- objectives

/** weight * loss(of, to); `to` is a number where every element is compared with the same. */
export interface LossTerm {
  readonly loss: Loss
  readonly of: Tensor
  readonly to: Tensor | number
  readonly weight: number
}

/** @example loss(mse, judged, 1), loss(l1, fake, photo, 100) */
export const loss = (kind: Loss, of: Tensor, to: Tensor | number, weight = 1): LossTerm => ({ loss: kind, of, to, weight })

export interface StepObjective {
  readonly name: string
  /** The nets whose parameters it trains. */
  readonly over: readonly Net[]
  readonly optimizer: Optimizer
  /** Reported as '<objective>.<loss>', several terms under one name as '<objective>.<loss>.0', ... */
  readonly losses: Readonly<Record<string, readonly LossTerm[]>>
}

export interface Minimize {
  readonly over: Net | readonly Net[]
  readonly optimizer: Optimizer
  readonly losses: Readonly<Record<string, LossTerm | readonly LossTerm[]>>
}

const listed = <T>(one: T | readonly T[]): readonly T[] => (Array.isArray(one) ? one : [one as T])

export const minimize = (name: string, { over, optimizer, losses }: Minimize): StepObjective => ({
  name,
  over: listed(over),
  optimizer,
  losses: Object.fromEntries(Object.entries(losses).map(([k, terms]) => [k, listed(terms)])),
})

export interface TrainingStep {
  readonly kind: 'step'
  readonly objectives: readonly StepObjective[]
}

/**
 * @example
 * const fake = apply(generator, label)
 * export default step(
 *   minimize('generator', { over: generator, optimizer: adam({ lr: 2e-4 }), losses: { gan: loss(mse, apply(critic, fake), 1) } }),
 *   minimize('critic', { over: critic, optimizer: adam({ lr: 2e-4 }), losses: { fake: loss(mse, apply(critic, detach(fake)), 0) } }),
 * )
 */
export const step = (...objectives: readonly StepObjective[]): TrainingStep => ({ kind: 'step', objectives })

export const termsOf = (s: TrainingStep): readonly LossTerm[] => s.objectives.flatMap((o) => Object.values(o.losses).flat())

/** These tensors and all that they are made of, in the order in which they are first met. */
export const madeOf = (tensors: readonly Tensor[]): ReadonlySet<Tensor> => {
  const seen = new Set<Tensor>()
  const visit = (t: Tensor): void => {
    if (seen.has(t)) return
    seen.add(t)
    if (t.kind === 'applied') visit((t as Applied).to)
    if (t.kind === 'joined') (t as Joined).parts.forEach(visit)
    if (t.kind === 'detached') visit((t as DetachedTensor).of)
  }
  tensors.forEach(visit)
  return seen
}

export const isFed = (t: Tensor): t is Fed => t.kind === 'fed'

/** What the step is fed. */
export const fedOf = (s: TrainingStep): readonly Fed[] =>
  [...madeOf(termsOf(s).flatMap((t) => (typeof t.to === 'number' ? [t.of] : [t.of, t.to])))].filter(isFed)
