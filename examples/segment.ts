// Images and masks to a network that colours every pixel: scenes of noughts and ones, and a small U-Net.
// Run with: npx ts-node examples/segment.ts (a minute or less on two cores)
import { join } from 'node:path'
import { adamw, batchNorm, conv2d, convTranspose2d, cosine, crossEntropy, evaluate, fit, folder } from 'spillway'
import { maxPool, mib, model, type Net, relu, seq, skip, stage, validation } from 'spillway'
import { RUNS, sceneFolder } from './digits'

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { bias: false }), batchNorm(`${name}.bn`), relu())

/** Half the pixels, `inner` on them, all of them again, beside the input. */
const level = <N extends string, C extends number, D extends number, Inner extends Net>(
  name: N,
  channels: C,
  below: D,
  inner: Inner,
) =>
  seq(
    skip(maxPool(2), unit(`${name}.down`, below), inner, convTranspose2d(`${name}.up`, channels, 2, { stride: 2 })),
    unit(`${name}.join`, channels),
  )

/** Takes images of any size whose sides are multiples of 8. */
export const body = seq(
  unit('stem', 16),
  level('half', 16, 32, level('quarter', 32, 48, level('eighth', 48, 64, seq()))),
  conv2d('classes', 3, 1),
)

const net = model([8, 1, 64, 64], body)
export default net

export const plan = stage(net, { loss: crossEntropy, optimizer: adamw({ lr: 4e-3 }), budget: mib(48), algorithms: 'fixed' })

/** Its optimizer, and its metrics. */
export const scenes = async () => ({
  data: folder(await sceneFolder('scenes', 'train', 320), { augment: { crop: { area: [0.7, 1] } } }),
  held: folder(await sceneFolder('scenes-held', 't10k', 80)),
})
export const how = { epochs: 5, schedule: cosine(), warmup: 40 } as const
export const WEIGHTS = join(RUNS, 'segment.safetensors')

/** Trains, and leaves the best weights. */
export const trained = async (): Promise<void> => {
  const { data, held } = await scenes()
  const run = fit(net, plan, {
    ...how,
    data,
    evaluate: validation({ data: held, metrics: ['meanIou'] }),
    keep: { best: 'meanIou' },
    saveBest: WEIGHTS,
  })
  for await (const event of run) {
    if (event.kind === 'epoch') console.log(`epoch ${event.epoch}: loss ${event.loss.toFixed(4)}`)
    if (event.kind === 'evaluation')
      console.log(`  mean IoU ${event.metrics['meanIou']!.toFixed(3)}${event.isBest ? ', the best' : ''}`)
  }
  const scored = await evaluate(net, stage(net, { mode: 'evaluate', loss: crossEntropy, budget: mib(24) }), {
    weights: WEIGHTS,
    data: held,
  })
  console.log(`of ${scored.images} others, a mean IoU of ${scored.metrics['meanIou']!.toFixed(3)}`)
}

if (require.main === module) trained()
