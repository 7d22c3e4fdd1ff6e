// Trains the U-Net in a memory budget, and keeps the weights of the best epoch. Run with: npm run train
import { adamw, cosine, crossEntropy, fit, mib, stage, validation } from 'spillway'
import net from './net'
import { masked } from '../shapes'

const KINDS = ['disc', 'cross']

const main = async (): Promise<void> => {
  const plan = stage(net, { loss: crossEntropy, optimizer: adamw({ lr: 4e-3 }), budget: mib(48) })
  const run = fit(net, plan, {
    data: masked(KINDS, 64, 160, 0),
    epochs: Number(process.env['EPOCHS'] ?? 4),
    schedule: cosine(),
    evaluate: validation({ data: masked(KINDS, 64, 32, 1_000_000), metrics: ['meanIou'] }),
    keep: { best: 'meanIou' },
    saveBest: 'weights.safetensors',
  })
  for await (const event of run) {
    if (event.kind === 'epoch') console.log(`epoch ${event.epoch}: loss ${event.loss.toFixed(4)}`)
    if (event.kind === 'evaluation') console.log(`  mean IoU ${event.metrics['meanIou']!.toFixed(3)}`)
  }
  console.log('saved weights.safetensors')
}

main()
