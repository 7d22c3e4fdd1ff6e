// Attention U-Net (Oktay et al. 2018) as LeeJunHyun's Image_Segmentation builds it, for two classes: a gate for each pixel, from the coarser level,
// scales the features that a level joins. Layer names are its parameter names: 'Conv1.conv.0', 'Att5.psi.0', 'Conv_1x1'. The height and width of its
// images are multiples of 16.
import {
  batchNorm,
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  maxPool,
  type Net,
  network,
  relu,
  type Seq,
  seq,
  sigmoid,
  upsample,
  value,
  values,
} from '../dsl'

const conv = <N extends string, C extends number, K extends 1 | 3>(name: N, channels: C, kernel: K) =>
  conv2d(name, channels, kernel, { init: 'fan-in-normal' })

// biome-ignore format: one convolution a line
const convs = <N extends string, C extends number>(name: N, channels: C) => block(`${name}.conv`,
  conv('0', channels, 3), batchNorm('1'), relu(),
  conv('3', channels, 3), batchNorm('4'), relu(),
)

/** A level of the decoder: `below` at twice its size, beside the gated `features`. `hidden` is half the channels. */
// biome-ignore format: one value a line
const level = <N extends number, B extends string, F extends string, C extends number, H extends number>(n: N, below: B, features: F, channels: C, hidden: H) => [
  value(`up${n}`, below, block(`Up${n}.up`, upsample({ scale: 2 }), conv('1', channels, 3), batchNorm('2'), relu())),
  value(`g${n}`, `up${n}`, conv(`Att${n}.W_g.0`, hidden, 1), batchNorm(`Att${n}.W_g.1`)),
  value(`f${n}`, features, conv(`Att${n}.W_x.0`, hidden, 1), batchNorm(`Att${n}.W_x.1`)),
  value(`psi${n}`, { added: [`g${n}`, `f${n}`] }, relu(), conv(`Att${n}.psi.0`, 1, 1), batchNorm(`Att${n}.psi.1`), sigmoid()),
  value(`gated${n}`, { multiplied: [features, `psi${n}`] }),
  value(`d${n}`, { joined: [`gated${n}`, `up${n}`] }, convs(`Up_conv${n}`, channels)),
] as const

// biome-ignore format: one level a line
export const attentionUnetBody = values(
  value('x1', 'input', convs('Conv1', 64)),
  value('x2', 'x1', maxPool('pool1', 2), convs('Conv2', 128)),
  value('x3', 'x2', maxPool('pool2', 2), convs('Conv3', 256)),
  value('x4', 'x3', maxPool('pool3', 2), convs('Conv4', 512)),
  value('x5', 'x4', maxPool('pool4', 2), convs('Conv5', 1024)),
  ...level(5, 'x5', 'x4', 512, 256),
  ...level(4, 'd5', 'x3', 256, 128),
  ...level(3, 'd4', 'x2', 128, 64),
  ...level(2, 'd3', 'x1', 64, 32),
)

/** The head for a number of classes. */
export const attentionUnetHead = <C extends number>(classes: C) => conv('Conv_1x1', classes, 1)

/** Attention U-Net, for a number of classes. */
export type AttentionUnetOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof attentionUnetHead<C>>]>
/** Attention U-Net; called with other classes, the same body with a head for them. */
export interface AttentionUnet<Body extends Net> extends AttentionUnetOf<Body, 2> {
  <const N extends number>(options: ClassesOptions<N>): AttentionUnetOf<Body, N>
}
const withHead = <Body extends Net>(body: Body): AttentionUnet<Body> =>
  classifier(2, (classes) => seq(body, attentionUnetHead(classes)))

export const attentionUnet = withHead(attentionUnetBody)

export default { 'attention-unet': network(attentionUnet, 512, crossEntropy) } satisfies Family
