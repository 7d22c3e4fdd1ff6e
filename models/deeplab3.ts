// DeepLabV3 (Chen et al. 2017) at output stride 8, or 16 with MobileNetV3, as torchvision builds it without its auxiliary classifier, for 21 classes.
// Layer names are torchvision's parameter names: 'backbone.layer1.0.conv1', 'classifier.0.convs.1.0'. Any image size. It needs two images a step or
// more: the norm of the image pooling has one value for each image and channel.
import {
  type AtInputSize,
  atInputSize,
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  dropout,
  type Family,
  globalAvgPool,
  type Net,
  network,
  relu,
  type Seq,
  seq,
} from '../dsl'
import { dilatedResnet101, dilatedResnet50 } from './fcn'
import { mobilenetv3LargeEarly, mobilenetv3LargeLate } from './mobilenet3'

/** A convolution, and its norm under the next number. */
// biome-ignore format: the types on a line
const unit = <N extends number, M extends number, O extends number, K extends 1 | 3, D extends number = 1>(
  n: N, norm: M, out: O, kernel: K, dilation?: D,
) => seq(conv2d(`${n}`, out, kernel, { dilation, bias: false }), batchNorm(`${norm}`), relu())

/** Atrous spatial pyramid pooling: the same features at four reaches, and the mean of the whole image. */
// biome-ignore format: one branch a line
const aspp = seq(
  concat(
    block('convs.0', unit(0, 1, 256, 1)),
    block('convs.1', unit(0, 1, 256, 3, 12)),
    block('convs.2', unit(0, 1, 256, 3, 24)),
    block('convs.3', unit(0, 1, 256, 3, 36)),
    block('convs.4', atInputSize(globalAvgPool('0'), unit(1, 2, 256, 1))),
  ),
  block('project', unit(0, 1, 256, 1), dropout(0.5)),
)

/** The dilated MobileNetV3: its last stage keeps its size. */
export const dilatedMobilenetv3 = block('backbone', mobilenetv3LargeEarly, mobilenetv3LargeLate(1, 2))

/** The head for a number of classes. */
export const deepLab3Head = <C extends number>(classes: C) =>
  block('classifier', block('0', aspp), unit(1, 2, 256, 3), conv2d('4', classes, 1))

/** A DeepLabV3, for a number of classes. */
export type DeepLab3Of<Body extends Net, C extends number> = AtInputSize<Seq<readonly [Body, ReturnType<typeof deepLab3Head<C>>]>>
/** A DeepLabV3; called with other classes, the same body with a head for them. */
export interface DeepLab3<Body extends Net> extends DeepLab3Of<Body, 21> {
  <const N extends number>(options: ClassesOptions<N>): DeepLab3Of<Body, N>
}
const deepLab3 = <Body extends Net>(body: Body): DeepLab3<Body> =>
  classifier(21, (classes) => atInputSize(body, deepLab3Head(classes)))

export const deeplabv3Resnet50 = deepLab3(dilatedResnet50)
export const deeplabv3Resnet101 = deepLab3(dilatedResnet101)
export const deeplabv3Mobilenetv3 = deepLab3(dilatedMobilenetv3)

export default {
  'deeplabv3-resnet50': network(deeplabv3Resnet50, 520, crossEntropy, 2),
  'deeplabv3-resnet101': network(deeplabv3Resnet101, 520, crossEntropy, 2),
  'deeplabv3-mobilenetv3-large': network(deeplabv3Mobilenetv3, 520, crossEntropy, 2),
} satisfies Family
