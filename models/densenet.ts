// DenseNet-BC (Huang et al. 2016) as torchvision builds it: each layer of a dense block adds `growth` channels to all that
// stand before it; a transition between blocks halves channels and pixels.
// Layer names are torchvision's: 'features.denseblock1.denselayer1.norm1', 'features.transition1.conv', 'classifier'.
import {
  avgPool,
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  counted,
  crossEntropy,
  type Family,
  globalAvgPool,
  linear,
  maxPool,
  type Net,
  network,
  relu,
  repeat,
  type Seq,
  seq,
  skip,
} from '../dsl'

const conv = <N extends string, O extends number, K extends 1 | 3 | 7, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => conv2d(name, out, kernel, { stride, bias: false, init: 'fan-in-normal' })

/** `mid` is four times the growth. */
// biome-ignore format: one convolution a line
const denseLayer = <M extends number, G extends number>(mid: M, growth: G) => skip(
  batchNorm('norm1'), relu(), conv('conv1', mid, 1),
  batchNorm('norm2'), relu(), conv('conv2', growth, 3),
)

const denseBlock = <N extends number, T extends number, M extends number, G extends number>(n: N, times: T, mid: M, growth: G) =>
  block(`denseblock${n}`, counted('denselayer', 1, repeat(times, denseLayer(mid, growth))))

const transition = <N extends number, C extends number>(n: N, channels: C) =>
  block(`transition${n}`, batchNorm('norm'), relu(), conv('conv', channels, 1), avgPool('pool', 2))

// biome-ignore format: one stage a line
const head = <C extends number>(channels: C) =>
  seq(conv('conv0', channels, 7, 2), batchNorm('norm0'), relu(), maxPool('pool0', 3, { stride: 2, pad: 1 }))
/** The head for a number of classes. */
export const densenetHead = <C extends number>(classes: C) => seq(relu(), globalAvgPool('avgpool'), linear('classifier', classes))

/** A DenseNet, for a number of classes. */
export type DensenetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof densenetHead<C>>]>
/** A DenseNet; called with other classes, the same body with a head for them. */
export interface Densenet<Body extends Net> extends DensenetOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): DensenetOf<Body, N>
}
const densenet = <Body extends Net>(body: Body): Densenet<Body> => classifier(1000, (classes) => seq(body, densenetHead(classes)))

// biome-ignore format: one stage a line
export const densenet121Body = block('features',
  head(64),
  denseBlock(1, 6, 128, 32), transition(1, 128),
  denseBlock(2, 12, 128, 32), transition(2, 256),
  denseBlock(3, 24, 128, 32), transition(3, 512),
  denseBlock(4, 16, 128, 32), batchNorm('norm5'),
)

// biome-ignore format: one stage a line
export const densenet169Body = block('features',
  head(64),
  denseBlock(1, 6, 128, 32), transition(1, 128),
  denseBlock(2, 12, 128, 32), transition(2, 256),
  denseBlock(3, 32, 128, 32), transition(3, 640),
  denseBlock(4, 32, 128, 32), batchNorm('norm5'),
)

// biome-ignore format: one stage a line
export const densenet201Body = block('features',
  head(64),
  denseBlock(1, 6, 128, 32), transition(1, 128),
  denseBlock(2, 12, 128, 32), transition(2, 256),
  denseBlock(3, 48, 128, 32), transition(3, 896),
  denseBlock(4, 32, 128, 32), batchNorm('norm5'),
)

/** The wide one: growth 48. */
// biome-ignore format: one stage a line
export const densenet161Body = block('features',
  head(96),
  denseBlock(1, 6, 192, 48), transition(1, 192),
  denseBlock(2, 12, 192, 48), transition(2, 384),
  denseBlock(3, 36, 192, 48), transition(3, 1056),
  denseBlock(4, 24, 192, 48), batchNorm('norm5'),
)

export const densenet121 = densenet(densenet121Body)
export const densenet169 = densenet(densenet169Body)
export const densenet201 = densenet(densenet201Body)
export const densenet161 = densenet(densenet161Body)

export default {
  densenet121: network(densenet121, 224, crossEntropy),
  densenet161: network(densenet161, 224, crossEntropy),
  densenet169: network(densenet169, 224, crossEntropy),
  densenet201: network(densenet201, 224, crossEntropy),
} satisfies Family
