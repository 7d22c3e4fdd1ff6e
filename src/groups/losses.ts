// The losses, as one namespace.
export {
  bceWithLogits,
  crossEntropy,
  crossEntropyWith,
  dice,
  focal,
  huber,
  l1,
  mean,
  mse,
  softCrossEntropy,
} from '../../dsl/training'
export { lossOf, sumOf } from '../../dsl/losses'
