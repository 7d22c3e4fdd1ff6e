// One label for each slide, as in CLAM: a frozen encoder describes tiles of 16 × 16 pixels. Gated attention over all tiles of a slide, and a head,
// are trained. In: nothing; the slides are drawn. Out: losses, and for each slide a picture of the attention: black outside of the mask, then
// from dark (the least) to white (the most).
// Run with: npx ts-node examples/clam.ts [steps]
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import {
  adamw,
  batchNorm,
  block,
  conv2d,
  crossEntropy,
  fromBytes,
  gatedAttentionPool,
  linear,
  masked,
  mib,
  model,
  pixelLinear,
  predict,
  relu,
  seq,
  sigmoid,
  slides,
  stage,
  tanh,
  train,
  value,
  values,
} from 'spillway'
import { CANVAS, drawSlides } from './drawn-slides'

const FOLDER = join(__dirname, '..', 'runs', 'examples', 'clam')
const [WEIGHTS, MAPS] = [join(FOLDER, 'clam.safetensors'), join(FOLDER, 'attention')]
const TILE = 16
const HIDDEN = 16
const steps = Number(process.argv[2] ?? 8)

const half = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { stride: 2, bias: false }), batchNorm(`${name}.bn`), relu())

const encoder = block('encoder', fromBytes({ mean: 0.5, std: 0.25 }), half('a', 16), half('b', 24), half('c', 32), half('d', 32))
const net = model([1, 3, CANVAS, CANVAS], masked(TILE, encoder, gatedAttentionPool('pool', HIDDEN), linear('head', 2)))
/** The scores of the attention, with the weights of `net`. */
const scores = model(
  [1, 3, CANVAS, CANVAS],
  masked(
    TILE,
    encoder,
    block(
      'pool',
      values(
        value('v', 'input', pixelLinear('V', HIDDEN), tanh()),
        value('u', 'input', pixelLinear('U', HIDDEN), sigmoid()),
        value('score', { multiplied: ['v', 'u'] }, pixelLinear('w', 1)),
      ),
    ),
  ),
)

/** Scores as bytes, from the smallest to the largest of the slide. Tiles outside of the mask have the score 0, which no other tile has. */
const picture = (found: ArrayLike<number>): Uint8Array => {
  const inside = Array.from(found).filter((s) => s !== 0)
  const [least, most] = [Math.min(...inside), Math.max(...inside)]
  return Uint8Array.from(found, (s) => (s === 0 ? 0 : 50 + Math.round((205 * (s - least)) / Math.max(most - least, 1e-9))))
}

const main = async (): Promise<void> => {
  await drawSlides(join(FOLDER, 'slides'))
  const data = await slides(join(FOLDER, 'slides'), { blocks: TILE, canvas: CANVAS })
  const quiet = { onNote: () => {}, onProgress: () => {} }
  const plan = stage(net, { loss: crossEntropy, optimizer: adamw({ lr: 0.01 }), budget: mib(24), freeze: ['encoder.*'] })
  const { losses, peakBytes } = await train(net, plan, { steps, seed: 1, data, save: WEIGHTS, ...quiet })
  console.log(`${losses.map((loss) => loss.toFixed(4)).join(' ')}, ${peakBytes / mib(1)} MiB`)

  const { outputs } = await predict(scores, stage(scores, { mode: 'predict', budget: mib(24) }), {
    weights: WEIGHTS,
    data,
    ...quiet,
  })
  mkdirSync(MAPS, { recursive: true })
  for (const { name, shape, values: found } of outputs) {
    const [height, width] = shape.slice(-2) as [number, number]
    await sharp(picture(found as Float32Array), { raw: { width, height, channels: 1 } })
      .resize(width * TILE, height * TILE, { kernel: 'nearest' })
      .png()
      .toFile(join(MAPS, `${name}.png`))
  }
  console.log(`${outputs.length} pictures in ${MAPS}`)
}

void main()
