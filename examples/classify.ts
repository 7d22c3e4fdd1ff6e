// A folder of images to a classifier in use: 1500 handwritten digits, moved and lit by chance, a cosine schedule, the best weights kept and
// an early end. Run with: npx ts-node examples/classify.ts (a minute or less on two cores)
import { join } from 'node:path'
import {
  batchNorm,
  conv2d,
  cosine,
  crossEntropy,
  evaluate,
  fit,
  folder,
  globalAvgPool,
  linear,
  maxPool,
  mib,
  model,
} from 'spillway'
import { relu, seq, sgd, stage, validation } from 'spillway'
import { digitFolder, RUNS } from './digits'

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { bias: false }), batchNorm(`${name}.bn`), relu())

export const body = seq(unit('one', 16), maxPool(2), unit('two', 32), maxPool(2), unit('three', 64))

const net = model([50, 1, 28, 28], seq(body, globalAvgPool(), linear('head', 10)))
export default net

export const plan = stage(net, {
  loss: crossEntropy,
  optimizer: sgd({ lr: 0.1, momentum: 0.9, weightDecay: 5e-4 }),
  budget: mib(24),
  algorithms: 'fixed',
})

/** Its optimizer, and its metrics. */
export const digits = async () => ({
  data: folder(await digitFolder('digits', 'train', 1500), { augment: { crop: { area: [0.7, 1] }, jitter: true } }),
  held: folder(await digitFolder('digits-held', 't10k', 500)),
})
export const how = { epochs: 6, schedule: cosine(), warmup: 90 } as const

const main = async (): Promise<void> => {
  const { data, held } = await digits()
  const best = join(RUNS, 'digits.safetensors')
  const run = fit(net, plan, {
    ...how,
    data,
    evaluate: validation({ data: held, metrics: ['accuracy'] }),
    keep: { best: 'accuracy' },
    saveBest: best,
    patience: 4,
  })
  for await (const event of run) {
    if (event.kind === 'epoch') console.log(`epoch ${event.epoch}: loss ${event.loss.toFixed(4)}`)
    if (event.kind === 'evaluation')
      console.log(`  accuracy ${event.metrics['accuracy']!.toFixed(3)}${event.isBest ? ', the best' : ''}`)
    if (event.kind === 'end' && event.result.endedEarly) console.log('ended early')
  }
  const scored = await evaluate(net, stage(net, { mode: 'evaluate', loss: crossEntropy, budget: mib(16) }), {
    weights: best,
    data: held,
  })
  console.log(`of ${scored.images} others, ${(100 * scored.metrics['accuracy']!).toFixed(1)} % are told right`)
}

if (require.main === module) main()
