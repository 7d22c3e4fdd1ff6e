// Pix2PixHD (Wang et al. 2018) as NVIDIA's reference implementation builds it: the global generator, the multi-scale patch
// discriminator, and the step that trains both: least-squares GAN, feature matching, Adam. Parameters have the reference's
// names: 'model.1.weight', 'scale0_layer0.0.weight', ... Its VGG loss, which needs pretrained weights, is left out.
import {
  adam,
  apply,
  avgPool,
  block,
  conv2d,
  convTranspose2d,
  counted,
  detach,
  type Family,
  fed,
  identity,
  instanceNorm,
  joined,
  l1,
  leakyRelu,
  loss,
  minimize,
  mse,
  type Net,
  reflectionPad2d,
  relu,
  repeat,
  residual,
  seq,
  type Shape,
  step,
  stepNetwork,
  tanh,
  type Tensor,
} from '../dsl'

const init = 0.02

// ---------------------------------------------------------------- the generator

/** The first number is the convolution's place in the reference's list: a norm and a rectifier follow each. */
export const down = <N extends number, C extends number>(place: N, channels: C) =>
  seq(conv2d(`${place}`, channels, 3, { stride: 2, pad: 1, init }), instanceNorm(), relu())
export const up = <N extends number, C extends number>(place: N, channels: C) =>
  seq(convTranspose2d(`${place}`, channels, 3, { stride: 2, pad: 1, outputPad: 1, init }), instanceNorm(), relu())

// biome-ignore format: one convolution a line
const residualBlock = <C extends number>(channels: C) => block('conv_block', residual(seq(
  reflectionPad2d(1), conv2d('1', channels, 3, { pad: 0, init }), instanceNorm(), relu(),
  reflectionPad2d(1), conv2d('5', channels, 3, { pad: 0, init }), instanceNorm(),
), identity))
/** Each block is one place. */
export const residualBlocks = <N extends number, T extends number, C extends number>(place: N, times: T, channels: C) =>
  counted('', place, repeat(times, residualBlock(channels)))

/** Takes the first convolution's channels, the last one's place, and the layers between them. */
// biome-ignore format: one convolution a line
export const globalGenerator = <C extends number, N extends number, const Ls extends readonly Net[]>(channels: C, last: N, ...between: Ls) => block('model',
  reflectionPad2d(3), conv2d('1', channels, 7, { pad: 0, init }), instanceNorm(), relu(),
  ...between,
  reflectionPad2d(3), conv2d(`${last}`, 3, 7, { pad: 0, init }), tanh(),
)

// biome-ignore format: one stage a line
const generator = globalGenerator(64, 38,
  down(4, 128), down(7, 256), down(10, 512), down(13, 1024),
  residualBlocks(16, 9, 1024),
  up(25, 512), up(28, 256), up(31, 128), up(34, 64),
)

// ---------------------------------------------------------------- the discriminator

const conv = <C extends number, S extends number>(channels: C, stride: S) => conv2d('0', channels, 4, { stride, pad: 2, init })

/** One scale, layer by layer: their outputs are the features that are matched, the last one the verdict on each patch. */
// biome-ignore format: one layer a line
const critic = <N extends number, A extends number, B extends number, C extends number, D extends number>(
  scale: N, a: A, b: B, c: C, d: D,
) => [
  block(`scale${scale}_layer0`, conv(a, 2), leakyRelu(0.2)),
  block(`scale${scale}_layer1`, conv(b, 2), instanceNorm(), leakyRelu(0.2)),
  block(`scale${scale}_layer2`, conv(c, 2), instanceNorm(), leakyRelu(0.2)),
  block(`scale${scale}_layer3`, conv(d, 1), instanceNorm(), leakyRelu(0.2)),
  block(`scale${scale}_layer4`, conv(1, 1)),
] as const

/** Takes the channels of the layers but the last; the scale that is numbered last sees the whole image. */
export const multiScale = <A extends number, B extends number, C extends number, D extends number>(a: A, b: B, c: C, d: D) =>
  [critic(0, a, b, c, d), critic(1, a, b, c, d)] as const

const discriminator = multiScale(64, 128, 256, 512)

const halved = avgPool(3, { stride: 2, pad: 1, countIncludePad: false })

interface Judgement {
  readonly features: readonly Tensor[]
  readonly verdict: Tensor
}

/** The result of each scale's layers for an image, the largest scale first. */
const judge = (scales: Pix2PixHD['discriminator'], image: Tensor): readonly Judgement[] => {
  let seen = image
  return [...scales].reverse().map((layers, i) => {
    if (i > 0) seen = apply(halved, seen)
    let x = seen
    const outputs = layers.map((layer) => (x = apply(layer, x)))
    return { features: outputs.slice(0, -1), verdict: x }
  })
}

// ---------------------------------------------------------------- the step

/** One scale's nets, layer by layer. */
type Scale = readonly Net[]
export interface Pix2PixHD<G extends Net = Net, Fine extends Scale = Scale, Coarse extends Scale = Scale> {
  readonly generator: G
  readonly discriminator: readonly [Fine, Coarse]
}

const FEATURES = 10

/** `input`: the label map's shape, one channel a class and one for the outlines of instances. */
export const pix2pixHD = <G extends Net, Fine extends Scale, Coarse extends Scale>(
  input: Shape,
  nets: Pix2PixHD<G, Fine, Coarse>,
) => {
  const [b, , h, w] = input
  const label = fed('label', input)
  const photo = fed('photo', [b, 3, h, w])
  const fake = apply(nets.generator, label)
  const judged = (image: Tensor): readonly Judgement[] => judge(nets.discriminator, joined(label, image))
  const onFake = judged(fake)
  const onReal = judged(photo)
  const onDetached = judged(detach(fake))
  const optimizer = adam({ lr: 2e-4, beta1: 0.5 })
  const matched = (ours: Judgement, real: Judgement) =>
    ours.features.map((f, j) => loss(l1, f, detach(real.features[j]!), (FEATURES * (4 / ours.features.length)) / onFake.length))
  return step(
    minimize('generator', {
      over: nets.generator,
      optimizer,
      losses: {
        gan: onFake.map((o) => loss(mse, o.verdict, 1)),
        features: onFake.flatMap((o, s) => matched(o, onReal[s]!)),
      },
    }),
    minimize('discriminator', {
      over: [...nets.discriminator[0], ...nets.discriminator[1]],
      optimizer,
      losses: {
        fake: onDetached.map((o) => loss(mse, o.verdict, 0, 0.5)),
        real: onReal.map((o) => loss(mse, o.verdict, 1, 0.5)),
      },
    }),
  )
}

export default {
  pix2pixhd: stepNetwork((input) => pix2pixHD(input, { generator, discriminator }), [1, 36, 512, 1024], {
    generator: { net: generator, input: [1, 36, 512, 1024] },
    scale0: { net: seq(...discriminator[0]), input: [1, 39, 256, 512] },
    scale1: { net: seq(...discriminator[1]), input: [1, 39, 512, 1024] },
  }),
} satisfies Family
