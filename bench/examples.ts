// `npm run bench -- learning`: the examples learn as they do in PyTorch. In: the examples' networks, plans and data; of PyTorch's side
// test/fixtures/examples.json. Out: the results of equal numbers of trainings of each and of PyTorch's, by seed: bench/results/examples.json; with
// --dump the weights and all batches of N trainings, for test/fixtures/make_examples.py. Invariant: a dumped batch is that of the run of its seed,
// number by number.
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as classify from '../examples/classify'
import * as fineTune from '../examples/fine-tune'
import * as importOnnx from '../examples/import-onnx'
import * as segment from '../examples/segment'
import { crossEntropy, type Data, evaluate, mib, type Model, stage, type Staged, train } from '../src'
import type { TrainOptions } from '../src'
import { openRunData } from '../src/data/open'
import type { Feed, NativeFeed } from '../src/data/feed'
import { orThrow } from '../src/errors/exceptions'
import { npyHead } from '../src/files/npy'
import { openDevice } from '../src/train/device'
import { lengthOf } from '../src/train/length'
import { loadWeights } from '../src/train/loading'
import { modelState, NO_ORIGIN, saveWeights } from '../src/train/weights'
import { begin, chosen, inFolder, record } from './sides'
import { argumentsOf, BENCHES } from './table'

export interface Example {
  readonly net: Model
  readonly plan: Staged
  readonly data: Data
  readonly held: Data
  readonly how: Omit<TrainOptions, 'steps'> & { readonly epochs: number }
  readonly metric: 'accuracy' | 'meanIou'
}

/** The start of `fine-tune`, as one processor has trained it: with another's rounding, four epochs end elsewhere. */
const BODY = join(__dirname, '../test/fixtures/low-digits.safetensors')

/** Each as its own file has it. */
export const EXAMPLES: Readonly<Record<string, () => Promise<Example>>> = {
  classify: async () => ({
    net: classify.default,
    plan: classify.plan,
    how: classify.how,
    metric: 'accuracy',
    ...(await classify.digits()),
  }),
  segment: async () => ({
    net: segment.default,
    plan: segment.plan,
    how: segment.how,
    metric: 'meanIou',
    ...(await segment.scenes()),
  }),
  'fine-tune': async () => ({
    net: fineTune.default,
    plan: fineTune.plan,
    how: fineTune.howFrom(BODY),
    metric: 'accuracy',
    ...(await fineTune.digits()),
  }),
  'import-onnx': async () => {
    const net = importOnnx.imported()
    return { net, plan: importOnnx.planFor(net), how: importOnnx.how, metric: 'accuracy', ...(await importOnnx.digits()) }
  },
}

const seedsTo = (n: number): readonly number[] => Array.from({ length: n }, (_, i) => i + 1)

// ---------------------------------------------------------------- for PyTorch

/** The number of each channel, or of all: the images have one. */
const first = (x: number | readonly number[] | undefined): number | undefined => (typeof x === 'object' ? x[0] : x)

/** Rows of one file that grows. */
const growing = (file: string, type: 'f4' | 'i4', shape: readonly number[]) => {
  writeFileSync(file, npyHead(type, shape))
  return (rows: Float32Array | Int32Array): void =>
    appendFileSync(file, new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength))
}

/** The batches of steps 1 to `steps`, as numbers; images have one channel. */
const dumpBatches = async (e: Example, data: Data, seed: number, shuffle: boolean, at: string, steps?: number): Promise<void> => {
  const { graph } = e.plan.plan
  const opened = orThrow(openRunData(data, { seed, shuffle, prefetch: 1, workers: 1, isKept: false }, graph))
  const input = graph.values.find((v) => v.role === 'input')!
  const [batch] = input.shape as readonly [number]
  const count = steps ?? orThrow(lengthOf(e.how, opened.samples, batch)).steps
  if (opened.source.kind !== 'fed') throw new Error('the examples are fed images')
  const feed = opened.source.open() as Feed<NativeFeed>
  const { slots, arrays } = await feed.places(1, count)
  let [next, wake]: [number, () => void] = [0, () => {}]
  feed.begin({
    put: (step) => {
      next = step
      wake()
    },
    fail: (error) => {
      throw error
    },
  })
  const files = Object.entries(arrays).map(([name, a]) => {
    const isInput = name === input.name
    const shape = [count, batch, ...a.shape.slice(1)]
    const add = growing(join(at, isInput ? 'input.npy' : 'target.npy'), isInput ? 'f4' : 'i4', shape)
    const each = a.data.length / (slots * batch)
    return { a, add, each, isInput }
  })
  for (let step = 1; step <= count; step++) {
    while (next < step) await new Promise<void>((resolve) => (wake = resolve))
    for (const { a, add, each, isInput } of files) {
      const from = (step % slots) * batch * each
      const numbers = a.data.subarray(from, from + batch * each)
      const [scale, shift] = [first(a.scale) ?? 1, first(a.shift) ?? 0]
      add(isInput ? Float32Array.from(numbers, (x) => x * scale + shift) : Int32Array.from(numbers))
    }
    feed.ended(step)
  }
  feed.close()
}

const dumpWeights = (e: Example, seed: number, at: string): void => {
  const state = modelState(e.plan.plan.graph)
  const session = orThrow(openDevice(e.plan, { tier: { kind: 'memory' } }))
  orThrow(session.initialise(seed))
  if (e.how.weights !== undefined) orThrow(loadWeights(e.how.weights, state, session, e.how))
  orThrow(saveWeights(join(at, 'weights.safetensors'), state, session, NO_ORIGIN, 0))
  session.dispose()
}

/** Networks that were not named keep their earlier results. */
const RESULTS = join(__dirname, 'results/examples.json')

type Named = readonly [string, () => Promise<Example>]

const dump = async (root: string, asked: readonly Named[], seeds: number): Promise<void> => {
  for (const [name, open] of asked) {
    const e = await open()
    const held = join(root, name, 'held')
    mkdirSync(held, { recursive: true })
    const batch = e.plan.plan.graph.values.find((v) => v.role === 'input')!.shape[0]!
    await dumpBatches(e, e.held, 0, false, held, Math.floor((e.metric === 'accuracy' ? 500 : 80) / batch))
    for (const seed of seedsTo(seeds)) {
      const at = join(root, name, String(seed).padStart(2, '0'))
      mkdirSync(at)
      dumpWeights(e, seed, at)
      await dumpBatches(e, e.data, seed, true, at)
      console.log(`${name}, seed ${seed}`)
    }
  }
}

// ---------------------------------------------------------------- beside PyTorch

const mean = (xs: readonly number[]): number => xs.reduce((n, x) => n + x, 0) / xs.length
const deviation = (xs: readonly number[]): number => Math.sqrt(xs.reduce((n, x) => n + (x - mean(xs)) ** 2, 0) / (xs.length - 1))
/** Within this much of the deviation lie 95 % of Student's t, by how many numbers there are. */
const STUDENT: Readonly<Record<number, number>> = { 10: 2.262, 20: 2.093 }

const reached = async (e: Example, seed: number, root: string): Promise<number> => {
  const save = join(root, 'weights.safetensors')
  await train(e.net, e.plan, { ...e.how, data: e.data, seed, save })
  const judge = stage(e.net, { mode: 'evaluate', loss: crossEntropy, budget: mib(64), algorithms: 'fixed' })
  const { metrics } = await evaluate(e.net, judge, { weights: save, data: e.held, metrics: [e.metric] })
  return metrics[e.metric]!
}

const compare = async (asked: readonly Named[], root: string): Promise<void> => {
  const fixture = join(__dirname, '../test/fixtures/examples.json')
  const theirs = JSON.parse(readFileSync(fixture, 'utf8')) as Record<string, Record<string, readonly number[]>>
  const examples: Record<string, object> = {}
  for (const [name, open] of asked) {
    const e = await open()
    const ours: number[] = []
    const pytorch = theirs[name]![e.metric]!
    for (const seed of seedsTo(pytorch.length)) ours.push(await reached(e, seed, root))
    // The mean of as many more trainings of PyTorch's would lie there, 95 times of 100.
    const half = STUDENT[pytorch.length]! * deviation(pytorch) * Math.sqrt(2 / pytorch.length)
    const interval = [mean(pytorch) - half, mean(pytorch) + half] as const
    const within = interval[0] <= mean(ours) && mean(ours) <= interval[1]
    examples[name] = { metric: e.metric, ours, pytorch, mean: mean(ours), interval, within }
    console.log(
      `${within ? 'holds ' : 'FAILS '} ${name}: ${e.metric} ${mean(ours).toFixed(4)}, PyTorch's ${interval.map((x) => x.toFixed(4)).join(' to ')}`,
    )
    if (!within) process.exitCode = 1
  }
  const before = existsSync(RESULTS) ? (JSON.parse(readFileSync(RESULTS, 'utf8')) as { examples: object }).examples : {}
  record('examples', { examples: { ...before, ...examples } })
}

const main = (): Promise<void> => {
  const { given } = argumentsOf(BENCHES.learning.examples)
  const names = chosen(Object.keys(EXAMPLES), given.only === undefined ? [] : [given.only])
  const asked = names.map((name): Named => [name, EXAMPLES[name]!])
  return given.dump === undefined
    ? inFolder('examples', (root) => compare(asked, root))
    : dump(given.dump, asked, Number(given.seeds))
}

if (require.main === module) void begin(main)
