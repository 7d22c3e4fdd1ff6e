// Losses made of others, and of operators. In: losses of one output and one target, each with its weight; or a function of the two. Out: plain data.
// Invariant: the result of a function is calls of operators of the table, which are staged, tiled and differentiated like all others. Worked example:
// sumOf(crossEntropy, [0.5, dice()]) is cross-entropy and half of Dice; lossOf((y, t) => y.minus(t).square().mean()) is mse.
import { left } from 'fp-ts/Either'
import { orThrow } from '../staging/core/certain'
import { renderError } from '../staging/core/errors'
import type { AnyAttrs } from '../staging/ops/op'
import { type Loss, type LossCall, type LossSum, type OwnLoss, partsOf, type PlainLoss } from '../staging/ops/losses'
import { lossEntry } from '../staging/ops/losscalls'

export type { LossSum, OwnLoss } from '../staging/ops/losses'

/**
 * A loss, or a pair of a weight and a loss, for `sumOf`.
 *
 * @example const parts: readonly LossPart[] = [crossEntropy, [0.5, dice()]]
 */
export type LossPart = Loss | readonly [weight: number, loss: Loss]

type PlainIn<P> = P extends readonly [number, infer L] ? PlainIn<L> : P extends LossSum<infer L> ? L : Extract<P, PlainLoss>

const isWeighed = (p: LossPart): p is readonly [number, Loss] => Array.isArray(p)

/**
 * Creates a weighted sum of losses of the same output and target.
 *
 * @param parts Losses, or pairs of a weight and a loss. The weight is 1 by default.
 * @example stage(net, { loss: sumOf(crossEntropy, [0.5, dice()]) })
 */
export const sumOf = <const Parts extends readonly [LossPart, ...LossPart[]]>(
  ...parts: Parts
): LossSum<PlainIn<Parts[number]>> => {
  const flat = (parts as readonly LossPart[]).flatMap((p) => {
    const [weight, loss] = isWeighed(p) ? p : ([1, p] as const)
    return partsOf(loss).map(([share, part]) => [share * weight, part] as const)
  })
  const sum: LossSum = { kind: 'sum', parts: flat }
  orThrow(renderError)(lossEntry(sum))
  return sum as LossSum<PlainIn<Parts[number]>>
}

// ---------------------------------------------------------------- of one's own

/**
 * A number per element in the formula of `lossOf`. Each method returns a new value.
 *
 * @example
 * const absolute = (y: LossValue, t: LossValue) => y.minus(t).abs().mean()
 * lossOf(absolute)
 */
export interface LossValue {
  /** Returns the sum. @example lossOf((y, t) => y.plus(t.times(-1)).abs().mean()) */
  readonly plus: (other: LossValue | number) => LossValue
  /** Returns the difference. @example lossOf((y, t) => y.minus(t).abs().mean()) */
  readonly minus: (other: LossValue | number) => LossValue
  /** Returns the product, element by element. @example lossOf((y, t) => y.times(t).mean()) */
  readonly times: (other: LossValue | number) => LossValue
  /** Returns the quotient, element by element. @example lossOf((y, t) => y.minus(t).abs().over(t.abs().plus(1)).mean()) */
  readonly over: (other: LossValue | number) => LossValue
  /** Returns the square. @example lossOf((y, t) => y.minus(t).square().mean()) */
  readonly square: () => LossValue
  /**
   * Returns the square root; its gradient at 0 is not finite.
   *
   * @example lossOf((y, t) => y.minus(t).square().plus(1e-6).sqrt().mean())
   */
  readonly sqrt: () => LossValue
  /** Returns the absolute value. @example lossOf((y, t) => y.minus(t).abs().mean()) */
  readonly abs: () => LossValue
  /** Returns e to this power. @example lossOf((y, t) => y.exp().minus(y.times(t)).mean()) */
  readonly exp: () => LossValue
  /** Returns the natural logarithm. @example lossOf((y, t) => y.abs().plus(1).log().minus(t).square().mean()) */
  readonly log: () => LossValue
  /**
   * Returns 0 for negative numbers and the number itself otherwise.
   *
   * @example lossOf((y, t) => y.times(t).times(-1).plus(1).relu().mean())
   */
  readonly relu: () => LossValue
  /** Returns 1 / (1 + e^−x). @example lossOf((y, t) => y.sigmoid().minus(t).square().mean()) */
  readonly sigmoid: () => LossValue
  /** Returns the hyperbolic tangent. @example lossOf((y, t) => y.tanh().minus(t).square().mean()) */
  readonly tanh: () => LossValue
  /** Returns the softmax over the channels of each pixel. @example lossOf((y, t) => y.softmax().minus(t).square().mean()) */
  readonly softmax: () => LossValue
  /** Returns the mean over all elements and images: the loss. @example lossOf((y, t) => y.minus(t).abs().mean()) */
  readonly mean: () => OwnLoss
}

type Made = 'output' | 'target' | { readonly op: string; readonly attrs: AnyAttrs; readonly of: readonly Made[] }

/** The calls that make something, each once, those that it reads before it. */
const meanOf = (end: Made): OwnLoss => {
  const calls: LossCall[] = []
  const places = new Map<Made, number>()
  const readOf = (made: Made): LossCall['reads'][number] => {
    if (typeof made === 'string') return made
    const known = places.get(made)
    if (known !== undefined) return known
    const reads = made.of.map(readOf)
    places.set(made, calls.length)
    return calls.push({ op: made.op, attrs: made.attrs, reads }) - 1
  }
  const of = readOf(end)
  return { kind: 'own', calls, of }
}

const refused = (reason: string): never => orThrow(String)(left(`lossOf: ${reason}`))

/** How a value was made: users have no use for it. */
const MADE = new WeakMap<LossValue, Made>()

const madeBy = (what: string, other: LossValue): Made => {
  const made = typeof other === 'object' && other !== null ? MADE.get(other) : undefined
  if (made === undefined) return refused(`${what} takes a number, or a value computed from the output and the target`)
  return made
}

const nodeOf = (made: Made): LossValue => {
  const by = (op: string, attrs: AnyAttrs = {}, ...others: readonly Made[]): LossValue =>
    nodeOf({ op, attrs, of: [made, ...others] })
  const affine = (factor: number, shift: number): LossValue => by('affine', { factor, shift })
  const value: LossValue = {
    plus: (o) => (typeof o === 'number' ? affine(1, o) : by('add', {}, madeBy('plus', o))),
    minus: (o) => (typeof o === 'number' ? affine(1, -o) : value.plus(o.times(-1))),
    times: (o) => (typeof o === 'number' ? affine(o, 0) : by('multiply', { over: 0 }, madeBy('times', o))),
    over: (o) =>
      typeof o === 'number' ? affine(1 / o, 0) : value.times(nodeOf({ op: 'reciprocal', attrs: {}, of: [madeBy('over', o)] })),
    square: () => by('square'),
    sqrt: () => by('sqrt'),
    abs: () => by('abs'),
    exp: () => by('exp'),
    log: () => by('log'),
    relu: () => by('relu', { slope: 0 }),
    sigmoid: () => by('sigmoid'),
    tanh: () => by('tanh'),
    softmax: () => by('softmax'),
    mean: () => meanOf(made),
  }
  MADE.set(value, made)
  return value
}

/**
 * Creates your own loss: the mean of a formula of the output and of a target of the same shape. The function
 * runs once and records operators, which are differentiated, tiled and swapped like those of layers.
 *
 * @param made Returns the loss from the output and the target; end with `.mean()`.
 * @example
 * const charbonnier = lossOf((y, t) => y.minus(t).square().plus(1e-6).sqrt().mean())
 * stage(net, { loss: charbonnier })
 */
export const lossOf = (made: (output: LossValue, target: LossValue) => OwnLoss): OwnLoss => {
  const loss = made(nodeOf('output'), nodeOf('target'))
  if (typeof loss !== 'object' || loss === null || loss.kind !== 'own')
    return refused('its function must return a mean: (output, target) => ... .mean()')
  orThrow(renderError)(lossEntry(loss))
  return loss
}
