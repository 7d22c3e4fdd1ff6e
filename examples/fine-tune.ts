// Transfer of learning: the body of a network that distinguishes 0 to 4 is kept, its first layers frozen, and a new head learns 5 to 9 from forty
// images of each. Run with: npx ts-node examples/fine-tune.ts (a minute or less on two cores)
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { cosine, crossEntropy, evaluate, folder, globalAvgPool, linear, mib, model, seq, sgd, stage, train } from 'spillway'
import { body } from './classify'
import { digitFolder, RUNS } from './digits'

const BODY = join(RUNS, 'low-digits.safetensors')
const optimizer = sgd({ lr: 0.1, momentum: 0.9 })

/** The network with the body: usually a download. */
const pretrained = async (): Promise<string> => {
  if (existsSync(BODY)) return BODY
  const low = model([50, 1, 28, 28], seq(body, globalAvgPool(), linear('head', 5)))
  const data = folder(await digitFolder('low-digits', 'train', 1000, [0, 1, 2, 3, 4]))
  const plan = stage(low, { loss: crossEntropy, optimizer, budget: mib(24), algorithms: 'fixed' })
  await train(low, plan, { epochs: 4, data, schedule: cosine(), save: BODY })
  return BODY
}

const net = model([25, 1, 28, 28], seq(body, globalAvgPool(), linear('head', 5)))
export default net

/** Frozen layers have no gradients, no momenta and no backward pass: the plan is smaller, and the step shorter. */
export const plan = stage(net, {
  loss: crossEntropy,
  optimizer,
  freeze: ['one.*', 'two.*'],
  budget: mib(16),
  algorithms: 'fixed',
})

export const digits = async () => ({
  data: folder(await digitFolder('high-digits', 'train', 200, [5, 6, 7, 8, 9])),
  held: folder(await digitFolder('high-digits-held', 't10k', 500, [5, 6, 7, 8, 9])),
})
export const howFrom = (weights: string) => ({ epochs: 12, schedule: cosine(), weights, weightsSkip: 'head.*' })

const main = async (): Promise<void> => {
  const { data, held } = await digits()
  const save = join(RUNS, 'high-digits.safetensors')
  const { losses } = await train(net, plan, { ...howFrom(await pretrained()), data, save, onNote: console.log })
  const judge = stage(net, { mode: 'evaluate', loss: crossEntropy, budget: mib(16) })
  const { metrics } = await evaluate(net, judge, { weights: save, data: held })
  console.log(`after ${losses.length} steps, ${(100 * metrics['accuracy']!).toFixed(1)} % of 5 to 9 are told right`)
}

if (require.main === module) main()
