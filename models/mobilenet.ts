// MobileNetV2 (Sandler et al. 2018) as torchvision builds it: blocks that are wide between two narrow ends, where a 3x3
// convolution sees one channel at a time. Layer names are torchvision's parameter names: 'features.1.conv.0.0', 'classifier.1'.
import {
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  counted,
  crossEntropy,
  dropout,
  type Family,
  globalAvgPool,
  identity,
  linear,
  type Net,
  network,
  relu6,
  repeat,
  residual,
  type Seq,
  seq,
} from '../dsl'

const conv = <N extends string, O extends number, K extends 1 | 3, S extends number = 1, G extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
  groups?: G,
) => conv2d(name, out, kernel, { stride, groups, bias: false, init: 'fan-out-normal' })

const unit = <N extends string, O extends number, K extends 1 | 3, S extends number = 1, G extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
  groups?: G,
) => block(name, conv('0', out, kernel, stride, groups), batchNorm('1'), relu6())

/** `wide` is six times the channels that come in. */
// biome-ignore format: one convolution a line
const bottleneck = <W extends number, O extends number, S extends number = 1>(wide: W, out: O, stride?: S) => block('conv',
  unit('0', wide, 1),
  unit('1', wide, 3, stride, wide),
  conv('2', out, 1), batchNorm('3'),
)
const keeping = <W extends number, O extends number>(wide: W, out: O) => residual(bottleneck(wide, out), identity)

// biome-ignore format: a row of the paper's table 2 a line
export const mobilenetv2Body = seq(
  block('features',
    unit('0', 32, 3, 2),
    counted('', 1,
      block('conv', unit('0', 32, 3, 1, 32), conv('1', 16, 1), batchNorm('2')),
      bottleneck(96, 24, 2), keeping(144, 24),
      bottleneck(144, 32, 2), repeat(2, keeping(192, 32)),
      bottleneck(192, 64, 2), repeat(3, keeping(384, 64)),
      bottleneck(384, 96, 1), repeat(2, keeping(576, 96)),
      bottleneck(576, 160, 2), repeat(2, keeping(960, 160)),
      bottleneck(960, 320, 1),
    ),
    unit('18', 1280, 1),
  ),
)

/** The head for a number of classes. */
export const mobilenetHead = <C extends number>(classes: C) =>
  seq(globalAvgPool('avgpool'), dropout(0.2), linear('classifier.1', classes, { init: 0.01 }))

/** MobileNetV2, for a number of classes. */
export type MobilenetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof mobilenetHead<C>>]>
/** MobileNetV2; called with other classes, the same body with a head for them. */
export interface Mobilenet<Body extends Net> extends MobilenetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): MobilenetOf<Body, N>
}
export const mobilenetv2: Mobilenet<typeof mobilenetv2Body> = classifier(1000, (classes) =>
  seq(mobilenetv2Body, mobilenetHead(classes)),
)

export default { mobilenetv2: network(mobilenetv2, 224, crossEntropy) } satisfies Family
