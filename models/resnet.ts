// ResNet (He et al. 2015) as torchvision builds it: the stride of a bottleneck stands on its 3x3 convolution.
// Layer names are torchvision's parameter names: 'layer1.0.conv1', 'layer2.0.downsample.0', 'fc'.
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
  maxPool,
  type Net,
  network,
  relu,
  repeat,
  residual,
  type Seq,
  seq,
} from '../dsl'

const conv = <N extends string, O extends number, K extends 1 | 3 | 7, S extends number = 1, D extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
  dilation?: D,
) => conv2d(name, out, kernel, { stride, dilation, bias: false, init: 'fan-out-normal' })

const downsample = <O extends number, S extends number>(out: O, stride: S) =>
  block('downsample', conv('0', out, 1, stride), batchNorm('1'))

// ---------------------------------------------------------------- two 3x3 convolutions

// biome-ignore format: one convolution a line
const basicBody = <C extends number, S extends number = 1>(channels: C, stride?: S) => seq(
  conv('conv1', channels, 3, stride), batchNorm('bn1'), relu(),
  conv('conv2', channels, 3), batchNorm('bn2'),
)
export const basicBlock = <C extends number>(channels: C) => seq(residual(basicBody(channels), identity), relu())
export const basicBlockDown = <C extends number, S extends number>(channels: C, stride: S) =>
  seq(residual(basicBody(channels, stride), downsample(channels, stride)), relu())

// ---------------------------------------------------------------- 1x1, 3x3, 1x1

// biome-ignore format: one convolution a line
const bottleneckBody = <M extends number, O extends number, S extends number = 1, D extends number = 1>(
  mid: M, out: O, stride?: S, dilation?: D,
) => seq(
  conv('conv1', mid, 1), batchNorm('bn1'), relu(),
  conv('conv2', mid, 3, stride, dilation), batchNorm('bn2'), relu(),
  conv('conv3', out, 1), batchNorm('bn3'),
)
export const bottleneck = <M extends number, O extends number, D extends number = 1>(mid: M, out: O, dilation?: D) =>
  seq(residual(bottleneckBody(mid, out, 1, dilation), identity), relu())
export const bottleneckDown = <M extends number, O extends number, S extends number>(mid: M, out: O, stride: S) =>
  seq(residual(bottleneckBody(mid, out, stride), downsample(out, stride)), relu())

// ---------------------------------------------------------------- networks

export const stem = seq(conv('conv1', 64, 7, 2), batchNorm('bn1'), relu(), maxPool('maxpool', 3, { stride: 2, pad: 1 }))
/** The head for a number of classes. */
export const resnetHead = <C extends number>(classes: C) => seq(globalAvgPool('avgpool'), linear('fc', classes))

/** A ResNet, for a number of classes. */
export type ResnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof resnetHead<C>>]>
/** A ResNet; called with other classes, the same body with a head for them. */
export interface Resnet<Body extends Net> extends ResnetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): ResnetOf<Body, N>
}
const resnet = <Body extends Net>(body: Body): Resnet<Body> => classifier(1000, (classes) => seq(body, resnetHead(classes)))

/** Takes how many blocks stand in each stage besides one, the first, which changes the size or the channels. */
// biome-ignore format: one stage a line
const basicBodies = <A extends number, B extends number, C extends number, D extends number>(a: A, b: B, c: C, d: D) => seq(
  stem,
  blocks('layer1', basicBlock(64), repeat(a, basicBlock(64))),
  blocks('layer2', basicBlockDown(128, 2), repeat(b, basicBlock(128))),
  blocks('layer3', basicBlockDown(256, 2), repeat(c, basicBlock(256))),
  blocks('layer4', basicBlockDown(512, 2), repeat(d, basicBlock(512))),
)

/** The stages that all networks of bottlenecks have alike, DeepLabV3+ included. */
export const bottleneckStage1 = blocks('layer1', bottleneckDown(64, 256, 1), repeat(2, bottleneck(64, 256)))
// biome-ignore format: one stage a line
export const bottleneckStages23 = <B extends number, C extends number>(b: B, c: C) => seq(
  blocks('layer2', bottleneckDown(128, 512, 2), repeat(b, bottleneck(128, 512))),
  blocks('layer3', bottleneckDown(256, 1024, 2), repeat(c, bottleneck(256, 1024))),
)

// biome-ignore format: one stage a line
const bottleneckBodies = <B extends number, C extends number>(b: B, c: C) => seq(
  stem,
  bottleneckStage1,
  bottleneckStages23(b, c),
  blocks('layer4', bottleneckDown(512, 2048, 2), repeat(2, bottleneck(512, 2048))),
)

export const resnet18Body = basicBodies(1, 1, 1, 1)
export const resnet34Body = basicBodies(2, 3, 5, 2)
export const resnet50Body = bottleneckBodies(3, 5)
export const resnet101Body = bottleneckBodies(3, 22)
export const resnet152Body = bottleneckBodies(7, 35)

export const resnet18 = resnet(resnet18Body)
export const resnet34 = resnet(resnet34Body)
export const resnet50 = resnet(resnet50Body)
export const resnet101 = resnet(resnet101Body)
export const resnet152 = resnet(resnet152Body)

export default {
  resnet18: network(resnet18, 224, crossEntropy),
  resnet34: network(resnet34, 224, crossEntropy),
  resnet50: network(resnet50, 224, crossEntropy),
  resnet101: network(resnet101, 224, crossEntropy),
  resnet152: network(resnet152, 224, crossEntropy),
} satisfies Family
