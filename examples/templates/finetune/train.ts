// Fine-tunes the network on a few images of new classes: WEIGHTS names the weights of the body. Without it, the body is first trained on
// other shapes. Run with: npm run train
import { existsSync } from 'node:fs'
import { cosine, crossEntropy, evaluate, mib, sgd, stage, train } from 'spillway'
import net from './net'
import { labelled } from '../shapes'

const epochs = (usual: number): number => Number(process.env['EPOCHS'] ?? usual)
const optimizer = sgd({ lr: 0.1, momentum: 0.9 })

/** Returns the file of the weights to begin with. */
const pretrained = async (): Promise<string> => {
  const file = process.env['WEIGHTS'] ?? 'body.safetensors'
  if (existsSync(file)) return file
  if (process.env['WEIGHTS']) throw new Error(`there is no weights file '${file}'; leave WEIGHTS out to train a body first`)
  const data = labelled(['disc', 'square', 'triangle'], 32, 480, 0)
  const plan = stage(net, { loss: crossEntropy, optimizer, budget: mib(24) })
  await train(net, plan, { data, epochs: epochs(3), schedule: cosine(), save: file })
  console.log(`trained a body: ${file}`)
  return file
}

const main = async (): Promise<void> => {
  const kinds = ['ring', 'cross', 'bars']
  const weights = await pretrained()
  // Frozen layers have no gradients, no optimizer state and no backward pass: the step needs less memory and less time.
  const plan = stage(net, { loss: crossEntropy, optimizer, freeze: ['one.*', 'two.*'], budget: mib(16) })
  const { losses } = await train(net, plan, {
    data: labelled(kinds, 32, 160, 2_000_000),
    epochs: epochs(6),
    schedule: cosine(),
    weights,
    weightsSkip: 'head.*',
    save: 'weights.safetensors',
  })
  console.log(`loss ${losses[0]!.toFixed(4)}, after ${losses.length} steps ${losses.at(-1)!.toFixed(4)}`)
  const { metrics } = await evaluate(net, stage(net, { mode: 'evaluate', loss: crossEntropy, budget: mib(16) }), {
    weights: 'weights.safetensors',
    data: labelled(kinds, 32, 160, 3_000_000),
  })
  console.log(`accuracy ${metrics['accuracy']!.toFixed(3)}; saved weights.safetensors`)
}

main()
