// One label for each slide: slides of several sizes, mostly glass, in one plan. `end to end` trains all layers on whole slides (as StreamingCNN does);
// `frozen` trains gated attention and a head behind an encoder whose weights stay (as CLAM does). In: nothing; the slides are drawn. Out: losses.
// Run with: npx ts-node examples/slide-labels.ts [steps]
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
} from 'spillway'
import { relu, seq, slides, stage, train } from 'spillway'
import { tissue } from './tissue'

const FOLDER = join(__dirname, '..', 'runs', 'examples', 'slides')
const CANVAS = 768
const steps = Number(process.argv[2] ?? 8)

/** A white slide with a square of tissue. Slides with many large cells are tumours. */
const drawSlide = async (seed: number): Promise<void> => {
  const [height, width, side] = [512 + 32 * seed, 768 - 40 * seed, 256]
  const { pixels, mask } = tissue(side, seed)
  const share = mask.filter((label) => label === 2).length / mask.length
  const bytes = Buffer.alloc(height * width * 3, 242)
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++)
      for (let c = 0; c < 3; c++) bytes[((y + 96) * width + x + 64) * 3 + c] = 255 * pixels[c * side * side + y * side + x]!
  const folder = join(FOLDER, share > 0.05 ? 'tumour' : 'normal')
  mkdirSync(folder, { recursive: true })
  await sharp(bytes, { raw: { width, height, channels: 3 } })
    .tiff({ tile: true, tileWidth: 256, tileHeight: 256, pyramid: true, compression: 'deflate' })
    .toFile(join(folder, `${seed}.tif`))
}

const half = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { stride: 2, bias: false }), batchNorm(`${name}.bn`), relu())

const encoder = block('encoder', fromBytes({ mean: 0.5, std: 0.25 }), half('a', 16), half('b', 24), half('c', 32), half('d', 32))
const net = model([1, 3, CANVAS, CANVAS], masked(16, encoder, gatedAttentionPool('pool', 16), linear('head', 2)))

const main = async (): Promise<void> => {
  for (const seed of [0, 1, 2, 3, 4, 5]) await drawSlide(seed)
  // Glass becomes 0, and one plan serves all sizes.
  const data = await slides(FOLDER, { blocks: 16, canvas: CANVAS })
  for (const [name, freeze] of [
    ['end to end', []],
    ['frozen', ['encoder.*']],
  ] as const) {
    const plan = stage(net, { loss: crossEntropy, optimizer: adamw({ lr: 0.01 }), budget: mib(24), freeze })
    const { losses, peakBytes } = await train(net, plan, { steps, seed: 1, data, onNote: () => {}, onProgress: () => {} })
    console.log(`${name}: ${losses.map((loss) => loss.toFixed(4)).join(' ')}, ${peakBytes / mib(1)} MiB`)
  }
}

void main()
