// Losses and optimizers, as users write them: plain data with PyTorch's defaults.
import type { Adam, Loss, Sgd } from '../staging/grad/grad'

export type { Loss, Optimizer } from '../staging/grad/grad'

/** Mean squared error to a target of the output's shape. */
export const mse = 'mse' satisfies Loss
/** Mean absolute error to a target of the output's shape. */
export const l1 = 'l1' satisfies Loss
/** Binary cross-entropy of the output's sigmoid to a target between 0 and 1, for each pixel and channel. */
export const bceWithLogits = 'bce-with-logits' satisfies Loss
/** Softmax cross-entropy to class labels, for each image or, where the output has pixels, for each pixel. */
export const crossEntropy = 'cross-entropy' satisfies Loss

export type SgdOptions = Pick<Sgd, 'lr'> & Partial<Omit<Sgd, 'kind'>>
export type AdamOptions = Pick<Adam, 'lr'> & Partial<Omit<Adam, 'kind'>>

/** SGD whose type says its momentum: with one, it keeps a velocity for each parameter. */
export interface SgdWith<Momentum extends number> extends Sgd {
  readonly momentum: Momentum
}

type MomentumOf<O> = O extends { readonly momentum: infer M extends number } ? M : 0

/** @example sgd({ lr: 1e-3, momentum: 0.9 }) */
export const sgd = <const O extends SgdOptions>(o: O): SgdWith<MomentumOf<O>> => ({
  kind: 'sgd',
  lr: o.lr,
  momentum: (o.momentum ?? 0) as MomentumOf<O>,
  weightDecay: o.weightDecay ?? 0,
  nesterov: o.nesterov ?? false,
})

export interface AdamOf<Kind extends Adam['kind']> extends Adam {
  readonly kind: Kind
}

const adamLike = <K extends Adam['kind']>(kind: K, o: AdamOptions, weightDecay: number): AdamOf<K> => ({
  kind,
  lr: o.lr,
  beta1: o.beta1 ?? 0.9,
  beta2: o.beta2 ?? 0.999,
  eps: o.eps ?? 1e-8,
  weightDecay: o.weightDecay ?? weightDecay,
})

export const adam = (o: AdamOptions): AdamOf<'adam'> => adamLike('adam', o, 0)
/** Adam with decoupled weight decay; PyTorch's default decay is 0.01. */
export const adamw = (o: AdamOptions): AdamOf<'adamw'> => adamLike('adamw', o, 0.01)
