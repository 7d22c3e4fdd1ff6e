// DeepLabV3+ (Chen et al. 2018) with ResNet backbones at output stride 16, as VainF's DeepLabV3Plus-Pytorch builds it, for 21 classes. Layer names
// are its parameter names: 'backbone.layer1.0.conv1', 'classifier.aspp.convs.4.1'. Any image size: a coarser map is resized to the map that it joins.
// It needs two images a step or more: the norm of the image pooling has one value for each image and channel.
import {
  type AtInputSize,
  atInputSize,
  batchNorm,
  block,
  blocks,
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
  repeat,
  type Seq,
  seq,
} from '../dsl'
import { bottleneck, bottleneckDown, bottleneckStage1, bottleneckStages23, stem } from './resnet'

const conv = <N extends string, O extends number, K extends 1 | 3, D extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  dilation?: D,
) => conv2d(name, out, kernel, { dilation, bias: false, init: 'fan-in-normal' })

const unit = <O extends number, K extends 1 | 3, D extends number = 1>(out: O, kernel: K, dilation?: D) =>
  seq(conv('0', out, kernel, dilation), batchNorm('1'), relu())

/** Atrous spatial pyramid pooling: the same features at four reaches, and the mean of the whole image. */
// biome-ignore format: one branch a line
const aspp = block('aspp',
  concat(
    block('convs.0', unit(256, 1)),
    block('convs.1', unit(256, 3, 6)),
    block('convs.2', unit(256, 3, 12)),
    block('convs.3', unit(256, 3, 18)),
    block('convs.4', atInputSize(globalAvgPool('0'), conv('1', 256, 1), batchNorm('2'), relu())),
  ),
  block('project', unit(256, 1), dropout(0.1)),
)

/** The last stage of the backbone keeps its input's size and dilates instead, from its second block on. */
const stage4 = blocks('layer4', bottleneckDown(512, 2048, 1), repeat(2, bottleneck(512, 2048, 2)))

/**
 * The decoder joins the features of stage 1, projected to few channels. Its size is that of these features; the enclosing part resizes it to the
 * image's.
 */
// biome-ignore format: one part a line
const deepLabBodies = <B extends number, C extends number>(b: B, c: C) => seq(
  block('backbone', stem, bottleneckStage1),
  concat(
    block('classifier.project', unit(48, 1)),
    atInputSize(block('backbone', bottleneckStages23(b, c), stage4), block('classifier', aspp)),
  ),
)
/** The head for a number of classes. */
export const deepLabHead = <C extends number>(classes: C) =>
  block('classifier.classifier', unit(256, 3), conv2d('3', classes, 1, { init: 'fan-in-normal' }))

/** A DeepLabV3+, for a number of classes. */
export type DeepLabOf<Body extends Net, C extends number> = AtInputSize<Seq<readonly [Body, ReturnType<typeof deepLabHead<C>>]>>
/** A DeepLabV3+; called with other classes, the same body with a head for them. */
export interface DeepLab<Body extends Net> extends DeepLabOf<Body, 21> {
  <const N extends number>(options: ClassesOptions<N>): DeepLabOf<Body, N>
}
const deepLab = <Body extends Net>(body: Body): DeepLab<Body> =>
  classifier(21, (classes) => atInputSize(body, deepLabHead(classes)))

export const deeplabv3plusResnet50Body = deepLabBodies(3, 5)
export const deeplabv3plusResnet101Body = deepLabBodies(3, 22)

export const deeplabv3plusResnet50 = deepLab(deeplabv3plusResnet50Body)
export const deeplabv3plusResnet101 = deepLab(deeplabv3plusResnet101Body)

export default {
  'deeplabv3plus-resnet50': network(deeplabv3plusResnet50, 512, crossEntropy, 2),
  'deeplabv3plus-resnet101': network(deeplabv3plusResnet101, 512, crossEntropy, 2),
} satisfies Family
