// `npm run bench -- predictions`: the cost of tiles in predictions. In: networks with weights of one step of training, an image of zeros and ones
// made here. Out: pixels a second of a large image in a small budget, beside those of 512 x 512 (or --small) in-core, by the clock and by the
// processors' time; bench/results/predictions.json. Invariant: both sides run in this process, in turns, small before and after large; the fixed time
// of a call (weights, first steps) counts on the large side alone.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { type Model, PAGE_BYTES, parseBytes, predict, stage, type Staged, train, zooEntry } from '../src'
import { npyHead } from '../src/files/npy'
import { certain } from '../staging/core/certain'
import { begin, chosen, inFolder, median, processorSeconds, record } from './sides'
import { argumentsOf, BENCHES } from './table'

/** Pixels of the small side, in two calls: the difference of the second is the time of its further images. For the large one, an image is minutes. */
const FEW_PIXELS = 2 ** 20
const MORE_PIXELS = 5 * 2 ** 20
const FOUND = join(__dirname, 'results', 'predictions.json')
const NETWORKS = ['vgg16-features', 'unet', 'deeplabv3plus-resnet50'] as const

const built = (name: string, side: number, mode: 'train' | 'predict', batch = 1): Model =>
  certain(name)(zooEntry(name)!.build([batch, 3, side, side], mode)) as Model

/** Bytes, read as they are. */
const imagesOf = (folder: string, side: number, count: number): string => {
  const path = join(folder, `${side}-${count}.npy`)
  const pixels = Uint8Array.from({ length: 3 * side * side }, (_, i) => Math.imul(i, 0x9e3779b9) >>> 31)
  writeFileSync(path, npyHead('u1', [count, 3, side, side]))
  for (let i = 0; i < count; i++) appendFileSync(path, pixels)
  return path
}

const weightsOf = async (folder: string, name: string): Promise<string> => {
  // Norms of one value a channel take two images.
  const net = built(name, 64, 'train', 2)
  const save = join(folder, `${name}.safetensors`)
  await train(net, stage(net), { steps: 1, save })
  return save
}

interface Side {
  readonly net: Model
  readonly plan: Staged
  readonly out: string
}

/** Multiplications of an image that meet the image itself: a window's part in its padding costs next to nothing. */
const multiplications = ({ plan: { graph } }: Staged): number => {
  const inside = (n: number, kernel: number, stride: number, pad: number, dilation: number, outs: number): number => {
    let taps = 0
    for (let o = 0; o < outs; o++)
      for (let k = 0; k < kernel; k++) {
        const at = o * stride - pad + k * dilation
        if (at >= 0 && at < n) taps++
      }
    return taps
  }
  const shape = (v: number): readonly number[] => graph.values[v]!.shape
  return graph.ops.reduce((all, { kind, attrs: a, ins, outs }) => {
    if (!kind.startsWith('conv2d')) return all
    const [x, w, y] = [shape(ins[0]!), shape(ins[1]!), shape(outs[0]!)]
    const rows = inside(x[2]!, w[2]!, a['strideH']!, a['padTop']!, a['dilationH']!, y[2]!)
    const columns = inside(x[3]!, w[3]!, a['strideW']!, a['padLeft']!, a['dilationW']!, y[3]!)
    return all + y[0]! * w[0]! * w[1]! * rows * columns
  }, 0)
}

/** Megapixels a second: of the clock, and of the processors' time, which other load on the machine does not lengthen. */
interface Rate {
  readonly byClock: number
  readonly byProcessor: number
}

/** The measurements of one call. */
interface Taken {
  readonly secondsPerStep: number
  readonly images: number
  readonly processorSeconds: number
}

interface Row {
  readonly network: string
  readonly small: number
  readonly lowerTier: 'memory' | 'disk'
}

/** Beside the other networks' rows, if those were measured at the same sides and in the same budget. */
const recorded = <S extends object>(settings: S, rows: readonly Row[]): void => {
  const found = existsSync(FOUND) ? (JSON.parse(readFileSync(FOUND, 'utf8')) as S & { readonly rows: readonly Row[] }) : undefined
  const same = found && Object.entries(settings).every(([k, v]) => (found as Record<string, unknown>)[k] === v)
  const isNew = (r: Row): boolean =>
    rows.some((n) => n.network === r.network && n.small === r.small && n.lowerTier === r.lowerTier)
  const all = [...(same ? found.rows.filter((r) => !isNew(r)) : []), ...rows]
  record('predictions', { ...settings, rows: NETWORKS.flatMap((name) => all.filter((r) => r.network === name)) })
}

const measured = async (folder: string): Promise<void> => {
  const { given } = argumentsOf(BENCHES.predictions.tiled)
  const [large, small, rounds] = [Number(given.side), Number(given.small), Number(given.rounds)]
  const fewImages = Math.max(1, Math.round(FEW_PIXELS / small ** 2))
  const moreImages = fewImages + Math.max(2, Math.round((MORE_PIXELS - FEW_PIXELS) / small ** 2))
  const budget = certain('the budget is a size')(parseBytes(given.budget))
  const tier: { readonly spill?: string; readonly hostMemory?: number } =
    given.spill === undefined ? { hostMemory: 2 ** 40 } : { spill: given.spill }
  const rows: Row[] = []
  const images = (side: number, count: number): string => imagesOf(folder, side, count)
  const [few, more, one] = [images(small, fewImages), images(small, moreImages), images(large, 1)]
  for (const name of chosen(NETWORKS, given.only === undefined ? [] : [given.only])) {
    const weights = await weightsOf(folder, name)
    const side = (pixels: number, bytes?: number): Side => {
      const net = built(name, pixels, 'predict')
      const as = name === 'vgg16-features' ? 'values' : 'classes'
      const plan = stage(net, {
        mode: 'predict',
        as,
        ...(bytes === undefined ? { strategy: 'in-core' } : { budget: bytes, ...tier }),
      })
      return { net, plan, out: join(folder, `${name}-${pixels}.npy`) }
    }
    const [inOne, tiled] = [side(small), side(large, budget)]
    const taken = async ({ net, plan, out }: Side, data: string): Promise<Taken> => {
      const began = process.cpuUsage()
      const { secondsPerStep, images } = await predict(net, plan, { weights, data, out, ...tier })
      return { secondsPerStep, images, processorSeconds: processorSeconds(began) }
    }
    const rateOf = (pixels: number, t: Taken): Rate => {
      const millions = (pixels * pixels) / 1e6
      return { byClock: millions / t.secondsPerStep, byProcessor: (millions * t.images) / t.processorSeconds }
    }
    const smallRate = async (): Promise<Rate> => {
      const [first, second] = [await taken(inOne, few), await taken(inOne, more)]
      return rateOf(small, {
        secondsPerStep: second.secondsPerStep,
        images: second.images - first.images,
        processorSeconds: second.processorSeconds - first.processorSeconds,
      })
    }
    const inCore: Rate[] = []
    const inTiles: Rate[] = []
    for (let round = 0; round < rounds; round++) {
      const before = await smallRate()
      inTiles.push(rateOf(large, await taken(tiled, one)))
      const after = await smallRate()
      inCore.push({ byClock: (before.byClock + after.byClock) / 2, byProcessor: (before.byProcessor + after.byProcessor) / 2 })
    }
    const of = (rates: readonly Rate[], by: keyof Rate): number => median(rates.map((r) => r[by]))
    const ratio = (by: keyof Rate): number => median(inTiles.map((r, i) => r[by] / inCore[i]![by]))
    const row = {
      network: name,
      small,
      rateRatio: ratio('byClock'),
      megapixelsPerSecond: of(inTiles, 'byClock'),
      inCoreMegapixelsPerSecond: of(inCore, 'byClock'),
      rateRatioOfProcessors: ratio('byProcessor'),
      megapixelsPerProcessorSecond: of(inTiles, 'byProcessor'),
      inCoreMegapixelsPerProcessorSecond: of(inCore, 'byProcessor'),
      multiplicationRatio: multiplications(inOne.plan) / small ** 2 / (multiplications(tiled.plan) / large ** 2),
      rounds,
      load: loadavg()[1],
      strategy: tiled.plan.plan.strategy,
      planPeakBytes: tiled.plan.plan.peakPages * PAGE_BYTES,
      lowerTier: tier.spill === undefined ? ('memory' as const) : ('disk' as const),
      lowerTierBytes: tiled.plan.plan.tierBytes,
    }
    rows.push(row)
    console.log(
      `${name.padEnd(24)} ${row.megapixelsPerSecond.toFixed(2)} megapixels a second in tiles, ` +
        `${row.inCoreMegapixelsPerSecond.toFixed(2)} in-core: ${row.rateRatio.toFixed(3)}, by processors' time ` +
        `${row.rateRatioOfProcessors.toFixed(3)}; ${row.multiplicationRatio.toFixed(3)} of the multiplications a pixel`,
    )
  }
  recorded({ side: large, budgetBytes: budget }, rows)
}

void begin(() => inFolder('predictions', measured))
