// `npm run bench:feed [-- --rounds N --images N]`: what it costs a step that its images are decoded beside it, and what bytes save. In: a folder
// of JPEGs of 512 x 512, made here of photographs' kind of noise; the same pixels as arrays of bytes and of floats. Out: seconds of a step of
// ResNet-18, by where its images come from, and bytes read of a sample; bench/results/feed.json. Invariant: all sides run one
// plan with stated algorithms on all cores, each in a process of its own, in turns; steps that warm up do not count.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { resnet18 } from '../models/resnet'
import { type Data, crossEntropy, files, folder, model, stage, train } from '../src'
import { median, record } from './sides'

const ROOT = join(__dirname, '..')
const SIDE = 512
const BATCH = 4
const CLASSES = 4
const WARM_UP = 3
const STEPS = 15
const SIDES = ['synthetic', 'jpeg', 'bytes', 'floats'] as const
type Side = (typeof SIDES)[number]

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    images: { type: 'string', default: '64' },
    once: { type: 'string' },
    at: { type: 'string' },
  },
})

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

const npy = (type: string, shape: readonly number[], data: Uint8Array): Buffer => {
  const head = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`
  const padded = `${head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11)}\n`
  const start = Buffer.alloc(10)
  start.write('\x93NUMPY\x01\x00', 'latin1')
  start.writeUInt16LE(padded.length, 8)
  return Buffer.concat([start, Buffer.from(padded), data])
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
    ['bytes', '|u1', pixels],
    ['floats', '<f4', bytesOf(Float32Array.from(pixels))],
  ] as const) {
    mkdirSync(join(at, name))
    writeFileSync(join(at, name, 'input.npy'), npy(type, shape, data))
    writeFileSync(join(at, name, 'target.npy'), npy('<i4', [count], labels))
  }
}

// ---------------------------------------------------------------- a side

interface Taken {
  readonly secondsPerStep: number
  readonly feedSecondsPerStep: number
  readonly readBytesPerSample: number
  readonly processorSecondsPerStep: number
}

const dataOf = (side: Side, at: string): Data | undefined => {
  if (side === 'synthetic') return undefined
  return side === 'jpeg' ? folder(join(at, 'jpeg')) : files(join(at, side), { layout: 'NHWC' })
}

/** What the process has read by system calls. */
const bytesRead = (): number => Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))![1])
const processorSeconds = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

const once = async (side: Side, at: string): Promise<Taken> => {
  const net = model([BATCH, 3, SIDE, SIDE], resnet18)
  const plan = stage(net, { loss: crossEntropy, algorithms: 'fixed' })
  const seconds: number[] = []
  let began = { read: 0, spent: 0 }
  let ended = began
  const data = dataOf(side, at)
  const { feedSeconds } = await train(net, plan, {
    steps: WARM_UP + STEPS,
    ...(data ? { data } : { samples: 64 }),
    onProgress: (p) => {
      if (p.kind !== 'step') return
      seconds.push(p.seconds)
      const now = { read: bytesRead(), spent: processorSeconds() }
      if (p.step === WARM_UP) began = now
      ended = now
    },
  })
  return {
    secondsPerStep: median(seconds.slice(WARM_UP)),
    feedSecondsPerStep: feedSeconds / seconds.length,
    readBytesPerSample: (ended.read - began.read) / STEPS / BATCH,
    processorSecondsPerStep: (ended.spent - began.spent) / STEPS,
  }
}

// ---------------------------------------------------------------- all

const asked = (side: Side, at: string): Taken =>
  JSON.parse(
    execFileSync(process.execPath, ['-r', './scripts/testing/typescript.js', __filename, '--once', side, '--at', at], {
      cwd: ROOT,
      encoding: 'utf8',
    }),
  ) as Taken

const main = async (): Promise<void> => {
  if (given.once !== undefined) return console.log(JSON.stringify(await once(given.once as Side, given.at!)))
  const at = mkdtempSync(join(tmpdir(), 'spillway-feed-'))
  try {
    await makeImages(at, Number(given.images))
    const answers = new Map<Side, Taken[]>(SIDES.map((side) => [side, []]))
    for (let round = 0; round < Number(given.rounds); round++) for (const side of SIDES) answers.get(side)!.push(asked(side, at))
    const rows = SIDES.map((side) => {
      const of = (pick: (t: Taken) => number): number => median(answers.get(side)!.map(pick))
      const row = {
        side,
        secondsPerStep: of((t) => t.secondsPerStep),
        feedSecondsPerStep: of((t) => t.feedSecondsPerStep),
        processorSecondsPerStep: of((t) => t.processorSecondsPerStep),
        readBytesPerSample: of((t) => t.readBytesPerSample),
      }
      // Of one round, so that both sides had the same machine.
      const ratios = answers.get(side)!.map((t, i) => t.secondsPerStep / answers.get('synthetic')![i]!.secondsPerStep)
      return { ...row, besideSynthetic: median(ratios) }
    })
    for (const r of rows)
      console.log(
        `${r.side.padEnd(10)} ${(1e3 * r.secondsPerStep).toFixed(0)} ms a step, ${r.besideSynthetic.toFixed(3)} of synthetic, ` +
          `${(1e3 * r.processorSecondsPerStep).toFixed(0)} ms of processors, ${(1e3 * r.feedSecondsPerStep).toFixed(1)} ms for data; ` +
          `${(r.readBytesPerSample / 1e6).toFixed(2)} MB read a sample`,
      )
    record('feed', { network: `resnet18 b${BATCH}@${SIDE}`, cores: availableParallelism(), rounds: Number(given.rounds), rows })
  } finally {
    rmSync(at, { recursive: true, force: true })
  }
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
