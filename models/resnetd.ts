// ResNet-D (He et al. 2018) as timm builds it: three 3x3 convolutions instead of one of 7x7, and shortcuts that average before their 1x1 convolution.
// Layer names are timm's parameter names: 'conv1.3', 'layer2.0.downsample.1', 'fc'.
import {
  avgPool,
  batchNorm,
  block,
  blocks,
  conv2d,
  crossEntropy,
  type Family,
  identity,
  maxPool,
  type Net,
  network,
  relu,
  repeat,
  residual,
  seq,
} from '../dsl'
import { basicBlock, bottleneck, resnet } from './resnet'

const conv = <N extends string, O extends number, K extends 1 | 3, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => conv2d(name, out, kernel, { stride, bias: false, init: 'fan-out-normal' })

// biome-ignore format: one convolution a line
const stem = seq(
  block('conv1', conv('0', 32, 3, 2), batchNorm('1'), relu(), conv('3', 32, 3), batchNorm('4'), relu(), conv('6', 64, 3)),
  batchNorm('bn1'), relu(), maxPool('maxpool', 3, { stride: 2, pad: 1 }),
)

const half = avgPool(2, { ceil: true, countIncludePad: false })
/** The shortcut of a block that changes the channels; `pool` halves the image, or is `identity`. */
const downsample = <P extends Net, O extends number>(pool: P, out: O) =>
  block('downsample', pool, conv('1', out, 1), batchNorm('2'))

// biome-ignore format: one convolution a line
const basicDown = <C extends number>(channels: C) => seq(residual(
  seq(conv('conv1', channels, 3, 2), batchNorm('bn1'), relu(), conv('conv2', channels, 3), batchNorm('bn2')),
  downsample(half, channels),
), relu())
// biome-ignore format: one convolution a line
const down = <M extends number, O extends number, S extends number, P extends Net>(mid: M, out: O, stride: S, pool: P) => seq(residual(
  seq(
    conv('conv1', mid, 1), batchNorm('bn1'), relu(),
    conv('conv2', mid, 3, stride), batchNorm('bn2'), relu(),
    conv('conv3', out, 1), batchNorm('bn3'),
  ),
  downsample(pool, out),
), relu())

/** The copies behind the first block of each stage. */
// biome-ignore format: one stage a line
const basicBodies = <A extends number, B extends number, C extends number, D extends number>(a: A, b: B, c: C, d: D) => seq(
  stem,
  blocks('layer1', basicBlock(64), repeat(a, basicBlock(64))),
  blocks('layer2', basicDown(128), repeat(b, basicBlock(128))),
  blocks('layer3', basicDown(256), repeat(c, basicBlock(256))),
  blocks('layer4', basicDown(512), repeat(d, basicBlock(512))),
)
// biome-ignore format: one stage a line
const bottleneckBodies = <B extends number, C extends number>(b: B, c: C) => seq(
  stem,
  blocks('layer1', down(64, 256, 1, identity), repeat(2, bottleneck(64, 256))),
  blocks('layer2', down(128, 512, 2, half), repeat(b, bottleneck(128, 512))),
  blocks('layer3', down(256, 1024, 2, half), repeat(c, bottleneck(256, 1024))),
  blocks('layer4', down(512, 2048, 2, half), repeat(2, bottleneck(512, 2048))),
)

export const resnet18dBody = basicBodies(1, 1, 1, 1)
export const resnet34dBody = basicBodies(2, 3, 5, 2)
export const resnet50dBody = bottleneckBodies(3, 5)
export const resnet101dBody = bottleneckBodies(3, 22)

export const resnet18d = resnet(resnet18dBody)
export const resnet34d = resnet(resnet34dBody)
export const resnet50d = resnet(resnet50dBody)
export const resnet101d = resnet(resnet101dBody)

export default {
  resnet18d: network(resnet18d, 224, crossEntropy),
  resnet34d: network(resnet34d, 224, crossEntropy),
  resnet50d: network(resnet50d, 224, crossEntropy),
  resnet101d: network(resnet101d, 224, crossEntropy),
} satisfies Family
