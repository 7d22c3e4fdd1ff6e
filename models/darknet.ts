// Darknet-19 (Redmon and Farhadi 2016, table 6): 18 convolutions with batch norm and leaky ReLU, five poolings; the
// classifier is a 1x1 convolution to 1000 channels and their mean. darknet19Features is the trunk without the classifier,
// darknet19FeaturesPlain the trunk without norms, as paper 3 measures it. Parameters: conv1.weight, bn1.weight, ...
import {
  batchNorm,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  leakyRelu,
  maxPool,
  mse,
  type Net,
  network,
  type Seq,
  seq,
} from '../dsl'

const normed = <I extends number, O extends number, K extends 1 | 3>(i: I, out: O, kernel: K) =>
  seq(conv2d(`conv${i}`, out, kernel, { bias: false, init: 'fan-out-normal' }), batchNorm(`bn${i}`), leakyRelu(0.1))

const plain = <I extends number, O extends number, K extends 1 | 3>(i: I, out: O, kernel: K) =>
  seq(conv2d(`conv${i}`, out, kernel, { init: 'fan-out-normal' }), leakyRelu(0.1))

// biome-ignore format: one resolution a line
export const darknet19Features = seq(
  normed(1, 32, 3), maxPool('pool1', 2),
  normed(2, 64, 3), maxPool('pool2', 2),
  normed(3, 128, 3), normed(4, 64, 1), normed(5, 128, 3), maxPool('pool3', 2),
  normed(6, 256, 3), normed(7, 128, 1), normed(8, 256, 3), maxPool('pool4', 2),
  normed(9, 512, 3), normed(10, 256, 1), normed(11, 512, 3), normed(12, 256, 1), normed(13, 512, 3), maxPool('pool5', 2),
  normed(14, 1024, 3), normed(15, 512, 1), normed(16, 1024, 3), normed(17, 512, 1), normed(18, 1024, 3),
)

// biome-ignore format: one resolution a line
export const darknet19FeaturesPlain = seq(
  plain(1, 32, 3), maxPool('pool1', 2),
  plain(2, 64, 3), maxPool('pool2', 2),
  plain(3, 128, 3), plain(4, 64, 1), plain(5, 128, 3), maxPool('pool3', 2),
  plain(6, 256, 3), plain(7, 128, 1), plain(8, 256, 3), maxPool('pool4', 2),
  plain(9, 512, 3), plain(10, 256, 1), plain(11, 512, 3), plain(12, 256, 1), plain(13, 512, 3), maxPool('pool5', 2),
  plain(14, 1024, 3), plain(15, 512, 1), plain(16, 1024, 3), plain(17, 512, 1), plain(18, 1024, 3),
)

/** The head for a number of classes. */
export const darknetHead = <C extends number>(classes: C) =>
  seq(conv2d('conv19', classes, 1, { init: 'fan-out-normal' }), globalAvgPool('avgpool'))

/** Darknet-19, for a number of classes. */
export type DarknetOf<Features extends Net, C extends number> = Seq<readonly [Features, ReturnType<typeof darknetHead<C>>]>
/** Darknet-19; called with other classes, the same features with a head for them. */
export interface Darknet<Features extends Net> extends DarknetOf<Features, 1000> {
  <const N extends number>(options: ClassesOptions<N>): DarknetOf<Features, N>
}
export const darknet19: Darknet<typeof darknet19Features> = classifier(1000, (classes) =>
  seq(darknet19Features, darknetHead(classes)),
)

export default {
  darknet19: network(darknet19, 224, crossEntropy),
  'darknet19-features': network(darknet19Features, 512, mse),
  'darknet19-features-plain': network(darknet19FeaturesPlain, 512, mse),
} satisfies Family
