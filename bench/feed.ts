// `npm run bench -- data`: the cost of decoding images beside a step, and the gain of bytes. In: a folder of JPEGs of 512 x 512, made here of
// photographs' kind of noise; the same pixels as bytes and floats, in files and in memory. Out: seconds of a step of ResNet-18, by the source of its
// images, and bytes read of a sample; bench/results/feed.json. Invariant: all sides run one plan with stated algorithms on all cores (except for
// bytes to the device), each in a process of its own, in turns; warm-up steps do not count.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { resnet18 } from '../models/resnet'
import { crossEntropy, type Data, files, folder, fromBytes, model, seq, source, stage, train, type TrainOptions } from '../src'
import { npyHead } from '../src/files/npy'
import { asked, begin, inFolder, median, processorSeconds, record, ROOT } from './sides'
import { argumentsOf, BENCHES } from './table'

const SIDE = 512
const BATCH = 4
const CLASSES = 4
const WARM_UP = 3
const STEPS = 15
/** `memory`: floats that are there already, which the others stand beside; `device`: JPEGs to a model that begins with `fromBytes`. */
const SIDES = ['memory', 'jpeg', 'device', 'bytes', 'floats'] as const
type Side = (typeof SIDES)[number]

// ---------------------------------------------------------------- images

/** Waves and grain: about as dear to decode as a photograph, and as large. */
const pixelsOf = (image: number): Uint8Array => {
  const pixels = new Uint8Array(SIDE * SIDE * 3)
  let state = image + 1
  for (let i = 0; i < pixels.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    const [x, y] = [Math.floor(i / 3) % SIDE, Math.floor(i / 3 / SIDE)]
    const wave = Math.sin(x / (7 + image) + (i % 3)) + Math.cos(y / (11 + image))
    pixels[i] = 128 + 45 * wave + (((state >>> 24) & 31) - 16)
  }
  return pixels
}

const bytesOf = (array: Float32Array | Int32Array): Uint8Array => new Uint8Array(array.buffer)

const makeImages = async (at: string, count: number): Promise<void> => {
  const { default: sharp } = await import('sharp')
  for (let label = 0; label < CLASSES; label++) mkdirSync(join(at, 'jpeg', `${label}`), { recursive: true })
  const all: Buffer[] = []
  for (let i = 0; i < count; i++) {
    const raw = { width: SIDE, height: SIDE, channels: 3 } as const
    const file = join(at, 'jpeg', `${i % CLASSES}`, `${String(i).padStart(4, '0')}.jpg`)
    await sharp(pixelsOf(i), { raw }).jpeg({ quality: 90 }).toFile(file)
    all.push(await sharp(file).raw().toBuffer())
  }
  const pixels = Buffer.concat(all)
  const labels = bytesOf(Int32Array.from({ length: count }, (_, i) => i % CLASSES))
  const shape = [count, SIDE, SIDE, 3]
  for (const [name, type, data] of [
    ['bytes', 'u1', pixels],
    ['floats', 'f4', bytesOf(Float32Array.from(pixels))],
  ] as const) {
    mkdirSync(join(at, name))
    writeFileSync(join(at, name, 'input.npy'), Buffer.concat([npyHead(type, shape), data]))
    writeFileSync(join(at, name, 'target.npy'), Buffer.concat([npyHead('i4', [count]), labels]))
  }
}

// ---------------------------------------------------------------- a side

const inMemory = (at: string): Data => {
  const file = readFileSync(join(at, 'floats', 'input.npy'))
  const [size, head] = [3 * SIDE * SIDE, 10 + file.readUInt16LE(8)]
  const length = (file.length - head) / 4 / size
  const images = Array.from(
    { length },
    (_, i) => new Float32Array(file.buffer.slice(file.byteOffset + head + 4 * i * size).slice(0, 4 * size)),
  )
  return source({ length, layout: 'NHWC', read: (i) => ({ input: images[i]!, target: i % CLASSES }) })
}

const dataOf = (side: Side, at: string): Data => {
  if (side === 'memory') return inMemory(at)
  return side === 'jpeg' || side === 'device' ? folder(join(at, 'jpeg')) : files(join(at, side), { layout: 'NHWC' })
}

/** The bytes that the process has read by system calls. */
const bytesRead = (): number => Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))![1])

const once = async (side: Side, at: string) => {
  const options = { loss: crossEntropy, algorithms: 'fixed' } as const
  const seconds: number[] = []
  let began = { read: 0, spent: 0 }
  let ended = began
  const data = dataOf(side, at)
  const steps = WARM_UP + STEPS
  const went: Pick<TrainOptions, 'data' | 'onProgress'> = {
    data,
    onProgress: (p) => {
      if (p.kind !== 'step') return
      seconds.push(p.seconds)
      const now = { read: bytesRead(), spent: processorSeconds() }
      if (p.step === WARM_UP) began = now
      ended = now
    },
  }
  const plain = model([BATCH, 3, SIDE, SIDE], resnet18)
  const ofBytes = model([BATCH, 3, SIDE, SIDE], seq(fromBytes(), resnet18))
  const { feedSeconds } =
    side === 'device'
      ? await train(ofBytes, stage(ofBytes, options), { ...went, steps })
      : await train(plain, stage(plain, options), { ...went, steps })
  return {
    secondsPerStep: median(seconds.slice(WARM_UP)),
    feedSecondsPerStep: feedSeconds / seconds.length,
    readBytesPerSample: (ended.read - began.read) / STEPS / BATCH,
    processorSecondsPerStep: (ended.spent - began.spent) / STEPS,
  }
}
type Taken = Awaited<ReturnType<typeof once>>

// ---------------------------------------------------------------- all

const main = (): Promise<void> => {
  const { given } = argumentsOf(BENCHES.data.feed)
  const rounds = Number(given.rounds)
  return inFolder('feed', async (at) => {
    await makeImages(at, Number(given.images))
    const answers = new Map<Side, Taken[]>(SIDES.map((side) => [side, []]))
    for (let round = 0; round < rounds; round++)
      for (const side of SIDES) answers.get(side)!.push(asked<Taken>(ROOT, __filename, [side, at], {}))
    const rows = SIDES.map((side) => {
      const of = (pick: (t: Taken) => number): number => median(answers.get(side)!.map(pick))
      const row = {
        side,
        secondsPerStep: of((t) => t.secondsPerStep),
        feedSecondsPerStep: of((t) => t.feedSecondsPerStep),
        processorSecondsPerStep: of((t) => t.processorSecondsPerStep),
        readBytesPerSample: of((t) => t.readBytesPerSample),
      }
      // Within one round, so that both sides had the same machine.
      const ratios = answers.get(side)!.map((t, i) => t.secondsPerStep / answers.get('memory')![i]!.secondsPerStep)
      return { ...row, besideMemory: median(ratios) }
    })
    for (const r of rows)
      console.log(
        `${r.side.padEnd(10)} ${(1e3 * r.secondsPerStep).toFixed(0)} ms a step, ${r.besideMemory.toFixed(3)} of that from memory, ` +
          `${(1e3 * r.processorSecondsPerStep).toFixed(0)} ms of processors, ${(1e3 * r.feedSecondsPerStep).toFixed(1)} ms for data; ` +
          `${(r.readBytesPerSample / 1e6).toFixed(2)} MB read a sample`,
      )
    record('feed', { network: `resnet18 b${BATCH}@${SIDE}`, cores: availableParallelism(), rounds: rounds, rows })
  })
}

void begin(main, (side, at) => once(side as Side, at!))
