// PSPNet (Zhao et al. 2017) at output stride 8, as mmsegmentation builds it without its auxiliary head, for 19 classes. It joins the features of a
// dilated ResNet with means of 1, 2x2, 3x3 and 6x6 parts of the image. Layer names are its parameter names:
// 'backbone.layer1.0.conv1', 'decode_head.psp_modules.0.1.conv'. Any image size. The norm of the whole mean needs two images a step or more.
import {
  adaptiveAvgPool,
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
  identity,
  maxPool,
  type Net,
  network,
  relu,
  type Seq,
  seq,
} from '../dsl'
import { dilatedStages } from './fcn'

const conv = <N extends string, O extends number, S extends number = 1>(name: N, out: O, stride?: S) =>
  conv2d(name, out, 3, { stride, bias: false, init: 'fan-out-normal' })

// biome-ignore format: one convolution a line
const stem = seq(
  block('stem',
    conv('0', 32, 2), batchNorm('1'), relu(),
    conv('3', 32), batchNorm('4'), relu(),
    conv('6', 64), batchNorm('7'), relu(),
  ),
  maxPool('maxpool', 3, { stride: 2, pad: 1 }),
)

const unit = <N extends string, O extends number, K extends 1 | 3>(name: N, out: O, kernel: K) =>
  block(name, conv2d('conv', out, kernel, { bias: false, init: 'fan-out-normal' }), batchNorm('bn'), relu())
/** Means of `size` times `size` parts of the image. */
const pooled = <N extends number, S extends number>(n: N, size: S) =>
  atInputSize(adaptiveAvgPool(`psp_modules.${n}.0`, size), unit(`psp_modules.${n}.1`, 512, 1))

const pspBodies = <C extends number>(c: C) => block('backbone', stem, dilatedStages(c))
export const pspResnet50Body = pspBodies(5)
export const pspResnet101Body = pspBodies(22)

/** The head for a number of classes. */
// biome-ignore format: one layer a line
export const pspHead = <C extends number>(classes: C) => block('decode_head',
  concat(identity, pooled(0, 1), pooled(1, 2), pooled(2, 3), pooled(3, 6)),
  unit('bottleneck', 512, 3),
  dropout(0.1),
  conv2d('conv_seg', classes, 1, { init: 0.01 }),
)

/** A PSPNet, for a number of classes. */
export type PspOf<Body extends Net, C extends number> = AtInputSize<Seq<readonly [Body, ReturnType<typeof pspHead<C>>]>>
/** A PSPNet; called with other classes, the same body with a head for them. */
export interface Psp<Body extends Net> extends PspOf<Body, 19> {
  <const N extends number>(options: ClassesOptions<N>): PspOf<Body, N>
}
const psp = <Body extends Net>(body: Body): Psp<Body> => classifier(19, (classes) => atInputSize(body, pspHead(classes)))

export const pspnetResnet50 = psp(pspResnet50Body)
export const pspnetResnet101 = psp(pspResnet101Body)

export default {
  'pspnet-resnet50': network(pspnetResnet50, 512, crossEntropy, 2),
  'pspnet-resnet101': network(pspnetResnet101, 512, crossEntropy, 2),
} satisfies Family
