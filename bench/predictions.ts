// `npm run bench:predictions [-- --side N --budget SIZE --rounds N --only NETWORK]`: what it costs that a prediction is cut into tiles. In: networks
// with weights of one step of training, an image of zeros and ones made here. Out: pixels a second of a large image in a small budget, beside those
// of 512 x 512 in-core; bench/results/predictions.json. Invariant: both sides run in this process, in turns, small before and after large.
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isLeft } from 'fp-ts/Either'
import { type Model, PAGE_BYTES, parseBytes, predict, stage, type Staged, train, zooEntry } from '../src'
import { npyHead } from '../src/files/npy'
import { median, record } from './sides'

const SMALL = 512
const NETWORKS = ['vgg16-features', 'unet', 'deeplabv3plus-resnet50'] as const

const { values: given } = parseArgs({
  options: {
    side: { type: 'string', default: '8192' },
    budget: { type: 'string', default: '512MiB' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
  },
})

const built = (name: string, side: number, mode: 'train' | 'predict'): Model => {
  const made = zooEntry(name)!.build([1, 3, side, side], mode)
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return made.right as Model
}

/** Bytes, read as they are; several images, for a session's first step is slower. */
const imagesOf = (folder: string, side: number, count: number): string => {
  const path = join(folder, `${side}.npy`)
  const pixels = Uint8Array.from({ length: 3 * side * side }, (_, i) => Math.imul(i, 0x9e3779b9) >>> 31)
  writeFileSync(path, npyHead('u1', [count, 3, side, side]))
  for (let i = 0; i < count; i++) appendFileSync(path, pixels)
  return path
}

const weightsOf = async (folder: string, name: string): Promise<string> => {
  const net = built(name, 64, 'train')
  const save = join(folder, `${name}.safetensors`)
  await train(net, stage(net), { steps: 1, save })
  return save
}

interface Side {
  readonly net: Model
  readonly plan: Staged
  readonly data: string
  readonly out: string
}

const main = async (): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-predictions-'))
  const [large, rounds] = [Number(given.side), Number(given.rounds)]
  const budget = parseBytes(given.budget)
  if (isLeft(budget)) throw new Error(budget.left)
  const rows: object[] = []
  try {
    const images = new Map([
      [SMALL, imagesOf(folder, SMALL, 7)],
      [large, imagesOf(folder, large, 2)],
    ])
    for (const name of NETWORKS.filter((n) => given.only === undefined || n === given.only)) {
      const weights = await weightsOf(folder, name)
      const side = (pixels: number, bytes?: number): Side => {
        const net = built(name, pixels, 'predict')
        const as = name === 'vgg16-features' ? 'values' : 'classes'
        const plan = stage(net, { mode: 'predict', as, ...(bytes === undefined ? { strategy: 'in-core' } : { budget: bytes }) })
        return { net, plan, data: images.get(pixels)!, out: join(folder, `${name}-${pixels}.npy`) }
      }
      const [small, tiled] = [side(SMALL), side(large, budget.right)]
      const rate = async ({ net, plan, data, out }: Side, pixels: number): Promise<number> =>
        (pixels * pixels) / 1e6 / (await predict(net, plan, { weights, data, out })).secondsPerStep
      const inCore: number[] = []
      const inTiles: number[] = []
      for (let round = 0; round < rounds; round++) {
        const before = await rate(small, SMALL)
        inTiles.push(await rate(tiled, large))
        inCore.push((before + (await rate(small, SMALL))) / 2)
      }
      const row = {
        network: name,
        rateRatio: median(inTiles.map((r, i) => r / inCore[i]!)),
        megapixelsPerSecond: median(inTiles),
        inCoreMegapixelsPerSecond: median(inCore),
        strategy: tiled.plan.plan.strategy,
        planPeakBytes: tiled.plan.plan.peakPages * PAGE_BYTES,
      }
      rows.push(row)
      console.log(
        `${name.padEnd(24)} ${row.megapixelsPerSecond.toFixed(2)} megapixels a second in tiles, ` +
          `${row.inCoreMegapixelsPerSecond.toFixed(2)} in-core: ${row.rateRatio.toFixed(3)}`,
      )
    }
    if (given.only === undefined) record('predictions', { side: large, small: SMALL, budgetBytes: budget.right, rounds, rows })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
