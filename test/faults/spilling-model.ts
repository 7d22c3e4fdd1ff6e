// A model file, as users write them: little arithmetic over values that are large, so that a small budget spills gigabytes.
import { conv2d, model, relu, seq } from '../../dsl'

const wide = <N extends string>(name: N) => seq(conv2d(name, 16, 1), relu())

export const net = seq(
  wide('a'),
  wide('b'),
  wide('c'),
  wide('d'),
  wide('e'),
  wide('f'),
  wide('g'),
  wide('h'),
  wide('i'),
  wide('j'),
  conv2d('k', 4, 1),
)

export default model([1, 4, 2048, 2048], net)
