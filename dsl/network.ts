// A network as the zoo lists it: a net, the input that it is usually given, and the loss that it is trained with.
// A file of models/ exports its networks as a Family by default, and src/zoo.ts finds it there: nothing else names them.
import type { Net } from './net'
import type { Loss } from './training'

export interface Network<N extends Net = Net, Size extends number = number> {
  readonly net: N
  /** One colour image. */
  readonly input: readonly [1, 3, Size, Size]
  readonly loss: Loss
}

/** The networks of one file, by the names that the command line knows. */
export type Family = Readonly<Record<string, Network>>

/** @example network(vgg16, 224, crossEntropy) */
export const network = <N extends Net, Size extends number>(net: N, size: Size, loss: Loss): Network<N, Size> => ({
  net,
  input: [1, 3, size, size],
  loss,
})
