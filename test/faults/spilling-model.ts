// A model file, as users write them: little arithmetic over values that are large, so that a small budget spills gigabytes.
import { conv2d, model, relu, seq } from '../../dsl'

export const net = seq(
  conv2d('a', 16, 1),
  relu(),
  conv2d('b', 16, 1),
  relu(),
  conv2d('c', 16, 1),
  relu(),
  conv2d('d', 16, 1),
  relu(),
  conv2d('e', 4, 1),
)

export default model([1, 4, 2048, 2048], net)
