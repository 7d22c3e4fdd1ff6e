// A network as the zoo lists it: a net, the input that it is usually given, and the loss that it is trained with.
// A file of models/ exports its networks as a Family by default, and src/zoo.ts finds it there: nothing else names them.
import type { Net, Shape } from './net'
import type { TrainingStep } from './step'
import type { Loss } from './training'

/**
 * An entry of the zoo: a net, the shape of its input, its loss.
 *
 * @example const entry: Network = network(seq(conv2d('conv1', 10, 3), globalAvgPool()), 224, crossEntropy)
 */
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

/**
 * An entry of the zoo for a step with several objectives.
 *
 * @example const entry: StepNetwork = stepNetwork(() => objectives, [1, 3, 256, 256], { critic: { net: critic, input: [1, 3, 256, 256] } })
 */
export interface StepNetwork<
  Nets extends Readonly<Record<string, StepNet>> = Readonly<Record<string, StepNet>>,
  S extends TrainingStep = TrainingStep,
> {
  /** Returns the step for an input shape. */
  readonly step: (input: Shape) => S
  readonly input: Shape
  readonly nets: Nets
}

/**
 * The networks of one file of the zoo, by their names on the command line.
 *
 * @example export const tiny = { tiny1: network(seq(conv2d('conv1', 10, 3), globalAvgPool()), 64, crossEntropy) } satisfies Family
 */
export type Family = Readonly<Record<string, Network | StepNetwork>>

/**
 * Creates an entry of the zoo for a step with several objectives, such as a GAN.
 *
 * @param step Returns the step for an input shape.
 * @param input Usual shape of the first input.
 * @param nets The nets of the step by name, each with its usual input shape.
 * @example stepNetwork(() => objectives, [1, 3, 256, 256], { critic: { net: critic, input: [1, 3, 256, 256] } })
 */
export const stepNetwork = <const Nets extends StepNetwork['nets'], S extends TrainingStep>(
  step: (input: Shape) => S,
  input: Shape,
  nets: Nets,
): StepNetwork<Nets, S> => ({ step, input, nets })

/**
 * Creates an entry of the zoo: a net with its usual image size and loss.
 *
 * @param net The layers.
 * @param size Height and width of the input, in pixels.
 * @param loss Loss for training.
 * @param batch Images per step. Default 1.
 * @example network(seq(conv2d('conv1', 10, 3), globalAvgPool()), 224, crossEntropy)
 */
export const network = <N extends Net, Size extends number, Batch extends number = 1>(
  net: N,
  size: Size,
  loss: Loss,
  batch: Batch = 1 as Batch,
): Network<N, Size, Batch> => ({ net, input: [batch, 3, size, size], loss })
