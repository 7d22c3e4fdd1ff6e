// ResNet (He et al. 2015) as torchvision builds it: the stride of a bottleneck stands on its 3x3 convolution.
// Layer names are torchvision's parameter names: 'layer1.0.conv1', 'layer2.0.downsample.0', 'fc'.
import { batchNorm, block, blocks, conv2d, globalAvgPool, identity, linear, maxPool, relu, repeat, residual, seq } from '../dsl'

const conv = <N extends string, O extends number, K extends 1 | 3 | 7, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => conv2d(name, out, kernel, { stride, bias: false, init: 'fan-out-normal' })

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
const bottleneckBody = <M extends number, O extends number, S extends number = 1>(mid: M, out: O, stride?: S) => seq(
  conv('conv1', mid, 1), batchNorm('bn1'), relu(),
  conv('conv2', mid, 3, stride), batchNorm('bn2'), relu(),
  conv('conv3', out, 1), batchNorm('bn3'),
)
export const bottleneck = <M extends number, O extends number>(mid: M, out: O) =>
  seq(residual(bottleneckBody(mid, out), identity), relu())
export const bottleneckDown = <M extends number, O extends number, S extends number>(mid: M, out: O, stride: S) =>
  seq(residual(bottleneckBody(mid, out, stride), downsample(out, stride)), relu())

// ---------------------------------------------------------------- networks

const stem = seq(conv('conv1', 64, 7, 2), batchNorm('bn1'), relu(), maxPool('maxpool', 3, { stride: 2, pad: 1 }))
const head = seq(globalAvgPool('avgpool'), linear('fc', 1000))

// biome-ignore format: one stage a line
export const resnet18 = seq(
  stem,
  blocks('layer1', repeat(2, basicBlock(64))),
  blocks('layer2', basicBlockDown(128, 2), basicBlock(128)),
  blocks('layer3', basicBlockDown(256, 2), basicBlock(256)),
  blocks('layer4', basicBlockDown(512, 2), basicBlock(512)),
  head,
)

// biome-ignore format: one stage a line
export const resnet50 = seq(
  stem,
  blocks('layer1', bottleneckDown(64, 256, 1), repeat(2, bottleneck(64, 256))),
  blocks('layer2', bottleneckDown(128, 512, 2), repeat(3, bottleneck(128, 512))),
  blocks('layer3', bottleneckDown(256, 1024, 2), repeat(5, bottleneck(256, 1024))),
  blocks('layer4', bottleneckDown(512, 2048, 2), repeat(2, bottleneck(512, 2048))),
  head,
)
