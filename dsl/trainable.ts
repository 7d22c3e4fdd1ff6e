// Things that can be staged and trained: a step, or a model with a loss and an optimizer, which is a step of one objective: its net applied to the
// fed 'input', compared with the fed 'target'. In: a model, a loss, an optimizer. Out: the step, or an error in words. Invariant: planning and
// training know only steps.
import { type Either, left, map } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import { lossEntry, targetOf } from '../staging/ops/losscalls'
import type { Updates } from '../staging/ops/updates'
import type { Model } from './model'
import type { Net, Shape } from './net'
import type { Network, StepNetwork } from './network'
import {
  type Applied,
  type Fed,
  fed,
  loss,
  type LossTerm,
  type Made,
  minimize,
  step,
  type StepObjective,
  type Tensor,
  type TrainingStep,
} from './step'
import type { Loss, Optimizer } from './training'

/**
 * A model, or a step with several objectives. `stage` and `train` accept both.
 *
 * @example const nameOf = (t: Trainable) => t.kind
 */
export type Trainable = Model | TrainingStep

/** The step of a model. Its type does not tell the target, the loss or the optimizer. */
export type StepOfModel<M extends Model> = TrainingStep<
  readonly [
    StepObjective<
      string,
      readonly [M['net']],
      Optimizer,
      {
        readonly loss: readonly [
          LossTerm<
            Loss,
            Tensor<M['output'], Made<'applied', readonly [Fed<M['input'], 'input'>], M['net']>>,
            Fed<Shape, 'target'>
          >,
        ]
      }
    >,
  ]
>
/** The same of a net at any size. */
type StepOfNet<N extends Net> = TrainingStep<readonly [StepObjective<string, readonly [N]>]>

/**
 * A model or a step with sizes given by the caller, as a type of plan modules.
 *
 * @example type At512 = Resized<typeof net>
 */
export interface Resized<T> {
  readonly resized: T
}

/**
 * The subject of a plan module: a model, a step, a net or a network of the zoo.
 *
 * @example const subjects: readonly Planned[] = [net, net.net, objectives]
 */
export type Planned = Trainable | Net | Network | StepNetwork | Resized<Trainable | Net>

/**
 * The training step of a model, a step, a network of the zoo or a net, as a type.
 *
 * @example type Objectives = StepOf<typeof objectives>['objectives']
 */
export type StepOf<T> = T extends TrainingStep
  ? T
  : T extends Model
    ? StepOfModel<T>
    : T extends Resized<infer R>
      ? StepOf<R>
      : T extends StepNetwork<any, infer S>
        ? S
        : T extends Network<infer N>
          ? StepOfNet<N>
          : T extends Net
            ? StepOfNet<T>
            : never

/**
 * Returns the training step of a model with a loss and an optimizer, or the reason for a refusal.
 *
 * @param m The model.
 * @param kind The loss.
 * @param optimizer The optimizer.
 * @param updates Options of the updates, e.g. `freeze` or `clipNorm`.
 * @example asStep(net, mse, sgd({ lr: 0.1 }), { freeze: 'conv1.*' })
 */
export const asStep = (m: Model, kind: Loss, optimizer: Optimizer, updates: Updates = {}): Either<GraphError, TrainingStep> => {
  if (m.layers.length === 0) return left({ tag: 'ModelInvalid', at: 'net', reason: 'it has no layers' })
  const output: Applied = { kind: 'applied', net: m.net, to: fed('input', m.input), shape: m.output }
  return pipe(
    lossEntry(kind),
    map((entry) => loss(kind, output, fed('target', targetOf(entry, m.output) as unknown as Shape))),
    map((term) => step(minimize('model', { over: m.net, optimizer, losses: { loss: term }, ...updates }))),
  )
}
