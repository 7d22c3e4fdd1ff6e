// Pix2PixHD (Wang et al. 2018) as NVIDIA's reference implementation builds it: the global generator, the multi-scale patch
// discriminator, and the step that trains both: least-squares GAN, feature matching, Adam. Parameters have the reference's
// names: 'model.1.weight', 'scale0_layer0.0.weight', ... Its VGG loss, which needs pretrained weights, is left out.
import { adam, apply, avgPool, block, conv2d, convTranspose2d, detach, fed, identity, instanceNorm, joined, leakyRelu, relu } from '../dsl'
import { type Family, l1, loss, minimize, mse, reflectionPad2d, residual, seq, type Shape, step, stepNetwork, tanh, type Net, type Tensor } from '../dsl'

export interface Pix2PixHD {
  /** Channels of the generator's and the discriminator's first convolution. */
  readonly width: number
  readonly criticWidth: number
  readonly downsamplings: number
  readonly blocks: number
}
const REFERENCE: Pix2PixHD = { width: 64, criticWidth: 64, downsamplings: 4, blocks: 9 }
const SCALES = 2
const LAYERS = 3
const FEATURES = 10

const init = 0.02
const numbered = <T>(n: number, f: (i: number) => T): readonly T[] => Array.from({ length: n }, (_, i) => f(i))

// ---------------------------------------------------------------- the generator

const residualBlock = (name: string, channels: number) => block(name, block('conv_block', residual(seq(
  reflectionPad2d(1), conv2d('1', channels, 3, { pad: 0, init }), instanceNorm(), relu(),
  reflectionPad2d(1), conv2d('5', channels, 3, { pad: 0, init }), instanceNorm(),
), identity)))

/** The numbers are places in the reference's list: a norm and a rectifier follow each convolution. */
export const globalGenerator = ({ width, downsamplings: n, blocks }: Pix2PixHD = REFERENCE): Net => {
  const firstBlock = 4 + 3 * n
  const firstUp = firstBlock + blocks
  return block('model',
    reflectionPad2d(3), conv2d('1', width, 7, { pad: 0, init }), instanceNorm(), relu(),
    ...numbered(n, (i) => seq(conv2d(`${4 + 3 * i}`, width * 2 ** (i + 1), 3, { stride: 2, pad: 1, init }), instanceNorm(), relu())),
    ...numbered(blocks, (i) => residualBlock(`${firstBlock + i}`, width * 2 ** n)),
    ...numbered(n, (i) => seq(
      convTranspose2d(`${firstUp + 3 * i}`, width * 2 ** (n - 1 - i), 3, { stride: 2, pad: 1, outputPad: 1, init }), instanceNorm(), relu(),
    )),
    reflectionPad2d(3), conv2d(`${firstUp + 3 * n + 1}`, 3, 7, { pad: 0, init }), tanh(),
  )
}

// ---------------------------------------------------------------- the discriminator

/** One scale, layer by layer: their outputs are the features that are matched, the last one the verdict on each patch. */
const critic = (scale: number, width: number): readonly Net[] => {
  const channels = (layer: number): number => Math.min(width * 2 ** layer, Math.max(512, width))
  const conv = (out: number, stride: number) => conv2d('0', out, 4, { stride, pad: 2, init })
  return [
    block(`scale${scale}_layer0`, conv(channels(0), 2), leakyRelu(0.2)),
    ...numbered(LAYERS, (i) => block(`scale${scale}_layer${i + 1}`, conv(channels(i + 1), i + 1 < LAYERS ? 2 : 1), instanceNorm(), leakyRelu(0.2))),
    block(`scale${scale}_layer${LAYERS + 1}`, conv(1, 1)),
  ]
}

const halved = avgPool(3, { stride: 2, pad: 1, countIncludePad: false })

/** What each scale's layers make of an image; the largest scale, which is numbered last, sees it whole. */
const judge = (critics: readonly (readonly Net[])[], image: Tensor): readonly (readonly Tensor[])[] => {
  let seen = image
  return [...critics].reverse().map((layers, i) => {
    if (i > 0) seen = apply(halved, seen)
    let x = seen
    return layers.map((layer) => (x = apply(layer, x)))
  })
}

// ---------------------------------------------------------------- the step

/** `input`: the label map's shape, one channel a class and one for the outlines of instances. */
export const pix2pixHD = (input: Shape, size: Pix2PixHD = REFERENCE) => {
  const generator = globalGenerator(size)
  const critics = numbered(SCALES, (s) => critic(s, size.criticWidth))
  const [b, , h, w] = input
  const label = fed('label', input)
  const photo = fed('photo', [b, 3, h, w])
  const fake = apply(generator, label)
  const onFake = judge(critics, joined(label, fake))
  const onReal = judge(critics, joined(label, photo))
  const onDetached = judge(critics, joined(label, detach(fake)))
  const verdict = (outputs: readonly Tensor[]): Tensor => outputs[LAYERS + 1]!
  const optimizer = adam({ lr: 2e-4, beta1: 0.5 })
  const matching = FEATURES * (4 / (LAYERS + 1)) / SCALES
  return step(
    minimize('generator', {
      over: generator,
      optimizer,
      losses: {
        gan: onFake.map((o) => loss(mse, verdict(o), 1)),
        features: onFake.flatMap((o, s) => o.slice(0, -1).map((f, j) => loss(l1, f, detach(onReal[s]![j]!), matching))),
      },
    }),
    minimize('discriminator', {
      over: critics.flat(),
      optimizer,
      losses: {
        fake: onDetached.map((o) => loss(mse, verdict(o), 0, 0.5)),
        real: onReal.map((o) => loss(mse, verdict(o), 1, 0.5)),
      },
    }),
  )
}

export default {
  pix2pixhd: stepNetwork((input) => pix2pixHD(input), [1, 36, 512, 1024]),
} satisfies Family
