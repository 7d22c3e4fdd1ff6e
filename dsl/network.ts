// A network as the zoo lists it: a net, the input that it is usually given, and the loss that it is trained with.
// A file of models/ exports its networks as a Family by default, and src/zoo.ts finds it there: nothing else names them.
import type { Net, Shape } from './net'
import type { TrainingStep } from './step'
import type { Loss } from './training'

/** A network of the zoo: net, input, loss. */
export interface Network<N extends Net = Net, Size extends number = number, Batch extends number = number> {
  readonly net: N
  /** Colour images. */
  readonly input: readonly [Batch, 3, Size, Size]
  readonly loss: Loss
}

/** A net that a step trains, at the shape that it takes there. */
export interface StepNet {
  readonly net: Net
  readonly input: Shape
}

/** A step of several objectives that the zoo lists, for any shape of what it is fed first; its nets at the usual one. */
export interface StepNetwork<
  Nets extends Readonly<Record<string, StepNet>> = Readonly<Record<string, StepNet>>,
  S extends TrainingStep = TrainingStep,
> {
  readonly step: (input: Shape) => S
  readonly input: Shape
  readonly nets: Nets
}

/** The networks of one file, by the names that the command line knows. */
export type Family = Readonly<Record<string, Network | StepNetwork>>

/**
 * A step of several objectives at an input size, as the zoo has it.
 *
 * @example stepNetwork(() => objectives, [1, 3, 256, 256], { critic: { net: critic, input: [1, 3, 256, 256] } })
 */
export const stepNetwork = <const Nets extends StepNetwork['nets'], S extends TrainingStep>(
  step: (input: Shape) => S,
  input: Shape,
  nets: Nets,
): StepNetwork<Nets, S> => ({ step, input, nets })

/** One image a step unless said otherwise. @example network(seq(conv2d('conv1', 10, 3), globalAvgPool()), 224, crossEntropy) */
export const network = <N extends Net, Size extends number, Batch extends number = 1>(
  net: N,
  size: Size,
  loss: Loss,
  batch: Batch = 1 as Batch,
): Network<N, Size, Batch> => ({ net, input: [batch, 3, size, size], loss })
