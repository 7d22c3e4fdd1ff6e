// LR-ASPP (Howard et al. 2019) with MobileNetV3, as torchvision builds it, for 21 classes. The features of the last stage have gates from each
// channel's mean; features at an eighth of the image are added. Layer names are torchvision's parameter names: 'backbone.4.block.0.0', 'classifier.cbr.0'. Any image size.
import {
  type AtInputSize,
  atInputSize,
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  network,
  relu,
  residual,
  type Seq,
  seq,
  sigmoid,
  value,
  values,
} from '../dsl'
import { mobilenetv3LargeEarly, mobilenetv3LargeLate } from './mobilenet3'

// biome-ignore format: one value a line
const pooled = block('classifier', values(
  value('x', 'input', conv2d('cbr.0', 128, 1, { bias: false }), batchNorm('cbr.1'), relu()),
  value('gate', 'input', globalAvgPool(), conv2d('scale.1', 128, 1, { bias: false }), sigmoid()),
  value('gated', { multiplied: ['x', 'gate'] }),
))

export const lrasppEarly = block('backbone', mobilenetv3LargeEarly)
export const lrasppLate = atInputSize(block('backbone', mobilenetv3LargeLate(1, 2)), pooled)

/** The head for a number of classes: one at each of two resolutions. */
export const lrasppHead = <C extends number>(classes: C) =>
  residual(conv2d('classifier.low_classifier', classes, 1), seq(lrasppLate, conv2d('classifier.high_classifier', classes, 1)))

/** LR-ASPP, for a number of classes. */
export type LrasppOf<C extends number> = AtInputSize<Seq<readonly [typeof lrasppEarly, ReturnType<typeof lrasppHead<C>>]>>
/** LR-ASPP; called with other classes, the same network with heads for them. */
export interface Lraspp extends LrasppOf<21> {
  <const N extends number>(options: ClassesOptions<N>): LrasppOf<N>
}
export const lraspp: Lraspp = classifier(21, (classes) => atInputSize(lrasppEarly, lrasppHead(classes)))

export default { 'lraspp-mobilenetv3-large': network(lraspp, 520, crossEntropy) } satisfies Family
