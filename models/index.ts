// The zoo: every network that has a name on the command line.
// In: a name, an input shape. Out: the network as a checked model, its default input and the loss it is trained with.
import type { Either } from 'fp-ts/Either'
import { crossEntropy, type Loss, type Model, modelAt, mse, type Net, type Shape } from '../dsl'
import type { GraphError } from '../staging/core/errors'
import { darknet19, darknet19Features, darknet19FeaturesPlain } from './darknet'
import { resnet18, resnet50 } from './resnet'
import { vgg16, vgg16Features } from './vgg'

export interface ZooEntry {
  readonly name: string
  readonly net: Net
  readonly defaultInput: Shape
  readonly loss: Loss
  /** The network at an input shape, or why it does not take it, in words. */
  readonly build: (input?: Shape) => Either<GraphError, Model>
}

const entry = (name: string, net: Net, loss: Loss, size: number): ZooEntry => {
  const defaultInput: Shape = [1, 3, size, size]
  return { name, net, defaultInput, loss, build: (input = defaultInput) => modelAt(input, net) }
}

export const zoo: readonly ZooEntry[] = [
  entry('vgg16', vgg16, crossEntropy, 224),
  entry('vgg16-features', vgg16Features, mse, 512),
  entry('darknet19', darknet19, crossEntropy, 224),
  entry('darknet19-features', darknet19Features, mse, 512),
  entry('darknet19-features-plain', darknet19FeaturesPlain, mse, 512),
  entry('resnet18', resnet18, crossEntropy, 224),
  entry('resnet50', resnet50, crossEntropy, 224),
]

export const zooNames: readonly string[] = zoo.map((e) => e.name)
export const zooEntry = (name: string): ZooEntry | undefined => zoo.find((e) => e.name === name)

export * from './darknet'
export * from './resnet'
export * from './vgg'
