// Trains the classifier in a memory budget, and keeps the weights of the best epoch. Run with: npm run train
import { cosine, crossEntropy, fit, mib, sgd, stage, validation } from 'spillway'
import net from './net'
import { labelled } from '../shapes'

const KINDS = ['disc', 'square', 'triangle']

const main = async (): Promise<void> => {
  const plan = stage(net, { loss: crossEntropy, optimizer: sgd({ lr: 0.1, momentum: 0.9, weightDecay: 5e-4 }), budget: mib(24) })
  const run = fit(net, plan, {
    data: labelled(KINDS, 32, 640, 0),
    epochs: Number(process.env['EPOCHS'] ?? 4),
    schedule: cosine(),
    evaluate: validation({ data: labelled(KINDS, 32, 160, 1_000_000), metrics: ['accuracy'] }),
    keep: { best: 'accuracy' },
    saveBest: 'weights.safetensors',
  })
  for await (const event of run) {
    if (event.kind === 'epoch') console.log(`epoch ${event.epoch}: loss ${event.loss.toFixed(4)}`)
    if (event.kind === 'evaluation') console.log(`  accuracy ${event.metrics['accuracy']!.toFixed(3)}`)
  }
  console.log('saved weights.safetensors')
}

main()
