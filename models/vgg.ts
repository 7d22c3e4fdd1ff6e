// VGG (Simonyan and Zisserman 2014), configuration D, with torchvision's parameter names and initial weights.
// vgg16: 1000 classes; the image's features must be a multiple of 7x7 (224, 448, 672, ... pixels; average-pooled to 7x7).
// vgg16Features: the convolution trunk that paper 3 trains on large images; any size of at least 32 pixels.
import { adaptiveAvgPool, conv2d, dropout, flatten, linear, maxPool, relu, seq } from '../dsl'

/** `index` is the layer's place in torchvision's list. */
const conv = <N extends string, I extends number, O extends number>(name: N, index: I, out: O) =>
  seq(conv2d(name, out, 3, { param: `features.${index}`, init: 'fan-out-normal' }), relu())

// biome-ignore format: one resolution a line
export const vgg16Features = seq(
  conv('conv1_1', 0, 64), conv('conv1_2', 2, 64), maxPool('pool1', 2),
  conv('conv2_1', 5, 128), conv('conv2_2', 7, 128), maxPool('pool2', 2),
  conv('conv3_1', 10, 256), conv('conv3_2', 12, 256), conv('conv3_3', 14, 256), maxPool('pool3', 2),
  conv('conv4_1', 17, 512), conv('conv4_2', 19, 512), conv('conv4_3', 21, 512), maxPool('pool4', 2),
  conv('conv5_1', 24, 512), conv('conv5_2', 26, 512), conv('conv5_3', 28, 512), maxPool('pool5', 2),
)

// biome-ignore format: one resolution a line
export const vgg16 = seq(
  vgg16Features,
  adaptiveAvgPool('avgpool', 7), flatten(),
  linear('fc6', 4096, { param: 'classifier.0', init: 0.01 }), relu(), dropout(0.5),
  linear('fc7', 4096, { param: 'classifier.3', init: 0.01 }), relu(), dropout(0.5),
  linear('fc8', 1000, { param: 'classifier.6', init: 0.01 }),
)
