// One label for each slide, as in StreamingCNN: all layers train on whole slides of several sizes, in one plan of a small budget. In: nothing; the
// slides are drawn. Out: losses.
// Run with: npx ts-node examples/streaming-cnn.ts [steps]
import { join } from 'node:path'
import {
  adamw,
  batchNorm,
  block,
  conv2d,
  crossEntropy,
  fromBytes,
  globalAvgPool,
  linear,
  masked,
  maxPool,
  mib,
  model,
  relu,
  slides,
  stage,
  train,
} from 'spillway'
import { CANVAS, drawSlides } from './drawn-slides'

const FOLDER = join(__dirname, '..', 'runs', 'examples', 'streaming-cnn')
const steps = Number(process.argv[2] ?? 8)

const part = <N extends string, C extends number>(name: N, channels: C) =>
  block(name, conv2d('conv', channels, 3, { bias: false }), batchNorm('bn'), relu(), maxPool(2))

const net = model(
  [1, 3, CANVAS, CANVAS],
  masked(
    32,
    fromBytes({ mean: 0.5, std: 0.25 }),
    part('a', 12),
    part('b', 16),
    part('c', 24),
    part('d', 32),
    globalAvgPool(),
    linear('head', 2),
  ),
)

const main = async (): Promise<void> => {
  await drawSlides(FOLDER)
  // Glass becomes 0, and one plan serves all sizes.
  const data = await slides(FOLDER, { blocks: 32, canvas: CANVAS })
  const plan = stage(net, { loss: crossEntropy, optimizer: adamw({ lr: 0.01 }), budget: mib(48) })
  const { losses, peakBytes } = await train(net, plan, { steps, seed: 1, data, onNote: () => {}, onProgress: () => {} })
  console.log(`${losses.map((loss) => loss.toFixed(4)).join(' ')}, ${peakBytes / mib(1)} MiB`)
}

void main()
