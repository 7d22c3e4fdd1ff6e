// ResNet (He et al. 2015), ResNeXt (Xie et al. 2017) and wide ResNet (Zagoruyko and Komodakis 2016) as torchvision builds them: the 3x3 convolution of
// a bottleneck has its stride. ResNeXt has groups in it, and a wide ResNet twice its channels.
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

// biome-ignore format: the types on a line
const conv = <N extends string, O extends number, K extends 1 | 3 | 7, S extends number = 1, D extends number = 1, G extends number = 1>(
  name: N, out: O, kernel: K, stride?: S, dilation?: D, groups?: G,
) => conv2d(name, out, kernel, { stride, dilation, groups, bias: false, init: 'fan-out-normal' })

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
const bottleneckBody = <M extends number, O extends number, S extends number = 1, D extends number = 1, G extends number = 1>(
  mid: M, out: O, stride?: S, dilation?: D, groups?: G,
) => seq(
  conv('conv1', mid, 1), batchNorm('bn1'), relu(),
  conv('conv2', mid, 3, stride, dilation, groups), batchNorm('bn2'), relu(),
  conv('conv3', out, 1), batchNorm('bn3'),
)
// biome-ignore format: the types on a line
export const bottleneck = <M extends number, O extends number, D extends number = 1, G extends number = 1>(
  mid: M, out: O, dilation?: D, groups?: G,
) => seq(residual(bottleneckBody(mid, out, 1, dilation, groups), identity), relu())
// biome-ignore format: the types on a line
export const bottleneckDown = <M extends number, O extends number, S extends number, D extends number = 1, G extends number = 1>(
  mid: M, out: O, stride: S, dilation?: D, groups?: G,
) => seq(residual(bottleneckBody(mid, out, stride, dilation, groups), downsample(out, stride)), relu())

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
/** Creates a ResNet from a body. */
export const resnet = <Body extends Net>(body: Body): Resnet<Body> =>
  classifier(1000, (classes) => seq(body, resnetHead(classes)))

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

// biome-ignore format: one stage a line
const groupedBodies = <
  G extends number, M1 extends number, M2 extends number, M3 extends number, M4 extends number, C extends number,
>(groups: G, mid1: M1, mid2: M2, mid3: M3, mid4: M4, c: C) => seq(
  stem,
  blocks('layer1', bottleneckDown(mid1, 256, 1, 1, groups), repeat(2, bottleneck(mid1, 256, 1, groups))),
  blocks('layer2', bottleneckDown(mid2, 512, 2, 1, groups), repeat(3, bottleneck(mid2, 512, 1, groups))),
  blocks('layer3', bottleneckDown(mid3, 1024, 2, 1, groups), repeat(c, bottleneck(mid3, 1024, 1, groups))),
  blocks('layer4', bottleneckDown(mid4, 2048, 2, 1, groups), repeat(2, bottleneck(mid4, 2048, 1, groups))),
)

export const resnet18Body = basicBodies(1, 1, 1, 1)
export const resnet34Body = basicBodies(2, 3, 5, 2)
export const resnet50Body = bottleneckBodies(3, 5)
export const resnet101Body = bottleneckBodies(3, 22)
export const resnet152Body = bottleneckBodies(7, 35)
export const resnext50Body = groupedBodies(32, 128, 256, 512, 1024, 5)
export const resnext101Groups32Body = groupedBodies(32, 256, 512, 1024, 2048, 22)
export const resnext101Groups64Body = groupedBodies(64, 256, 512, 1024, 2048, 22)
export const wideResnet50Body = groupedBodies(1, 128, 256, 512, 1024, 5)
export const wideResnet101Body = groupedBodies(1, 128, 256, 512, 1024, 22)

export const resnet18 = resnet(resnet18Body)
export const resnet34 = resnet(resnet34Body)
export const resnet50 = resnet(resnet50Body)
export const resnet101 = resnet(resnet101Body)
export const resnet152 = resnet(resnet152Body)
export const resnext50 = resnet(resnext50Body)
export const resnext101Groups32 = resnet(resnext101Groups32Body)
export const resnext101Groups64 = resnet(resnext101Groups64Body)
export const wideResnet50 = resnet(wideResnet50Body)
export const wideResnet101 = resnet(wideResnet101Body)

export default {
  resnet18: network(resnet18, 224, crossEntropy),
  resnet34: network(resnet34, 224, crossEntropy),
  resnet50: network(resnet50, 224, crossEntropy),
  resnet101: network(resnet101, 224, crossEntropy),
  resnet152: network(resnet152, 224, crossEntropy),
  'resnext50-32x4d': network(resnext50, 224, crossEntropy),
  'resnext101-32x8d': network(resnext101Groups32, 224, crossEntropy),
  'resnext101-64x4d': network(resnext101Groups64, 224, crossEntropy),
  'wide-resnet50-2': network(wideResnet50, 224, crossEntropy),
  'wide-resnet101-2': network(wideResnet101, 224, crossEntropy),
} satisfies Family
