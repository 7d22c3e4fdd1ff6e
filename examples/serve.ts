// A small HTTP service: it answers a posted image file with its classes. The predictor stays open between requests.
// Run: npx ts-node examples/serve.ts WEIGHTS, e.g. with runs/resnet18/last.safetensors of `spillway train resnet18 --data train/`.
// Ask: curl --data-binary @photo.jpg http://localhost:8080/
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { errorText, mib, type Model, openPredictor, type Predictor, stage, weightsRecipe, zooEntry } from 'spillway'

/** Larger bodies are refused. */
const MOST_BYTES = 32 * 2 ** 20

const bodyOf = async (request: IncomingMessage): Promise<Uint8Array> => {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request) {
    bytes += (part as Buffer).length
    if (bytes > MOST_BYTES) throw new Error(`the body is larger than ${MOST_BYTES} bytes`)
    parts.push(part as Buffer)
  }
  return Buffer.concat(parts)
}

/** A server that predicts the body of each request. */
export const serverFor = (predictor: Predictor): Server =>
  createServer((request, response) => {
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
    }
    bodyOf(request)
      .then((picture) => predictor.predict(picture))
      .then(
        ({ ranked = [] }) => answer(200, { top: ranked[0]?.top }),
        (e: unknown) => answer(400, { error: e instanceof Error ? e.message : String(e) }),
      )
  })

/** The network of the zoo that the weights name, at its size of training. */
export const open = (weights: string): Promise<Predictor> => {
  const { model = '', input = [3, 224, 224], zoo } = weightsRecipe(weights) ?? {}
  const built = zooEntry(model)?.build([1, 3, input[1], input[2]], 'predict', { classes: zoo?.classes })
  if (built === undefined) throw new Error(`${weights} names no network of the zoo`)
  if (built._tag === 'Left') throw new Error(errorText(built.left))
  const net = built.right as Model
  const plan = stage(net, { mode: 'predict', as: 'probabilities', budget: mib(256) })
  return openPredictor(net, plan, { weights })
}

const main = async (weights: string): Promise<void> => {
  const predictor = await open(weights)
  const server = serverFor(predictor).listen(8080, () => console.log('http://localhost:8080/'))
  process.once('SIGINT', () => server.close(() => predictor.close()))
}
if (require.main === module) main(process.argv[2] ?? 'runs/resnet18/last.safetensors')
