// AlexNet as torchvision has it: the one-column version of Krizhevsky (2014), without local response normalisation.
// The image's features must be a multiple of 6x6 (average-pooled to 6x6): 224 pixels are.
import {
  adaptiveAvgPool,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  dropout,
  type Family,
  flatten,
  linear,
  maxPool,
  type Net,
  network,
  relu,
  type Seq,
  seq,
} from '../dsl'

const pool = <N extends string>(name: N) => maxPool(name, 3, { stride: 2 })

// biome-ignore format: one stage a line
export const alexnetBody = seq(
  conv2d('features.0', 64, 11, { stride: 4, pad: 2 }), relu(), pool('pool1'),
  conv2d('features.3', 192, 5), relu(), pool('pool2'),
  conv2d('features.6', 384, 3), relu(), conv2d('features.8', 256, 3), relu(), conv2d('features.10', 256, 3), relu(), pool('pool5'),
)

/** The head for a number of classes. */
// biome-ignore format: one stage a line
export const alexnetHead = <C extends number>(classes: C) => seq(
  adaptiveAvgPool('avgpool', 6), flatten(),
  dropout(0.5), linear('classifier.1', 4096), relu(),
  dropout(0.5), linear('classifier.4', 4096), relu(),
  linear('classifier.6', classes),
)

/** AlexNet, for a number of classes. */
export type AlexnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof alexnetHead<C>>]>
/** AlexNet; called with other classes, the same body with a head for them. */
export interface Alexnet<Body extends Net> extends AlexnetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): AlexnetOf<Body, N>
}
export const alexnet: Alexnet<typeof alexnetBody> = classifier(1000, (classes) => seq(alexnetBody, alexnetHead(classes)))

export default { alexnet: network(alexnet, 224, crossEntropy) } satisfies Family
