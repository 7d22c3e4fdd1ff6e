// `npm run bench -- data --suite slides`: training on whole slides. In: slides that this program draws: JPEG tiles of 256 x 256 in BigTIFF with a
// pyramid, and one label each. Out: the process (PSS) beside the plan's peak, the feed's bytes and its part of the steps, the same from `.npy`;
// bench/results/slides.json. Invariant: each run is a process of its own; the weights of both are equal, bit for bit.
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import {
  conv2d,
  crossEntropy,
  type Data,
  files,
  fromBytes,
  globalAvgPool,
  type Model,
  modelAt,
  parseBytes,
  relu,
  seq,
  slides,
  stage,
  train,
  zooEntry,
} from '../src'
import { npyHead } from '../src/files/npy'
import { certain } from '../staging/core/certain'
import { asked, begin, chosen, inFolder, record, ROOT, rounded } from './sides'
import { argumentsOf, BENCHES } from './table'

const SLIDES = 4
const MIB = 2 ** 20

interface Case {
  readonly name: 'tiny' | 'resnet18'
  readonly width: number
  readonly height: number
  readonly budget: string
}
const CASES: readonly Case[] = [
  { name: 'tiny', width: 12_000, height: 9000, budget: '128MiB' },
  { name: 'resnet18', width: 3000, height: 2250, budget: '256MiB' },
]

/** Coarse random colours, made smooth: libvips draws and writes the slide in strips. */
const drawn = async (file: string, { width, height }: Case, seed: number): Promise<void> => {
  const [w, h] = [Math.ceil(width / 40), Math.ceil(height / 40)]
  const colours = Uint8Array.from({ length: 3 * w * h }, (_, i) => (Math.imul(i + seed * 7919, 0x9e3779b9) >>> 24) | 0)
  await sharp(colours, { raw: { width: w, height: h, channels: 3 }, limitInputPixels: false })
    .resize(width, height, { fit: 'fill', kernel: 'linear' })
    .tiff({ tile: true, tileWidth: 256, tileHeight: 256, pyramid: true, bigtiff: true, compression: 'jpeg', quality: 85 })
    .toFile(file)
}

const CLASSES = ['normal', 'tumour']

/** Slides in folders of their classes, and the same pixels in `.npy` files. */
const draw = async (folder: string, c: Case): Promise<void> => {
  mkdirSync(join(folder, 'npy'), { recursive: true })
  const pixels = openSync(join(folder, 'npy', 'input.npy'), 'w')
  writeSync(pixels, npyHead('u1', [SLIDES, c.height, c.width, 3]))
  for (let i = 0; i < SLIDES; i++) {
    const at = join(folder, 'slides', CLASSES[Math.floor((i * CLASSES.length) / SLIDES)]!)
    mkdirSync(at, { recursive: true })
    const file = join(at, `${i}.tif`)
    await drawn(file, c, i)
    const { data } = await sharp(file, { limitInputPixels: false }).raw().toBuffer({ resolveWithObject: true })
    for (let from = 0; from < data.length; ) from += writeSync(pixels, data, from)
  }
  closeSync(pixels)
  const labels = Int32Array.from({ length: SLIDES }, (_, i) => Math.floor((i * CLASSES.length) / SLIDES))
  writeFileSync(join(folder, 'npy', 'target.npy'), Buffer.concat([npyHead('i4', [SLIDES]), Buffer.from(labels.buffer)]))
}

const built = ({ name, width, height }: Case): Model => {
  if (name === 'tiny')
    return certain(name)(
      modelAt(
        [1, 3, height, width],
        seq(
          fromBytes(),
          conv2d('c1', 8, 3, { stride: 2 }),
          relu(),
          conv2d('c2', 8, 3, { stride: 2 }),
          relu(),
          globalAvgPool(),
          conv2d('head', 2, 1),
        ),
      ),
    )
  return certain(name)(zooEntry(name)!.build([1, 3, height, width], 'train')) as Model
}

const pssBytes = (): number => 1024 * Number(/^Pss:\s+(\d+)/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))?.[1] ?? 0)

/** One training, in this process. */
const run = async (c: Case, folder: string, kind: string, steps: number, spill: string) => {
  const net = built(c)
  const budget = certain('the budget is a size')(parseBytes(c.budget))
  const plan = stage(net, { loss: crossEntropy, budget, spill, algorithms: 'fixed' })
  const data: Data = kind === 'npy' ? files(join(folder, 'npy'), { layout: 'NHWC' }) : await slides(join(folder, 'slides'))
  let pss = 0
  const timer = setInterval(() => (pss = Math.max(pss, pssBytes())), 200)
  const {
    losses,
    weightsSha256,
    secondsPerStep: stepSeconds,
    feedSeconds,
    feedBytes,
    arenaPeakBytes,
  } = await train(net, plan, {
    steps,
    data,
    shuffle: false,
    spill,
  })
  clearInterval(timer)
  const feed = feedSeconds / (stepSeconds * losses.length)
  return { losses, weightsSha256, stepSeconds, feed, feedBytes, arenaPeakBytes, pss }
}

const measured = (c: Case, folder: string, steps: string, spill: string): object => {
  const self = (kind: 'draw' | 'slides' | 'npy') =>
    asked<Awaited<ReturnType<typeof run>>>(ROOT, __filename, [kind, JSON.stringify(c), folder, steps, spill], {})
  self('draw')
  const [ours, npy] = [self('slides'), self('npy')]
  if (ours.weightsSha256 !== npy.weightsSha256) throw new Error(`${c.name}: weights differ from those of .npy`)
  const side = (s: typeof ours) => ({
    stepSeconds: rounded(s.stepSeconds, 3),
    feedShare: rounded(s.feed, 3),
    feedMiB: rounded(s.feedBytes / MIB, 3),
    peakMiB: s.arenaPeakBytes / MIB,
    pssMiB: Math.round(s.pss / MIB),
    abovePeakMiB: Math.round((s.pss - s.arenaPeakBytes) / MIB),
  })
  const row = { ...c, slides: SLIDES, steps: ours.losses.length, bySlides: side(ours), byNpy: side(npy) }
  console.log(JSON.stringify(row))
  return row
}

const main = async (): Promise<void> => {
  const { given } = argumentsOf(BENCHES.data.slides)
  const spill = given.spill ?? tmpdir()
  const names = chosen(
    CASES.map((c) => c.name),
    given.only === undefined ? [] : [given.only],
  )
  const rows: object[] = []
  for (const c of CASES.filter(({ name }) => names.includes(name))) {
    const { width = c.width, height = c.height, budget = c.budget } = given
    const own = { ...c, width: Number(width), height: Number(height), budget }
    rows.push(await inFolder('slides', (folder) => measured(own, folder, given.steps, spill), spill))
  }
  record('slides', { rows })
}

const once = (kind: string, described: string, folder: string, steps: string, spill: string): Promise<unknown> => {
  const c = JSON.parse(described) as Case
  return kind === 'draw' ? draw(folder, c).then(() => null) : run(c, folder, kind, Number(steps), spill)
}

void begin(main, (...args) => once(...(args as Parameters<typeof once>)))
