// FCN (Long et al. 2015) with ResNet backbones at output stride 8, as torchvision builds it without its auxiliary classifier, for 21 classes.
// Layer names are torchvision's parameter names: 'backbone.layer1.0.conv1', 'classifier.4'. Any image size.
import {
  type AtInputSize,
  atInputSize,
  batchNorm,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  dropout,
  type Family,
  type Net,
  network,
  relu,
  repeat,
  type Seq,
  seq,
} from '../dsl'
import { bottleneck, bottleneckDown, bottleneckStage1, stem } from './resnet'

/** Stages of bottlenecks: the last two keep the size of the second and dilate instead, each from its second block on. */
// biome-ignore format: one stage a line
export const dilatedStages = <C extends number>(c: C) => seq(
  bottleneckStage1,
  blocks('layer2', bottleneckDown(128, 512, 2), repeat(3, bottleneck(128, 512))),
  blocks('layer3', bottleneckDown(256, 1024, 1), repeat(c, bottleneck(256, 1024, 2))),
  blocks('layer4', bottleneckDown(512, 2048, 1, 2), repeat(2, bottleneck(512, 2048, 4))),
)
export const dilatedResnet50 = block('backbone', stem, dilatedStages(5))
export const dilatedResnet101 = block('backbone', stem, dilatedStages(22))

/** The head for a number of classes. */
export const fcnHead = <C extends number>(classes: C) =>
  block('classifier', conv2d('0', 512, 3, { bias: false }), batchNorm('1'), relu(), dropout(0.1), conv2d('4', classes, 1))

/** An FCN, for a number of classes. */
export type FcnOf<Body extends Net, C extends number> = AtInputSize<Seq<readonly [Body, ReturnType<typeof fcnHead<C>>]>>
/** An FCN; called with other classes, the same body with a head for them. */
export interface Fcn<Body extends Net> extends FcnOf<Body, 21> {
  <const N extends number>(options: ClassesOptions<N>): FcnOf<Body, N>
}
const fcn = <Body extends Net>(body: Body): Fcn<Body> => classifier(21, (classes) => atInputSize(body, fcnHead(classes)))

export const fcnResnet50 = fcn(dilatedResnet50)
export const fcnResnet101 = fcn(dilatedResnet101)

export default {
  'fcn-resnet50': network(fcnResnet50, 520, crossEntropy),
  'fcn-resnet101': network(fcnResnet101, 520, crossEntropy),
} satisfies Family
