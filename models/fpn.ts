// A feature pyramid network for segmentation (Kirillov et al. 2019) with a ResNet-34 encoder, as segmentation-models-pytorch builds it, for 21
// classes. Layer names are its parameter names: 'encoder.layer1.0.conv1', 'decoder.p4.skip_conv'. The height and width of its images are multiples
// of 32. The reference drops whole channels before the head; this network drops elements.
import {
  block,
  type ClassesOptions,
  classifier,
  conv2d,
  crossEntropy,
  dropout,
  type Family,
  groupNorm,
  type Net,
  network,
  relu,
  type Seq,
  seq,
  upsample,
  value,
  values,
} from '../dsl'
import { encoder34 } from './unetplusplus'

const skip = <N extends string>(name: N) => conv2d(name, 256, 1, { init: 'fan-in-normal' })
const double = upsample({ scale: 2, mode: 'bilinear', alignCorners: true })

/** A level of the pyramid: the level `above` at twice its size, plus the encoder's features. */
// biome-ignore format: one value a line
const level = <N extends string, A extends string, F extends string>(name: N, above: A, features: F) => [
  value(`up_${name}`, above, upsample({ scale: 2 })),
  value(`skip_${name}`, features, skip(`decoder.${name}.skip_conv`)),
  value(name, { added: [`up_${name}`, `skip_${name}`] }),
] as const

const unit = <N extends string>(name: N) =>
  block(name, conv2d('block.0', 128, 3, { bias: false, init: 'fan-in-normal' }), groupNorm('block.1', 32), relu())

// biome-ignore format: one value a line
export const fpnBody = values(
  ...encoder34,
  value('p5', 'last', skip('decoder.p5')),
  ...level('p4', 'p5', 'sixteenth'),
  ...level('p3', 'p4', 'eighth'),
  ...level('p2', 'p3', 'quarter'),
  value('s5', 'p5', block('decoder.seg_blocks.0', unit('block.0'), double, unit('block.1'), double, unit('block.2'), double)),
  value('s4', 'p4', block('decoder.seg_blocks.1', unit('block.0'), double, unit('block.1'), double)),
  value('s3', 'p3', block('decoder.seg_blocks.2', unit('block.0'), double)),
  value('s2', 'p2', block('decoder.seg_blocks.3', unit('block.0'))),
  value('sum', { added: ['s5', 's4', 's3', 's2'] }, dropout(0.2)),
)

/** The head for a number of classes. */
export const fpnHead = <C extends number>(classes: C) =>
  seq(conv2d('segmentation_head.0', classes, 1), upsample({ scale: 4, mode: 'bilinear', alignCorners: true }))

/** A feature pyramid network, for a number of classes. */
export type FpnOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof fpnHead<C>>]>
/** A feature pyramid network; called with other classes, the same body with a head for them. */
export interface Fpn<Body extends Net> extends FpnOf<Body, 21> {
  <const N extends number>(options: ClassesOptions<N>): FpnOf<Body, N>
}
const fpn = <Body extends Net>(body: Body): Fpn<Body> => classifier(21, (classes) => seq(body, fpnHead(classes)))

export const fpnResnet34 = fpn(fpnBody)

export default { 'fpn-resnet34': network(fpnResnet34, 512, crossEntropy) } satisfies Family
