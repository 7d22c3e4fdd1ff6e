// Optimizers as data, and the update ops that they put into the training graph.
// In: an optimizer, a parameter and its gradient. Out: which states it keeps for each parameter and which op updates it.
import type { GraphError } from '../core/errors'
import type { AnyAttrs } from '../ops/op'

export interface Sgd {
  readonly kind: 'sgd'
  readonly lr: number
  readonly momentum: number
  readonly weightDecay: number
  readonly nesterov: boolean
}

export interface Adam {
  readonly kind: 'adam' | 'adamw'
  readonly lr: number
  readonly beta1: number
  readonly beta2: number
  readonly eps: number
  readonly weightDecay: number
}

export type Optimizer = Sgd | Adam

/** What an optimizer adds to each parameter: states (named after PyTorch's) and one op over weight, gradient, states. */
export interface UpdateRule {
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly states: readonly string[]
}

export const updateRule = (o: Optimizer): UpdateRule => {
  switch (o.kind) {
    case 'sgd':
      return {
        kind: 'sgd',
        attrs: { lr: o.lr, momentum: o.momentum, weightDecay: o.weightDecay, nesterov: o.nesterov ? 1 : 0 },
        states: o.momentum === 0 ? [] : ['momentum'],
      }
    case 'adam':
    case 'adamw':
      return {
        kind: 'adam',
        attrs: {
          lr: o.lr,
          beta1: o.beta1,
          beta2: o.beta2,
          eps: o.eps,
          weightDecay: o.weightDecay,
          decoupled: o.kind === 'adamw' ? 1 : 0,
        },
        states: ['exp_avg', 'exp_avg_sq'],
      }
  }
}

/** The optimizer of an update op; undefined for ops that move running statistics. */
export const optimizerBy = (kind: string, attrs: AnyAttrs): Optimizer | undefined => {
  const { nesterov, decoupled, ...numbers } = attrs
  if (kind === 'sgd') return { kind, ...numbers, nesterov: nesterov === 1 } as Sgd
  return kind === 'adam' ? ({ kind: decoupled === 1 ? 'adamw' : 'adam', ...numbers } as Adam) : undefined
}

interface Limit {
  readonly test: (v: number) => boolean
  readonly legal: string
}
const atLeast0: Limit = { test: (v) => v >= 0, legal: '0 or more' }
const below1: Limit = { test: (v) => v >= 0 && v < 1, legal: '0 or more and below 1' }

const LIMITS: Readonly<Record<string, Limit>> = {
  lr: atLeast0,
  momentum: atLeast0,
  weightDecay: atLeast0,
  beta1: below1,
  beta2: below1,
  eps: atLeast0,
}

export const optimizerFault = (o: Optimizer): GraphError | undefined => {
  const needed = o.kind === 'sgd' ? ['lr', 'momentum', 'weightDecay'] : ['lr', 'beta1', 'beta2', 'eps', 'weightDecay']
  const numbers = o as unknown as Readonly<Record<string, number>>
  for (const field of needed) {
    const got = numbers[field]!
    if (typeof got !== 'number' || !Number.isFinite(got) || !LIMITS[field]!.test(got))
      return { tag: 'OptimizerInvalid', field, got, legal: LIMITS[field]!.legal }
  }
  return o.kind === 'sgd' && o.nesterov && o.momentum === 0
    ? { tag: 'OptimizerInvalid', field: 'momentum with nesterov', got: 0, legal: 'more than 0' }
    : undefined
}
