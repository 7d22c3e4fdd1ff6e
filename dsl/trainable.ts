// What can be staged and trained: a step, or a model with a loss and an optimizer, which is a step of one objective: its net
// applied to what is fed as 'input', compared with what is fed as 'target'. In: a model, a loss, an optimizer. Out: the step,
// or what is wrong in words. Invariant: whatever plans or trains knows steps only.
import { type Either, left, right } from 'fp-ts/Either'
import type { GraphError } from '../staging/core/errors'
import { lossNames, LOSSES, type LossRule } from '../staging/grad/loss'
import type { LayerNames, Model } from './model'
import type { Shape } from './net'
import { type Applied, fed, loss, minimize, step, type TrainingStep } from './step'
import type { Loss, Optimizer } from './training'

export type Trainable = Model | TrainingStep

/** The names of its layers, as literals where they are known. */
export type NamesIn<M extends Trainable> = M extends Model ? LayerNames<M> : string

export const asStep = (m: Model, kind: Loss, optimizer: Optimizer): Either<GraphError, TrainingStep> => {
  if (m.layers.length === 0) return left({ tag: 'ModelInvalid', at: 'net', reason: 'it has no layers' })
  const rule = LOSSES[kind] as LossRule | undefined
  if (!rule) return left({ tag: 'UnknownLoss', got: kind, legal: lossNames })
  const output: Applied = { kind: 'applied', net: m.net, to: fed('input', m.input), shape: m.output }
  const target = fed('target', rule.target(m.output) as unknown as Shape)
  return right(step(minimize('model', { over: m.net, optimizer, losses: { loss: loss(kind, output, target) } })))
}
