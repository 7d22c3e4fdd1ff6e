// SE-ResNet (Hu et al. 2018) as timm builds it: a gate at the end of each bottleneck, computed from each channel's mean.
// Layer names are timm's parameter names: 'layer1.0.se.fc1', 'fc'.
import {
  batchNorm,
  block,
  blocks,
  conv2d,
  crossEntropy,
  type Family,
  globalAvgPool,
  identity,
  network,
  relu,
  repeat,
  residual,
  scaled,
  seq,
  sigmoid,
} from '../dsl'
import { resnet, stem } from './resnet'

const conv = <N extends string, O extends number, K extends 1 | 3, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => conv2d(name, out, kernel, { stride, bias: false, init: 'fan-out-normal' })

// biome-ignore format: one convolution a line
const body = <M extends number, O extends number, Q extends number, S extends number = 1>(mid: M, out: O, squeezed: Q, stride?: S) => seq(
  conv('conv1', mid, 1), batchNorm('bn1'), relu(),
  conv('conv2', mid, 3, stride), batchNorm('bn2'), relu(),
  conv('conv3', out, 1), batchNorm('bn3'),
  block('se', scaled(globalAvgPool(), conv2d('fc1', squeezed, 1), relu(), conv2d('fc2', out, 1), sigmoid())),
)
const keeping = <M extends number, O extends number, Q extends number>(mid: M, out: O, squeezed: Q) =>
  seq(residual(body(mid, out, squeezed), identity), relu())
const down = <M extends number, O extends number, Q extends number, S extends number>(mid: M, out: O, squeezed: Q, stride: S) =>
  seq(residual(body(mid, out, squeezed, stride), block('downsample', conv('0', out, 1, stride), batchNorm('1'))), relu())

// biome-ignore format: one stage a line
const bodies = <B extends number, C extends number>(b: B, c: C) => seq(
  stem,
  blocks('layer1', down(64, 256, 16, 1), repeat(2, keeping(64, 256, 16))),
  blocks('layer2', down(128, 512, 32, 2), repeat(b, keeping(128, 512, 32))),
  blocks('layer3', down(256, 1024, 64, 2), repeat(c, keeping(256, 1024, 64))),
  blocks('layer4', down(512, 2048, 128, 2), repeat(2, keeping(512, 2048, 128))),
)

export const seresnet50Body = bodies(3, 5)
export const seresnet101Body = bodies(3, 22)
export const seresnet152Body = bodies(7, 35)

export const seresnet50 = resnet(seresnet50Body)
export const seresnet101 = resnet(seresnet101Body)
export const seresnet152 = resnet(seresnet152Body)

export default {
  seresnet50: network(seresnet50, 224, crossEntropy),
  seresnet101: network(seresnet101, 224, crossEntropy),
  seresnet152: network(seresnet152, 224, crossEntropy),
} satisfies Family
