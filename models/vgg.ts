// VGG (Simonyan and Zisserman 2014), configurations A, B, D and E, with torchvision's parameter names and initial weights.
// vgg11 ... vgg19: 1000 classes; the image's features must be a multiple of 7x7 (224, 448, 672, ... pixels; average-pooled
// to 7x7). ...Features: the convolution trunk that paper 3 trains on large images; any size of at least 32 pixels.
// ...Bn: with batch norm after each convolution, and torchvision's names for the layers too.
import {
  adaptiveAvgPool,
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  dropout,
  type Family,
  flatten,
  linear,
  maxPool,
  mse,
  type Net,
  network,
  relu,
  type Seq,
  seq,
} from '../dsl'

/** `index` is the layer's place in torchvision's list. */
const conv = <N extends string, I extends number, O extends number>(name: N, index: I, out: O) =>
  seq(conv2d(name, out, 3, { param: `features.${index}`, init: 'fan-out-normal' }), relu())

/** Likewise; the norm stands one further. */
const normed = <C extends number, N extends number, O extends number>(index: C, norm: N, out: O) =>
  seq(conv2d(`${index}`, out, 3, { init: 'fan-out-normal' }), batchNorm(`${norm}`), relu())

/** The head for a number of classes. */
// biome-ignore format: one layer a line
export const vggHead = <C extends number>(classes: C) => seq(
  adaptiveAvgPool('avgpool', 7), flatten(),
  linear('fc6', 4096, { param: 'classifier.0', init: 0.01 }), relu(), dropout(0.5),
  linear('fc7', 4096, { param: 'classifier.3', init: 0.01 }), relu(), dropout(0.5),
  linear('fc8', classes, { param: 'classifier.6', init: 0.01 }),
)

/** A VGG, for a number of classes. */
export type VggOf<Features extends Net, C extends number> = Seq<readonly [Features, ReturnType<typeof vggHead<C>>]>
/** A VGG; called with other classes, the same features with a head for them. */
export interface Vgg<Features extends Net> extends VggOf<Features, 1000> {
  <const N extends number>(options: ClassesOptions<N>): VggOf<Features, N>
}
const vgg = <Features extends Net>(features: Features): Vgg<Features> =>
  classifier(1000, (classes) => seq(features, vggHead(classes)))

// ---------------------------------------------------------------- as in the paper's table 1

// biome-ignore format: one resolution a line
export const vgg11Features = seq(
  conv('conv1_1', 0, 64), maxPool('pool1', 2),
  conv('conv2_1', 3, 128), maxPool('pool2', 2),
  conv('conv3_1', 6, 256), conv('conv3_2', 8, 256), maxPool('pool3', 2),
  conv('conv4_1', 11, 512), conv('conv4_2', 13, 512), maxPool('pool4', 2),
  conv('conv5_1', 16, 512), conv('conv5_2', 18, 512), maxPool('pool5', 2),
)

// biome-ignore format: one resolution a line
export const vgg13Features = seq(
  conv('conv1_1', 0, 64), conv('conv1_2', 2, 64), maxPool('pool1', 2),
  conv('conv2_1', 5, 128), conv('conv2_2', 7, 128), maxPool('pool2', 2),
  conv('conv3_1', 10, 256), conv('conv3_2', 12, 256), maxPool('pool3', 2),
  conv('conv4_1', 15, 512), conv('conv4_2', 17, 512), maxPool('pool4', 2),
  conv('conv5_1', 20, 512), conv('conv5_2', 22, 512), maxPool('pool5', 2),
)

// biome-ignore format: one resolution a line
export const vgg16Features = seq(
  conv('conv1_1', 0, 64), conv('conv1_2', 2, 64), maxPool('pool1', 2),
  conv('conv2_1', 5, 128), conv('conv2_2', 7, 128), maxPool('pool2', 2),
  conv('conv3_1', 10, 256), conv('conv3_2', 12, 256), conv('conv3_3', 14, 256), maxPool('pool3', 2),
  conv('conv4_1', 17, 512), conv('conv4_2', 19, 512), conv('conv4_3', 21, 512), maxPool('pool4', 2),
  conv('conv5_1', 24, 512), conv('conv5_2', 26, 512), conv('conv5_3', 28, 512), maxPool('pool5', 2),
)

// biome-ignore format: one resolution a line
export const vgg19Features = seq(
  conv('conv1_1', 0, 64), conv('conv1_2', 2, 64), maxPool('pool1', 2),
  conv('conv2_1', 5, 128), conv('conv2_2', 7, 128), maxPool('pool2', 2),
  conv('conv3_1', 10, 256), conv('conv3_2', 12, 256), conv('conv3_3', 14, 256), conv('conv3_4', 16, 256), maxPool('pool3', 2),
  conv('conv4_1', 19, 512), conv('conv4_2', 21, 512), conv('conv4_3', 23, 512), conv('conv4_4', 25, 512), maxPool('pool4', 2),
  conv('conv5_1', 28, 512), conv('conv5_2', 30, 512), conv('conv5_3', 32, 512), conv('conv5_4', 34, 512), maxPool('pool5', 2),
)

export const vgg11 = vgg(vgg11Features)
export const vgg13 = vgg(vgg13Features)
export const vgg16 = vgg(vgg16Features)
export const vgg19 = vgg(vgg19Features)

// ---------------------------------------------------------------- with batch norm

// biome-ignore format: one resolution a line
export const vgg11BnFeatures = block('features',
  normed(0, 1, 64), maxPool('pool1', 2),
  normed(4, 5, 128), maxPool('pool2', 2),
  normed(8, 9, 256), normed(11, 12, 256), maxPool('pool3', 2),
  normed(15, 16, 512), normed(18, 19, 512), maxPool('pool4', 2),
  normed(22, 23, 512), normed(25, 26, 512), maxPool('pool5', 2),
)

// biome-ignore format: one resolution a line
export const vgg13BnFeatures = block('features',
  normed(0, 1, 64), normed(3, 4, 64), maxPool('pool1', 2),
  normed(7, 8, 128), normed(10, 11, 128), maxPool('pool2', 2),
  normed(14, 15, 256), normed(17, 18, 256), maxPool('pool3', 2),
  normed(21, 22, 512), normed(24, 25, 512), maxPool('pool4', 2),
  normed(28, 29, 512), normed(31, 32, 512), maxPool('pool5', 2),
)

// biome-ignore format: one resolution a line
export const vgg16BnFeatures = block('features',
  normed(0, 1, 64), normed(3, 4, 64), maxPool('pool1', 2),
  normed(7, 8, 128), normed(10, 11, 128), maxPool('pool2', 2),
  normed(14, 15, 256), normed(17, 18, 256), normed(20, 21, 256), maxPool('pool3', 2),
  normed(24, 25, 512), normed(27, 28, 512), normed(30, 31, 512), maxPool('pool4', 2),
  normed(34, 35, 512), normed(37, 38, 512), normed(40, 41, 512), maxPool('pool5', 2),
)

// biome-ignore format: one resolution a line
export const vgg19BnFeatures = block('features',
  normed(0, 1, 64), normed(3, 4, 64), maxPool('pool1', 2),
  normed(7, 8, 128), normed(10, 11, 128), maxPool('pool2', 2),
  normed(14, 15, 256), normed(17, 18, 256), normed(20, 21, 256), normed(23, 24, 256), maxPool('pool3', 2),
  normed(27, 28, 512), normed(30, 31, 512), normed(33, 34, 512), normed(36, 37, 512), maxPool('pool4', 2),
  normed(40, 41, 512), normed(43, 44, 512), normed(46, 47, 512), normed(49, 50, 512), maxPool('pool5', 2),
)

export const vgg11Bn = vgg(vgg11BnFeatures)
export const vgg13Bn = vgg(vgg13BnFeatures)
export const vgg16Bn = vgg(vgg16BnFeatures)
export const vgg19Bn = vgg(vgg19BnFeatures)

export default {
  vgg11: network(vgg11, 224, crossEntropy),
  vgg13: network(vgg13, 224, crossEntropy),
  vgg16: network(vgg16, 224, crossEntropy),
  vgg19: network(vgg19, 224, crossEntropy),
  'vgg11-bn': network(vgg11Bn, 224, crossEntropy),
  'vgg13-bn': network(vgg13Bn, 224, crossEntropy),
  'vgg16-bn': network(vgg16Bn, 224, crossEntropy),
  'vgg19-bn': network(vgg19Bn, 224, crossEntropy),
  'vgg11-features': network(vgg11Features, 512, mse),
  'vgg13-features': network(vgg13Features, 512, mse),
  'vgg16-features': network(vgg16Features, 512, mse),
  'vgg19-features': network(vgg19Features, 512, mse),
} satisfies Family
