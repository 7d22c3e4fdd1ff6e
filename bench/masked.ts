// `npm run bench -- cpu --suite masked`: a masked ResNet-18 body with live norms and gated attention, with and without skipping the empty parts, in
// turns. In: images that this program draws: `blobs` has three blobs of tissue and about 70 % background, `full` has no background. Out: for each
// plan the medians of a step on both sides, in seconds and in processor seconds, and their ratios; bench/results/masked.json. Invariant: each run is
// a process of its own, the first step of each does not count, and the losses of both sides agree within 1e-4. Processor seconds of one thread
// (OMP_NUM_THREADS=1) are steadier beside other work.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { resnet18Body } from '../models/resnet'
import {
  crossEntropy,
  files,
  fromBytes,
  gatedAttentionPool,
  linear,
  masked,
  mib,
  type Model,
  modelAt,
  stage,
  train,
} from '../src'
import { npyHead } from '../src/files/npy'
import { certain } from '../staging/core/certain'
import { asked, begin, chosen, inFolder, median, processorSeconds, record, ROOT, rounded } from './sides'
import { argumentsOf, BENCHES } from './table'

const BLOCK = 32
const WITHIN = 1e-4
const PLANS = [
  { name: 'in-core, direct', strategy: 'in-core', algorithms: 'fixed' },
  { name: 'in-core, measured algorithms', strategy: 'in-core', algorithms: 'measured' },
  {
    name: 'tiled, measured algorithms',
    strategy: 'tiled',
    algorithms: 'measured',
    budgetMiB: (side: number) => (160 * side * side) / 2048 ** 2 + 160,
  },
] as const
type Planned = (typeof PLANS)[number]

/** Centre and radii of the blobs, as parts of the image. */
const BLOBS = [
  [0.3, 0.35, 0.24, 0.2],
  [0.68, 0.7, 0.2, 0.17],
  [0.75, 0.25, 0.1, 0.12],
] as const
const isTissue = (y: number, x: number): boolean =>
  BLOBS.some(
    ([v, u, down, across]) => ((y - v) / down) ** 2 + ((x - u) / across) ** 2 < 1 + 0.15 * Math.sin(7 * Math.atan2(y - v, x - u)),
  )

/** Whole blocks of tissue, 0 elsewhere. Returns the share of blocks with tissue. */
const draw = (folder: string, side: number, image: string): number => {
  const blocks = Math.ceil(side / BLOCK)
  const inside = Uint8Array.from({ length: blocks * blocks }, (_, i) =>
    Number(image === 'full' || isTissue((Math.floor(i / blocks) + 0.5) / blocks, ((i % blocks) + 0.5) / blocks)),
  )
  const pixels = new Uint8Array(side * side * 3)
  for (let i = 0; i < pixels.length; i++) {
    const pixel = Math.floor(i / 3)
    const block = Math.floor(Math.floor(pixel / side) / BLOCK) * blocks + Math.floor((pixel % side) / BLOCK)
    if (inside[block]) pixels[i] = 1 + ((Math.imul(i, 0x9e3779b9) >>> 24) % 250)
  }
  writeFileSync(join(folder, 'input.npy'), Buffer.concat([npyHead('u1', [1, side, side, 3]), pixels]))
  writeFileSync(join(folder, 'target.npy'), Buffer.concat([npyHead('i4', [1]), Buffer.from(Int32Array.from([1]).buffer)]))
  return inside.reduce((n, one) => n + one, 0) / inside.length
}

const model = (side: number): Model => {
  const layers = [fromBytes({ mean: 0.5, std: 0.25 }), resnet18Body, gatedAttentionPool('pool', 64), linear('head', 2)] as const
  return certain('the model is valid')(modelAt([1, 3, side, side], masked(BLOCK, ...layers)))
}

/** One training, in this process. */
const run = async (folder: string, side: number, plan: Planned, steps: number) => {
  const net = model(side)
  const { strategy, algorithms } = plan
  const budget = 'budgetMiB' in plan ? { budget: mib(Math.round(plan.budgetMiB(side))) } : {}
  const staged = stage(net, { loss: crossEntropy, strategy, algorithms, ...budget })
  const seconds: number[] = []
  const processor: number[] = []
  const { losses, skippedShare, peakBytes } = await train(net, staged, {
    steps,
    seed: 1,
    data: files(folder, { layout: 'NHWC' }),
    onNote: () => {},
    onProgress: (p) => {
      if (p.kind !== 'step') return
      processor.push(processorSeconds())
      seconds.push(p.seconds)
    },
  })
  return {
    losses,
    seconds: seconds.slice(1),
    processorSeconds: processor.slice(1).map((end, i) => end - processor[i]!),
    peakMiB: peakBytes / mib(1),
    ...(skippedShare ? { skippedShare } : {}),
  }
}
type Ran = Awaited<ReturnType<typeof run>>

type Given = ReturnType<typeof argumentsOf<typeof BENCHES.cpu.masked.options>>['given']

/** All plans for one image. */
const rowsOf = (folder: string, side: number, image: string, given: Given): readonly object[] => {
  const ran = (zeros: 'skip' | 'compute', { name }: Planned): Ran =>
    asked<Ran>(ROOT, __filename, [folder, String(side), name, given.steps], { SPILLWAY_ZEROS: zeros })
  const names = chosen(
    PLANS.map((p) => p.name),
    given.only === undefined ? [] : [given.only],
  )
  const tissueShare = rounded(draw(folder, side, image), 3)
  return PLANS.filter(({ name }) => names.includes(name)).map((plan) => {
    const turns = Array.from({ length: Number(given.turns) }, () => [ran('skip', plan), ran('compute', plan)] as const)
    const medians = (of: (ran: Ran) => readonly number[]) =>
      [0, 1].map((i) => median(turns.flatMap((turn) => of(turn[i]!)))) as [number, number]
    const [skip, compute] = medians((r) => r.seconds)
    const [skipProcessor, computeProcessor] = medians((r) => r.processorSeconds)
    for (const [a, b] of turns)
      if (a.losses.some((loss, i) => Math.abs(loss - b.losses[i]!) > WITHIN * b.losses[i]!))
        throw new Error(`${plan.name}: losses ${a.losses} and ${b.losses}`)
    const { skippedShare, peakMiB } = turns[0]![0]
    const row = {
      plan: plan.name,
      image,
      side,
      tissueShare,
      turns: turns.length,
      steps: Number(given.steps),
      peakMiB,
      skippedShare: rounded(skippedShare ?? 0, 3),
      skipSeconds: rounded(skip, 3),
      computeSeconds: rounded(compute, 3),
      ratio: rounded(compute / skip, 3),
      skipProcessorSeconds: rounded(skipProcessor, 3),
      computeProcessorSeconds: rounded(computeProcessor, 3),
      processorRatio: rounded(computeProcessor / skipProcessor, 3),
    }
    console.log(JSON.stringify(row))
    return row
  })
}

const main = async (): Promise<void> => {
  const { given } = argumentsOf(BENCHES.cpu.masked)
  const rows: object[] = []
  for (const side of given.sides.split(','))
    for (const image of given.images.split(','))
      rows.push(...(await inFolder('masked', (folder) => rowsOf(folder, Number(side), image, given))))
  record('masked', { rows })
}

void begin(main, (folder, side, plan, steps) =>
  run(folder!, Number(side), PLANS.find(({ name }) => name === plan)!, Number(steps)),
)
