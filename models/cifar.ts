// The ResNets of He et al. (2015, section 4.2) for 32x32 images: 6n+2 layers, n blocks a stage, 10 classes.
// Names and details are those of Y. Idelbayev's pytorch_resnet_cifar10 with option B: where a stage begins, the shortcut is
// a strided 1x1 convolution with batch norm ('layer2.0.shortcut.0'); the other shortcuts have no parameters.
import {
  batchNorm,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  identity,
  linear,
  type Net,
  network,
  relu,
  repeat,
  residual,
  type Seq,
  seq,
} from '../dsl'

const conv = <N extends string, O extends number, K extends 1 | 3, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => conv2d(name, out, kernel, { stride, bias: false, init: 'fan-in-normal' })

// biome-ignore format: one convolution a line
const body = <C extends number, S extends number = 1>(channels: C, stride?: S) => seq(
  conv('conv1', channels, 3, stride), batchNorm('bn1'), relu(),
  conv('conv2', channels, 3), batchNorm('bn2'),
)
const shortcut = <C extends number>(channels: C) => block('shortcut', conv('0', channels, 1, 2), batchNorm('1'))

const same = <C extends number>(channels: C) => seq(residual(body(channels), identity), relu())
const half = <C extends number>(channels: C) => seq(residual(body(channels, 2), shortcut(channels)), relu())

/** n is the number of blocks in the first stage; in each other stage one halves the image before so many more. */
// biome-ignore format: one stage a line
const cifarBodies = <N extends number, More extends number>(n: N, more: More) => seq(
  conv('conv1', 16, 3), batchNorm('bn1'), relu(),
  blocks('layer1', repeat(n, same(16))),
  blocks('layer2', half(32), repeat(more, same(32))),
  blocks('layer3', half(64), repeat(more, same(64))),
)

/** The head for a number of classes. */
export const cifarHead = <C extends number>(classes: C) =>
  seq(globalAvgPool('avgpool'), linear('linear', classes, { init: 'fan-in-normal' }))

/** A ResNet for small images, for a number of classes. */
export type CifarResnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof cifarHead<C>>]>
/** A ResNet for small images; called with other classes, the same body with a head for them. */
export interface CifarResnet<Body extends Net> extends CifarResnetOf<Body, 10> {
  <const N extends number>(options: ClassesOptions<N>): CifarResnetOf<Body, N>
}
const cifarResnet = <Body extends Net>(body: Body): CifarResnet<Body> =>
  classifier(10, (classes) => seq(body, cifarHead(classes)))

export const resnet20CifarBody = cifarBodies(3, 2)
export const resnet32CifarBody = cifarBodies(5, 4)
export const resnet44CifarBody = cifarBodies(7, 6)
export const resnet56CifarBody = cifarBodies(9, 8)
export const resnet110CifarBody = cifarBodies(18, 17)

export const resnet20Cifar = cifarResnet(resnet20CifarBody)
export const resnet32Cifar = cifarResnet(resnet32CifarBody)
export const resnet44Cifar = cifarResnet(resnet44CifarBody)
export const resnet56Cifar = cifarResnet(resnet56CifarBody)
export const resnet110Cifar = cifarResnet(resnet110CifarBody)

export default {
  'resnet20-cifar': network(resnet20Cifar, 32, crossEntropy),
  'resnet32-cifar': network(resnet32Cifar, 32, crossEntropy),
  'resnet44-cifar': network(resnet44Cifar, 32, crossEntropy),
  'resnet56-cifar': network(resnet56Cifar, 32, crossEntropy),
  'resnet110-cifar': network(resnet110Cifar, 32, crossEntropy),
} satisfies Family
