// A network that PyTorch has exported goes on learning here: the ONNX file becomes a model file in TypeScript, with its weights beside it.
// Run with: npx ts-node examples/import-onnx.ts (half a minute on two cores)
import { join } from 'node:path'
import { cosine, crossEntropy, evaluate, folder, importOnnx, type Model, mib, sgd, stage, train } from 'spillway'
import { digitFolder, RUNS } from './digits'

/** A small LeNet after 1000 digits, made by test/fixtures/make_examples.py. */
const ONNX = join(__dirname, 'lenet.onnx')
export const WEIGHTS = join(RUNS, 'lenet.safetensors')

/** The file that is written can be imported as any other: its types are those of the network. */
export const imported = (): Model => {
  const { out } = importOnnx(ONNX, { out: join(RUNS, 'lenet.ts'), save: WEIGHTS, batch: 50 })
  return require(out).default
}

export const planFor = (net: Model) =>
  stage(net, { loss: crossEntropy, optimizer: sgd({ lr: 0.02, momentum: 0.9 }), budget: mib(16), algorithms: 'fixed' })

export const digits = async () => ({
  data: folder(await digitFolder('digits', 'train', 1500)),
  held: folder(await digitFolder('digits-held', 't10k', 500)),
})
export const how = { epochs: 4, schedule: cosine(), weights: WEIGHTS } as const

const main = async (): Promise<void> => {
  const net = imported()
  const { data, held } = await digits()
  const judge = stage(net, { mode: 'evaluate', loss: crossEntropy, budget: mib(16) })
  const accuracy = async (weights: string): Promise<string> => {
    const { metrics } = await evaluate(net, judge, { weights, data: held })
    return `${(100 * metrics['accuracy']!).toFixed(1)} %`
  }
  console.log(`as it came: ${await accuracy(WEIGHTS)}`)
  const save = join(RUNS, 'lenet-trained.safetensors')
  const { losses } = await train(net, planFor(net), { ...how, data, save })
  console.log(`after ${losses.length} steps: ${await accuracy(save)}`)
}

if (require.main === module) main()
