// Vision Transformer (Dosovitskiy et al. 2021), ViT-S/16, as timm builds it: patches of 16x16 pixels and a trained token attend to each other. Layer
// names are timm's parameter names: 'patch_embed.proj', 'blocks.0.attn.qkv', 'head'. Tokens are one row of pixels in its blocks, channels outside.
// 'pos_embed' is [197,1,384] here for timm's [1,197,384], the same numbers in the same order. It fits images of one size.
import {
  affine,
  attention,
  blocks,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  crossEntropy,
  type Family,
  gelu,
  identity,
  layerNorm,
  linear,
  type Net,
  network,
  pixelLinear,
  position,
  repeat,
  residual,
  type Seq,
  seq,
  sliceChannels,
  turnPixels,
} from '../dsl'

const norm = <N extends string>(name: N) => layerNorm(name, { eps: 1e-6 })
const dense = <N extends string, O extends number>(name: N, out: O) => pixelLinear(name, out, { init: 0.02 })

// biome-ignore format: one branch a line
const unit = seq(
  residual(seq(norm('norm1'), dense('attn.qkv', 1152), attention('attn', 6), dense('attn.proj', 384)), identity),
  residual(seq(norm('norm2'), dense('mlp.fc1', 1536), gelu(), dense('mlp.fc2', 384)), identity),
)

/** The token that is trained: the first patch times 0, plus the trained value. */
const token = seq(sliceChannels(0, 1), affine(0), position('cls_token'))

export const vitSmallBody = seq(
  conv2d('patch_embed.proj', 384, 16, { stride: 16, pad: 0 }),
  turnPixels(),
  concat(token, identity),
  position('pos_embed'),
  turnPixels(),
  blocks('blocks', repeat(12, unit)),
)

/** The token's channels and the head for a number of classes. */
export const vitHead = <C extends number>(classes: C) =>
  seq(turnPixels(), sliceChannels(0, 1), turnPixels(), norm('norm'), linear('head', classes, { init: 0.02 }))

/** ViT, for a number of classes. */
export type VitOf<Body extends Net, C extends number> = Seq<readonly [Body, ReturnType<typeof vitHead<C>>]>
/** ViT; called with other classes, the same body with a head for them. */
export interface Vit<Body extends Net> extends VitOf<Body, 1000> {
  <const N extends number>(options: ClassesOptions<N>): VitOf<Body, N>
}
const vit = <Body extends Net>(body: Body): Vit<Body> => classifier(1000, (classes) => seq(body, vitHead(classes)))

export const vitSmall = vit(vitSmallBody)

export default { 'vit-s': network(vitSmall, 224, crossEntropy) } satisfies Family
