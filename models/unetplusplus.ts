// U-Net++ (Zhou et al. 2018) with a ResNet-34 encoder, as segmentation-models-pytorch builds it, for 21 classes: between encoder and decoder, each
// level joins all earlier results of its size. Layer names are its parameter names: 'encoder.layer1.0.conv1', 'decoder.blocks.x_0_1.conv1.0'.
// The height and width of its images are multiples of 32.
import {
  batchNorm,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  type Family,
  maxPool,
  type Net,
  network,
  relu,
  repeat,
  type Seq,
  seq,
  upsample,
  value,
  values,
} from '../dsl'
import { basicBlock, basicBlockDown } from './resnet'

/** ResNet-34 in parts: its features at a half to a 32nd of the image. */
// biome-ignore format: one part a line
export const encoder34 = [
  value('half', 'input', block('encoder', conv2d('conv1', 64, 7, { stride: 2, bias: false, init: 'fan-out-normal' }), batchNorm('bn1'), relu())),
  value('quarter', 'half', block('encoder', maxPool('maxpool', 3, { stride: 2, pad: 1 }), blocks('layer1', repeat(3, basicBlock(64))))),
  value('eighth', 'quarter', blocks('encoder.layer2', basicBlockDown(128, 2), repeat(3, basicBlock(128)))),
  value('sixteenth', 'eighth', blocks('encoder.layer3', basicBlockDown(256, 2), repeat(5, basicBlock(256)))),
  value('last', 'sixteenth', blocks('encoder.layer4', basicBlockDown(512, 2), repeat(2, basicBlock(512)))),
] as const

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.0`, channels, 3, { bias: false, init: 'fan-in-normal' }), batchNorm(`${name}.1`), relu())
const convs = <N extends string, C extends number>(name: N, channels: C) =>
  block(`decoder.blocks.${name}`, unit('conv1', channels), unit('conv2', channels))

/** A result of twice the size of `from`, beside others of that size. */
// biome-ignore format: one value a line
const node = <N extends string, C extends number, F extends string, const J extends readonly [string, ...string[]]>(name: N, channels: C, from: F, ...beside: J) => [
  value(`up_${name}`, from, upsample({ scale: 2 })),
  value(name, { joined: [`up_${name}`, ...beside] }, convs(name, channels)),
] as const

// biome-ignore format: one node a line
export const unetPlusPlusBody = values(
  ...encoder34,
  ...node('x_0_0', 256, 'last', 'sixteenth'),
  ...node('x_1_1', 128, 'sixteenth', 'eighth'),
  ...node('x_2_2', 64, 'eighth', 'quarter'),
  ...node('x_3_3', 64, 'quarter', 'half'),
  ...node('x_0_1', 128, 'x_0_0', 'x_1_1', 'eighth'),
  ...node('x_1_2', 64, 'x_1_1', 'x_2_2', 'quarter'),
  ...node('x_2_3', 64, 'x_2_2', 'x_3_3', 'half'),
  ...node('x_0_2', 64, 'x_0_1', 'x_1_2', 'x_2_2', 'quarter'),
  ...node('x_1_3', 64, 'x_1_2', 'x_2_3', 'x_3_3', 'half'),
  ...node('x_0_3', 32, 'x_0_2', 'x_1_3', 'x_2_3', 'x_3_3', 'half'),
  value('x_0_4', 'x_0_3', upsample({ scale: 2 }), convs('x_0_4', 16)),
)

/** The head for a number of classes. */
export const unetPlusPlusHead = <C extends number>(classes: C) => conv2d('segmentation_head.0', classes, 3)

/** U-Net++, for a number of classes. */
export type UnetPlusPlusOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof unetPlusPlusHead<C>>]>
/** U-Net++; called with other classes, the same body with a head for them. */
export interface UnetPlusPlus<Body extends Net> extends UnetPlusPlusOf<Body, 21> {
  <const N extends number>(options: ClassesOptions<N>): UnetPlusPlusOf<Body, N>
}
const withHead = <Body extends Net>(body: Body): UnetPlusPlus<Body> =>
  classifier(21, (classes) => seq(body, unetPlusPlusHead(classes)))

export const unetPlusPlus = withHead(unetPlusPlusBody)

export default { 'unetplusplus-resnet34': network(unetPlusPlus, 512, crossEntropy) } satisfies Family
